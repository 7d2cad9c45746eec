"""A clock that is wrong: every reading of the time that the product takes is so many seconds off, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from types import ModuleType
from typing import Any, Final

from materializer.journal import journal
from materializer.services.repair import backup

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY
_READ_DATES: Final[tuple[ModuleType, ...]] = (journal, backup)
"""Modules that take the time as a date; all others call :func:`time.time` or :func:`time.time_ns`."""


def shifted(seconds: float) -> Any:
    """Let the clock be so many seconds off; return what sets it right again."""
    read, read_ns, date = time.time, time.time_ns, datetime

    class Off(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return date.now(tz) + timedelta(seconds=seconds)

    before = [module.datetime for module in _READ_DATES]  # type: ignore[attr-defined]

    def right() -> None:
        time.time, time.time_ns = read, read_ns
        for module, was in zip(_READ_DATES, before, strict=True):
            module.datetime = was  # type: ignore[attr-defined]

    time.time = lambda: read() + seconds
    time.time_ns = lambda: read_ns() + int(seconds * 1e9)
    for module in _READ_DATES:
        module.datetime = Off  # type: ignore[attr-defined]
    return right


@contextmanager
def wrong_by(seconds: float) -> Iterator[None]:
    """Let the clock be so many seconds off while the block runs."""
    right = shifted(seconds)
    try:
        yield
    finally:
        right()
