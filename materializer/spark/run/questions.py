"""Questions about a source that Spark answers by itself: its first and newest times."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from materializer.core.compiled.bucket_sql import instant_of_sql, spans_sql
from materializer.core.compiled.definition import Definition
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.spark.query import compute as c
from materializer.spark.runtime.failures import spoken


def newest_time(
    spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, *, before: int = POS_INF
) -> int | None:
    """Return the largest event time of the source below an instant, as an instant, by a scan; None without rows."""
    column = quoted(definition.spec.time_column)
    with spoken("looking for the newest row", table=source.path, version=version):
        frame = c.read_version(spark, source, version)
        if before != POS_INF:
            frame = frame.where(spans_sql(column, SpanSet.of(Span(NEG_INF, before)), definition.time_type))
        newest = sf.expr(instant_of_sql(f"max({column})", definition.time_type))
        value = frame.agg(newest.alias("newest")).collect()[0]["newest"]
    return None if value is None else int(value)


def times(
    spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, *, before: int
) -> tuple[int, int, int | None] | None:
    """Return the first and the newest event time of a source, and the newest below an instant; None without rows."""
    time, inside = quoted(definition.spec.time_column), SpanSet.of(Span(NEG_INF, before))
    with spoken("looking for the newest row", table=source.path, version=version):
        frame = c.read_version(spark, source, version).where(f"{time} IS NOT NULL")
        at = sf.expr(instant_of_sql(time, definition.time_type))
        below = sf.expr("true" if before == POS_INF else spans_sql(time, inside, definition.time_type))
        found = frame.agg(sf.min(at), sf.max(at), sf.max(sf.when(below, at))).collect()[0]
    first, newest, followed = (None if value is None else int(value) for value in found)
    return None if first is None or newest is None else (first, newest, followed)
