"""Count the windows that an engine would make, before it makes them, and find the row that would make the most.

The query reads rows once, and only their keys and times. It groups neighbouring rows of a key into blocks of time. Inside a
block begin fewer windows than one row may make, so a gap that exceeds this limit always lies between two blocks.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from materializer.core.compiled.definition import Definition
from materializer.core.engines.base import WindowEngine
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.closing import Closing
from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.engine_query import END, KNOWN_MAX, PART, TIME, Before, EngineQuery
from materializer.core.engines.interval_windows import IntervalWindow
from materializer.core.engines.queries.daily_time_series import day_sql
from materializer.core.spec.table_names import quoted

LONGEST: Final = 1 << 61
"""Maximum length of a block of time."""


class Census(Struct, frozen=True):
    """How many windows rows make.

    Args:
        windows: Upper bound of the windows that all rows make.
        rows: Number of rows.
        most: Upper bound of the windows that one row makes.
        key: Key values of the row that makes the most windows; None without rows.
        time: Time of that row.
        other: Time up to which that row makes windows: the next row of its key, the end of the filling, or an event's end.
        is_last: Whether that row is the last of its key. A clock, or the newest row of all keys, then causes the filling.
        is_later: Whether fewer rows lie from *other* on than up to *time*: then the row at *other* is the outlier.
        newest: Key of the newest row, if that row lies at *other*; else None.
    """

    windows: int
    rows: int
    most: int
    key: tuple[Any, ...] | None = None
    time: int = 0
    other: int = 0
    is_last: bool = False
    is_later: bool = False
    newest: tuple[Any, ...] | None = None


def census(
    definition: Definition, raw: DataFrame, at: ClosingClock, limit: int, before: Before | None = None
) -> Census:
    """Return how many windows prepared *raw* rows would make.

    Args:
        definition: The definition of the windows.
        raw: The rows; see :mod:`.query`.
        at: The bounds that close windows.
        limit: Maximum number of windows that one row may make.
        before: The last windows before the rows; empty windows are filled after them.
    """
    engine = EngineQuery.of(definition).params
    match engine.grows_by:
        case "events":
            return _of_events(definition, raw, engine)
        case "days":
            return _of_days(definition, raw, engine)
        case "gaps":
            return _of_gaps(definition, raw, engine, at, limit, before)
        case _:
            return _alike(definition, raw, engine)


def _key(definition: Definition) -> Any:
    return sf.struct(sf.lit(0).alias("_mz"), *[sf.col(quoted(k)) for k in EngineQuery.of(definition).keys])


def _found(row: Any, most: int | None = None, **more: Any) -> Census:
    """Return a census from a row with ``windows``, ``rows`` and ``worst``: the key and details of the row with most windows."""
    if not row["rows"]:
        return Census(0, 0, 0)
    worst = row["worst"]
    most = int(worst["most"]) if most is None else most
    return Census(int(row["windows"]), row["rows"], most, tuple(worst["key"])[1:], worst["time"], **more)


def _alike(definition: Definition, raw: DataFrame, p: WindowEngine) -> Census:
    """Count windows where every row is in the same number of windows; windows that neighbours share count once."""
    share, step = p.share, p.spacing
    groups = [quoted(k) for k in EngineQuery.of(definition).keys] + [PART]
    pane = sf.expr(f"{TIME} - pmod({TIME}, {step}L)").alias("_pane")
    panes = raw.groupBy(*groups, pane).agg(sf.count(sf.lit(1)).alias("n"), sf.min(TIME).alias(TIME))
    following = sf.lead("_pane").over(Window.partitionBy(*groups).orderBy("_pane"))
    made = sf.least(sf.coalesce((following - sf.col("_pane")) / sf.lit(step), sf.lit(share)), sf.lit(share))
    worst = sf.min_by(sf.struct(_key(definition).alias("key"), sf.col(TIME).alias("time")), TIME)
    row = (
        panes.withColumn("_made", made)
        .agg(
            sf.coalesce(sf.sum("n"), sf.lit(0)).alias("rows"),
            sf.coalesce(sf.sum("_made"), sf.lit(0.0)).alias("windows"),
            worst.alias("worst"),
        )
        .collect()[0]
    )
    return _found(row, share)


def _of_days(definition: Definition, raw: DataFrame, p: DailyTimeSeries) -> Census:
    """Count, as an upper bound, all windows of the trading days in which a key has rows."""
    keys, a_day = [quoted(k) for k in EngineQuery.of(definition).keys], p.windows_a_day
    day = sf.expr(day_sql(p.calendar, TIME)).alias("_day")
    days = raw.groupBy(*keys, PART, day).agg(sf.count(sf.lit(1)).alias("n"), sf.min(TIME).alias(TIME))
    worst = sf.min_by(sf.struct(_key(definition).alias("key"), sf.col(TIME).alias("time")), TIME)
    columns = [
        sf.count(sf.lit(1)).alias("days"),
        sf.coalesce(sf.sum("n"), sf.lit(0)).alias("rows"),
        worst.alias("worst"),
    ]
    row = days.agg(*columns).collect()[0]
    return _found({"windows": a_day * row["days"], "rows": row["rows"], "worst": row["worst"]}, a_day)


def _of_events(definition: Definition, raw: DataFrame, p: IntervalWindow) -> Census:
    """Count the windows that begin during an event, or less than one window length before it."""
    open_end = TIME if p.default_end is None else f"{p.default_end}L"
    end = f"greatest({TIME}, CASE WHEN {END} IS NULL THEN {open_end} ELSE {END} END)"
    counted = raw.withColumn("_mz_end", sf.expr(end)).withColumn(
        "_mz_most", sf.expr(f"({_length(TIME, '_mz_end')}) div {p.period}L + {p.share}L")
    )
    worst = sf.struct(
        _key(definition).alias("key"),
        sf.col(TIME).alias("time"),
        sf.col("_mz_end").alias("end"),
        sf.col("_mz_most").alias("most"),
    )
    row = counted.agg(
        sf.count(sf.lit(1)).alias("rows"),
        sf.coalesce(sf.sum(sf.col("_mz_most").cast("double")), sf.lit(0.0)).alias("windows"),
        sf.max_by(worst, "_mz_most").alias("worst"),
    ).collect()[0]
    return _found(row, other=row["worst"]["end"] if row["worst"] else 0)


def _of_gaps(
    definition: Definition, raw: DataFrame, p: Closing, at: ClosingClock, limit: int, before: Before | None
) -> Census:
    """Count the windows that are filled from each row of a key to the next, and after its last row as far as windows close."""
    keys = EngineQuery.of(definition).keys
    groups = [quoted(k) for k in keys] + [PART]
    points = raw.select(*groups, TIME, KNOWN_MAX, sf.lit(1).alias("n"))
    if before is not None:
        points = points.unionByName(_from_before(before, p, groups))
    block = sf.expr(f"floor({TIME} / {_block(p, limit)}D)")
    blocks = points.groupBy(*groups, block.alias("_block")).agg(
        sf.min(TIME).alias("lo"), sf.max(TIME).alias("hi"), sf.max(KNOWN_MAX).alias("known"), sf.sum("n").alias("n")
    )
    ordered = Window.partitionBy(*groups).orderBy("_block")
    whole = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    until = p.filled_until(at)
    after = "hi" if until is None else f"greatest(hi, {until}L)"
    tail = f"CASE WHEN _next IS NOT NULL THEN _next WHEN last_known > hi THEN hi ELSE {after} END"
    counted = (
        blocks.withColumn("_next", sf.lead("lo").over(ordered))
        .withColumn("last_known", sf.max("known").over(whole))
        .withColumn("_before", sf.sum("n").over(ordered))
        .withColumn("_all", sf.sum("n").over(whole))
        .withColumn("other", sf.expr(tail))
        .withColumn("most", sf.expr(_between(p, "hi", "other")))
        .withColumn("windows", sf.expr(f"{_between(p, 'lo', 'hi')} + most"))
    )
    worst = sf.struct(
        _key(definition).alias("key"),
        sf.col("hi").alias("time"),
        *[sf.col(n) for n in ("other", "most")],
        sf.col("_next").isNull().alias("is_last"),
        sf.expr("_next IS NOT NULL AND _all - _before < _before").alias("is_later"),
    )
    row = counted.agg(
        sf.coalesce(sf.sum("n"), sf.lit(0)).alias("rows"),
        sf.coalesce(sf.sum(sf.col("windows").cast("double")), sf.lit(0.0)).alias("windows"),
        sf.max_by(worst, "most").alias("worst"),
        sf.max_by(sf.struct(_key(definition).alias("key"), sf.col("hi").alias("time")), "hi").alias("newest"),
    ).collect()[0]
    if not row["worst"]:
        return _found(row)
    newest = tuple(row["newest"]["key"])[1:] if row["newest"]["time"] == row["worst"]["other"] else None
    return _found(row, newest=newest, **{n: row["worst"][n] for n in ("other", "is_last", "is_later")})


def _from_before(before: Before, p: Closing, groups: list[str]) -> DataFrame:
    """Return each key's last window below the frozen boundary as a row at the boundary: no window is made below it."""
    since = sf.greatest(sf.col("w_start"), sf.lit(before.since - p.fill_unit[0]))
    windows: DataFrame = before.windows
    known = sf.lit(None).cast("bigint").alias(KNOWN_MAX)
    return windows.select(*groups, since.alias(TIME), known, sf.lit(0).alias("n"))


def _block(p: Closing, limit: int) -> int:
    """Return the length of a block of time: at most half of the windows that one row may make begin in a block."""
    length, windows = p.fill_unit
    return min(LONGEST, max(1, limit // (2 * windows)) * length)


def _between(p: Closing, start: str, end: str) -> str:
    """Return the SQL form of :meth:`materializer.core.engines.closing.Closing.between`."""
    length, windows = p.fill_unit
    return f"(({end} - {start}) div {length}L + 1L) * {windows}L"


def _length(start: str, end: str) -> str:
    """SQL of a length, capped so that it fits in 64 bits."""
    return f"least({2**62}, CAST({end} AS DECIMAL(38)) - CAST({start} AS DECIMAL(38)))"
