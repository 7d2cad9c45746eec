"""The wall clock, and which rows lie past it."""

from __future__ import annotations

import time

from materializer.core.policy import retention
from materializer.core.time.grid import Grid


def wall_clock() -> int:
    """Return the time, microseconds since the epoch."""
    return time.time_ns() // 1_000


def followed_below(as_of: int | None, grid: Grid) -> int:
    """Return the end of the bucket that holds now: retention follows no row from there on.

    Args:
        as_of: The clock of a request, an instant of the time column; None takes the wall clock.
        grid: How the aggregate divides time.
    """
    return retention.clock_edge(retention.latest_instant(wall_clock(), grid) if as_of is None else as_of, grid)
