"""Fixtures of the tests that need no JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lake.tables import Trades


@pytest.fixture
def trades(tmp_path: Path) -> Callable[..., Trades]:
    """Make tables of trades, with the change feed unless told otherwise."""

    def make(name: str = "trades", *, feed: bool = True, **properties: str) -> Trades:
        return Trades(tmp_path / name, feed=feed, **properties)

    return make
