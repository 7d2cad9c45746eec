"""Partials that Spark aggregates by hash, and those of few groups from structs; see :mod:`materializer.core.compiled.by_hash`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.group import GroupedData

from materializer.core.compiled.bucket_sql import bucket_start_sql, instant_of_sql
from materializer.core.compiled.by_hash import OFFSET, TIED, ByHash
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import SpanSet


def partials_by_hash(definition: Definition, form: ByHash, rows: DataFrame, spans: SpanSet) -> DataFrame:
    """Return the partials of *rows*, which lie inside *spans*, in a form that Spark aggregates by hash.

    Shape:
        As :func:`materializer.spark.query.compute.build`, and :data:`~materializer.core.compiled.by_hash.TIED`: whether the partials of a group are not right.
    """
    time_type, time = definition.time_type, quoted(definition.spec.time_column)
    start = quoted(_scratch(SLICE))
    offset = f"{instant_of_sql(time, time_type)} - {instant_of_sql(start, time_type)}"
    placed = _placed(definition, rows, spans).withColumn(OFFSET, sf.expr(offset))
    built = _grouped(definition, placed).agg(*[sf.expr(sql).alias(name) for name, sql in form.aggregates])
    columns = [*form.partials, (TIED, form.tied)]
    return built.select(*map(quoted, definition.group_columns), *[sf.expr(sql).alias(name) for name, sql in columns])


def partials_of_groups(definition: Definition, rows: DataFrame, spans: SpanSet, groups: DataFrame) -> DataFrame:
    """Return what :func:`materializer.spark.query.compute.build` returns, of few groups.

    Args:
        definition: The definition to compute.
        rows: The source rows that count.
        spans: Spans that contain the times of the rows.
        groups: The groups, by the names of the group columns.
    """
    names = {n: f"{_scratch(n)} wanted" for n in definition.group_columns}
    wanted = sf.broadcast(groups.select(*[sf.col(quoted(n)).alias(name) for n, name in names.items()]))
    on = sf.expr(" AND ".join(f"{quoted(_scratch(n))} <=> {quoted(name)}" for n, name in names.items()))
    found = _placed(definition, rows, spans).join(wanted, on, "left_semi")
    return _grouped(definition, found).agg(*[sf.expr(p.build).alias(p.name) for p in definition.layout.partials])


def _scratch(name: str) -> str:
    """Return a name for a group column beside the columns of a source, which may have a column that is called like it."""
    return f"materializer {name}"


def _placed(definition: Definition, rows: DataFrame, spans: SpanSet) -> DataFrame:
    """Return rows with the columns of their group, under scratch names."""
    spec = definition.spec
    found = {SLICE: bucket_start_sql(definition.grid, quoted(spec.time_column), spans)}
    found |= {key_column(key.name): key.sql for key in spec.keys}
    return rows.select("*", *[sf.expr(sql).alias(_scratch(name)) for name, sql in found.items()])


def _grouped(definition: Definition, placed: DataFrame) -> GroupedData:
    return placed.groupBy(*[sf.col(quoted(_scratch(n))).alias(n) for n in definition.group_columns])
