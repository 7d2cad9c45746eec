"""Select the raw rows that an engine counts: all rows, the rows of some ranges, or only the accepted rows.

With ``strict`` or ``delay`` lateness an engine accepts rows by their order of arrival. The change feed gives this order, from
the table's first version on: commits in order; inside a commit by the sequence column (if there is one), by time, and by the
other columns that the definition reads. An update or a delete does not undo a row that was accepted, as in the streaming
engines: the new image of an updated row arrives like any other row.

=================  =====================================================================================================
engine             a row is late when
=================  =====================================================================================================
most               an earlier row of its key that was accepted has a larger time
``accepted_delay``  every window it belongs to ended at or before its key's largest earlier time, less the delay
``force_trigger``   every window it belongs to ended at or before the largest earlier time of all keys, less the force
daily              also: a row of a later trading day (of any key) had arrived, and keys are forgotten daily
event time         its panes were discarded: their end is at or before the watermark of earlier commits, less the discard age
=================  =====================================================================================================
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from materializer.budget import Budget
from materializer.core.compiled.definition import Definition
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.engine_query import CLOSED_ON_ARRIVAL, TIME, VERSION, EngineQuery, engine_of
from materializer.core.engines.event_time_window import advanced
from materializer.core.engines.queries.daily_time_series import (
    DAY,
    PLACE,
    count_sql,
    day_sql,
    is_outside_sql,
    number_sql,
    window_sql,
)
from materializer.core.engines.queries.time_series import ORIGIN, SHUT_OUT, with_shut_out
from materializer.core.engines.work import Work, raw_spans
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.spark.engines import key_results, questions, run
from materializer.spark.query import compute as c
from materializer.spark.query import read_small
from materializer.spark.query.render import named, rendered

MAX_RAW_SPANS: Final = 64
LATE: Final = "_late"
"""Scratch column: the reason why a row is not accepted; null for an accepted row."""


def counted_rows(
    spark: SparkSession,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    work: Work,
    parts: DataFrame | None = None,
    *,
    small: Budget | None = None,
) -> DataFrame:
    """Return the prepared raw rows that some work counts, at a source version.

    Args:
        spark: A session.
        definition: The definition of the aggregate.
        source: The source table.
        version: The source version.
        work: The work to compute.
        parts: The ranges of the work as a frame; None when the work covers everything.
        small: What the driver holds, if the rows are few enough for it to read them.
    """
    if definition.spec.lateness != "recompute":
        accepted = arrived(spark, definition, source, version, work.at).where(f"{LATE} IS NULL").drop(LATE)
        return accepted if parts is None else run.in_parts(definition, accepted, parts)
    last = engine_of(definition).params.lasts_from(work.since)
    spans = SpanSet.of(Span(work.since if last is None else NEG_INF, POS_INF))
    if work.parts is not None:
        spans = raw_spans(work.parts, MAX_RAW_SPANS, last_long=engine_of(definition).params.end is not None)
    if small is not None:
        frame = read_small.raw_rows(spark, small, definition, source, version, spans)
    else:
        frame = c.read_version(spark, source, version)
    rows = run.prepared(definition, frame, spans)
    if last is not None and work.since != NEG_INF:
        rows = rows.where(questions.lasts_sql(last))
    return rows if parts is None else run.in_parts(definition, rows, parts)


def rows_of_keys(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    work: Work,
    parts: DataFrame,
) -> tuple[DataFrame, bool]:
    """Return the same rows for ranges of a few keys, and whether the driver read them: it skips the rows of other keys.

    Args:
        spark: A session.
        budget: What the driver holds.
        definition: The definition of the aggregate.
        source: The source table.
        version: The source version.
        work: The work to compute.
        parts: Its ranges as a frame.
    """
    params, ranges = engine_of(definition).params, work.parts or ()
    if definition.spec.lateness != "recompute":
        return counted_rows(spark, definition, source, version, work, parts), False
    spans = raw_spans(ranges, MAX_RAW_SPANS, last_long=params.end is not None)
    keys = list({part.key: None for part in ranges})
    frame, is_few = key_results.source_rows(spark, budget, definition, source, version, spans, keys)
    rows = run.prepared(definition, frame, spans)
    if params.lasts_from(work.since) is not None and work.since != NEG_INF:
        rows = rows.where(questions.lasts_sql(params.lasts_from(work.since)))
    return run.in_parts(definition, rows, parts), is_few


def late_rows(
    spark: SparkSession, definition: Definition, source: SourceIdentity, after: int, upto: int, at: ClosingClock
) -> DataFrame:
    """Return the rows that arrived in (after, upto] and were not accepted, with the reason.

    Shape:
        The source's columns, ``_reason`` string, ``_version`` bigint: the commit that brought the row.
    """
    rows = arrived(spark, definition, source, upto, at)
    if engine_of(definition).params.arrival == "sessions":  # in no window, but they advance time: the query has them
        outside = sf.when(
            sf.expr(is_outside_sql(engine_of(definition).params)), sf.lit("outside of the trading sessions")
        )
        rows = rows.withColumn(LATE, sf.coalesce(sf.col(LATE), outside))
    rows = rows.where(f"{LATE} IS NOT NULL AND {VERSION} > {after}")
    columns = c.read_version(spark, source, upto).columns
    return rows.select(*[sf.col(quoted(n)) for n in columns], sf.col(LATE).alias("_reason"), VERSION)


def arrived(
    spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, at: ClosingClock
) -> DataFrame:
    """Return every row that ever arrived, with ``_version``, ``_wm`` and the reason why it is late (null if it is not).

    Shape:
        The columns of prepared raw rows, ``_version`` bigint, ``_wm`` bigint, ``_late`` string.
    """
    feed = c.read_changes(spark, source, -1, version).where("_change_type IN ('insert', 'update_postimage')")
    rows = run.prepared(definition, feed).withColumn(VERSION, sf.col("_commit_version").cast("bigint"))
    rows = rows.drop("_change_type", "_commit_version", "_commit_timestamp")
    params, order = engine_of(definition).params, _order(definition)
    if params.arrival == "watermark":
        return _by_watermark(spark, definition, rows)
    keys = [sf.col(quoted(k)) for k in EngineQuery.of(definition).keys]
    before = sf.max(TIME).over(_earlier(keys, order))
    delay = params.accepted_delay
    ordered = rows.withColumn(LATE, (sf.lit(None) if delay else _is_earlier(before)).cast("string"))
    if params.arrival == "rows":
        return ordered.withColumn(CLOSED_ON_ARRIVAL, sf.lit(None).cast("bigint"))
    bounds: list[Column] = []
    if delay:
        bounds.append(before - sf.lit(delay))
    if params.force_trigger_time is not None:
        bounds.append(sf.max(TIME).over(_earlier([], order)) - sf.lit(params.force_trigger_time))
    closed = bounds[0] if len(bounds) == 1 else sf.greatest(*bounds) if bounds else sf.lit(None)
    if params.arrival == "sessions":
        first = sf.first(TIME).over(_earlier(keys, order)) if delay else None
        return _by_session(ordered.withColumn(CLOSED_ON_ARRIVAL, closed.cast("bigint")), params, first, order)
    whole = Window.partitionBy(*keys).orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    rows = rows.withColumn(CLOSED_ON_ARRIVAL, closed.cast("bigint")).withColumn(ORIGIN, sf.first(TIME).over(whole))
    rows = rendered(with_shut_out(named("raw", rows), EngineQuery.of(definition), at), {"raw": rows})
    why = sf.when(sf.col(SHUT_OUT), sf.lit("all its windows were closed"))
    if not delay:  # a row that was shut out is as one that never came: it does not make others late
        accepted = sf.when(~sf.col(SHUT_OUT), sf.col(TIME))
        why = sf.coalesce(_is_earlier(sf.max(accepted).over(_earlier(keys, order))), why)
    return rows.withColumn(LATE, why).drop(SHUT_OUT)


def _is_earlier(before: Column) -> Column:
    """Return the reason that a row is late where its time is before *before*, else null."""
    return sf.when(sf.col(TIME) < before, sf.lit("earlier than its key's newest row"))


def _by_session(rows: DataFrame, p: DailyTimeSeries, first: Column | None, order: list[Column]) -> DataFrame:
    """Return rows of a daily engine with the reason why they are late: a closed window, or keys forgotten since then.

    Args:
        rows: Rows whose ``_late`` holds the reasons found so far.
        p: The engine's parameters.
        first: Time of the key's first row: rows of windows before its window are late. None without a delay.
        order: The order of arrival.
    """
    placed = rows.withColumns({DAY: sf.expr(day_sql(p.calendar, TIME)), PLACE: sf.expr(number_sql(p.calendar))})
    window = window_sql(p.calendar, DAY, PLACE)
    is_closed = sf.expr(f"{window}.closes <= {CLOSED_ON_ARRIVAL}")
    if first is not None:
        of_first = placed.withColumns({"_mz_first": first}).withColumns(
            {"_mz_day": sf.expr(day_sql(p.calendar, "_mz_first"))}
        )
        of_first = of_first.withColumn("_mz_place", sf.expr(number_sql(p.calendar, "_mz_first", "_mz_day")))
        placed = of_first.drop("_mz_first")
        begins = window_sql(p.calendar, "_mz_day", "_mz_place")
        is_closed = is_closed | sf.expr(f"coalesce({window}.w_end < {begins}.w_end, false)")
    why = sf.when(is_closed, sf.lit("all its windows were closed"))
    placed = placed.withColumn(LATE, sf.coalesce(sf.col(LATE), why)).drop("_mz_day", "_mz_place")
    if p.key_purge_daily:
        days = sf.when(sf.col(LATE).isNull() & sf.expr(f"{count_sql(p.calendar, DAY)} > 0"), sf.col(DAY))
        is_past = sf.col(PLACE).isNotNull() & (sf.col(DAY) < sf.max(days).over(_earlier([], order)))
        why = sf.when(is_past, sf.lit("a later trading day had begun"))
        placed = placed.withColumn(LATE, sf.coalesce(sf.col(LATE), why))
    return placed.drop(DAY, PLACE)


def _order(definition: Definition) -> list[Column]:
    """Return the columns that give the order of arrival."""
    sequence = definition.spec.sequence
    rest = [n for n in engine_of(definition).order if n != sequence]
    first = [sf.col(quoted(sequence))] if sequence else []
    return [sf.col(VERSION), *first, sf.col(TIME), *[sf.col(quoted(n)) for n in rest]]


def _by_watermark(spark: SparkSession, definition: Definition, rows: DataFrame) -> DataFrame:
    """Return rows of an event-time engine with ``_late`` and ``_wm``: the watermark of earlier commits less the discard age."""
    params = engine_of(definition).params
    marks = [(version, wm - params.discard_age if wm is not None else None) for version, wm, _ in _marks(params, rows)]
    known = spark.createDataFrame(marks, f"_mz_version bigint, {CLOSED_ON_ARRIVAL} bigint")
    placed = rows.join(sf.broadcast(known), sf.col(VERSION) == sf.col("_mz_version")).drop("_mz_version")
    start = f"({TIME} - pmod({TIME} - {params.pane_offset}L, {params.creation_period}L))"
    # the end of the row's last pane; a row between two panes is in none, and never late
    end = f"{start} + {params.interval_duration}L"
    is_over = sf.expr(f"{end} <= {CLOSED_ON_ARRIVAL} AND {TIME} < {end}")
    return placed.withColumn(LATE, sf.when(is_over, sf.lit("its panes were discarded")).cast("string"))


def _marks(params: Any, rows: DataFrame) -> list[tuple[int, int | None, int | None]]:
    """Return (commit, watermark before it, watermark after it) of each commit, in order."""
    newest = rows.groupBy(VERSION).agg(sf.max(TIME).alias("t")).orderBy(VERSION).collect()
    marks: list[tuple[int, int | None, int | None]] = []
    watermark: int | None = None
    largest = None
    for row in newest:
        largest = row["t"] if largest is None else max(largest, row["t"])
        moved = advanced(watermark, largest, params.lag, params.minimum_gap)
        marks.append((row[VERSION], watermark, watermark if moved is None else moved))
        watermark = marks[-1][2]
    return marks


def newest_submitted(spark: SparkSession, definition: Definition, source: SourceIdentity, version: int) -> int | None:
    """Return the event time that set the newest watermark (watermark plus lag), over all commits; None without rows."""
    params = engine_of(definition).params
    feed = c.read_changes(spark, source, -1, version).where("_change_type IN ('insert', 'update_postimage')")
    rows = run.prepared(definition, feed).withColumn(VERSION, sf.col("_commit_version").cast("bigint"))
    marks = _marks(params, rows)
    after = marks[-1][2] if marks else None
    return None if after is None else after + int(params.lag)


def _earlier(keys: list[Column], order: list[Column]) -> Any:
    """Return the window of all rows of the same key that arrived before."""
    return Window.partitionBy(*keys).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
