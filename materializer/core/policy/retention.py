"""Retention as properties: how long the source keeps rows, and how long the output keeps buckets.

Both are lengths back from the end of the newest bucket, not from a clock: what is old depends on the data, and a source
that stands still loses nothing. The clock only says which rows do not count: a row in a bucket after the clock's own is taken
for a mistake, and would let go of everything. They change no result as long as the raw rows are there, and need no computing.
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
"""How long raw rows are kept: the frozen bound follows."""
OUTPUT: Final = "output.retention"
"""How long buckets are kept in the output."""
PROPERTIES: Final = (SOURCE, OUTPUT)
MOST_AHEAD: Final = 14 * HOUR
"""How far the wall clock of a zone is ahead of UTC at most: times without a zone may be of any."""


def length(properties: Mapping[str, str], name: str) -> Width | None:
    """Return a retention of a definition, or None when it has none."""
    return parse_width(properties[name]) if name in properties else None


def edge(retention: Width, extent_end: int, grid: Grid) -> int:
    """Return the last edge at or before the end of the newest bucket less *retention*; ``NEG_INF`` without one.

    Args:
        retention: See :func:`length`.
        extent_end: End of the bucket of the newest row, or ``NEG_INF`` when there is none.
        grid: How the aggregate divides time.
    """
    if extent_end == NEG_INF:
        return NEG_INF
    at = back(micros_of(extent_end, grid), retention, grid)
    return NEG_INF if at <= grid.limits.start else grid.edge_at(at)


def latest_instant(clock: int, grid: Grid) -> int | None:
    """Return the latest time that a row can have which does not lie past the clock; None where no clock tells.

    Args:
        clock: Microseconds since the epoch.
        grid: How the aggregate divides time.
    """
    if not has_clock(grid):
        return None
    has_zone = grid.time_type is TimeType.TIMESTAMP or grid.time_type.is_integer
    return instant_of(clock if has_zone else clock + MOST_AHEAD, grid)


def clock_edge(latest: int | None, grid: Grid) -> int:
    """Return the end of the bucket that holds an instant: rows from there on are not followed.

    Args:
        latest: See :func:`latest_instant`; None where all rows are followed.
        grid: How the aggregate divides time.
    """
    if latest is None or not grid.limits.start <= latest < grid.limits.end:
        return POS_INF
    return grid.cover(Span(latest, latest + 1)).end


def problems_of(properties: Mapping[str, str], grid: GridSpec | None, resolution: Resolution) -> Iterator[Refusal]:
    """Yield what is wrong with the retentions of an aggregate.

    Args:
        properties: Well-formed ones.
        grid: How its time is divided, or None while that is not known.
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
    kept, least = length_of(width), 2 * length_of(bucket)
    if (width.ticks is None) == (bucket.ticks is None):
        return kept < least
    per_second = TICKS_PER_SECOND[resolution]
    return kept * per_second < least * SECOND if width.ticks is None else kept * SECOND < least * per_second
