"""Rewrite rows of a table of ours into other files: cut by time, and committed without a data change.

The rows go into new files (:mod:`materializer.lake.write.new_files`), and one commit adds these and removes the old ones.
Every file action has ``dataChange`` false, so change feeds, captures by file statistics and output handlers see no change; the
commit carries no transaction number. It removes exactly the files that were read, so it succeeds or fails as a whole, whatever
else is committed.

``OPTIMIZE`` is not suitable: the library's ``z_order`` on the bucket keeps the order, but rewrites the whole table each
time, into files of a hundred megabytes that contain all buckets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from materializer.core.policy.compaction import FileExtent, Group, cuts
from materializer.core.spec.spec import TimeType
from materializer.lake import places
from materializer.lake.extent import file_bounds, instants_of, time_column
from materializer.lake.failures import translated
from materializer.lake.statistics import unit
from materializer.lake.table import open_table
from materializer.lake.write.commit import (
    NOT_COMMITTED,
    CommitResult,
    commit_files,
    committed,
    shaped,
    stamped,
)
from materializer.lake.write.new_files import NewFiles, new_files, removals


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
    *,
    within_buckets: bool = False,
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
        within_buckets: Whether a large bucket is cut, too: into files of neighbouring keys.

    Raises:
        RetryableError: If one of the files is no longer part of the table; nothing was committed.
        StorageError: If the disk is full or permission is refused; nothing was committed.
    """
    with new_files(path) as files:
        files.begin(open_table(path), by_driver=True)
        write_parts(files, _rows(path, group, order), column, time_type, target, within_buckets=within_buckets)
        before_commit()
        return exchange(path, group, files, note)


def exchange(path: str, group: Group, files: NewFiles, note: Mapping[str, Any]) -> CommitResult:
    """Replace the files of *group* in the table at *path* by new files; errors as in :func:`rewrite`.

    Raises:
        ValueError: If the new files do not have as many rows as the old ones.
    """
    adds = files.adds(group.rows, data_change=False)
    note = {**note, "plan": files.folder.rpartition("/")[2]}  # by which the commit is known

    def attempt(opened: DeltaTable) -> None:
        removes = removals(path, opened, [p.path for p in group.pieces], data_change=False)
        commit_files(opened, [*adds, *removes], stamped(None, 0, note))

    return committed(path, None, 0, attempt, note, new_rows=group.rows)


def write_parts(
    files: NewFiles, rows: pa.Table, column: str, time_type: TimeType, target: int, *, within_buckets: bool = False
) -> None:
    """Write sorted rows into new files of about *target* rows, cut between buckets.

    Args:
        files: The new files.
        rows: The rows.
        column: The column with the bucket of a row.
        time_type: The type of that column.
        target: Rows that a file should hold.
        within_buckets: Whether a large bucket is cut, too: into files of neighbouring keys.
    """
    for part in _parts(rows, column, time_type, target):
        pieces = max(1, round(part.num_rows / target)) if within_buckets else 1
        ends = np.linspace(0, part.num_rows, pieces + 1).round().astype(int).tolist()
        for start, end in itertools.pairwise(ends):
            files.write(part.slice(start, end - start))


def _rows(path: str, group: Group, order: Sequence[str]) -> pa.Table:
    shape = pa.schema(open_table(path).schema().to_arrow())
    parts = []
    for piece in group.pieces:
        with translated(path, "reading", wrote=NOT_COMMITTED):
            file = pq.ParquetFile(places.opened(f"{path}/{piece.path}"), coerce_int96_timestamp_unit="us")
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
