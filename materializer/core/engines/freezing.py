"""Cutting an engine's history at a frozen bound: what below it stays as it is, what above it needs no row from below.

```
                 frozen bound
   [ kept    ][ kept  |   ]              a result that begins below stays, whatever comes
        rows may be   |   [ computed ]   one that begins above needs rows above, and what is carried on
        gone          |
```

That holds where a result needs of what lies before its start only what the last kept results of its key pass on. Events that
last go by their ends: what began below the bound and ends above it is still there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from materializer.core.engines import (
    daily_time_series,
    event_time_window,
    interval_windows,
    reactive_state,
    session_window,
    time_series,
)
from materializer.core.engines.ranges import Kept, Range
from materializer.core.time.spans import NEG_INF

if TYPE_CHECKING:
    from materializer.core.spec.spec import AggregateSpec
    from materializer.core.time.grid import Grid


def why_not(spec: AggregateSpec, params: Any, stored: Container[str] | None = None) -> str:
    """Return why the history of an engine cannot be cut, or "" where it can.

    Args:
        spec: The definition.
        params: The engine's ``Params``.
        stored: Names of the columns of its kept results, None before they are known.
    """
    if spec.lateness != "recompute":
        return (
            f"under lateness '{spec.lateness}' rows are judged in the order in which they came, from the first one on"
        )
    match params:
        case time_series.Params(use_system_time=True):
            return "its windows lie in ingestion time, and rows go by their own"
        case time_series.Params() if not params.is_grid_fixed:
            return "its grid hangs on the first row; set 'origin'"
        case session_window.Params(reopens=True):
            return "a newer row opens sessions again that 'force_trigger_time' had closed"
        case session_window.Params(use_system_time=True):
            return "its sessions are closed by the clock alone"
        case reactive_state.Params() if stored is not None:
            return reactive_state.why_not_kept(params, stored)
        case _:
            return ""


def lasts_from(params: Any, bound: int) -> int | None:
    """Return how long an event has to last to count above *bound*: its last instant; None where rows go by their time.

    An event that ends with the bound is an edge of results there. Compressed windows end by their length after their last event.
    """
    if not isinstance(params, interval_windows.Params) or params.kind == interval_windows.COUNT:
        return None
    if bound == NEG_INF:
        return NEG_INF
    return bound - (params.duration if params.kind == interval_windows.COMPRESSED else params.tick)


def edge_for(params: Any, bound: int, grid: Grid) -> int:
    """Return the last edge of slices at or before *bound* at which history can be cut; ``NEG_INF`` where there is none.

    Windows of trading sessions take rows that came before the session: only an edge between two of them will do, and between two
    trading days where they are filled from day to day.
    """
    if not isinstance(params, daily_time_series.Params) or bound == NEG_INF:
        return bound
    edge, last = bound, bound - 2 * params.day
    while edge > last:
        if _parts_windows(params, edge) and (not fills_by_day(params) or _parts_days(params, edge)):
            return edge
        edge = grid.edge_at(edge - 1)
    return NEG_INF


def _parts_windows(p: daily_time_series.Params, edge: int) -> bool:
    """Whether all rows from *edge* on are in windows that begin there or later."""
    calendar = p.calendar
    after = calendar.window_at(edge)
    return after is None or (after.w_start >= edge and calendar.window_at(edge - 1) != after)


def _parts_days(p: daily_time_series.Params, edge: int) -> bool:
    """Whether an edge between windows has no window of its trading day before it and another after it."""
    after = p.calendar.window_at(edge)
    return after is None or after == next(p.calendar.windows_of(after.day))


def fills_on(params: Any) -> bool:
    """Whether windows without rows are filled from the window before, however old."""
    match params:
        case daily_time_series.Params():
            return bool(params.fills) and not params.key_purge_daily
        case time_series.Params():
            return bool(params.fills)
        case _:
            return False


def fills_by_day(params: Any) -> bool:
    """Whether windows without rows are filled from a window of the same trading day, and of no other."""
    return isinstance(params, daily_time_series.Params) and bool(params.fills) and params.key_purge_daily


def filled_after(params: Any, w_start: int) -> int | None:
    """Return where the window begins that is filled after the one that begins at an instant; None without one.

    Args:
        params: Of an engine that :func:`fills_on`.
        w_start: Start of a window.
    """
    if isinstance(params, daily_time_series.Params):
        after = params.calendar.following(w_start)
        return None if after is None else after.w_start
    return w_start + int(params.step)


def first_unfilled(params: Any, days: Iterable[tuple[int, int]]) -> int | None:
    """Return where the first of some trading days begins whose windows are not filled to its end; None without one.

    A window that is missing may still come, by a clock or a row. That the last one is there does not tell: it may have rows, and
    the ones before it may have been open when the day ended.

    Args:
        params: Of an engine that :func:`fills_by_day`.
        days: (start of the first, count) of the kept windows of a key in a trading day.
    """
    calendar, starts = params.calendar, dict[int, list[int]]()
    for first, count in sorted(days):
        day = calendar.day_from(first)
        if day not in starts:
            starts[day] = [w.w_start for w in calendar.windows_of(day)]
        if count < len(starts[day]) - bisect_left(starts[day], first):
            return first
    return None


def begins_below(params: Any, t: int, bound: int, kept: Iterable[Kept], *, may_go: bool = False) -> int | None:
    """Return where the first of the results begins that take a row at *t* and begin below the bound; None without one.

    Args:
        params: The engine's ``Params``.
        t: Time of a row that came or went, at or above the bound.
        bound: The frozen bound.
        kept: Kept results of its key, the last below the bound at least.
        may_go: Whether it may have gone: with the event that began where a stretch ends, that end goes.
    """
    match params:
        case time_series.Params():
            edge = time_series.anchor(params, None)
            since = (t - edge) % params.step if params.closed == "left" else (t - edge - 1) % params.step + 1
            start = t - since + params.step - params.length
        case event_time_window.Params():
            start = t - params.interval_duration + 1
            start += (params.pane_offset - start) % params.creation_period
        case session_window.Params():
            start = _first_across(t, bound, kept)
        case interval_windows.Params(kind=interval_windows.HOPPING):
            start = t - params.duration + 1
            start += (params.alignment - start) % params.period
        case interval_windows.Params(kind=interval_windows.COMPRESSED):
            edge = interval_windows.snap(t, params.alignment + params.duration, params.period)
            start = min(edge, _first_across(edge - may_go, bound, kept))
        case interval_windows.Params():
            start = _first_across(t - may_go, bound, kept)
        case _:
            return None
    return start if start < bound else None


def above(params: Any, ranges: Iterable[Range], bound: int, kept: Sequence[Kept]) -> list[Range]:
    """Return the part of *ranges* that may be computed, from rows above the bound alone.

    A session that began below keeps the rows that it has, and those that would join it: they are in no session above.
    """
    taken = bound
    if isinstance(params, session_window.Params):
        taken = max([bound, *(k.w_end for k in kept if k.w_start < bound)])
    last = lasts_from(params, bound)
    first = taken if last is None else last
    return [
        Range(max(r.start, bound), r.end, max(r.raw_start, first), r.raw_end)
        for r in ranges
        if r.end > bound and r.raw_end > taken
    ]


def _first_across(t: int, bound: int, kept: Iterable[Kept]) -> int:
    """Return where the first kept result begins that begins below the bound and ends after *t*; the bound without one."""
    return min((k.w_start for k in kept if k.w_start < bound and t < k.w_end), default=bound)
