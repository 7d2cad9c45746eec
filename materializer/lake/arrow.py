"""Arrow tables as the library returns them, in types that others can compute with."""

from __future__ import annotations

import pyarrow as pa


def plain(rows: pa.Table) -> pa.Table:
    """Return *rows* with views and dictionaries as plain texts and bytes, which Arrow computes with and Spark takes."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_string_view(field.type) or pa.types.is_dictionary(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.string()))
        elif pa.types.is_binary_view(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.binary()))
    return rows
