"""Replacing spans of time in a table of ours, file by file, so that the table stays laid out in time.

The library's own overwrite puts the rows that it keeps of all touched files into common new ones: after ten late hours
somewhere in a month, each new file lies over the whole month, and every later read of one hour opens them all. Here the
new rows go where their neighbours lie:

```
  files       [======][======][======][======][======]
  spans           ──                ──  ──                      replaced
  written again   [======]        [======][======]              their other rows, with the new rows among them
```

Runs of touched neighbours are read, merged with the new rows that belong there, cut between buckets and written into new
files, run by run; then one commit takes the new files in and the old ones out. Rows that Spark has computed stay in Spark:
it writes the new files itself (:func:`replace_by_files`), and the commit is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from msgspec import Struct

from materializer.core.policy.compaction import target_rows
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import SpanSet
from materializer.lake import places
from materializer.lake.arrow import in_order, mask
from materializer.lake.extent import file_bounds, time_column
from materializer.lake.failures import translated
from materializer.lake.predicates import SpanIndex, inside
from materializer.lake.write.commit import (
    NOT_COMMITTED,
    CommitResult,
    append_to,
    commit_files,
    committed,
    fitted,
    shape_of,
    shaped,
    stamped,
    values,
)
from materializer.lake.write.new_files import NewFiles, new_files, removals
from materializer.lake.write.rewrite import write_parts

RUN_ROWS: Final = 500_000
"""Approximate maximum number of rows of old files in memory at once."""


class _File(Struct, frozen=True):
    """A file.

    Args:
        name: Its name.
        rows: Its rows.
        start: The first instant of its rows.
        is_touched: Whether it may contain rows of the spans.
        is_inside: Whether it contains no other rows.
    """

    name: str
    rows: int
    start: int
    is_touched: bool
    is_inside: bool


class _Replacement(Struct, frozen=True):
    """The arguments of one replacement.

    Args:
        path: The table.
        table: The new rows.
        column: The column with the bucket of a row.
        spans: The spans to replace.
        order: Columns to sort by.
        within_buckets: Whether files are cut within a large bucket, too.
    """

    path: str
    table: pa.Table
    column: SliceColumn
    spans: SpanSet
    order: Sequence[str]
    within_buckets: bool = False


def replace_spans(
    path: str,
    table: pa.Table,
    column: SliceColumn,
    spans: SpanSet,
    app_id: str,
    n: int,
    note: Mapping[str, Any],
    *,
    order: Sequence[str] = (),
    within_buckets: bool = False,
) -> CommitResult:
    """Replace the rows of *spans* by *table*, in one commit that carries refresh number *n*.

    Args:
        path: A table of ours.
        table: New rows in their final order, all of them inside *spans*. May be empty.
        column: The column with the bucket of a row.
        spans: The spans to replace; old rows in them that *table* does not contain are deleted.
        app_id: Transaction identifier.
        n: The refresh number.
        note: ``{plan, n, kind, source_version}``, for ``commitInfo.userMetadata``.
        order: Columns to sort the rows of a file by, *column* first; if empty, by *column* alone.
        within_buckets: Whether files are cut within a large bucket, too.

    Raises:
        WriteFencedError: If the table already carries *n* or a higher number.
        RetryableError: If other writers' commits came first in every attempt.
        ForeignTableError: If the table's columns or types differ from those of *table*.
        StorageError: If the disk is full or permission is refused.
        ValueError: If a row lies outside *spans*.
    """
    _check_inside(table, column, spans)

    def attempt(opened: DeltaTable) -> None:
        new = fitted(path, opened, table).cast(shape_of(opened))
        replacement = _Replacement(path, new, column, spans, order or (column.name,), within_buckets)
        _replace(opened, replacement, files, stamped(app_id, n, note))

    with new_files(path, str(note.get("plan", ""))) as files:
        return committed(path, app_id, n, attempt, note, new_rows=table.num_rows)


def replace_by_files(
    path: str,
    lay_out: Callable[[str, Sequence[str]], None],
    column: SliceColumn,
    spans: SpanSet,
    app_id: str,
    n: int,
    note: Mapping[str, Any],
    *,
    rows: int,
) -> CommitResult:
    """Replace the rows of *spans* by rows that *lay_out* writes, as :func:`replace_spans` does; also its errors.

    Args:
        path: A table of ours.
        lay_out: Writes the new rows into the table at a folder, and with them those rows of the named files of *path* that lie
            outside *spans*; called once for each attempt.
        column: The column with the bucket of a row.
        spans: The spans to replace.
        app_id: Transaction identifier.
        n: The refresh number.
        note: ``{plan, n, kind, source_version}``, for ``commitInfo.userMetadata``.
        rows: Number of new rows.
    """

    def attempt(opened: DeltaTable) -> None:
        known, unknown = _files(opened, column, spans)
        touched = [f for f in known if f.is_touched]
        lay_out(files.begin(opened), [f.name for f in (*touched, *unknown) if not f.is_inside])
        removed = [f.name for f in (*touched, *unknown)]
        adds = files.adds(data_change=True)
        removes = removals(path, opened, removed, data_change=True)
        commit_files(opened, [*adds, *removes], stamped(app_id, n, note))

    with new_files(path, str(note.get("plan", ""))) as files:
        return committed(path, app_id, n, attempt, note, new_rows=rows)


def append_files(
    path: str, lay_out: Callable[[str], None], app_id: str, n: int, note: Mapping[str, Any], *, rows: int = 0
) -> CommitResult:
    """Append the rows that *lay_out* writes into the table at a folder, in one commit with number *n*.

    The arguments and errors are those of :func:`replace_by_files`.
    """

    def attempt(opened: DeltaTable) -> None:
        lay_out(files.begin(opened))
        commit_files(opened, files.adds(data_change=True), stamped(app_id, n, note))

    with new_files(path) as files:
        return committed(path, app_id, n, attempt, note, new_rows=rows)


def _replace(opened: DeltaTable, replacement: _Replacement, files: NewFiles, properties: Any) -> None:
    known, unknown = _files(opened, replacement.column, replacement.spans)
    if not unknown and not any(f.is_touched for f in known) and _is_in_one_gap(known, replacement):
        # most of a first materialization: no old row to copy, no file to cut
        append_to(opened, replacement.table, properties)
        return
    target = target_rows(sum(f.rows for f in [*known, *unknown]) + replacement.table.num_rows)
    replaced: list[str] = []
    count = 0
    files.begin(opened, by_driver=True)
    for run, new in [*_runs(known, replacement), *(([file], replacement.table.slice(0, 0)) for file in unknown)]:
        remaining, rewritten = _remaining(run, replacement, shape_of(opened), is_needed=new.num_rows > 0)
        replaced += rewritten
        rows = pa.concat_tables([*remaining, new])
        count += rows.num_rows
        if rows.num_rows:
            rows = _sorted(rows, replacement) if any(r.num_rows for r in remaining) else rows
            column, is_cut = replacement.column, replacement.within_buckets
            write_parts(files, rows, column.name, column.type, target, within_buckets=is_cut)
    adds = files.adds(count, data_change=True)
    commit_files(opened, [*adds, *removals(replacement.path, opened, replaced, data_change=True)], properties)


def _files(opened: DeltaTable, column: SliceColumn, spans: SpanSet) -> tuple[list[_File], list[_File]]:
    """Return the files ordered by time, and the files without a known time range.

    Our own bounds select the files: statistics are truncated to milliseconds, and a reader that trusts them loses rows.
    """
    inner = column.values_in(spans)
    reach = spans | inner
    hull = reach.hull
    known, unknown = [], []
    for name, _, bounds in file_bounds(opened, time_column(opened, column.name, column.type)):
        if not bounds.is_known:
            unknown.append(_File(name, bounds.rows or 0, 0, is_touched=True, is_inside=False))
        elif (span := bounds.span) is not None:
            is_touched = is_inside = False
            if hull is not None and span.start < hull.end and hull.start < span.end:  # most of many files lie elsewhere
                own = SpanSet.of(span)
                is_touched, is_inside = bool(own & reach), not (own - inner) and bounds.nulls == 0
            known.append(_File(name, bounds.rows or 0, span.start, is_touched, is_inside))
    return sorted(known, key=lambda f: (f.start, f.name)), unknown


def _is_in_one_gap(files: list[_File], replacement: _Replacement) -> bool:
    """Return whether no file starts between the first and the last new row."""
    if not replacement.table.num_rows:
        return True
    starts = np.array([f.start for f in files], dtype=np.int64)
    times = values(replacement.table, replacement.column.name, replacement.column.type)
    before, upto = np.searchsorted(starts, [times.min(), times.max()], side="right")
    return bool(before == upto)


def _runs(files: list[_File], replacement: _Replacement) -> Iterator[tuple[list[_File], pa.Table]]:
    """Yield runs of touched neighbours, each with the new rows that lie between its start and the next file."""
    runs: list[list[_File]] = [[]]  # the first run is for rows before all files
    run_of, was_touched = [0], True
    for file in files:
        fits = sum(f.rows for f in runs[-1]) + file.rows <= RUN_ROWS
        if not (fits and file.is_touched and was_touched):
            runs.append([])
        runs[-1] += [file] if file.is_touched else []
        run_of.append(len(runs) - 1)
        was_touched = file.is_touched
    starts = np.array([f.start for f in files], dtype=np.int64)
    index = np.searchsorted(
        starts, values(replacement.table, replacement.column.name, replacement.column.type), side="right"
    )
    places = np.array(run_of)[index]
    has_new = set(places.tolist())  # of many files few have new rows, and each filter takes a while
    for i, run in enumerate(runs):
        if i in has_new:
            yield run, replacement.table.filter(mask(places == i))
        elif run:
            yield run, replacement.table.slice(0, 0)


def _remaining(
    run: list[_File], replacement: _Replacement, shape: pa.Schema, *, is_needed: bool
) -> tuple[list[pa.Table], list[str]]:
    """Return the rows of some files that stay, and the names of the files that they come from.

    Args:
        run: The files.
        replacement: The replacement.
        shape: The columns of the table.
        is_needed: Whether new rows are merged into the files; if not, a file whose rows all stay is not rewritten.
    """
    remaining, rewritten = [], []
    for file in run:
        if file.is_inside:  # nothing of it stays
            rewritten.append(file.name)
            continue
        with translated(replacement.path, "reading", wrote=NOT_COMMITTED):
            old = shaped(
                pq.ParquetFile(
                    places.opened(f"{replacement.path}/{file.name}"), coerce_int96_timestamp_unit="us"
                ).read(),
                shape,
            )
        remains = np.ones(old.num_rows, dtype=bool)
        has_time = old[replacement.column.name].is_valid().to_numpy()
        times = values(old.filter(mask(has_time)), replacement.column.name, replacement.column.type)
        remains[has_time] = ~inside(times, replacement.column.values_in(replacement.spans))
        if is_needed or not remains.all():
            remaining.append(old.filter(mask(remains)))
            rewritten.append(file.name)
    return remaining, rewritten


def _sorted(rows: pa.Table, replacement: _Replacement) -> pa.Table:
    """Return rows in their final order; rows without a time, which only another writer can have added, come last."""
    order = [n for n in replacement.order if not pa.types.is_nested(rows.schema.field(n).type)]
    return in_order(rows, order)


def _check_inside(table: pa.Table, column: SliceColumn, spans: SpanSet) -> None:
    if not table.num_rows:
        return
    if table[column.name].null_count:
        raise ValueError(f"a row to be written has no {column.name}")
    instants, index = values(table, column.name, column.type), SpanIndex.of(column.values_in(spans))
    if index.holds(instants.min(), instants.max()):
        return
    if outside := int(np.count_nonzero(~index.inside(instants))):
        raise ValueError(f"{outside} of {table.num_rows} rows to be written lie outside the spans that are replaced")
