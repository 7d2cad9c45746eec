"""What a computation in Spark gives: rows that are fetched, or rows that stay in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.refresh.plan import Plan
from materializer.lake.computed import Computed
from materializer.spark.query import compute as c
from materializer.spark.query import fetch


def fetched(definition: Definition, frame: DataFrame, plan: Plan, group: str, metrics: Sequence[str]) -> Computed:
    """Fetch the rows of a plan; Spark evaluates the SQL aggregates *metrics* over its output on the way where it can."""
    frame, observation = fetch.combined(definition, frame, plan.replaced, metrics)
    table = c.to_arrow(frame)
    return of_table(definition, table, group, {} if observation is None else c.metrics_of(observation, metrics))


def of_table(definition: Definition, table: pa.Table, group: str, metrics: Mapping[str, Any]) -> Computed:
    """Return what a fetched combined frame has."""
    return Computed.beside(definition, fetch.in_order(definition, table), group=group, metrics=metrics)


def cached(definition: Definition, frame: DataFrame, plan: Plan, group: str) -> Computed:
    """Compute the rows of a plan and leave them in Spark."""
    frame = frame.persist()
    try:
        rows, buckets = sf.count(sf.lit(1)).alias("rows"), sf.count_distinct(SLICE).alias("buckets")
        counts = frame.agg(rows, buckets).collect()[0]
        output = c.finalise(definition, frame, plan.replaced)
        output_rows = output.count() if definition.layout.having else counts["rows"]
    except BaseException:
        frame.unpersist()
        raise
    return Computed(frame, output, counts["rows"], output_rows, counts["buckets"], 0, group, [frame], is_fetched=False)
