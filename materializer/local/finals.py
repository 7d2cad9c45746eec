"""The last step of a computation: the rows of the partials, and the output rows that are made of them."""

# ruff: noqa: PLC0415 - most commands compute nothing

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from materializer.core.compiled.bucket_sql import clock_of_end, ends_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.local.kinds import Kind, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.core.time.spans import SpanSet
    from materializer.local.connection import Connection
    from materializer.local.forms import Forms

_PARTS: Final = "mz_partials"
FEW_SPANS: Final = 8
"""Spans around the rows of a query, for which the text of its buckets is made: in a time zone it grows with them."""


def compiled_text(sql: str, columns: dict[str, Kind]) -> str:
    """Return SQL of DuckDB for an expression of Spark over some columns."""
    from materializer.local.compiled_before import compiled
    from materializer.local.scope import Scope

    return compiled(sql, Scope(columns)).sql


def finalise(connection: Connection, definition: Definition, forms: Forms, parts: str, spans: SpanSet) -> pa.Table:
    """Return the rows of the partials and of the output side by side, ordered by bucket and keys.

    Args:
        connection: What computes them.
        definition: The definition.
        forms: Its local forms.
        parts: SQL of the partials.
        spans: Spans around their buckets.
    """
    from materializer.core.compiled.queries import beside
    from materializer.core.query.nodes import Named
    from materializer.lake.arrow import plain
    from materializer.local.clocks import CLOCK_COLUMNS, with_clock
    from materializer.local.render import rendered

    spec, near, columns = definition.spec, spans.at_most(FEW_SPANS), definition.partial_columns
    typed = (f"CAST({quoted(n)} AS {kind.duck}) AS {quoted(n)}" for n, kind in forms.partials.items())
    parts = f"SELECT {', '.join(typed)} FROM ({parts})"
    clock = clock_of_end(definition.grid, SLICE, near) if spec.bucket_end or spec.bucket_time else None
    if clock is not None:
        micros = compiled_text(clock.micros, {SLICE: forms.partials[SLICE]})
        parts = with_clock(connection, "clock_of_ends", parts, clock, micros)
        columns = (*columns, *((name, kind.text) for name, kind in CLOCK_COLUMNS.items()))
    query = beside(definition, Named(_PARTS, columns), ends_sql(spec, definition.grid, SLICE, near, clock))
    sql = connection.prepared(rendered(query, {_PARTS: parts}))
    return plain(connection.query(f"{sql} ORDER BY {', '.join(map(quoted, definition.group_columns))}"))
