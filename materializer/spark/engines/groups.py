"""Measures over groups of raw rows, as the queries of several engines compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from materializer.core.engines.engine_query import TIME, EngineQuery
from materializer.core.spec.table_names import quoted
from materializer.spark.query import compute as c

MEASURE: Final = "v_"
COUNTS: Final = (("n", "count(1)"), ("first_t", f"min({TIME})"), ("last_t", f"max({TIME})"))
"""The number of rows of a group, and its first and last time."""


Columns = Sequence[tuple[str, str]]


def aggregated(rows: DataFrame, by: Sequence[str], e: EngineQuery, extra: Columns = ()) -> DataFrame:
    """Return measures in their reference form, ``n``, ``first_t`` and ``last_t`` of groups of raw rows.

    Args:
        rows: Raw rows.
        by: Names of the columns to group by.
        e: The definition.
        extra: Further (name, aggregate) columns.

    Shape:
        The columns of *by*, ``v_<measure>``, ``n``, ``first_t``, ``last_t``, those of *extra*. Grain *by*.
    """
    measured = [(MEASURE + name, sql) for name, sql in e.layout.reference]
    return grouped(rows, by, [*measured, *COUNTS, *extra], e)


def grouped(rows: DataFrame, by: Sequence[str], columns: Columns, e: EngineQuery) -> DataFrame:
    """Return the (name, aggregate) *columns* of rows grouped by *by*."""
    foreign = {p.build for p in e.layout.partials if p.is_foreign}
    return c.aggregated(rows.groupBy(*[sf.col(quoted(name)) for name in by]), by, columns, foreign)


def same(left: DataFrame, right: DataFrame, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    """Return *left* with the other columns of *right* where each (left, right) pair of columns is equal; nulls are equal."""
    renamed = {theirs: f"_r{i}" for i, (_, theirs) in enumerate(pairs)}
    stored = [sf.col(quoted(name)).alias(renamed.get(name, name)) for name in right.columns]
    on = sf.expr("true")
    for i, (mine, _) in enumerate(pairs):
        on = on & sf.col(quoted(mine)).eqNullSafe(sf.col(f"_r{i}"))
    return left.join(right.select(*stored), on).drop(*renamed.values())


def measures(e: EngineQuery) -> list[Column]:
    """Return the measure columns of a result row, in order."""
    return [sf.col(quoted(MEASURE + name)) for name in e.measures]
