"""Rows that were given by hand, as Arrow and as a Delta table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import Schema, write_deltalake

from materializer.errors import NOTHING
from materializer.lake.arrow import plain
from materializer.lake.failures import translated
from materializer.lake.types import schema_of


def given_table(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table; a column that a row does not have is null.

    Args:
        columns: (name, Spark type) of each column.
        rows: Values by column.
    """
    shape = pa.schema(Schema.from_json(schema_of(columns)).to_arrow())
    return plain(pa.Table.from_arrays([pa.array([r.get(f.name) for r in rows], f.type) for f in shape], schema=shape))


def write_given(path: str, columns: Sequence[tuple[str, str]], rows: pa.Table) -> None:
    """Write rows as a new Delta table, in one commit of its change feed."""
    feed = {"delta.enableChangeDataFeed": "true"}
    shape = pa.schema(Schema.from_json(schema_of(columns)).to_arrow())
    with translated(path, "writing", wrote=NOTHING):
        write_deltalake(path, rows.cast(shape), configuration=feed)
