"""Buckets as a relation: a query names few spans, and rows are joined with the starts of the wanted buckets in these spans."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from materializer.budget import Budget
from materializer.core.compiled.definition import FROM
from materializer.core.refresh.plan import FEW_SPANS, MAX_SPANS
from materializer.core.spec.table_names import quoted
from materializer.core.time.grid import FixedGrid, Grid
from materializer.core.time.spans import Span, SpanSet
from materializer.lake.extent import Extent
from materializer.lake.keys import start_of

_INT64: Final = Span(-(1 << 63), 1 << 63)
_AT: Final = "materializer at"
_START: Final = "materializer start"
_LAST: Final = "materializer last"
MORE: Final = 1.1
"""How many times the rows of files fewer spans may open; below it, the optimiser's time for more spans is longer."""


def named_spans(spans: SpanSet, extent: Extent | None) -> SpanSet:
    """Return the fewest spans around *spans* that open hardly more rows of files.

    Args:
        spans: The wanted spans.
        extent: The files of the table; None where they are not known.
    """
    if extent is None:
        return spans.at_most(FEW_SPANS)
    most = MORE * extent.estimate(spans).rows
    found = (spans.at_most(limit) for limit in (1, FEW_SPANS))
    return next((s for s in found if extent.estimate(s).rows <= most), spans.at_most(MAX_SPANS))


def only(
    spark: SparkSession, budget: Budget, grid: Grid, frame: DataFrame, start: str, spans: SpanSet, around: SpanSet
) -> DataFrame:
    """Return the rows of *frame* whose buckets are in *spans*.

    Args:
        spark: The session.
        budget: What the driver holds.
        grid: The grid of the buckets.
        frame: Rows in *around*.
        start: SQL of the start of a row's bucket, as an instant.
        spans: The wanted buckets.
        around: Spans around them.
    """
    if spans == around:
        return frame
    others = around - spans
    if _count(grid, others) < _count(grid, spans):
        return SpanParts.of(spark, budget, grid, others.spans).joined(frame, start, "left_anti")
    return SpanParts.of(spark, budget, grid, spans.spans).joined(frame, start, "left_semi")


class SpanParts(Struct, frozen=True):
    """Disjoint spans of whole buckets, as a relation.

    Args:
        frame: Rows of ``FROM``, the start of a part, and the start of a bucket in it or, where these are too many, the limits of
            the part.
        is_listed: Whether the buckets are listed, and rows are joined by equality.
    """

    frame: DataFrame
    is_listed: bool

    @classmethod
    def of(cls, spark: SparkSession, budget: Budget, grid: Grid, parts: Collection[Span]) -> SpanParts:
        """Return some spans as a relation."""
        cut = [(start_of(p), s) for p in parts if (s := p & _INT64)]
        is_listed = _count(grid, parts) <= budget.listed
        if is_listed:
            starts = [_starts(grid, span) for _, span in cut]
            first = np.repeat(np.array([at for at, _ in cut], np.int64), [len(s) for s in starts])
            columns = {FROM: first, _START: np.concatenate([np.empty(0, np.int64), *starts])}
        else:
            limits = [(at, span.start, span.end - 1) for at, span in cut]
            columns = dict(zip((FROM, _START, _LAST), np.array(limits, np.int64).reshape(-1, 3).T, strict=True))
        table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
        return cls(_frame(spark, table), is_listed)

    def joined(self, frame: DataFrame, start: str, how: str) -> DataFrame:
        """Return *frame* joined with the part of each row; *start* is SQL of the start of a row's bucket, as an instant."""
        at, first, last = (quoted(name) for name in (_AT, _START, _LAST))
        on = f"{at} = {first}" if self.is_listed else f"{at} >= {first} AND {at} <= {last}"
        found = frame.withColumn(_AT, sf.expr(start)).join(sf.broadcast(self.frame), sf.expr(on), how)
        return found.drop(_AT, _START, _LAST)


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    if table.num_rows:
        return spark.createDataFrame(table)
    return spark.range(0).select(*[sf.lit(None).cast("bigint").alias(name) for name in table.column_names])


def _count(grid: Grid, spans: Iterable[Span]) -> float:
    return sum(grid.count(s) if s.is_bounded else float("inf") for s in spans)


def _starts(grid: Grid, span: Span) -> np.ndarray:
    """Return the starts of the buckets of a span."""
    if isinstance(grid, FixedGrid):
        return np.arange(span.start, span.end, grid.width, dtype=np.int64)
    starts, at = [], span.start
    while at < span.end:
        starts.append(at)
        at = grid.next(at)
    return np.array(starts, np.int64)
