"""Counters of what a run costs."""

from __future__ import annotations

import time

from msgspec import Struct, field


def _now() -> float:
    return time.perf_counter()  # by the clock that there is when a run begins


class Counters(Struct):
    """What one run did and when it began."""

    commits: int = 0
    files_rewritten: int = 0
    started: float = field(default_factory=_now)
