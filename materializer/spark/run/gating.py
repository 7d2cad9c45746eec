"""What a quality gate does with computed rows: read them, take a part of them, or compute a few buckets again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql import functions as sf

from materializer.core.compiled.bucket_sql import slices_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.engines.work import Work
from materializer.core.time.spans import SpanSet
from materializer.journal.events import SourceIdentity
from materializer.spark.engines.compare import compare_results
from materializer.spark.query import compute as c
from materializer.spark.query.compare import Comparison, compare
from materializer.spark.runtime.failures import spoken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from materializer.core.time.slice_column import SliceColumn
    from materializer.lake.computed import Computed
    from materializer.spark.run.spark import Spark


def output_frame(engine: Spark, definition: Definition, computed: Computed, where: str | None) -> DataFrame:
    """Return the computed output rows as a frame; only those that match *where*, if it is given.

    Fetched rows are few, so they go into one partition, in which windows and aggregates need no shuffle.
    """
    rows: DataFrame = computed.output
    if computed.is_fetched:
        rows = c.frame_of(engine.spark, rows, dict(definition.output_columns)).coalesce(1)
    return rows.where(where) if where else rows


def part(
    engine: Spark,
    computed: Computed,
    spans: SpanSet,
    of_partials: SliceColumn,
    of_output: SliceColumn,
) -> Computed:
    """Return the part of a computation in Spark that belongs to some buckets, to be written instead of the whole.

    Args:
        engine: Spark, which computed the rows and counts the jobs of this call.
        computed: The whole computation, which keeps its rows in memory.
        spans: The buckets of the part.
        of_partials: The column of the partials with the bucket of a row.
        of_output: The same column of the output.
    """
    partials = computed.partials.where(slices_sql(of_partials, spans))
    output = computed.output.where(slices_sql(of_output, spans))
    with engine.counted():
        counts = partials.agg(sf.count(sf.lit(1)), sf.count_distinct(SLICE))
        rows, buckets = counts.collect()[0]
        output_rows = output.count()
    return replace(
        computed,
        partials=partials,
        output=output,
        rows=rows,
        output_rows=output_rows,
        buckets=buckets,
        spans=spans,
    )


@contextmanager
def expected_slices(
    engine: Spark,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    work: Work,
    spans: SpanSet,
    *,
    partials_path: str,
) -> Iterator[DataFrame]:
    """Yield the output rows of a few slices of an engine, computed again; they are computed once for all comparisons.

    Args:
        engine: Spark, which reads the source.
        definition: The definition to compute.
        source: The source of the raw rows.
        version: The version of the source.
        work: All work that has results in *spans*.
        spans: The slices.
        partials_path: The table of stored result rows.
    """
    with spoken("computing canaries", table=source.path, version=version):
        again = engine.windows.again(definition, source, version, work, spans, partials_path=partials_path)
        expected = again.persist()
        try:
            yield expected
        finally:
            expected.unpersist()


def compare_slices(
    definition: Definition, expected: DataFrame, rows: DataFrame, *, where: str, examples: int
) -> Comparison:
    """Compare output *rows* of a few slices of an engine with the *expected* ones.

    Args:
        definition: The definition of the rows.
        expected: The rows computed again; they may cover more slices.
        rows: Rows of the output; they may cover more slices.
        where: Predicate of the rows to compare.
        examples: How many differing rows to return.
    """
    with spoken("computing canaries"):
        return compare_results(
            definition, expected.where(where), rows.where(where), examples=examples, names_slices=True
        )


def compare_buckets(
    engine: Spark,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    rows: DataFrame,
    spans: SpanSet,
    *,
    where: str,
    bucket: str,
    examples: int,
) -> Comparison:
    """Compare output *rows* of a few buckets with the reference form over the source at *version*.

    Args:
        engine: Spark, which reads the source.
        definition: The definition of the rows.
        source: The source of the raw rows.
        version: The version of the source.
        rows: Rows of the output.
        spans: The buckets.
        where: Predicate of the buckets' rows.
        bucket: Column with the time of a row.
        examples: How many differing rows to return.
    """
    with spoken("computing canaries", table=source.path, version=version):
        raw = c.read_version(engine.spark, source, version)
        return compare(definition, raw, rows.where(where), spans, spans, examples=examples, bucket=bucket)
