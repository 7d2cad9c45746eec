"""Grids of tests, and the instants at which their SQL is hard to get right."""

from __future__ import annotations

import random
from typing import Final

from materializer.core.spec.spec import GridSpec, Resolution, TimeType
from materializer.core.time.grid import CalendarGrid, Grid, build, parse_width
from materializer.core.time.instants import DAY, parse
from materializer.core.time.spans import Span, SpanSet

STAMP: Final = TimeType.TIMESTAMP
FROM, TO = (parse(t, STAMP) for t in ("1850-01-01", "2230-01-01"))
ZONES: Final = [
    ("America/New_York", "1 hour", None),
    ("America/New_York", "6 hours", "90 minutes"),
    ("America/New_York", "1 day", None),
    ("America/New_York", "1 month", "3 days 2 hours"),
    ("Asia/Kathmandu", "1 hour", None),
    ("Australia/Lord_Howe", "1 hour", None),
    ("Australia/Lord_Howe", "40 minutes", None),
    ("America/Havana", "1 day", None),
    ("Pacific/Apia", "1 week", None),
    ("PST", "1 day", None),
]
"""Zone, width and offset of grids around jumps of the wall clock."""


def make_grid(
    width: str,
    time_type: TimeType = STAMP,
    zone: str | None = None,
    offset: str | None = None,
    resolution: Resolution = Resolution.NONE,
) -> Grid:
    """Build a grid from texts."""
    return build(
        GridSpec(parse_width(width), zone, None, parse_width(offset) if offset else None), time_type, resolution
    )


def instants(rng: random.Random, grid: Grid, low: int, high: int, inside: SpanSet) -> list[int]:
    """Random instants of *inside*, and the neighbourhood of the edges and transitions there."""
    unit = DAY if grid.time_type is TimeType.DATE else 1
    drawn = [rng.randrange(low, high) for _ in range(150)]
    drawn += [rng.randrange(max(s.start, low), min(s.end, high)) for s in inside for _ in range(50)]
    drawn += [grid.edge_at(t) + d for t in drawn for d in (-unit, 0, unit)]
    if isinstance(grid, CalendarGrid) and grid.time_type is STAMP:
        jumps = [r.start for r in grid.wall.zone.regimes(Span(low, high)) if low <= r.start < high]
        near = [t + d for t in jumps for d in (-1, 0, 1800_000_000, 3600_000_000, 7200_000_000)]
        drawn += near[:600] + near[-600:]
    drawn = [t // unit * unit for t in drawn]
    return [t for t in drawn if t in inside and t in grid.limits and grid.edge_at(t) in grid.limits]
