"""Select the raw rows that an engine counts: all rows, the rows of some ranges, or only those that it accepts as they arrive.

Which it accepts, and in what order they arrive, says :mod:`materializer.core.engines.queries.arrival`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from materializer.budget import Budget
from materializer.core.compiled.definition import Definition
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import VERSION, EngineQuery, engine_of
from materializer.core.engines.queries import arrival
from materializer.core.engines.work import Work, raw_spans
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.spark.engines import key_results, questions, run
from materializer.spark.query import compute as c
from materializer.spark.query import read_small
from materializer.spark.query.render import named, rendered

MAX_RAW_SPANS: Final = 64


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
        found = arrived(spark, definition, source, version, work.at)
        accepted = rendered(arrival.accepted(named("arrived", found)), {"arrived": found})
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
    found = arrived(spark, definition, source, upto, at)
    rows = rendered(arrival.refused(named("arrived", found), EngineQuery.of(definition), after), {"arrived": found})
    columns = c.read_version(spark, source, upto).columns
    return rows.select(*[sf.col(quoted(n)) for n in columns], sf.col(arrival.LATE).alias("_reason"), VERSION)


def arrived(
    spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, at: ClosingClock
) -> DataFrame:
    """Return every row that ever arrived, with why it is late; see :func:`~materializer.core.engines.queries.arrival.judged`."""
    e, rows = EngineQuery.of(definition), _feed(spark, definition, source, version)
    if e.params.arrival != "watermark":
        return rendered(arrival.judged(named("raw", rows), e, at), {"raw": rows})
    known = arrival.discarded(e.params, _newest(rows))
    frames = {"raw": rows, "marks": spark.createDataFrame(known, ", ".join(map(" ".join, arrival.MARKS)))}
    return rendered(arrival.judged(named("raw", rows), e, at, arrival.marked()), frames)


def newest_submitted(spark: SparkSession, definition: Definition, source: SourceIdentity, version: int) -> int | None:
    """Return the event time that set the newest watermark, over all commits; None without rows."""
    return arrival.submitted(engine_of(definition).params, _newest(_feed(spark, definition, source, version)))


def _feed(spark: SparkSession, definition: Definition, source: SourceIdentity, version: int) -> DataFrame:
    feed = c.read_changes(spark, source, -1, version).where("_change_type IN ('insert', 'update_postimage')")
    rows = run.prepared(definition, feed).withColumn(VERSION, sf.col("_commit_version").cast("bigint"))
    return rows.drop("_change_type", "_commit_version", "_commit_timestamp")


def _newest(rows: DataFrame) -> list[tuple[int, int]]:
    return [
        (row[VERSION], row["newest"]) for row in rendered(arrival.newest(named("raw", rows)), {"raw": rows}).collect()
    ]
