"""Compare how many raw rows stored partials or results were made from with how many a recompute counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as sf

from materializer.budget import Budget
from materializer.core.compiled.bucket_sql import instant_of_sql
from materializer.core.compiled.definition import FROM, SLICE, Definition
from materializer.core.time.spans import SpanSet
from materializer.lake.computed import Computed, Fewer
from materializer.lake.keys import start_of
from materializer.spark.query import compute as c
from materializer.spark.query.buckets import SpanParts

_N: Final = "n"


def fewer_rows(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    stored: DataFrame,
    computed: Computed,
    gone: Mapping[int, SpanSet],
) -> Fewer | None:
    """Return where *computed* counts fewer rows than *stored* less the deletes that capture has seen; None if nowhere.

    Args:
        spark: The session.
        budget: What the driver holds.
        definition: The definition, with the column that counts rows.
        stored: The stored partials of the spans, or more.
        computed: The computation of the spans, or more.
        gone: Buckets by the maximum number of deleted rows that capture has seen in each.
    """
    count, time_type = str(definition.layout.row_count), definition.time_type
    parts = sorted((span, rows) for rows, spans in gone.items() for span in spans)
    known = pa.table({FROM: [start_of(span) for span, _ in parts], "gone": [rows for _, rows in parts]})
    allowed = c.frame_of(spark, known, {FROM: "bigint", "gone": "bigint"})
    placed = SpanParts.of(spark, budget, definition.grid, [span for span, _ in parts]).joined(
        stored, c.slice_of(definition), "inner"
    )
    counted = _frame(spark, definition, computed, count)
    was = placed.join(sf.broadcast(allowed), FROM).groupBy(SLICE, "gone").agg(sf.sum(count).alias("was"))
    now = counted.groupBy(SLICE).agg(sf.sum(count).alias("now"))
    found = (
        was.join(now, SLICE, "left")
        .select(
            sf.expr(instant_of_sql(SLICE, time_type)).alias("at"),
            "was",
            sf.expr("coalesce(now, 0L)").alias("now"),
            "gone",
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
    spark: SparkSession, definition: Definition, stored: DataFrame, computed: Computed, gone: int
) -> Fewer | None:
    """Return where an engine's results up to some slice count fewer rows in all than the stored ones; None if nowhere.

    Args:
        spark: The session.
        definition: The definition of the engine's aggregate.
        stored: The stored results that are replaced.
        computed: The computation of the new results.
        gone: How many counts may be missing, because capture has seen the deletes of their rows.
    """
    counted = _frame(spark, definition, computed, _N)
    both = stored.select(SLICE, sf.col(_N).alias("was"), sf.lit(0).alias("now")).unionByName(
        counted.select(SLICE, sf.lit(0).alias("was"), sf.col(_N).alias("now"))
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
    worst = sf.expr("struct(was - now AS rows, -at AS before)")  # most missing rows; of several, the first
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


def _frame(spark: SparkSession, definition: Definition, computed: Computed, count: str) -> DataFrame:
    rows: Any = computed.partials
    if not computed.is_fetched:
        frame: DataFrame = rows
        return frame
    types = dict(definition.partial_columns)
    return c.frame_of(spark, rows.select([SLICE, count]), {SLICE: types[SLICE], count: types[count]})


def _told(found: Row) -> Fewer | None:
    return Fewer(**{name: int(found[name]) for name in Fewer.__struct_fields__}) if found["buckets"] else None
