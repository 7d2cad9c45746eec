"""One lake for all tests of the page, and a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from materializer.api import Materializer
from tests.adapters import page_lakes

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Materializer:
    """See :mod:`tests.adapters.page_lakes`."""
    return page_lakes.lake(tmp_path_factory.mktemp("shown"))


@pytest.fixture(scope="module")
def report(lake: Materializer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first page of a report that was written."""
    return lake.report(tmp_path_factory.mktemp("report") / "site")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real Chromium, driven by Playwright."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("needs Chromium: `make browser` installs it")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
