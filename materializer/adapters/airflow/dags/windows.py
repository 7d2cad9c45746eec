"""Turn points of a schedule into refresh windows; no Airflow, no clock.

The run of a schedule point takes the buckets that *end* in (previous point, point]. A bucket has one end, so among the runs
of consecutive points exactly one takes it, for any position of points and edges:

```
   points        P0            P1            P2            P3
   edges      |       |       |       |       |       |       |
   runs               [ P1    )[      P2     )[ P3    )
```
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from materializer.core.policy.policies import has_clock, instant_of
from materializer.core.time.grid import Grid
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, POS_INF, Span
from materializer.errors import UsageError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def run_window(grid: Grid, previous: datetime, point: datetime) -> Span | None:
    """Return the whole buckets that end after *previous* and not after *point*; None if there are none.

    Args:
        grid: The aggregate's buckets.
        previous: The schedule point before, aware.
        point: The schedule point of the run, aware.

    Raises:
        UsageError: If the aggregate's time has no clock.
    """
    if not has_clock(grid):
        raise UsageError(
            "an integer time column without a resolution has no clock",
            hint="set the property time.resolution, or give start and end as integers",
        )
    micros = ((moment - _EPOCH) // timedelta(microseconds=1) for moment in (previous, point))
    start, end = (grid.edge_at(instant_of(at, grid)) for at in micros)
    return Span(start, end) if start < end else None


def window_arguments(span: Span, grid: Grid) -> list[str]:
    """Return the options of a command that name *span*; an open end has none."""
    start = [] if span.start == NEG_INF else ["--start", render(span.start, grid.time_type)]
    return start + ([] if span.end == POS_INF else ["--end", render(span.end, grid.time_type)])
