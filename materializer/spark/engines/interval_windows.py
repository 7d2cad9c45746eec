"""The queries of windows over events with a duration: hopping, compressed hopping, snapshot and count windows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from materializer.core.compiled.definition import quoted
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.interval_windows import CLIP, COMPRESSED, COUNT, HOPPING, OPEN, IntervalWindow
from materializer.spark.engines.groups import aggregated, measures, same
from materializer.spark.engines.query import END, PART, TIME, EngineQuery

_FROM, _TO = "_life_start", "_life_end"
_START, _STOP = "_w_start", "_w_end"
_AT = "_place"
_OPEN_EVENT = "data.open-event: an event without an end is in infinitely many hopping windows; set default_end, or use "


def rows(raw: DataFrame, e: EngineQuery, at: ClosingClock) -> DataFrame:
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
    if p.kind == HOPPING:
        found, is_full = _hopping(raw, e), sf.lit(True)
    elif p.kind == COUNT:
        found, is_full = _counted(raw, e)
    else:
        found, is_full = _stretches(raw, e), sf.lit(True)
    is_final = is_full if at.as_of is None else is_full & (sf.col(_STOP) <= sf.lit(at.as_of))
    is_point = p.kind == COUNT or (p.kind == HOPPING and p.output_policy != CLIP)
    return found.select(
        *map(quoted, e.keys),
        PART,
        sf.col(_START).alias("w_start"),
        sf.col(_STOP).alias("w_end"),
        sf.col(_STOP if is_point else _START).alias("label"),
        *measures(e),
        *["n", "first_t", "last_t"],
        is_final.alias("is_final"),
        is_final.alias("is_shown"),
        *(_as_event(p, is_point=is_point) if p.kind == HOPPING else []),
    )


def _as_event(p: IntervalWindow, *, is_point: bool) -> list[Column]:
    """Return the lifetime of a hopping window's result: a point at its end, or the whole window."""
    start, end = (sf.col(_STOP), sf.col(_STOP) + sf.lit(p.tick)) if is_point else (sf.col(_START), sf.col(_STOP))
    return [start.alias("x_event_start"), end.alias("x_event_end")]


# -- hopping -------------------------------------------------------------------------------------------------------------


def _hopping(raw: DataFrame, e: EngineQuery) -> DataFrame:
    p: IntervalWindow = e.params
    bound = sf.lit(p.default_end) if p.default_end is not None else _refused("compressed_hopping_window")
    events = raw.withColumn(_TO, _until(p, bound))
    first = _snapped(sf.col(TIME) - sf.lit(p.duration), p.alignment, p.period) + sf.lit(p.period)
    last = _snapped(sf.col(_TO) - sf.lit(1), p.alignment, p.period)
    starts = sf.when(first <= last, sf.sequence(first, last, sf.lit(p.period).cast("bigint")))
    found = aggregated(events.withColumn(_START, sf.explode(starts)), [*e.groups, _START], e)
    return found.withColumn(_STOP, sf.col(_START) + sf.lit(p.duration))


def _refused(instead: str) -> Column:
    return sf.raise_error(sf.lit(_OPEN_EVENT + instead)).cast("bigint")


def _until(p: IntervalWindow, bound: Column) -> Column:
    """Return the end of an event, at least one tick after its start; an open event ends at *bound*."""
    least = sf.col(TIME) + sf.lit(p.tick)
    # not `coalesce`: Spark might compute its later arguments for every row
    end = sf.when(sf.col(END).isNull(), bound).otherwise(sf.col(END))
    return sf.greatest(end, least)


def _snapped(t: Column, base: int, period: int) -> Column:
    """Return the last edge at or before *t* on the grid through *base*."""
    return t - sf.pmod(t - sf.lit(base), sf.lit(period))


# -- snapshots -----------------------------------------------------------------------------------------------------------


def _stretches(raw: DataFrame, e: EngineQuery) -> DataFrame:
    """Return the stretches between neighbouring event edges, with the events that live in each stretch.

    The edges of a key are numbered in order. An event covers the stretches from the number of its start to that of its end.
    """
    p, groups = e.params, e.groups
    events = raw.withColumn(_FROM, sf.col(TIME)).withColumn(_TO, _until(p, sf.lit(OPEN)))
    if p.kind == COMPRESSED:
        events = _compressed(events, p)
    edges = _edges(events, groups)
    placed = events
    for edge, place in ((_FROM, "_first"), (_TO, "_last")):
        places = edges.select(*map(quoted, groups), sf.col(_START).alias("_edge"), sf.col(_AT).alias(place))
        placed = same(placed, places, [*((g, g) for g in groups), (edge, "_edge")])
    inside = sf.explode(sf.sequence(sf.col("_first"), sf.col("_last") - sf.lit(1)))
    found = aggregated(placed.withColumn(_AT, inside), [*groups, _AT], e)
    return same(found, edges, [(g, g) for g in [*groups, _AT]])


def _compressed(events: DataFrame, p: IntervalWindow) -> DataFrame:
    """Return events snapped to the slots of the windows that contain them."""
    end = _snapped(sf.col(_TO) - sf.lit(p.tick), p.alignment, p.period) + sf.lit(p.duration)
    return events.withColumns(
        {
            _FROM: _snapped(sf.col(_FROM), p.alignment + p.duration, p.period),
            _TO: sf.when(sf.col(_TO) == sf.lit(OPEN), sf.col(_TO)).otherwise(end),
        }
    )


def _edges(events: DataFrame, groups: Sequence[str]) -> DataFrame:
    """Return the distinct edges of each key, with their number (from 1) and the next edge."""
    both = sf.explode(sf.array(_FROM, _TO)).alias(_START)
    distinct = events.select(*map(quoted, groups), both).distinct()
    ordered = Window.partitionBy(*map(quoted, groups)).orderBy(_START)
    return distinct.withColumns(
        {
            _AT: sf.row_number().over(ordered),
            _STOP: sf.lead(_START).over(ordered),
        }
    )


# -- counts --------------------------------------------------------------------------------------------------------------


def _counted(raw: DataFrame, e: EngineQuery) -> tuple[DataFrame, Column]:
    """Return the windows that begin at each distinct event start, and whether each window is full."""
    p: IntervalWindow = e.params
    ordered = Window.partitionBy(*map(quoted, e.groups)).orderBy(TIME)
    placed = raw.withColumn("_rank", sf.dense_rank().over(ordered))
    first = sf.greatest(sf.lit(1), sf.col("_rank") - sf.lit(p.count - 1))
    exploded = placed.withColumn(_AT, sf.explode(sf.sequence(first, sf.col("_rank"))))
    found = aggregated(exploded, [*e.groups, _AT], e, [("_last", "max(_rank)")])
    is_full = sf.col("_last") - sf.col(_AT) == sf.lit(p.count - 1)
    edges = {_START: sf.col("first_t"), _STOP: sf.col("last_t") + sf.lit(p.tick)}
    return found.withColumns(edges), is_full
