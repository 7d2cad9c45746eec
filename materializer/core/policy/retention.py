"""Retention as properties: how long the source keeps rows, and how long the output keeps buckets.

Both are lengths back from the end of the newest bucket, not from a clock: the data decide what is old, so a source without
new rows loses nothing. The clock only excludes rows: a row in a bucket after the clock's own bucket counts as a mistake,
because measured from it all others would be too old. The properties change no result while the raw rows exist, and need no
computing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from materializer.core.policy.policies import Refusal, back, has_clock, instant_of, length_of, micros_of
from materializer.core.spec.spec import GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import Grid, describe_width, parse_width
from materializer.core.time.instants import HOUR, SECOND, TICKS_PER_SECOND
from materializer.core.time.spans import NEG_INF, POS_INF, Span

SOURCE: Final = "source.retention"
"""How long raw rows are retained; the frozen boundary follows from it."""
OUTPUT: Final = "output.retention"
"""How long buckets are retained in the output."""
PROPERTIES: Final = (SOURCE, OUTPUT)
MOST_AHEAD: Final = 14 * HOUR
"""The largest distance of a zone's wall clock ahead of UTC; times without a zone may be of any zone."""


def length(properties: Mapping[str, str], name: str) -> Width | None:
    """Return a retention of a definition; None when the definition does not set it."""
    return parse_width(properties[name]) if name in properties else None


def edge(retention: Width, extent_end: int, grid: Grid) -> int:
    """Return the last edge at or before the end of the newest bucket minus *retention*; ``NEG_INF`` without one.

    Args:
        retention: See :func:`length`.
        extent_end: End of the bucket of the newest row, or ``NEG_INF`` when there is no row.
        grid: The aggregate's grid.
    """
    if extent_end == NEG_INF:
        return NEG_INF
    instant = back(micros_of(extent_end, grid), retention, grid)
    return NEG_INF if instant <= grid.limits.start else grid.edge_at(instant)


def latest_instant(clock: int, grid: Grid) -> int | None:
    """Return the latest time of a row that is not after the clock; None where time has no clock.

    Args:
        clock: Microseconds since the epoch.
        grid: The aggregate's grid.
    """
    if not has_clock(grid):
        return None
    has_zone = grid.time_type is TimeType.TIMESTAMP or grid.time_type.is_integer
    return instant_of(clock if has_zone else clock + MOST_AHEAD, grid)


def clock_edge(latest: int | None, grid: Grid) -> int:
    """Return the end of the bucket that holds *latest*; rows at or after this edge do not move a retention boundary.

    Args:
        latest: See :func:`latest_instant`; None where every row counts.
        grid: The aggregate's grid.
    """
    if latest is None or not grid.limits.start <= latest < grid.limits.end:
        return POS_INF
    return grid.cover(Span(latest, latest + 1)).end


def problems_of(properties: Mapping[str, str], grid: GridSpec | None, resolution: Resolution) -> Iterator[Refusal]:
    """Yield the problems of an aggregate's retentions.

    Args:
        properties: Well-formed properties.
        grid: The aggregate's grid, or None while it is unknown.
        resolution: Meaning of a tick of an integer time column.
    """
    for name in PROPERTIES:
        width = length(properties, name)
        if width is None or grid is None:
            continue
        if (width.ticks is None) != (grid.width.ticks is None) and resolution is Resolution.NONE:
            wanted = "a length of time such as '90 days'" if grid.width.ticks is None else "a whole number"
            message = f"'{name}' must be {wanted}, as its time column counts; found '{describe_width(width)}'"
            yield (name, "definition.retention", message, "write it in the unit of the time column")
        elif _is_small(width, grid.width, resolution):
            message = f"'{name}' keeps less than two buckets: '{describe_width(width)}'"
            hint = f"a bucket is {describe_width(grid.width)}; keep at least two of them"
            yield (name, "definition.retention", message, hint)


def _is_small(width: Width, bucket: Width, resolution: Resolution) -> bool:
    retained, least = length_of(width), 2 * length_of(bucket)
    if (width.ticks is None) == (bucket.ticks is None):
        return retained < least
    per_second = TICKS_PER_SECOND[resolution]
    return retained * per_second < least * SECOND if width.ticks is None else retained * SECOND < least * per_second
