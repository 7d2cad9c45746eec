"""What a gate does with the rows that an engine computed: look at them, take some out, compute a few buckets again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.engines.work import Work
from materializer.core.time.spans import SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.write.commit import part_of
from materializer.spark.engines.compare import compare_results
from materializer.spark.query import compute as c
from materializer.spark.query.compare import Compared, compare
from materializer.spark.runtime.failures import spoken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from materializer.core.spec.spec import TimeType
    from materializer.spark.run.spark import Computed, Engine


def output_frame(engine: Engine, definition: Definition, computed: Computed, where: str | None) -> DataFrame:
    """Return the output rows that were computed, as a frame; those of *where* only, when given.

    Fetched rows are few: they lie in one partition, where neither a window nor an aggregate has anything to shuffle.
    """
    rows = computed.output
    if isinstance(rows, pa.Table):
        rows = c.frame_of(engine.spark, rows, dict(definition.output_columns)).coalesce(1)
    return rows.where(where) if where else rows


def part(
    engine: Engine,
    computed: Computed,
    spans: SpanSet,
    time_type: TimeType,
    where: Mapping[str, str],
    columns: Mapping[str, tuple[str, bool]],
) -> Computed:
    """Return what was computed for some of its buckets, to be written in place of the whole.

    Args:
        engine: Who computed it, and counts what is done for it.
        computed: The whole; it keeps what is in memory.
        spans: The buckets.
        time_type: Type of time.
        where: Predicate of the buckets' rows, by table.
        columns: Column of the buckets' start, or of their end (and True), by table.
    """
    if isinstance(computed.partials, pa.Table) and isinstance(computed.output, pa.Table):
        column, is_end = columns["partials"]
        partials = part_of(computed.partials, column, time_type, spans, is_end=is_end)
        column, is_end = columns["output"]
        output = part_of(computed.output, column, time_type, spans, is_end=is_end)
        buckets = pc.count_distinct(partials[SLICE]).as_py() if partials.num_rows else 0
        rows, output_rows = partials.num_rows, output.num_rows
    else:
        partials, output = computed.partials.where(where["partials"]), computed.output.where(where["output"])
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
    engine: Engine,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    work: Work,
    spans: SpanSet,
    *,
    partials_path: str,
) -> Iterator[DataFrame]:
    """Yield the output rows of a few slices of an engine, computed again once, however often they are compared.

    Args:
        engine: Reads the source.
        definition: What is computed.
        source: Where raw rows come from.
        version: Of the source.
        work: All that has results in *spans*.
        spans: The slices.
        partials_path: The kept result rows.
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
) -> Compared:
    """Compare output *rows* of a few slices of an engine with the *expected* ones.

    Args:
        definition: What is compared.
        expected: What computing them again gave, of more slices maybe.
        rows: Rows of the output, likewise.
        where: Predicate of the rows of the slices.
        examples: How many differing rows to return.
    """
    with spoken("computing canaries"):
        return compare_results(
            definition, expected.where(where), rows.where(where), examples=examples, names_slices=True
        )


def compare_buckets(
    engine: Engine,
    definition: Definition,
    source: SourceIdentity,
    version: int,
    rows: DataFrame,
    spans: SpanSet,
    *,
    where: str,
    bucket: str,
    examples: int,
) -> Compared:
    """Compare output *rows* of a few buckets with the reference form over the source at *version*.

    Args:
        engine: Reads the source.
        definition: What is compared.
        source: Where raw rows come from.
        version: Of the source.
        rows: Rows of the output.
        spans: The buckets.
        where: Predicate of their rows.
        bucket: Column that places a row in time.
        examples: How many differing rows to return.
    """
    with spoken("computing canaries", table=source.path, version=version):
        raw = c.read_version(engine.spark, source, version)
        return compare(definition, raw, rows.where(where), spans, spans, examples=examples, bucket=bucket)
