"""The queries of windows over events with a duration: hopping, compressed hopping, snapshot and count windows."""

from __future__ import annotations

from typing import Final

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import END, TIME, EngineQuery, as_results, over_rows
from materializer.core.engines.interval_windows import CLIP, COMPRESSED, COUNT, HOPPING, OPEN, IntervalWindow
from materializer.core.query.nodes import Query
from materializer.core.spec.table_names import quoted

_FROM, _TO = "_life_start", "_life_end"
_START, _STOP = "_w_start", "_w_end"
_AT = "_place"
_OPEN_EVENT: Final = (
    "data.open-event: an event without an end is in infinitely many hopping windows; set default_end, or use "
    "compressed_hopping_window"
)


def rows(raw: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Return one row for each window that holds an event.

    Args:
        raw: Raw rows: ``_t`` is the start of an event, ``_end`` its end, null when it is open.
        e: The definition, with :class:`~materializer.core.engines.interval_windows.IntervalWindow`.
        at: A clock closes the windows that end at or before it. Without a clock all windows are final.

    Shape:
        Keys, ``_part``, ``w_start``, ``w_end`` (:data:`~materializer.core.engines.interval_windows.OPEN` where it never ends),
        ``label``, ``v_<measure>``, ``n``, ``first_t``, ``last_t``, ``is_final``, ``is_shown``; hopping windows also have
        ``x_event_start`` and ``x_event_end``: the lifetime of the result under the output policy. Grain (keys, ``_part``,
        ``w_start``). A count window that is not full is a row that is neither final nor shown.

    Raises:
        In the query, ``data.open-event`` if a hopping window meets an open event and no default end is set.
    """
    p: IntervalWindow = e.params
    is_full = f"_last - {_AT} = {p.count - 1}" if p.kind == COUNT else "true"
    made = {HOPPING: _hopping, COUNT: _counted}.get(p.kind, _stretches)
    is_final = is_full if at.as_of is None else f"{is_full} AND {_STOP} <= {at.as_of}L"
    is_point = p.kind == COUNT or (p.kind == HOPPING and p.output_policy != CLIP)
    columns = {"w_start": _START, "w_end": _STOP, "label": _STOP if is_point else _START}
    own = _as_event(p, is_point=is_point) if p.kind == HOPPING else {}
    return as_results(made(raw, e), e, **columns, is_final=is_final, is_shown=is_final, **own)


def _as_event(p: IntervalWindow, *, is_point: bool) -> dict[str, str]:
    """Return the lifetime of a hopping window's result: a point at its end, or the whole window."""
    if is_point:
        return {"x_event_start": _STOP, "x_event_end": f"{_STOP} + {p.tick}L"}
    return {"x_event_start": _START, "x_event_end": _STOP}


# -- hopping -------------------------------------------------------------------------------------------------------------


def _hopping(raw: Query, e: EngineQuery) -> Query:
    p: IntervalWindow = e.params
    bound = f"CAST(raise_error('{_OPEN_EVENT}') AS BIGINT)" if p.default_end is None else f"{p.default_end}L"
    first = f"({_snapped(f'({TIME} - {p.duration}L)', p.alignment, p.period)} + {p.period}L)"
    last = _snapped("(_to - 1L)", p.alignment, p.period)
    events = raw.add(_to=_until(p, bound)).add(_first=first, _last=last)
    starts = f"CASE WHEN _first <= _last THEN sequence(_first, _last, {p.period}L) END"
    return over_rows(events.explode(_START, starts), [*e.groups, _START], e).add((_STOP, f"{_START} + {p.duration}L"))


def _until(p: IntervalWindow, bound: str) -> str:
    """Return the end of an event, at least one tick after its start; an open event ends at *bound*."""
    # not `coalesce`: Spark might compute its later arguments for every row
    return f"greatest(CASE WHEN {END} IS NULL THEN {bound} ELSE {END} END, {TIME} + {p.tick}L)"


def _snapped(t: str, base: int, period: int) -> str:
    """Return the last edge at or before *t* on the grid through *base*."""
    return f"({t} - pmod({t} - {base}L, {period}L))"


# -- snapshots -----------------------------------------------------------------------------------------------------------


def _stretches(raw: Query, e: EngineQuery) -> Query:
    """Return the stretches between neighbouring event edges, with the events that live in each stretch.

    The edges of a key are numbered in order. An event covers the stretches from the number of its start to that of its end.
    """
    p, groups = e.params, e.groups
    events = raw.add((_FROM, TIME), (_TO, _until(p, f"{OPEN}L")))
    if p.kind == COMPRESSED:
        events = _compressed(events, p)
    edges = _edges(events, e)
    placed = events
    for edge, place in ((_FROM, "_first"), (_TO, "_until")):
        places = edges.select(*((g, quoted(g)) for g in groups), ("_edge", _START), (place, _AT))
        placed = placed.same(places, [*((g, g) for g in groups), (edge, "_edge")])
    inside = placed.explode(_AT, "sequence(_first, _until - 1)")
    return over_rows(inside, [*groups, _AT], e).same(edges, [(g, g) for g in [*groups, _AT]])


def _compressed(events: Query, p: IntervalWindow) -> Query:
    """Return events snapped to the slots of the windows that contain them."""
    end = f"{_snapped(f'({_TO} - {p.tick}L)', p.alignment, p.period)} + {p.duration}L"
    return events.add(
        (_FROM, _snapped(_FROM, p.alignment + p.duration, p.period)),
        (_TO, f"CASE WHEN {_TO} = {OPEN}L THEN {_TO} ELSE {end} END"),
    )


def _edges(events: Query, e: EngineQuery) -> Query:
    """Return the distinct edges of each key, with their number (from 1) and the next edge."""
    distinct = events.explode(_START, f"array({_FROM}, {_TO})").group([*e.groups, _START])
    return distinct.over(e.groups, [_START], (_AT, "row_number()"), (_STOP, f"lead({_START})"))


# -- counts --------------------------------------------------------------------------------------------------------------


def _counted(raw: Query, e: EngineQuery) -> Query:
    """Return the windows that begin at each distinct event start, with the number of the last start in each (``_last``)."""
    p: IntervalWindow = e.params
    placed = raw.over(e.groups, [TIME], _rank="dense_rank()")
    exploded = placed.explode(_AT, f"sequence(greatest(1, _rank - {p.count - 1}), _rank)")
    found = over_rows(exploded, [*e.groups, _AT], e, (("_last", "max(_rank)"),))
    return found.add((_START, "first_t"), (_STOP, f"last_t + {p.tick}L"))
