"""How many raw rows stored partials or results were made from, held against those that a recompute counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as sf

from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.time.spans import SpanSet
from materializer.spark.query import compute as c
from materializer.spark.query.bucket_sql import instant_of_sql, spans_sql

_N: Final = "n"


@dataclass(frozen=True, slots=True)
class Fewer:
    """Buckets, or slices of an engine's results, that a recompute would make from too few raw rows.

    Args:
        buckets: How many have fewer rows.
        rows: Rows that are missing in all, more than were seen to go.
        first: Start of the first one.
        last: Start of the last one; of an engine the one up to which most are missing.
        was: Rows that the first one was made from; of an engine the rows counted by all results up to the last.
        now: What was so becomes.
    """

    buckets: int
    rows: int
    first: int
    last: int
    was: int
    now: int


def fewer_rows(
    spark: SparkSession,
    definition: Definition,
    kept: DataFrame,
    computed: pa.Table | DataFrame,
    gone: Mapping[int, SpanSet],
) -> Fewer | None:
    """Return where *computed* counts fewer rows than *kept* less those that were seen to go; None where nowhere.

    Args:
        spark: The session.
        definition: Tells the column that counts rows.
        kept: At least the stored partials of the spans.
        computed: New partials of at least the spans.
        gone: Buckets by how many rows were seen to go from each at most.
    """
    count, time_type = str(definition.layout.row_count), definition.time_type
    every = spans_sql(SLICE, SpanSet.union(s for spans in gone.values() for s in spans), time_type)
    allowed = " ".join(f"WHEN {spans_sql(SLICE, spans, time_type)} THEN {rows}L" for rows, spans in gone.items())
    computed = _frame(spark, definition, computed, count)
    was = kept.where(every).groupBy(SLICE).agg(sf.sum(count).alias("was"))
    now = computed.groupBy(SLICE).agg(sf.sum(count).alias("now"))
    found = (
        was.join(now, SLICE, "left")
        .select(
            sf.expr(instant_of_sql(SLICE, time_type)).alias("at"),
            "was",
            sf.expr("coalesce(now, 0L)").alias("now"),
            sf.expr(f"CASE {allowed} END").alias("gone"),
        )
        .where("now + gone < was")
        .agg(
            sf.count(sf.lit(1)).alias("buckets"),
            sf.sum(sf.expr("was - gone - now")).alias("rows"),
            sf.min("at").alias("first"),
            sf.max("at").alias("last"),
            sf.min_by("was", "at").alias("was"),
            sf.min_by("now", "at").alias("now"),
        )
        .collect()[0]
    )
    return _told(found)


def fewer_counted(
    spark: SparkSession, definition: Definition, kept: DataFrame, computed: pa.Table | DataFrame, gone: int
) -> Fewer | None:
    """Return where an engine's results that begin before an instant count fewer rows in all than before; None where nowhere.

    Args:
        spark: The session.
        definition: An engine's.
        kept: The stored results of what is replaced.
        computed: Those computed anew.
        gone: Counts that may be missing: of rows that were seen to go.
    """
    computed = _frame(spark, definition, computed, _N)
    both = kept.select(SLICE, sf.col(_N).alias("was"), sf.lit(0).alias("now")).unionByName(
        computed.select(SLICE, sf.lit(0).alias("was"), sf.col(_N).alias("now"))
    )
    slices = both.groupBy(sf.expr(instant_of_sql(SLICE, definition.time_type)).alias("at")).agg(
        sf.sum("was").alias("was"), sf.sum("now").alias("now")
    )
    upto = Window.orderBy("at").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    in_all = slices.select(
        "at",
        sf.sum("was").over(upto).alias("was"),
        sf.sum("now").over(upto).alias("now"),
        sf.sum(sf.expr("int(now < was)")).over(upto).alias("buckets"),
    )
    worst = sf.expr("struct(was - now AS rows, -at AS before)")  # where most are missing, the first of several
    found = (
        in_all.where(sf.expr("was - now") > gone)
        .agg(
            sf.max_by("buckets", worst).alias("buckets"),
            (sf.max(sf.expr("was - now")) - gone).alias("rows"),
            sf.min("at").alias("first"),
            sf.max_by("at", worst).alias("last"),
            sf.max_by("was", worst).alias("was"),
            sf.max_by("now", worst).alias("now"),
        )
        .collect()[0]
    )
    return _told(found)


def _frame(spark: SparkSession, definition: Definition, computed: pa.Table | DataFrame, count: str) -> DataFrame:
    if not isinstance(computed, pa.Table):
        return computed
    types = dict(definition.partial_columns)
    return c.frame_of(spark, computed.select([SLICE, count]), {SLICE: types[SLICE], count: types[count]})


def _told(found: Row) -> Fewer | None:
    return Fewer(**{name: int(found[name]) for name in Fewer.__slots__}) if found["buckets"] else None
