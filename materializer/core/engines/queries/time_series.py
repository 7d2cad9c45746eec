"""The query of time series: windows of one or several sizes that end together on the edges of one grid."""

from __future__ import annotations

from typing import Final

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import (
    CLOSED_ON_ARRIVAL,
    IS_FILLED,
    KEY_MAX,
    KNOWN,
    ORIGIN,
    PART_MAX,
    TIME,
    Before,
    EngineQuery,
    as_results,
    filled,
    over_rows,
    over_windows,
    with_earlier,
    with_newest,
)
from materializer.core.engines.time_series import TimeSeries
from materializer.core.query.nodes import Query
from materializer.core.spec.table_names import quoted

SHUT_OUT: Final = "_shut_out"
_PANE: Final = "_pane"
"""The end of the pane of a row; null for a row between sub-windows, which only advances time."""
_AT: Final = "_at"
_SIZE: Final = "_size"
_ANCHOR: Final = "_anchor"
_FROM: Final = "_from"
_BOUND: Final = "_bound"
_END: Final = "_pane_end"


def rows(raw: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Return the windows of *raw*, as :mod:`materializer.core.engines.engine_query` describes them.

    A window is identified by its end on the grid, which windows of several sizes share.
    """
    p: TimeSeries = e.params
    placed, marks = _in_panes(raw, e, at)
    if p.window_sizes == (p.step,) and _FROM not in marks:
        found = over_rows(placed, [*e.groups, _PANE], e)
        found = found.select(*((_AT if n == _PANE else n, quoted(n)) for n in found.names))
    else:
        found = over_windows(placed, e, marks, lambda panes: _spread(panes, p, _FROM if _FROM in marks else _PANE))
    if len(p.window_sizes) > 1:
        found = _side_by_side(found, e)
    found = found if e.before is None else _with_earlier(found, e.before, p)
    found = with_newest(found, e).add((_BOUND, _bound(p, at)))
    if p.has_grid_by_key:
        # every window end is an edge of its key's grid; aggregation has dropped the time of the key's first row
        found = found.over(e.keys, [], (_ANCHOR, f"min({_AT})"))
    found = found.where(f"{_AT} IS NOT NULL")
    if len(p.window_sizes) > 1 and p.multi_window_rule == "all":
        found = found.where(f"{_SIZE} = {len(p.window_sizes)}")
    return _finished(_filled(found, e, _edge(p, at)) if p.fills else found, e)


def with_shut_out(rows: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Add ``_shut_out``: whether all windows of a row were closed when it arrived; false for a row between sub-windows."""
    p: TimeSeries = e.params
    placed, marks = _in_panes(rows, e, at)
    is_late = f"{_PANE} IS NOT NULL AND {_FROM} > {_PANE} + {p.length - p.step}L"
    return placed.add((SHUT_OUT, is_late)).without(*marks)


def _edge(p: TimeSeries, at: ClosingClock) -> str:
    """SQL of one edge of the grid."""
    return _ANCHOR if p.has_grid_by_key else f"({p.anchor(at.origin)}L)"


def _up(x: str, edge: str, step: int) -> str:
    """SQL of the first edge at or after *x*."""
    return f"({x} + pmod({edge} - ({x}), {step}L))"


def _above(x: str, edge: str, step: int) -> str:
    """SQL of the first edge after *x*."""
    return f"({x} - pmod(({x}) - {edge}, {step}L) + {step}L)"


def _in_panes(raw: Query, e: EngineQuery, at: ClosingClock) -> tuple[Query, list[str]]:
    """Return rows with the end of their pane, and the names of the columns that identify a pane."""
    p: TimeSeries = e.params
    edge, found = _edge(p, at), raw
    if p.day:
        inside = f"IF({TIME} >= 0 AND {TIME} < {p.day}L, {TIME}, raise_error('a time of day outside of the day'))"
        found = found.add((TIME, inside))
    if p.has_grid_by_key:
        found = _with_anchor(found, e, p)
    t = f"greatest({TIME} - {p.shift}L, {edge})" if p.shift else TIME
    first = _above if p.closed == "left" else _up
    found = found.add((_END, first(t, edge, p.step)))
    counts = "true"
    if p.sub_window:
        lower, upper = (f"{_END} + {b - p.step}L" for b in p.sub_window)
        counts = f"{t} >= {lower} AND {t} < {upper}" if p.closed == "left" else f"{t} > {lower} AND {t} <= {upper}"
    found = found.add((_PANE, f"CASE WHEN {counts} THEN {_END} END")).without(_END)
    marks = [_PANE, _ANCHOR] if p.has_grid_by_key else [_PANE]
    if CLOSED_ON_ARRIVAL not in raw.names:
        return found, marks
    opened = [_PANE, first(f"({CLOSED_ON_ARRIVAL} + {_short(p)}L)", edge, p.step)]
    if ORIGIN in raw.names:  # a row older than the key's first window comes too late (D23)
        opened.append(first(ORIGIN, edge, p.step))
    earliest = f"CASE WHEN {_PANE} IS NOT NULL THEN greatest({', '.join(opened)}) END"
    return found.add((_FROM, earliest)), [*marks, _FROM]


def _with_anchor(raw: Query, e: EngineQuery, p: TimeSeries) -> Query:
    if ORIGIN in raw.names:
        return raw.add((_ANCHOR, _aligned(ORIGIN, p)))
    return raw.over(e.keys, [], (_ANCHOR, f"min({TIME})")).add((_ANCHOR, _aligned(_ANCHOR, p)))


def _aligned(first: str, p: TimeSeries) -> str:
    return f"{first} - pmod({first}, {p.alignment}L)"


def _short(p: TimeSeries) -> int:
    """Return how much earlier than its end on the grid a window closes: the time that its sub-window leaves out."""
    return p.step - p.sub_window[1] if p.sub_window else 0


def _spread(panes: Query, p: TimeSeries, first: str) -> Query:
    """Put panes into their windows; the earliest window that is open to a pane ends at *first*."""
    more = [size - p.step for size in p.window_sizes]
    if len(more) > 1:
        panes = panes.explode(_SIZE, f"array({', '.join(map(str, range(len(more))))})")
        sizes = " ".join(f"WHEN {i} THEN {length}L" for i, length in enumerate(more))
        last = f"({_PANE} + CASE {_SIZE} {sizes} END)"
    else:
        last = f"({_PANE} + {more[0]}L)"
    ends = f"CASE WHEN {first} <= {last} THEN sequence({first}, {last}, {p.step}L) END"
    return panes.explode(_AT, ends, outer=True)


def _side_by_side(found: Query, e: EngineQuery) -> Query:
    """Join windows of several sizes that end together into one row.

    A measure is null where its size has no rows; the counts are those of the largest window, and ``_size`` becomes the number of
    sizes that have rows.
    """
    p: TimeSeries = e.params
    columns = [
        (f"v_{name}", f"max_by({quoted(f'v_{name}')}, {_SIZE}) FILTER (WHERE {_SIZE} = {size})")
        for name, size in zip(e.measures, p.measure_sizes, strict=True)
    ]
    whole = [(n, f"{f}({n})") for n, f in (("n", "max"), ("first_t", "min"), ("last_t", "max"), (KNOWN, "max"))]
    return found.group([*e.groups, _AT], [*columns, *whole, (_SIZE, f"count({_SIZE})")])


def _with_earlier(found: Query, before: Before, p: TimeSeries) -> Query:
    """Add the last stored windows below the frozen boundary; drop computed windows that begin below it: they are incomplete."""
    sizes = {_SIZE: f"{len(p.window_sizes)}L"} if len(p.window_sizes) > 1 else {}
    earlier = before.windows.add((_AT, f"w_start + {p.length}L"), *sizes.items())
    whole = found.add((_AT, f"CASE WHEN {_AT} - {p.length}L >= {before.since}L THEN {_AT} END"))
    return with_earlier(whole, earlier)


def _bound(p: TimeSeries, at: ClosingClock) -> str:
    """SQL of the latest closed end of a window (the end of its sub-window, if it has one); null when none is closed."""
    right = 0 if p.closed == "left" else 1
    bounds = [f"{KEY_MAX} - {p.accepted_delay + right}L"]
    forced = p.accepted_delay if p.use_system_time else p.force_trigger_time
    if forced is not None and at.global_max is not None:
        bounds.append(f"{at.global_max - forced - right}L")
    if at.as_of is not None:
        bounds.append(f"{at.as_of - p.shift - right}L")
    return f"greatest({', '.join(bounds)}, NULL)"


def _filled(found: Query, e: EngineQuery, edge: str) -> Query:
    """Add the closed windows without rows that follow a window with rows.

    After the last window of a part, windows are filled up to the bound, unless the key has rows after the part.
    """
    p: TimeSeries = e.params
    limit = f"{_BOUND} + {_short(p)}L"
    last = f"({limit} - pmod({limit} - {edge}, {p.step}L))"
    until = (
        f"CASE WHEN _next IS NOT NULL THEN least(_next - {p.step}L, {last}) "
        f"WHEN {KEY_MAX} <= {PART_MAX} THEN {last} END"
    )
    ends = f"sequence({_AT}, CASE WHEN _until > {_AT} THEN _until ELSE {_AT} END, {p.step}L)"
    spread = found.over(e.groups, [_AT], _next=f"lead({_AT})").add(_until=until).explode("_to", ends)
    return filled(spread.add((IS_FILLED, f"_to > {_AT}")), e, (_AT, "_to")).only(*found.names)


def _finished(found: Query, e: EngineQuery) -> Query:
    p: TimeSeries = e.params
    start, end = f"({_AT} - {p.length}L)", f"({_AT} - {_short(p)}L)"
    is_final = f"coalesce({end} <= {_BOUND}, false)"
    return as_results(
        found,
        e,
        w_start=start,
        w_end=end,
        label=end if p.sub_window or not p.use_window_start_time else start,
        is_final=is_final,
        is_shown="true" if p.update_time is not None else is_final,
    )
