"""Rewrite rows of a table of ours into other files: cut by time, and committed without a data change.

New files are written into a second table in a subfolder that readers ignore. So the writer, the library or Spark, computes
their statistics. Then the files are moved, and one commit of the driver adds the new files and removes the old ones. Every
file action has ``dataChange`` false, so change feeds, captures by file statistics and output handlers see no change; the
commit carries no transaction number. It is made against the version in which the old files were seen, so it succeeds or
fails as a whole, whatever else is committed. Spark never makes it.

``OPTIMIZE`` is not suitable: the library's ``z_order`` on the bucket keeps the order, but rewrites the whole table each
time, into files of a hundred megabytes that contain all buckets.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from materializer.core.policy.compaction import FileExtent, Group, cuts
from materializer.core.spec.spec import TimeType
from materializer.errors import RetryableError, StorageError
from materializer.lake.extent import file_bounds, instants_of, time_column
from materializer.lake.failures import translated
from materializer.lake.log import DataFile, latest_version, read_commit
from materializer.lake.statistics import unit
from materializer.lake.table import open_table
from materializer.lake.write.commit import (
    ATTEMPTS,
    NO_HOOKS,
    NOT_COMMITTED,
    WRITER,
    CommitResult,
    keep_short,
    shaped,
    stamped,
)

SCRATCH: Final = "_maintain-"
"""Prefix of the folders for new files."""
_STATISTICS: Final = "delta.dataSkippingNumIndexedCols"
_WHOLE: Final = 1 << 40


def pieces_of(path: str, column: str, time_type: TimeType) -> tuple[int, list[FileExtent], int]:
    """Return the newest version of a table, its files, and the number of files without a known time range.

    Args:
        path: A table of ours.
        column: The column with the time of a row.
        time_type: The type of that column.
    """
    opened = open_table(path)
    pieces, unknown = [], 0
    for name, size, bounds in file_bounds(opened, time_column(opened, column, time_type)):
        if bounds.span is None or bounds.rows is None:
            unknown += bounds.rows != 0
        else:
            pieces.append(FileExtent(name, bounds.rows, size, bounds.span.start, bounds.span.end - unit(time_type)))
    return opened.version(), pieces, unknown


def rewrite(
    path: str,
    group: Group,
    column: str,
    time_type: TimeType,
    order: Sequence[str],
    target: int,
    note: Mapping[str, Any],
    before_commit: Callable[[], None] = lambda: None,
) -> CommitResult:
    """Rewrite the files of *group* in the driver's memory, and commit the new files.

    Args:
        path: A table of ours.
        group: The files to rewrite.
        column: The column with the time of a row.
        time_type: The type of that column.
        order: Columns to sort by, *column* first.
        target: Target number of rows in a file.
        note: ``{plan, n, kind, source_version}``, for ``commitInfo.userMetadata``.
        before_commit: Called when the new files exist; it may refuse the commit.

    Raises:
        RetryableError: If one of the files is no longer part of the table; nothing was committed.
        StorageError: If the disk is full or permission is refused; nothing was committed.
    """
    with scratch(path) as folder:
        write_parts(folder, _rows(path, group, order), column, time_type, target)
        before_commit()
        return exchange(path, group, folder, note)


@contextmanager
def scratch(path: str, opened: DeltaTable | None = None) -> Iterator[str]:
    """Yield a folder inside the table's folder with an empty table of the same columns; it is removed after the block.

    Args:
        path: The table.
        opened: The open handle of the table, if there is one.
    """
    folder = f"{path}/{SCRATCH}{uuid4().hex}"
    try:
        with translated(path, "writing beside", wrote=NOT_COMMITTED):
            opened = opened or open_table(path)
            properties = opened.metadata().configuration
            configuration = {_STATISTICS: properties[_STATISTICS]} if _STATISTICS in properties else {}
            os.makedirs(folder)  # noqa: PTH103  text, later a URL
            DeltaTable.create(folder, opened.schema(), configuration=configuration, post_commithook_properties=NO_HOOKS)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def exchange(path: str, group: Group, folder: str, note: Mapping[str, Any]) -> CommitResult:
    """Replace the files of *group* in the table at *path* by those of the table at *folder*; errors as in :func:`rewrite`.

    Raises:
        ValueError: If the new files do not have as many rows as the old ones.
    """
    adds = moved(folder, path, group.rows, data_change=False)
    for _ in range(ATTEMPTS):
        opened = open_table(path)
        removes = removals(path, opened, [p.path for p in group.pieces], data_change=False)
        try:
            with translated(path, "writing to", wrote=NOT_COMMITTED):
                opened.create_write_transaction(
                    [*adds, *removes],
                    "append",
                    opened.schema(),
                    commit_properties=stamped(None, 0, note),
                    post_commithook_properties=NO_HOOKS,
                )
        except StorageError as exc:
            if not isinstance(exc.__cause__, CommitFailedError) or open_table(path).version() == opened.version():
                raise
            continue
        opened = open_table(path)
        keep_short(opened)
        return CommitResult(opened.version(), len(adds), len(removes), sum(a.size for a in adds), 0)
    raise RetryableError(f"other commits to '{path}' came first, {ATTEMPTS} times", wrote=NOT_COMMITTED, path=path)


def write_parts(folder: str, rows: pa.Table, column: str, time_type: TimeType, target: int) -> None:
    """Write sorted rows into the table at *folder*, cut between buckets into files of about *target* rows."""
    for part in _parts(rows, column, time_type, target):
        with translated(folder, "writing beside", wrote=NOT_COMMITTED):
            write_deltalake(
                folder,
                part,
                mode="append",
                target_file_size=_WHOLE,
                writer_properties=WRITER,
                post_commithook_properties=NO_HOOKS,
            )


def moved(folder: str, path: str, rows: int, *, data_change: bool) -> list[AddAction]:
    """Move the files of the table at *folder* to the one at *path*, and return the actions that add them.

    Raises:
        ValueError: If the files do not have *rows* rows, or do not give their time ranges.
    """
    new = _files(folder)
    if sum(f.rows or 0 for f in new) != rows or not all(f.stats for f in new):
        raise ValueError(f"{rows} rows of '{path}' became {sum(f.rows or 0 for f in new)} when they were moved")
    with translated(path, "writing to", wrote=NOT_COMMITTED):
        return [_moved(f, folder, path, data_change=data_change) for f in new]


def removals(path: str, opened: DeltaTable, names: Sequence[str], *, data_change: bool) -> list[RemoveAction]:
    """Return the actions that remove files.

    Raises:
        RetryableError: If one of the files is no longer part of the table.
    """
    with translated(path, "reading", wrote=NOT_COMMITTED):
        actions = pa.RecordBatchReader.from_stream(opened.get_add_actions()).read_all()
    present = {
        unquote(name): (name, size)
        for name, size in zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    }
    if not present.keys() >= set(names):
        raise RetryableError(
            f"files of '{path}' were replaced while they were written again", wrote=NOT_COMMITTED, path=path
        )
    now = int(time.time() * 1000)
    return [
        RemoveAction(name, data_change=data_change, deletion_timestamp=now, size=size, partition_values={})
        for name, size in (present[n] for n in names)
    ]


def _rows(path: str, group: Group, order: Sequence[str]) -> pa.Table:
    shape = pa.schema(open_table(path).schema().to_arrow())
    parts = []
    for piece in group.pieces:
        with translated(path, "reading", wrote=NOT_COMMITTED):
            file = pq.ParquetFile(f"{path}/{piece.path}", coerce_int96_timestamp_unit="us")
            parts.append(shaped(file.read(), shape))
    by = [(name, "ascending") for name in order if not pa.types.is_nested(shape.field(name).type)]
    return pa.concat_tables(parts).sort_by(by)


def _parts(rows: pa.Table, column: str, time_type: TimeType, target: int) -> Iterator[pa.Table]:
    """Yield sorted rows cut between buckets."""
    _, counts = np.unique(instants_of(rows[column], time_type).to_numpy(), return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    first = 0
    for size in cuts(counts.tolist(), target):
        yield rows.slice(int(ends[first]), int(ends[first + size] - ends[first]))
        first += size


def _files(folder: str) -> list[DataFile]:
    newest = latest_version(folder)
    return [f for version in range(1, newest + 1) for f in read_commit(folder, version).adds]


def _moved(file: DataFile, folder: str, path: str, *, data_change: bool) -> AddAction:
    name = unquote(file.path)
    os.rename(f"{folder}/{name}", f"{path}/{name}")  # noqa: PTH104  text, later a URL
    modified = int(os.stat(f"{path}/{name}").st_mtime * 1000)  # noqa: PTH116  text, later a URL
    return AddAction(file.path, file.bytes, {}, modified, data_change=data_change, stats=file.stats or "")
