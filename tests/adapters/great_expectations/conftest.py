"""The library is imported before the first test that needs it, and not while tests are collected, which every worker does."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _library() -> None:
    """Skip where Great Expectations is not installed."""
    pytest.importorskip("great_expectations", reason="needs the extra `quality`")
