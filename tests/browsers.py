"""A real Chromium for tests; those that need it are skipped where it is not installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> Iterator[Any]:
    """Yield a Chromium, driven by Playwright."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("needs Chromium: `make browser` installs it")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
