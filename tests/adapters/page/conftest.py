"""One lake for all tests of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.api import Materializer
from tests.adapters import page_lakes


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Materializer:
    """See :mod:`tests.adapters.page_lakes`."""
    return page_lakes.lake(tmp_path_factory.mktemp("shown"))


@pytest.fixture(scope="module")
def report(lake: Materializer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first page of a report that was written."""
    return lake.report(tmp_path_factory.mktemp("report") / "site")
