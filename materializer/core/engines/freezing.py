"""Cuts an engine's history at the frozen boundary: results below it stay as they are, results above need no row from below.

```
              frozen boundary
[ stored  ][stored |   ]              a result that begins below stays, whatever rows arrive
     rows may be   |   [ computed ]   a result that begins above needs the rows above, and the carried state
     gone          |
```

This works where a result needs nothing from before its start except what the last stored results of its key carry on. Rows
with an end are selected by that end: an event that began below the boundary and ends above it is still available.
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
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.time.spans import NEG_INF

if TYPE_CHECKING:
    from materializer.core.spec.spec import AggregateSpec
    from materializer.core.time.grid import Grid


def why_not(spec: AggregateSpec, params: Any, stored: Container[str] | None = None) -> str:
    """Return why the history of an engine cannot be cut, or "" when it can.

    Args:
        spec: The definition.
        params: The engine's ``Params``.
        stored: Names of the columns of its stored results, None before they are known.
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
    """Return the least last instant of an event that counts above *bound*; None for engines whose rows have no end.

    An event that ends exactly at the bound gives the results an edge there. A compressed window ends one window length after
    its last event, so this instant is earlier by that length.
    """
    if not isinstance(params, interval_windows.Params) or params.kind == interval_windows.COUNT:
        return None
    if bound == NEG_INF:
        return NEG_INF
    return bound - (params.duration if params.kind == interval_windows.COMPRESSED else params.tick)


def edge_for(params: Any, bound: int, grid: Grid) -> int:
    """Return the last edge of slices at or before *bound* where the history can be cut; ``NEG_INF`` without one.

    A window of a trading session also takes rows from before its session. So the edge must lie between two windows, and between
    two trading days where windows are filled within a trading day.
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
    """Whether all rows from *edge* on are in windows that begin at *edge* or later."""
    calendar = p.calendar
    after = calendar.window_at(edge)
    return after is None or (after.w_start >= edge and calendar.window_at(edge - 1) != after)


def _parts_days(p: daily_time_series.Params, edge: int) -> bool:
    """Whether an edge between two windows also lies between two trading days."""
    after = p.calendar.window_at(edge)
    return after is None or after == next(p.calendar.windows_of(after.day))


def fills_on(params: Any) -> bool:
    """Whether windows without rows are filled from the window before them, however old that window is."""
    match params:
        case daily_time_series.Params():
            return bool(params.fills) and not params.key_purge_daily
        case time_series.Params():
            return bool(params.fills)
        case _:
            return False


def fills_by_day(params: Any) -> bool:
    """Whether windows without rows are filled only from windows of the same trading day."""
    return isinstance(params, daily_time_series.Params) and bool(params.fills) and params.key_purge_daily


def filled_after(params: Any, w_start: int) -> int | None:
    """Return the start of the filled window that follows a window; None without one.

    Args:
        params: Parameters of an engine for which :func:`fills_on` is true.
        w_start: Start of the window.
    """
    if isinstance(params, daily_time_series.Params):
        after = params.calendar.following(w_start)
        return None if after is None else after.w_start
    return w_start + int(params.step)


def first_unfilled(params: Any, days: Iterable[tuple[int, int]]) -> int | None:
    """Return the start of the first stored window in the first trading day that is not filled to its end; None without one.

    A missing window may still be added, by the clock or by a row. The last window alone proves nothing: it may have rows while
    the windows before it were still open at the end of the day.

    Args:
        params: Parameters of an engine for which :func:`fills_by_day` is true.
        days: (start of the first, count) of the stored windows of a key in each trading day.
    """
    calendar, starts = params.calendar, dict[int, list[int]]()
    for first, count in sorted(days):
        day = calendar.day_from(first)
        if day not in starts:
            starts[day] = [w.w_start for w in calendar.windows_of(day)]
        if count < len(starts[day]) - bisect_left(starts[day], first):
            return first
    return None


def begins_below(params: Any, t: int, bound: int, kept: Iterable[StoredResult], *, may_go: bool = False) -> int | None:
    """Return the start of the first result that takes a row at *t* and begins below the boundary; None without one.

    Args:
        params: The engine's ``Params``.
        t: Time of a row that was added or removed, at or above the boundary.
        bound: The frozen boundary.
        kept: Stored results of the row's key; at least the last one below the boundary.
        may_go: Whether the row may have been removed. Where a removed event began at the end of a stretch, that end goes too.
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


def above(params: Any, ranges: Iterable[Range], bound: int, kept: Sequence[StoredResult]) -> list[Range]:
    """Return the part of *ranges* that can be computed from rows above the boundary alone.

    A session that began below the boundary does not change. Rows that would join it are left out: they are in no session
    above.
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


def _first_across(t: int, bound: int, kept: Iterable[StoredResult]) -> int:
    """Return the start of the first stored result that begins below *bound* and ends after *t*; *bound* without one."""
    return min((k.w_start for k in kept if k.w_start < bound and t < k.w_end), default=bound)
