"""Arrow tables in the types that this library returns, with which other libraries can compute."""

from __future__ import annotations

import pyarrow as pa


def plain(rows: pa.Table) -> pa.Table:
    """Return *rows* with plain strings and bytes instead of views and dictionaries; Arrow and Spark can use plain types."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_string_view(field.type) or pa.types.is_dictionary(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.string()))
        elif pa.types.is_binary_view(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.binary()))
    return rows
