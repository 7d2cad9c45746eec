"""Counters of what a run costs."""

from __future__ import annotations

import time

from msgspec import Struct, field


class Counters(Struct):
    """What one run did and when it began."""

    commits: int = 0
    files_rewritten: int = 0
    started: float = field(default_factory=time.perf_counter)
