"""What the queries of several engines do alike: measures over groups of raw rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from materializer.core.definition import quoted
from materializer.spark.engines.query import TIME, EngineQuery

MEASURE: Final = "v_"


def aggregated(rows: DataFrame, by: Sequence[str], e: EngineQuery, extra: Sequence[Column] = ()) -> DataFrame:
    """Return measures, ``n``, ``first_t`` and ``last_t`` of groups of raw rows.

    Measures that call a Python aggregate are grouped apart and joined, because Spark refuses these beside its own.

    Args:
        rows: Raw rows.
        by: Names of the columns to group by.
        e: The definition.
        extra: Further aggregates, with their names.

    Shape:
        The columns of *by*, ``v_<measure>``, ``n``, ``first_t``, ``last_t``, those of *extra*. Grain *by*.
    """
    foreign = [p.build for p in e.layout.partials if p.is_foreign]
    names = [quoted(name) for name in by]
    own: list[Column] = []
    apart: list[Column] = []
    for name, sql in e.layout.reference:
        (apart if any(f in sql for f in foreign) else own).append(sf.expr(sql).alias(MEASURE + name))
    counts = [sf.count(sf.lit(1)).alias("n"), sf.min(TIME).alias("first_t"), sf.max(TIME).alias("last_t")]
    grouped = rows.groupBy(*names).agg(*own, *counts, *extra)
    if not apart:
        return grouped
    return same(grouped, rows.groupBy(*names).agg(*apart), [(name, name) for name in by])


def same(left: DataFrame, right: DataFrame, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    """Return *left* with the other columns of *right* where each (left, right) pair of columns agrees, nulls too."""
    renamed = {theirs: f"_r{i}" for i, (_, theirs) in enumerate(pairs)}
    kept = [sf.col(quoted(name)).alias(renamed.get(name, name)) for name in right.columns]
    on = sf.expr("true")
    for i, (mine, _) in enumerate(pairs):
        on = on & sf.col(quoted(mine)).eqNullSafe(sf.col(f"_r{i}"))
    return left.join(right.select(*kept), on).drop(*renamed.values())


def measures(e: EngineQuery) -> list[Column]:
    """Return the measure columns of a result row, in order."""
    return [sf.col(quoted(MEASURE + name)) for name in e.measures]
