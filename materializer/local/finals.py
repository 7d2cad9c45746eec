"""The last step of a computation: the rows of the partials, and the output rows that are made of them."""

# ruff: noqa: PLC0415 - most commands compute nothing

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from materializer.core.compiled.bucket_sql import clock_of_end, ends_sql
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.local.kinds import Kind, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.core.time.spans import SpanSet
    from materializer.local.connection import Connection
    from materializer.local.forms import Forms

_PASSES: Final = "mz_passes"
_OUTPUT: Final = "mz_f_"
FEW_SPANS: Final = 8
"""Spans around the rows of a query, for which the text of its buckets is made: in a time zone it grows with them."""


def compiled_text(sql: str, columns: dict[str, Kind]) -> str:
    """Return SQL of DuckDB for an expression of Spark over some columns."""
    from materializer.local.compiled_before import compiled
    from materializer.local.scope import Scope

    return compiled(sql, Scope(columns)).sql


def finalise(
    connection: Connection, definition: Definition, forms: Forms, parts: str, spans: SpanSet
) -> tuple[pa.Table, pa.Table]:
    """Return the rows of the partials and of the output, ordered by bucket and keys.

    Args:
        connection: What computes them.
        definition: The definition.
        forms: Its local forms.
        parts: SQL of the partials.
        spans: Spans around their buckets.
    """
    import pyarrow as pa

    from materializer.lake.arrow import plain
    from materializer.local.clocks import CLOCK_COLUMNS, with_clock

    spec = definition.spec
    stored = {SLICE: forms.partials[SLICE]}
    groups = {spec.bucket_start: quoted(SLICE)} if spec.bucket_start else {}
    near = spans.at_most(FEW_SPANS)
    clock = clock_of_end(definition.grid, SLICE, near) if spec.bucket_end or spec.bucket_time else None
    if clock is not None:
        parts = with_clock(connection, "clock_of_ends", parts, clock, compiled_text(clock.micros, stored))
    ends = ends_sql(spec, definition.grid, SLICE, near, clock)
    groups |= {name: compiled_text(sql, stored | CLOCK_COLUMNS) for name, sql in ends.items()}
    groups |= {key.name: quoted(key_column(key.name)) for key in spec.keys}
    taken = {name.lower() for name in forms.partials}
    named = "".join(f", {sql} AS {quoted(n)}" for n, sql in groups.items() if n.lower() not in taken)
    finals = groups | forms.finals
    typed = [f"CAST({quoted(n)} AS {k.duck}) AS {quoted(n)}" for n, k in forms.partials.items()]
    as_stored = {quoted(name): name for name in forms.partials}  # the output has many partials as they are
    outputs = [
        f"{finals[name]} AS {quoted(_OUTPUT + str(i))}"
        for i, name in enumerate(spec.columns)
        if finals[name] not in as_stored
    ]
    sql = (
        f"SELECT {', '.join([*typed, *outputs])}, {forms.having or 'true'} AS {_PASSES} "
        f"FROM (SELECT *{named} FROM ({parts})) ORDER BY {', '.join(map(quoted, definition.group_columns))}"
    )
    table = plain(connection.query(sql))
    through = table.filter(table[_PASSES]) if forms.having else table
    found = [as_stored.get(finals[name], _OUTPUT + str(i)) for i, name in enumerate(spec.columns)]
    output = pa.table([through[name] for name in found], list(spec.columns))
    return table.select(list(forms.partials)), output
