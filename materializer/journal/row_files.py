"""The rows of the journal as Arrow, and the commits that make its table, append a file of them, or replace all."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from arro3.core import Array, Schema, Table
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake

from materializer.journal.codec import Row
from materializer.lake import places

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
_NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def create(path: str, properties: Mapping[str, str]) -> None:
    """Make the table; raises an error of the library if it is there."""
    DeltaTable.create(
        path,
        SCHEMA,
        mode="error",
        name="materializer_journal",
        configuration=properties,
        commit_properties=CommitProperties(
            max_commit_retries=0
        ),  # with retries a loser would create it again, as version 1
        post_commithook_properties=_NO_HOOKS,
        storage_options=places.options_of(path),
    )


def write(table: DeltaTable, rows: Sequence[Row], version: int, mode: Any, note: str) -> None:
    """Write the rows of one commit by the library; raises its errors."""
    write_deltalake(
        table,
        table_of(rows, version),
        mode=mode,
        commit_properties=CommitProperties({"userMetadata": note}, max_commit_retries=0),
        post_commithook_properties=_NO_HOOKS,
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
