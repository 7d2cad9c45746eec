"""Partials and output in one fetch: side by side in one frame, each value once, and apart again in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from materializer.core.compiled import queries
from materializer.core.compiled.by_hash import TIED
from materializer.core.compiled.definition import Definition
from materializer.core.compiled.queries import FINAL, PASSES
from materializer.core.query.nodes import Named
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import SpanSet
from materializer.spark.query.compute import METRICS, ends_of
from materializer.spark.query.render import rendered


def combined(
    definition: Definition, partials: DataFrame, spans: SpanSet, aggregates: Sequence[str] = ()
) -> tuple[DataFrame, Observation | None]:
    """Return partials and output side by side, so that one fetch returns both; see :func:`in_order`.

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
    ends = ends_of(definition, spans)
    outputs = [name for name, _ in definition.output_columns]
    stored = [name for name, _ in definition.partial_columns]
    is_taken = {name.lower() for name in (*stored, PASSES)} & {name.lower() for name in outputs}
    is_observed = bool(aggregates) and not definition.layout.having and not is_taken
    more = [TIED] if TIED in partials.columns else []
    rows = Named("partials", (*definition.partial_columns, *((name, "boolean") for name in more)))
    if not is_observed:
        return rendered(queries.beside(definition, rows, ends, *more), {"partials": partials}), None
    wide = queries.named(definition, rows, ends).select(
        *((name, quoted(name)) for name in stored),
        *queries.outputs(definition, ends),
        *((name, quoted(name)) for name in more),
    )
    observation = Observation(f"checks_{uuid4().hex}")
    metrics = sf.expr(f"struct({', '.join(f'{sql} AS m_{i}' for i, sql in enumerate(aggregates))})")
    fetched = [*stored, *[name for i, name in enumerate(outputs) if i not in queries.twice(definition)], *more]
    observed = rendered(wide, {"partials": partials}).observe(observation, metrics.alias(METRICS))
    return observed.select(*[sf.col(quoted(n)) for n in fetched]), observation


def in_order(definition: Definition, table: pa.Table) -> pa.Table:
    """Return a fetched combined frame by bucket and keys, with the names for :func:`~materializer.lake.computed.apart`."""
    keys = [n for n in definition.group_columns if _is_sortable(table.schema.field(n).type)]
    stored, twice = [name for name, _ in definition.partial_columns], queries.twice(definition)
    finals = [FINAL + str(i) for i in range(len(definition.output_columns)) if i not in twice]
    table = table.rename_columns([*stored, *finals, *([PASSES] if definition.layout.having else [])])
    return table.sort_by([(n, "ascending") for n in keys])


def _is_sortable(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_primitive(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_decimal(kind)
    )
