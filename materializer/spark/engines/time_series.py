"""The time-series engine as a query: windows that end together on the edges of one grid."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import CLOSED_ON_ARRIVAL, TIME, Before, EngineQuery
from materializer.core.engines.time_series import TimeSeries
from materializer.core.spec.table_names import quoted
from materializer.spark.engines import panes
from materializer.spark.engines.panes import AT, KEY_MAX, PANE, PART_MAX, SIZE

SHUT_OUT: Final = "_shut_out"
ORIGIN: Final = "_origin"
"""Optional column of raw rows, present if the order of arrival is known: the time of the key's first accepted row."""
_ANCHOR: Final = "_anchor"
_FROM: Final = "_from"
_BOUND: Final = "_bound"
_END: Final = "_pane_end"


def rows(raw: DataFrame, e: EngineQuery, at: ClosingClock) -> DataFrame:
    """Return the windows of *raw*, as :mod:`materializer.core.engines.engine_query` describes them.

    A window is identified by its end on the grid, which windows of several sizes share.
    """
    p: TimeSeries = e.params
    placed, marks = _in_panes(raw, e, at)
    if p.window_sizes == (p.step,) and _FROM not in marks:
        found = panes.over_rows(placed, e, [*e.groups, PANE]).withColumnRenamed(PANE, AT)
    else:
        found = panes.over_windows(placed, e, marks, _windows(p, _FROM if _FROM in marks else PANE))
    if len(p.window_sizes) > 1:
        found = panes.sizes_side_by_side(found, e, p.measure_sizes)
    found = found if e.before is None else _with_earlier(found, e.before, p)
    found = panes.with_newest(found, e).withColumn(_BOUND, sf.expr(_bound(p, at)))
    if p.has_grid_by_key:
        # every window end is an edge of its key's grid; aggregation has dropped the time of the key's first row
        found = found.withColumn(_ANCHOR, sf.min(AT).over(Window.partitionBy(*e.keys)))
    found = found.where(f"{AT} IS NOT NULL")
    if len(p.window_sizes) > 1 and p.multi_window_rule == "all":
        found = found.where(f"{SIZE} = {len(p.window_sizes)}")
    filled = _filled(found, e, _edge(p, at)) if p.fills else found
    return _finished(filled, e)


def _with_earlier(found: DataFrame, before: Before, p: TimeSeries) -> DataFrame:
    """Add the last stored windows below the frozen boundary; drop computed windows that begin below it: they are incomplete."""
    sizes = {SIZE: sf.lit(len(p.window_sizes))} if len(p.window_sizes) > 1 else {}
    earlier = before.windows.withColumn(AT, sf.col("w_start") + sf.lit(p.length)).withColumns(sizes)
    names = [n for n in found.columns if n in earlier.columns]
    whole = found.withColumn(AT, sf.expr(f"CASE WHEN {AT} - {p.length}L >= {before.since}L THEN {AT} END"))
    return whole.unionByName(earlier.select(*map(quoted, names)), allowMissingColumns=True)


def with_shut_out(rows: DataFrame, e: EngineQuery, at: ClosingClock) -> DataFrame:
    """Add ``_shut_out``: whether all windows of a row were closed when it arrived; false for a row between sub-windows."""
    p: TimeSeries = e.params
    placed, marks = _in_panes(rows, e, at)
    return placed.withColumn(SHUT_OUT, sf.expr(f"{PANE} IS NOT NULL AND {_FROM} > {PANE} + {p.length - p.step}L")).drop(
        *marks
    )


def _edge(p: TimeSeries, at: ClosingClock) -> str:
    """SQL of one edge of the grid."""
    return _ANCHOR if p.has_grid_by_key else f"({p.anchor(at.origin)}L)"


def _up(x: str, edge: str, step: int) -> str:
    """SQL of the first edge at or after *x*."""
    return f"({x} + pmod({edge} - ({x}), {step}L))"


def _above(x: str, edge: str, step: int) -> str:
    """SQL of the first edge after *x*."""
    return f"({x} - pmod(({x}) - {edge}, {step}L) + {step}L)"


