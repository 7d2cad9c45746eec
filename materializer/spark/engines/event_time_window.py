"""Event-time panes as a query: panes are aligned to the epoch, and the watermark of all keys fires them.

Where the order of arrival counts, each firing of a pane is a row. The first firing has the rows that came in time. Each time
the watermark moves on after late rows, a further firing has all rows so far. ``x_ordinal`` numbers the firings from 0.
``x_timing`` is ``onTime`` or ``late``; before the pane has fired it is ``provisional``.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import CLOSED_ON_ARRIVAL, TIME, EngineQuery
from materializer.core.engines.event_time_window import EventTimeWindow
from materializer.spark.engines import panes
from materializer.spark.engines.panes import AT, PANE

_LATE: Final = "_late"
"""The watermark at the time when a late row arrived; null for a row that came in time."""
_FIRING: Final = "_firing"
_ORDINAL: Final = "x_ordinal"


def rows(raw: DataFrame, e: EngineQuery, at: ClosingClock) -> DataFrame:
    """Return the panes of *raw*, as :mod:`materializer.core.engines.engine_query` describes them.

    ``at.global_max`` is the time of the newest row that moved the watermark; ``_wm`` is the watermark less the discard age.
    """
    p: EventTimeWindow = e.params
    width = p.slice_width
    arrives = CLOSED_ON_ARRIVAL in raw.columns
    placed = raw.withColumn(PANE, sf.expr(f"{TIME} - pmod({TIME} - {p.pane_offset}L, {width}L)"))
    marks = [PANE, CLOSED_ON_ARRIVAL] if arrives else [PANE]
    then = (lambda frame: _fired(frame, e)) if arrives else None
    found = panes.over_windows(placed, e, marks, _windows(p, arrives=arrives), then=then).where(f"{AT} IS NOT NULL")
    if not arrives:
        found = found.withColumn(_ORDINAL, sf.lit(0)).withColumn(_FIRING, sf.lit(None).cast("bigint"))
    watermark = None if at.global_max is None else at.global_max - p.lag
    bound = max((t for t in (watermark, at.as_of) if t is not None), default=None)
    end = f"({AT} + {p.interval_duration}L)"
    has_fired = "false" if bound is None else f"({end} <= {bound}L AND coalesce({_FIRING} < {bound}L, true))"
    timing = f"CASE WHEN NOT {has_fired} THEN 'provisional' WHEN {_ORDINAL} > 0 THEN 'late' ELSE 'onTime' END"
    return found.select(
        *e.groups,
        sf.col(AT).alias("w_start"),
        sf.expr(end).alias("w_end"),
        sf.expr(end).alias("label"),
        *[sf.col(panes.value(name)) for name in e.measures],
        *["n", "first_t", "last_t"],
        sf.expr(has_fired).alias("is_final"),
        sf.expr(has_fired).alias("is_shown"),
        sf.col(_ORDINAL),
        sf.expr(timing).alias("x_timing"),
    )


def _windows(p: EventTimeWindow, *, arrives: bool) -> str:
    """SQL of the panes that hold a slice of time, without the panes that were already discarded when the row arrived."""
    period, start = p.creation_period, f"{PANE} - {p.interval_duration - p.slice_width}L"
    first = f"({start} + pmod({p.pane_offset}L - ({start}), {period}L))"
    starts = f"CASE WHEN {first} <= {PANE} THEN sequence({first}, {PANE}, {period}L) ELSE array() END"
    if not arrives:
        return f"transform({starts}, w -> named_struct('{AT}', w))"
    end = f"(w + {p.interval_duration}L)"
    late = f"CASE WHEN {end} <= {CLOSED_ON_ARRIVAL} + {p.discard_age}L THEN {CLOSED_ON_ARRIVAL} + {p.discard_age}L END"
    taken = f"filter({starts}, w -> coalesce({end} > {CLOSED_ON_ARRIVAL}, true))"
    return f"transform({taken}, w -> named_struct('{AT}', w, '{_LATE}', {late}))"


def _fired(frame: DataFrame, e: EngineQuery) -> DataFrame:
    """Put each piece into the firings of its pane that include it: its own firing and all later ones."""
    pane = Window.partitionBy(*e.groups, AT)
    is_on_time = sf.max(sf.col(_LATE).isNull()).over(pane)
    firings = sf.sort_array(sf.collect_set(_LATE).over(pane))
    shown = (
        f"filter(transform(_firings, (f, i) -> named_struct('{_FIRING}', f, '{_ORDINAL}', "
        f"CAST(i + IF(_has_first, 1, 0) AS INT))), s -> {_LATE} IS NULL OR s.{_FIRING} >= {_LATE})"
    )
    first = f"array(named_struct('{_FIRING}', CAST(NULL AS BIGINT), '{_ORDINAL}', 0))"
    spread = f"concat(CASE WHEN {_LATE} IS NULL THEN {first} ELSE array() END, {shown})"
    placed = frame.withColumn("_firings", firings).withColumn("_has_first", is_on_time)
    return placed.withColumn("_shown", sf.expr(f"explode({spread})")).select(
        *[c for c in frame.columns if c != _LATE], "_shown.*"
    )
