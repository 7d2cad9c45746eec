"""Copy one version of a table of ours into another table, without a JVM and a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF
from materializer.lake import places
from materializer.lake.extent import file_bounds, time_column
from materializer.lake.failures import translated
from materializer.lake.table import open_table
from materializer.lake.write.commit import CommitResult, replace_all

BATCH_BYTES: Final = 1 << 26
"""Size of a batch for the writer. The writer passes whole batches to its threads, so that files stay in the order of time."""


def copy_rows(
    source: str,
    version: int,
    path: str,
    columns: Sequence[Sequence[str]],
    column: str,
    time_type: TimeType,
    app_id: str,
    n: int,
    note: Mapping[str, Any],
) -> CommitResult:
    """Replace all rows and columns of one table of ours by those of another, in one commit that carries number *n*.

    Args:
        source: The table to read.
        version: The version to read.
        path: The table to write.
        columns: (name, Spark type text) of the written table's new columns; *source* has them all.
        column: The column with the time of a row; files are copied in its order.
        time_type: The type of that column.
        app_id: Transaction identifier.
        n: The number of the commit.
        note: The note for ``commitInfo.userMetadata``.

    Raises:
        WriteFencedError: If *path* already carries *n* or a higher number.
        StorageError: If the disk is full or permission is refused.
        SourceDamagedError: If *source* can no longer be read at *version*.
    """
    opened = open_table(source, version)
    files = list(file_bounds(opened, time_column(opened, column, time_type)))
    files.sort(key=lambda f: (f[2].span.start if f[2].span else NEG_INF, f[0]))
    rows = sum(bounds.rows or 0 for _, _, bounds in files)
    row_bytes = sum(size for _, size, _ in files) / rows if rows else 0.0
    names = [name for name, _, _ in files]

    def batches(shape: pa.Schema) -> Iterator[pa.RecordBatch]:
        tables: list[pa.Table] = []
        for name in names:
            for table in _tables(opened, f"{source}/{name}", shape):
                tables.append(table)
                if sum(t.nbytes for t in tables) >= BATCH_BYTES:
                    yield from pa.concat_tables(tables).combine_chunks().to_batches()
                    tables = []
        yield from pa.concat_tables(tables).combine_chunks().to_batches() if tables else ()

    return replace_all(path, columns, batches, app_id, n, note, row_bytes=row_bytes)


def _tables(opened: DeltaTable, file: str, shape: pa.Schema) -> Iterator[pa.Table]:
    with translated(str(opened.table_uri), "reading"), pq.ParquetFile(places.opened(file)) as parquet:
        for batch in parquet.iter_batches(columns=shape.names):
            yield pa.Table.from_batches([batch]).select(shape.names).cast(shape)
