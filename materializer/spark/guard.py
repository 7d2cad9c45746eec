"""How many raw rows stored partials or results were made from, held against those that a recompute counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from materializer.core.definition import SLICE, Definition
from materializer.core.spans import SpanSet
from materializer.spark import compute as c
from materializer.spark.bucket_sql import instant_of_sql, spans_sql

if TYPE_CHECKING:
    from materializer.core.engines.counting import Counted

_N: Final = "n"


@dataclass(frozen=True, slots=True)
class Fewer:
    """Buckets that a recompute would make from too few raw rows.

    Args:
        buckets: How many there are.
        rows: Rows that are missing in all of them, more than were seen to go.
        first: Start of the first one.
        last: Start of the last one.
        was: Rows that the stored partials of the first one were made from.
        now: Rows that it has now.
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
    if isinstance(computed, pa.Table):
        types = dict(definition.partial_columns)
        computed = c.frame_of(spark, computed.select([SLICE, count]), {SLICE: types[SLICE], count: types[count]})
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
    return Fewer(**{name: int(found[name]) for name in Fewer.__slots__}) if found["buckets"] else None


def counted_rows(
    spark: SparkSession, definition: Definition, kept: DataFrame, computed: pa.Table | DataFrame
) -> list[Counted]:
    """Return the rows that an engine's results count, by the slice in which they begin.

    Args:
        spark: The session.
        definition: An engine's.
        kept: The stored results of what is replaced.
        computed: Those computed anew.
    """
    from materializer.core.engines.counting import Counted

    time_type = definition.time_type
    if isinstance(computed, pa.Table):
        types = dict(definition.partial_columns)
        computed = c.frame_of(spark, computed.select([SLICE, _N]), {SLICE: types[SLICE], _N: types[_N]})
    both = kept.select(SLICE, sf.col(_N).alias("was"), sf.lit(0).alias("now")).unionByName(
        computed.select(SLICE, sf.lit(0).alias("was"), sf.col(_N).alias("now"))
    )
    found = both.groupBy(sf.expr(instant_of_sql(SLICE, time_type)).alias("at")).agg(
        sf.sum("was").alias("was"), sf.sum("now").alias("now")
    )
    rows = c.to_arrow(found).to_pylist()
    return [Counted(row["at"], row["was"], row["now"]) for row in rows]