def _in_panes(raw: DataFrame, e: EngineQuery, at: ClosingClock) -> tuple[DataFrame, list[str]]:
    """Return rows with the end of their pane, and the names of the columns that identify a pane."""
    p: TimeSeries = e.params
    edge, frame = _edge(p, at), raw
    if p.day:
        inside = f"IF({TIME} >= 0 AND {TIME} < {p.day}L, {TIME}, raise_error('a time of day outside of the day'))"
        frame = frame.withColumn(TIME, sf.expr(inside))
    if p.has_grid_by_key:
        frame = _with_anchor(frame, e, p)
    t = f"greatest({TIME} - {p.shift}L, {edge})" if p.shift else TIME
    end = (_above if p.closed == "left" else _up)(t, edge, p.step)
    frame = frame.withColumn(_END, sf.expr(end))
    counts = "true"
    if p.sub_window:
        lower, upper = (f"{_END} + {b - p.step}L" for b in p.sub_window)
        counts = f"{t} >= {lower} AND {t} < {upper}" if p.closed == "left" else f"{t} > {lower} AND {t} <= {upper}"
    frame = frame.withColumn(PANE, sf.expr(f"CASE WHEN {counts} THEN {_END} END")).drop(_END)
    marks = [PANE, _ANCHOR] if p.has_grid_by_key else [PANE]
    if CLOSED_ON_ARRIVAL not in raw.columns:
        return frame, marks
    first = _above if p.closed == "left" else _up
    opened = [PANE, first(f"({CLOSED_ON_ARRIVAL} + {_short(p)}L)", edge, p.step)]
    if ORIGIN in raw.columns:  # a row older than the key's first window comes too late (D23)
        opened.append(first(ORIGIN, edge, p.step))
    earliest = f"CASE WHEN {PANE} IS NOT NULL THEN greatest({', '.join(opened)}) END"
    return frame.withColumn(_FROM, sf.expr(earliest)), [*marks, _FROM]


def _with_anchor(frame: DataFrame, e: EngineQuery, p: TimeSeries) -> DataFrame:
    first = sf.col(ORIGIN) if ORIGIN in frame.columns else sf.min(TIME).over(Window.partitionBy(*e.keys))
    size = sf.lit(p.alignment)
    return frame.withColumn(_ANCHOR, first - sf.pmod(first, size))


def _short(p: TimeSeries) -> int:
    """Return how much earlier than its end on the grid a window closes: the time that its sub-window leaves out."""
    return p.step - p.sub_window[1] if p.sub_window else 0


def _windows(p: TimeSeries, first: str) -> str:
    """SQL of the windows of the pane that ends at ``_pane``; the earliest window that is open to the pane ends at *first*."""

    def ends(i: int) -> str:
        last = f"({PANE} + {p.window_sizes[i] - p.step}L)"
        each = f"transform(sequence({first}, {last}, {p.step}L), w -> named_struct('{AT}', w, '{SIZE}', {i}))"
        return f"CASE WHEN {first} <= {last} THEN {each} ELSE array() END"

    return f"concat({', '.join(ends(i) for i in range(len(p.window_sizes)))})"


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


def _filled(found: DataFrame, e: EngineQuery, edge: str) -> DataFrame:
    """Add the closed windows without rows that follow a window with rows.

    After the last window of a part, windows are filled up to the bound, unless the key has rows after the part.
    """
    p: TimeSeries = e.params
    order = Window.partitionBy(*e.groups).orderBy(AT)
    limit = f"{_BOUND} + {_short(p)}L"
    last = f"({limit} - pmod({limit} - {edge}, {p.step}L))"
    until = (
        f"CASE WHEN _next IS NOT NULL THEN least(_next - {p.step}L, {last}) "
        f"WHEN {KEY_MAX} <= {PART_MAX} THEN {last} END"
    )
    first = f"({AT} + {p.step}L)"
    empty = f"CASE WHEN _until >= {first} THEN sequence({first}, _until, {p.step}L) ELSE array() END"
    spread = (
        found.withColumn("_next", sf.lead(AT).over(order))
        .withColumn("_until", sf.expr(until))
        .withColumn("_to", sf.explode(sf.expr(f"concat(array({AT}), {empty})")))
        .withColumn("_is_filled", sf.expr(f"_to > {AT}"))
    )
    types = {f.name: f.dataType.simpleString() for f in found.schema}
    columns = {AT: "_to", "n": "IF(_is_filled, 0L, n)"}
    columns |= {name: f"IF(_is_filled, NULL, {name})" for name in ("first_t", "last_t")}
    for name, (kind, literal) in zip(e.measures, p.fills, strict=True):
        stands = panes.filled_value(kind, literal, name, types[f"v_{name}"])
        columns[f"v_{name}"] = f"IF(_is_filled, {stands}, {panes.value(name)})"
    return spread.select(*[sf.expr(columns.get(c, quoted(c))).alias(c) for c in found.columns])


def _finished(found: DataFrame, e: EngineQuery) -> DataFrame:
    p: TimeSeries = e.params
    end = f"({AT} - {_short(p)}L)"
    label = end if p.sub_window or not p.use_window_start_time else f"({AT} - {p.length}L)"
    return found.select(
        *e.groups,
        sf.expr(f"{AT} - {p.length}L").alias("w_start"),
        sf.expr(end).alias("w_end"),
        sf.expr(label).alias("label"),
        *[sf.col(panes.value(name)) for name in e.measures],
        *["n", "first_t", "last_t"],
        sf.expr(f"coalesce({end} <= {_BOUND}, false)").alias("is_final"),
        sf.expr(f"coalesce({end} <= {_BOUND}, false) OR {str(p.update_time is not None).lower()}").alias("is_shown"),
    )
