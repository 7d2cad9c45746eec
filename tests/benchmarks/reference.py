"""A full recompute by plain Spark, with which refreshes are compared.

It computes the reference form over every row and writes it to a Delta table; it uses no partials, plans or journal.
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
    """Compute everything from raw rows and overwrite the table at *path* with the result.

    Args:
        spark: A work session.
        definition: The definition to compute.
        source: The source of the raw rows.
        version: The version of the source.
        path: Path of the result; a table at this path is overwritten.
        hull: The span in which the source has rows, if known.

    Raises:
        SourceDamagedError: If the source can no longer be read at *version*.
    """
    everything = SpanSet.of(EVERYTHING)
    with spoken("recomputing everything with plain Spark", table=source.path, version=version):
        rows = compute.relevant_rows(definition, compute.read_version(spark, source, version), everything)
        frame = compute.reference(definition, rows, everything if hull is None else SpanSet.of(hull))
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
