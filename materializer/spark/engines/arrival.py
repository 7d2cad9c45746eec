"""Which raw rows an engine is given: all that count, those of some ranges, or under ``strict`` and ``delay`` those accepted.

``strict`` and ``delay`` depend on the order in which rows arrived. That is read from the change feed, from the table's first
version on: commits in order, and inside a commit the sequence column, or time and the columns that are read. Updates and
deletes of rows that were accepted do not undo anything there, as in the streaming engines: the new image of an updated row
arrives like any other.

=================  =====================================================================================================
engine             a row is late when
=================  =====================================================================================================
most               an earlier row of its key has a larger time
``accepted_delay``  every window it belongs to ended at or before its key's largest earlier time, less the delay
``force_trigger``   likewise, with the largest earlier time of all keys, less the force
event time         its pane was discarded: the watermark of the earlier commits is at or past its end and discard age
=================  =====================================================================================================
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from materializer.core.definition import Definition, quoted
from materializer.journal.events import SourceIdentity
from materializer.spark import compute as c
from materializer.spark.engines import run
from materializer.spark.engines.query import CLOSED_ON_ARRIVAL, TIME, VERSION, Bounds
from materializer.spark.engines.run import Work
from materializer.spark.engines.time_series import last_end_sql

MAX_RAW_SPANS: Final = 64
LATE: Final = "_late"
"""Scratch column: why a row is not accepted, or null."""


def counted_rows(
    spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, work: Work
) -> DataFrame:
    """Return the prepared raw rows of some work at a source version."""
    parts = None if work.parts is None else run.part_frame(spark, definition, work.parts)
    if definition.spec.lateness != "recompute":
        accepted = arrived(spark, definition, source, version, work.at).where(f"{LATE} IS NULL").drop(LATE)
        return accepted if parts is None else run.in_parts(definition, accepted, parts)
    frame = c.read_version(spark, source, version)
    if work.parts is None or parts is None:
        return run.prepared(definition, frame)
    lasts = bool(getattr(run.engine_of(definition).params, "end", None))
    spans = run.raw_spans(work.parts, MAX_RAW_SPANS, last_long=lasts)
    return run.in_parts(definition, run.prepared(definition, frame, spans), parts)


def late_rows(
    spark: SparkSession, definition: Definition, source: SourceIdentity, after: int, upto: int, at: Bounds
) -> DataFrame:
    """Return the rows that arrived in (after, upto] and were not accepted, with the reason.

    Shape:
        The source's columns, ``_reason`` string, ``_version`` bigint: the commit that brought the row.
    """
    rows = arrived(spark, definition, source, upto, at).where(f"{LATE} IS NOT NULL AND {VERSION} > {after}")
    columns = c.read_version(spark, source, upto).columns
    return rows.select(*[sf.col(quoted(n)) for n in columns], sf.col(LATE).alias("_reason"), VERSION)


def arrived(spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, at: Bounds) -> DataFrame:
    """Return every row that ever arrived, with ``_version``, ``_wm`` and why it is late, or null.

    Shape:
        The columns of prepared raw rows, ``_version`` bigint, ``_wm`` bigint, ``_late`` string.
    """
    feed = c.read_changes(spark, source, -1, version).where("_change_type IN ('insert', 'update_postimage')")
    rows = run.prepared(definition, feed).withColumn(VERSION, sf.col("_commit_version").cast("bigint"))
    rows = rows.drop("_change_type", "_commit_version", "_commit_timestamp")
    engine = run.engine_of(definition)
    params = engine.params
    sequence = definition.spec.sequence
    first = [sf.col(quoted(sequence))] if sequence else []
    order = [sf.col(VERSION), *first, sf.col(TIME), *[sf.col(quoted(n)) for n in engine.order if n != sequence]]
    before = sf.max(TIME).over(_earlier([sf.col(quoted(k)) for k in run.query_of(definition).keys], order))
    delay = int(getattr(params, "accepted_delay", 0) or 0)
    force = params.force_trigger_time if definition.spec.engine == "time_series" else None
    bounds: list[Column] = []
    if delay:
        bounds.append(before - sf.lit(delay))
    if force is not None:
        bounds.append(sf.max(TIME).over(_earlier([], order)) - sf.lit(force))
    closed = bounds[0] if len(bounds) == 1 else sf.greatest(*bounds) if bounds else sf.lit(None)
    late = sf.lit(None) if delay else sf.when(sf.col(TIME) < before, sf.lit("earlier than its key's newest row"))
    rows = rows.select("*", closed.cast("bigint").alias(CLOSED_ON_ARRIVAL), late.cast("string").alias(LATE))
    if not bounds or definition.spec.engine != "time_series":
        return rows
    end = last_end_sql(params, at.origin)
    is_closed = f"{end} {'<=' if params.closed == 'left' else '<'} {CLOSED_ON_ARRIVAL}"
    why = sf.when(sf.expr(is_closed), sf.lit("all its windows were closed"))
    return rows.withColumn(LATE, sf.coalesce(sf.col(LATE), why))


def _earlier(keys: list[Column], order: list[Column]) -> Any:
    """Return all rows that arrived before, of the same key."""
    return Window.partitionBy(*keys).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
