"""Partials and output in one fetch: side by side in one frame, each value once, and apart again in the driver."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from materializer.core.compiled.by_hash import TIED
from materializer.core.compiled.definition import Definition
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import SpanSet
from materializer.spark.query.compute import FINAL, METRICS, PASSES, named, output_expressions, stored_expressions

_STORED: Final = re.compile(r"\(?(?:`(?P<quoted>[^`]+)`|(?P<plain>\w+)(?:\.(?P<field>\w+))?)\)?")
"""The text of an output that is a partial column, or a field of one."""


def combined(
    definition: Definition, partials: DataFrame, spans: SpanSet, aggregates: Sequence[str] = ()
) -> tuple[DataFrame, Observation | None]:
    """Return partials and output side by side, so that one fetch returns both; :func:`split` separates them.

    Outputs that are a partial column, or a field of one, are not fetched a second time.

    Args:
        definition: The definition of the partials.
        partials: The partials.
        spans: The spans of their buckets.
        aggregates: SQL aggregates over the output columns, without window functions and distinct values, that the query
            evaluates on its way.

    Returns:
        The frame, and the observation of the aggregates for :func:`metrics_of`. The observation is None without aggregates,
        and where it is impossible: HAVING leaves out some of the rows, or an output column has the name of an internal one.
    """
    expressions = output_expressions(definition, spans)
    stored = [name for name, _ in definition.partial_columns]
    is_taken = {name.lower() for name in (*stored, PASSES)} & {name.lower() for name, _ in expressions}
    is_observed = bool(aggregates) and not definition.layout.having and not is_taken
    finals = [(name if is_observed else FINAL + str(i), sql) for i, (name, sql) in enumerate(expressions)]
    twice = _twice(definition)
    passes = {PASSES: definition.layout.having} if definition.layout.having else {}
    others = [TIED] if TIED in partials.columns else []
    fetched = [*stored, *[name for i, (name, _) in enumerate(finals) if i not in twice], *passes, *others]
    if not is_observed:
        columns = [sf.expr(sql).alias(name) for i, (name, sql) in enumerate(finals) if i not in twice]
        columns += [sf.expr(sql).alias(name) for name, sql in passes.items()]
        rows = named(definition, partials, spans)
        return rows.select(*map(sf.col, stored), *columns, *[sf.col(quoted(name)) for name in others]), None
    rows = named(definition, partials, spans).select(
        *map(sf.col, stored),
        *[sf.expr(sql).alias(name) for name, sql in finals],
        *[sf.col(quoted(name)) for name in others],
    )
    observation = Observation(f"checks_{uuid4().hex}")
    metrics = sf.expr(f"struct({', '.join(f'{sql} AS m_{i}' for i, sql in enumerate(aggregates))})")
    return rows.observe(observation, metrics.alias(METRICS)).select(*[sf.col(quoted(n)) for n in fetched]), observation


def split(definition: Definition, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return (partials, output) of a fetched combined frame, both ordered by bucket and keys."""
    keys = [n for n in definition.group_columns if _is_sortable(table.schema.field(n).type)]
    twice, stored = _twice(definition), [name for name, _ in definition.partial_columns]
    finals = [FINAL + str(i) for i in range(len(definition.output_columns)) if i not in twice]
    table = table.rename_columns([*stored, *finals, *([PASSES] if definition.layout.having else [])])
    table = table.sort_by([(n, "ascending") for n in keys])
    through = table.filter(table[PASSES]) if definition.layout.having else table
    output = {}
    for i, (name, _) in enumerate(definition.output_columns):
        column, field = twice.get(i, (FINAL + str(i), ""))
        output[name] = pc.struct_field(through[column], field) if field else through[column]
    return table.select(stored), pa.table(output)


def _twice(definition: Definition) -> Mapping[int, tuple[str, str]]:
    """Return which outputs are stored partials, too: by number, the column and the field in it ("" for all of the column)."""
    types, texts = dict(definition.partial_columns), dict(stored_expressions(definition))
    found = {}
    for i, (name, kind) in enumerate(definition.output_columns):
        match = _STORED.fullmatch(texts.get(name, ""))
        column, field = (match["quoted"] or match["plain"], match["field"] or "") if match else ("", "")
        if types.get(column) == kind if not field else f"{field}:{kind}" in _fields(types.get(column, "")):
            found[i] = column, field
    return found


def _fields(kind: str) -> Collection[str]:
    """Return the fields of a struct as Spark writes them, where none has fields of its own.

    Examples:
        >>> _fields("struct<y:timestamp,v:decimal(18,2)>")
        ['y:timestamp', 'v:decimal(18,2)']
        >>> _fields("struct<v:struct<a:int>>"), _fields("double")
        ((), ())
    """
    inside = kind.removeprefix("struct<").removesuffix(">")
    return () if inside == kind or set("<>") & set(inside) else re.split(r",(?!\d+\))", inside)


def _is_sortable(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_primitive(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_decimal(kind)
    )
