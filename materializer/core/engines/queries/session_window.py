"""The query of session windows: gaps and islands over the ordered times of a key.

Spark's own ``session_window`` joins two rows whose distance equals the gap; here such rows belong to different sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import (
    KNOWN,
    KNOWN_MAX,
    TIME,
    EngineQuery,
    as_results,
    merged,
    over_rows,
    split,
)
from materializer.core.engines.session_window import SessionWindow
from materializer.core.query.nodes import Query, Union
from materializer.core.spec.table_names import quoted

_START: Final = "_session"


def rows(raw: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Return one row for each session.

    Args:
        raw: Raw rows; see :mod:`materializer.core.engines.engine_query`.
        e: The definition, with :class:`~materializer.core.engines.session_window.SessionWindow`.
        at: The bounds that close sessions, besides the next row of their key.

    Shape:
        Keys, ``_part``, ``w_start`` (first row), ``w_end`` (last row + gap), ``label``, ``v_<measure>``, ``n``, ``first_t``,
        ``last_t``, ``is_final``, ``is_shown``. Grain (keys, ``_part``, ``w_start``).
    """
    return _closed(over_rows(_in_sessions(raw, e), [*e.groups, _START], e), e, at)


def joined(raw: Query, stored: Query, stored_as: Mapping[str, str], e: EngineQuery, at: ClosingClock) -> Query:
    """Return the sessions of added rows and of stored sessions together.

    Args:
        raw: The added rows.
        stored: The stored sessions, as results with ``_part`` and ``_known_max``.
        stored_as: The measure that is the value of each partial; see :attr:`.Layout.stored_as`.
        e: The definition.
        at: The bounds that close sessions.
    """
    added = split(_in_sessions(raw, e), [*e.groups, _START], e)
    partials = {name: quoted(f"v_{measure}") for name, measure in stored_as.items()}
    there = {_START: "w_start", **partials, "n": "n", "first_t": "first_t", "last_t": "last_t", KNOWN: KNOWN_MAX}
    old = stored.select(*((name, quoted(name)) for name in e.groups), *there.items())
    marked = Union((added, old)).over(e.groups, ["first_t"], frame=("rows", None, -1), _before="max(last_t)")
    marked = marked.add(_begin=_begin("first_t", "_before", e.params))
    placed = marked.over(e.groups, ["first_t"], frame=("range", None, 0), _whole="max(_begin)")
    return _closed(merged(placed.add((_START, "_whole")), [*e.groups, _START], e), e, at)


def _in_sessions(raw: Query, e: EngineQuery) -> Query:
    """Return raw rows with the time of the first row of their session."""
    marked = raw.over(e.groups, [TIME], _before=f"lag({TIME})").add(_begin=_begin(TIME, "_before", e.params))
    # of several rows with equal time only one may be marked as the beginning; the frame by value shows the mark to all of them
    return marked.over(e.groups, [TIME], (_START, "max(_begin)"), frame=("range", None, 0))


def _begin(first: str, before: str, p: SessionWindow) -> str:
    """SQL of a time if a session begins with it, that is a gap after the time before it; else null."""
    return f"CASE WHEN coalesce({first} - {before} >= {p.session_gap}L, true) THEN {first} END"


def _closed(found: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Return sessions as results: with their end, and whether it has come."""
    p: SessionWindow = e.params
    end = f"(last_t + {p.session_gap}L)"
    # parts meet here only to find the newest time of the key, which lies in one of the parts or outside all of them
    found = found.add(_newest=f"greatest(last_t, {KNOWN})").over(e.keys, _key_max="max(_newest)")
    found = found.add(is_final=f"({end} <= _key_max) OR {_is_closed(p, end, at)}")
    return as_results(
        found,
        e,
        w_start=_START,
        w_end=end,
        label=_START if p.use_session_start_time else end,
        is_final="is_final",
        is_shown="is_final" if p.update_time is None else "true",
    )


def _is_closed(p: SessionWindow, end: str, at: ClosingClock) -> str:
    """SQL of whether the clock closes a session."""
    by_clock = "false" if at.as_of is None else f"({end} <= {at.as_of}L)"
    if p.force_trigger_time is None or at.global_max is None:
        return by_clock
    clock = at.global_max if at.as_of is None else max(at.as_of, at.global_max)
    return "true" if clock >= at.global_max + p.force_trigger_time else by_clock
