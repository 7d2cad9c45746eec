"""Arrow tables in the types that this library returns, with which other libraries can compute, and in order."""

# ruff: noqa: PLC0415 - modules that only say what will be read import this one

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def plain(rows: pa.Table) -> pa.Table:
    """Return *rows* with plain strings and bytes instead of views and dictionaries; Arrow and Spark can use plain types."""
    import pyarrow as pa

    for i, field in enumerate(rows.schema):
        if pa.types.is_string_view(field.type) or pa.types.is_dictionary(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.string()))
        elif pa.types.is_binary_view(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.binary()))
    return rows


def in_order(rows: pa.Table, names: Iterable[str]) -> pa.Table:
    """Return *rows* in ascending order of some columns, nulls last; ``Table.sort_by`` loads a second engine for it."""
    import pyarrow.compute as pc

    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names]))


def mask(found: Any) -> pa.BooleanArray:
    """Return a numpy array of bools as one of Arrow's; ``pa.array`` loads masked arrays for it."""
    import numpy as np
    import pyarrow as pa

    bits = np.packbits(np.asarray(found, dtype=bool), bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(found), [None, pa.py_buffer(bits)])


def numbers(count: int) -> pa.Int64Array:
    """Return the numbers from zero to *count*; ``pa.array`` makes a Python object of each."""
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(np.arange(count, dtype=np.int64))])
