"""Replacing the rows of some keys in a table of ours: only files that may hold one of them are written again.

```
  files       [ a..f ][ g..m ][ n..z ]  [ a..k ][ l..z ]        two slices, each cut by keys
  key h               ──                ──                      replaced
  written again       [ g..m ]          [ a..k ]                their other rows, with the new rows among them
```

A file whose rows of these keys are the new ones already stays. New rows that no file has a place for become files of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from msgspec import Struct

from materializer.core.engines.work import KeySlices
from materializer.core.policy.compaction import target_rows
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import SpanSet
from materializer.lake import places
from materializer.lake.arrow import in_order, mask
from materializer.lake.extent import file_bounds, time_column
from materializer.lake.failures import translated
from materializer.lake.key_rows import is_replaced, that_may_hold
from materializer.lake.write.commit import (
    NOT_COMMITTED,
    CommitResult,
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


class _KeyFile(Struct, frozen=True):
    """A file.

    Args:
        name: Its name.
        rows: Its rows.
        times: The times of its rows; None if they are unknown.
        may_hold: Whether it may have rows that are replaced.
    """

    name: str
    rows: int
    times: SpanSet | None
    may_hold: bool

    @property
    def start(self) -> int:
        """The first instant of its rows."""
        assert self.times is not None
        return self.times.spans[0].start


def replace_keys(
    path: str,
    table: pa.Table,
    column: SliceColumn,
    keys: Sequence[str],
    only: KeySlices,
    app_id: str,
    n: int,
    note: Mapping[str, Any],
    *,
    order: Sequence[str],
) -> CommitResult:
    """Replace the rows of some keys by *table*, in one commit that carries refresh number *n*.

    The errors are those of :func:`materializer.lake.write.replace.replace_spans`.

    Args:
        path: A table of ours.
        table: New rows, all of them among those that are replaced. May be empty.
        column: The column with the slice of a row.
        keys: The columns of the keys, in order.
        only: The replaced rows; old ones that *table* does not contain are deleted.
        app_id: Transaction identifier.
        n: The refresh number.
        note: ``{plan, n, kind, source_version}``, for ``commitInfo.userMetadata``.
        order: Columns to sort the rows of a file by, *column* first.
    """
    wrong = int(np.count_nonzero(~is_replaced(table, keys, column.name, column.type, only)))
    if wrong:
        raise ValueError(f"{wrong} of {table.num_rows} rows to be written are not among those that are replaced")

    def attempt(opened: DeltaTable) -> None:
        new = fitted(path, opened, table).cast(shape_of(opened))
        _KeyReplacement(path, opened, column, keys, only, order).make(new, files, stamped(app_id, n, note))

    with new_files(path, str(note.get("plan", ""))) as files:
        return committed(path, app_id, n, attempt, note, new_rows=table.num_rows)


class _KeyReplacement(Struct, frozen=True):
    """One attempt of a replacement."""

    path: str
    opened: DeltaTable
    column: SliceColumn
    keys: Sequence[str]
    only: KeySlices
    order: Sequence[str]

    def make(self, new: pa.Table, files: NewFiles, properties: Any) -> None:
        """Write the new files and commit them in place of the old ones."""
        every = files_with(self.opened, self.column, self.keys, self.only)
        target = target_rows(sum(f.rows for f in every) + new.num_rows)
        files.begin(self.opened, by_driver=True)
        replaced, count = [], 0

        def write(rows: pa.Table) -> None:
            nonlocal count
            count += rows.num_rows
            if rows.num_rows:
                write_parts(files, self._sorted(rows), self.column.name, self.column.type, target, within_buckets=True)

        placed = np.zeros(new.num_rows, bool)
        times = values(new, self.column.name, self.column.type)
        for file in every:
            if not file.may_hold:
                continue
            old = self._read(file)
            gone = is_replaced(old, self.keys, self.column.name, self.column.type, self.only)
            mine = self._near(old, new, times) & ~placed
            if not gone.any() and (not mine.any() or old.num_rows > 2 * target):
                continue
            came = new.filter(mask(mine))
            placed |= mine
            if not self._are_same(old.filter(mask(gone)), came):
                replaced.append(file.name)
                write(pa.concat_tables([old.filter(mask(~gone)), came]))
        for rows in self._between(every, new.filter(mask(~placed))):
            write(rows)
        adds = files.adds(count, data_change=True) if count else []
        removes = removals(self.path, self.opened, replaced, data_change=True)
        commit_files(self.opened, [*adds, *removes], properties)

    def _read(self, file: _KeyFile) -> pa.Table:
        with translated(self.path, "reading", wrote=NOT_COMMITTED):
            name = places.opened(f"{self.path}/{file.name}")
            return shaped(pq.ParquetFile(name, coerce_int96_timestamp_unit="us").read(), shape_of(self.opened))

    def _near(self, old: pa.Table, new: pa.Table, times: Any) -> Any:
        """Return which new rows lie between the first and the last row of a file, by slice and first key."""
        own = values(old.filter(old[self.column.name].is_valid()), self.column.name, self.column.type)
        if not len(own) or not new.num_rows:
            return np.zeros(new.num_rows, bool)
        found = (times >= own.min()) & (times <= own.max())
        if own.min() == own.max():
            ours, theirs = old[self.keys[0]], new[self.keys[0]]
            ends = pc.min_max(ours)
            is_between = pc.and_(pc.greater_equal(theirs, ends["min"]), pc.less_equal(theirs, ends["max"]))
            found &= pc.fill_null(is_between, ours.null_count > 0).to_numpy()
        return found

    def _are_same(self, old: pa.Table, new: pa.Table) -> bool:
        return old.num_rows == new.num_rows and bool(
            self._sorted(old, fully=True).equals(self._sorted(new, fully=True))
        )

    def _sorted(self, rows: pa.Table, *, fully: bool = False) -> pa.Table:
        order = dict.fromkeys([*self.order, *(rows.column_names if fully else [])])
        simple = [n for n in order if not pa.types.is_nested(rows.schema.field(n).type)]
        return in_order(rows, simple).combine_chunks()

    def _between(self, every: Sequence[_KeyFile], new: pa.Table) -> Iterator[pa.Table]:
        """Yield new rows by the gaps between the starts of files, so that no new file lies over many old ones."""
        starts = np.unique(np.array([f.start for f in every if f.times], dtype=np.int64))
        gaps = np.searchsorted(starts, values(new, self.column.name, self.column.type), side="right")
        for gap in np.unique(gaps):
            yield new.filter(mask(gaps == gap))


def files_with(opened: DeltaTable, column: SliceColumn, keys: Sequence[str], only: KeySlices) -> list[_KeyFile]:
    """Return the files of a table in order of time, each with whether it may have rows that are replaced."""
    bounds = list(file_bounds(opened, time_column(opened, column.name, column.type)))
    actions = pa.RecordBatchReader.from_stream(opened.get_add_actions(flatten=True)).read_all()
    spans = [SpanSet.of(b.span) if b.span is not None else None if not b.is_known else SpanSet() for _, _, b in bounds]
    may_hold = that_may_hold(actions, spans, keys, only)
    found = [
        _KeyFile(name, b.rows or 0, own or None, may)
        for (name, _, b), own, may in zip(bounds, spans, may_hold, strict=True)
    ]
    return sorted(found, key=lambda f: (f.start if f.times else 0, f.name))
