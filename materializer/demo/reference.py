"""A full recompute by plain Spark: what a refresh is measured beside.

It is the reference form over every row, written to a Delta table; it shares nothing with partials, plans or journal.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from materializer.core.compiled.definition import Definition
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.spark.query import compute
from materializer.spark.runtime.failures import spoken


def write_recomputed(
    spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, path: str, *, hull: Span | None
) -> None:
    """Compute everything from raw rows and overwrite the table at *path* with it.

    Args:
        spark: A work session.
        definition: What is computed.
        source: Where raw rows come from.
        version: Source version they are read at.
        path: Where the result goes; whatever table is there is overwritten.
        hull: Where the source has rows at all, when known.

    Raises:
        SourceDamagedError: If the source can no longer be read at that version.
    """
    everything = SpanSet.of(EVERYTHING)
    with spoken("recomputing everything with plain Spark", table=source.path, version=version):
        rows = compute.relevant_rows(definition, compute.read_version(spark, source, version), everything)
        frame = compute.reference(definition, rows, everything if hull is None else SpanSet.of(hull))
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
