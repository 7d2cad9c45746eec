"""The query of event-time panes: panes are aligned to the epoch, and the watermark of all keys fires them.

Where the order of arrival counts, each firing of a pane is a row. The first firing has the rows that came in time. Each time
the watermark moves on after late rows, a further firing has all rows so far. ``x_ordinal`` numbers the firings from 0.
``x_timing`` is ``onTime`` or ``late``; before the pane has fired it is ``provisional``.
"""

from __future__ import annotations

from typing import Final

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import CLOSED_ON_ARRIVAL, TIME, EngineQuery, as_results, over_windows
from materializer.core.engines.event_time_window import EventTimeWindow
from materializer.core.query.nodes import Query

_PANE: Final = "_pane"
_AT: Final = "_at"
_LATE: Final = "_late"
"""The watermark at the time when a late row arrived; null for a row that came in time."""
_FIRING: Final = "_firing"
_ORDINAL: Final = "x_ordinal"


def rows(raw: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Return the panes of *raw*, as :mod:`materializer.core.engines.engine_query` describes them.

    ``at.global_max`` is the time of the newest row that moved the watermark; ``_wm`` is the watermark less the discard age.
    """
    p: EventTimeWindow = e.params
    placed = raw.add((_PANE, f"{TIME} - pmod({TIME} - {p.pane_offset}L, {p.slice_width}L)"))
    if CLOSED_ON_ARRIVAL in raw.names:
        found = over_windows(placed, e, [_PANE, CLOSED_ON_ARRIVAL], lambda panes: _fired(panes, e))
    else:
        found = over_windows(placed, e, [_PANE], lambda panes: panes.explode(_AT, _starts(p), outer=True))
        found = found.add((_ORDINAL, "0"), (_FIRING, "CAST(NULL AS BIGINT)"))
    watermark = None if at.global_max is None else at.global_max - p.lag
    bound = max((t for t in (watermark, at.as_of) if t is not None), default=None)
    end = f"({_AT} + {p.interval_duration}L)"
    has_fired = "false" if bound is None else f"({end} <= {bound}L AND coalesce({_FIRING} < {bound}L, true))"
    timing = f"CASE WHEN NOT {has_fired} THEN 'provisional' WHEN {_ORDINAL} > 0 THEN 'late' ELSE 'onTime' END"
    columns = {"w_start": _AT, "w_end": end, "label": end, "is_final": has_fired, "is_shown": has_fired}
    return as_results(found.where(f"{_AT} IS NOT NULL"), e, **columns, x_ordinal=_ORDINAL, x_timing=timing)


def _starts(p: EventTimeWindow) -> str:
    """SQL of the starts of the panes that hold a slice of time; null for none."""
    start = f"{_PANE} - {p.interval_duration - p.slice_width}L"
    first = f"({start} + pmod({p.pane_offset}L - ({start}), {p.creation_period}L))"
    return f"CASE WHEN {first} <= {_PANE} THEN sequence({first}, {_PANE}, {p.creation_period}L) END"


def _fired(panes: Query, e: EngineQuery) -> Query:
    """Put each slice of time into the firings of its panes that include it: its own firing and all later ones.

    Panes that were already discarded when a row arrived do not hold it.
    """
    p: EventTimeWindow = e.params
    wm, end = CLOSED_ON_ARRIVAL, f"({_AT} + {p.interval_duration}L)"
    placed = panes.explode(_AT, _starts(p), outer=True).where(f"coalesce({end} > {wm}, true)")
    late = f"CASE WHEN {end} <= {wm} + {p.discard_age}L THEN {wm} + {p.discard_age}L END"
    by = [*e.groups, _AT]
    placed = placed.add((_LATE, late)).over(by, [_LATE], _first="dense_rank()").over(by, _last="max(_first)")
    found = placed.explode("_number", "sequence(_first, _last)")
    found = found.over([*by, "_number"], [], (_FIRING, f"max(CASE WHEN _first = _number THEN {_LATE} END)"))
    return found.add((_ORDINAL, "_number - 1")).only(*panes.names, _AT, _FIRING, _ORDINAL)
