"""The keys of changed rows where a key is an expression, computed in this process as a refresh computes them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from materializer.core.compiled.definition import Definition
from materializer.core.sql.tokens import fragment_of
from materializer.local.connection import opened
from materializer.local.forms import keys_of
from materializer.local.kinds import NotLocal, bugs_left_to_spark, quoted

_ROW: Final = "mz_row"


def columns_of(definition: Definition) -> tuple[str, ...]:
    """Return the source columns that the keys of a definition are made of."""
    names = {name.lower(): name for name in definition.spec.reads}
    used = {c.name for key in definition.spec.keys for c in fragment_of(key.sql, "key").tree().find_all(exp.Column)}
    return tuple(sorted({names[name.lower()] for name in used if name.lower() in names}))


def evaluated(definition: Definition, rows: pa.Table) -> pa.Table | None:
    """Return the keys of source rows, in their order; None where this process cannot tell them.

    Args:
        definition: The definition.
        rows: The source columns that the keys read.
    """
    try:
        with bugs_left_to_spark(), opened() as connection:
            forms = keys_of(definition, rows.column_names)
            keys = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in forms.items())
            connection.register("changed", rows.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64())))
            return connection.query(f"SELECT {_ROW}, {keys} FROM changed").sort_by(_ROW).drop_columns([_ROW])
    except NotLocal:
        return None
