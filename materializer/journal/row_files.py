"""The rows of the journal as Arrow, and the commit that appends a file of them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from arro3.core import Array, Schema, Table

from materializer.journal.codec import Row

SCHEMA: Final = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("format", pa.int32(), nullable=False),
        pa.field("aggregate", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("at", pa.string(), nullable=False),
        pa.field("payload", pa.string(), nullable=False),
    ]
)


def append_of(name: str, size: int, rows: int, version: int, note: str) -> bytes:
    """Return the content of a commit that adds one file of rows, as the library writes it."""
    now = int(time.time() * 1000)
    stats = {
        "numRecords": rows,
        "minValues": {"version": version},
        "maxValues": {"version": version},
        "nullCount": {"version": 0},
    }
    add = {"path": name, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": True}
    info = {"timestamp": now, "operation": "WRITE", "operationParameters": {"mode": "Append"}, "userMetadata": note}
    actions: list[dict[str, Any]] = [{"commitInfo": info}, {"add": add | {"stats": json.dumps(stats)}}]
    return "\n".join(json.dumps(action) for action in actions).encode()


def file_of(rows: Sequence[Row], version: int) -> bytes:
    """Return the rows of one commit as a Parquet file."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - what only makes a table loads less

    sink = pa.BufferOutputStream()
    pq.write_table(table_of(rows, version), sink, compression="snappy")
    return bytes(sink.getvalue())


def table_of(rows: Sequence[Row], version: int) -> pa.Table:
    """Return the rows of one commit, each with its version and its position."""
    columns: list[list[Any]] = [
        [version] * len(rows),
        list(range(len(rows))),
        [r.format for r in rows],
        [r.aggregate for r in rows],
        [r.kind for r in rows],
        [r.at for r in rows],
        [r.payload for r in rows],
    ]
    schema = Schema.from_arrow(SCHEMA)
    arrays = [Array(column, type=schema.field(at).type) for at, column in enumerate(columns)]
    made = Table.from_arrays(arrays, schema=schema)
    return pa.RecordBatchReader.from_stream(made).read_all()  # a list of Python's would let pyarrow import pandas
