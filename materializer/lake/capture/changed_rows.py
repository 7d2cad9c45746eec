"""Rows of a change feed, read once by a command: capture looks at their times, and merges then aggregate their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from msgspec import Struct

from materializer.lake import places
from materializer.lake.arrow import plain
from materializer.lake.features import has_old_times
from materializer.lake.hostile import refuse_irregular
from materializer.lake.log import Commit
from materializer.lake.reads import fact, table_at
from materializer.lake.types import columns_of

MOST_ROWS: Final = 50_000
"""Maximum number of changed rows of a run that are remembered for one reader; more readers remember what fits into their block."""
SMALL: Final = 1 << 20
"""Files of up to so many bytes are read as a whole, which takes a fifth less than by parts."""
_VERSION: Final = "_commit_version"


def is_remembered(path: str, rows: int) -> bool:
    """Return whether up to so many changed rows would be remembered, so that columns for later uses are worth reading."""
    table = table_at(path)
    return table is not None and table.has_room(rows, 0) and (rows <= MOST_ROWS or table.is_shared)


def are_read(table: DeltaTable, path: str, run: Sequence[Commit]) -> bool:
    """Return whether the block has read the changed rows of all versions of a run; the arguments are those of :func:`changed_rows`."""
    shared = table_at(path)
    nothing: dict[Hashable, _Part] = {}
    parts = nothing if shared is None else shared.fact(_name_of_parts(table), lambda: nothing)
    return bool(parts) and all(_key(c) in parts for c in run if c.is_data_change)


def _name_of_parts(table: DeltaTable) -> tuple[Hashable, ...]:
    return "changed rows", str(table.metadata().id), table.schema().to_json()


def changed_rows(
    table: DeltaTable, path: str, run: Sequence[Commit], columns: Sequence[str], most: int, *, again: bool = False
) -> pa.Table:
    """Return the changed rows of a run of versions; a block reads those of each version once.

    Args:
        table: The source, opened at the last version of the run.
        path: Its path.
        run: Neighbouring commits.
        columns: Columns of the source, ``_change_type`` and ``_commit_version``.
        most: The most rows that the run may have.
        again: Whether the block reads them again, and remembers what fits even for one reader.

    Raises:
        DeltaError: If the library cannot read the feed.
        OSError: If a file cannot be read.
        ArrowInvalid: If the rows do not fit the schema.
    """
    shared, changed = table_at(path), [c for c in run if c.is_data_change]
    _refuse_irregular(path, changed)
    if shared is None or not changed:
        return _feed(table, path, run, columns).select(list(columns))
    schema = table.schema().to_json()
    nothing: dict[Hashable, _Part] = {}
    parts = shared.fact(_name_of_parts(table), lambda: nothing)
    wanted: dict[_Part, set[int]] = defaultdict(set)
    missing = []
    for commit in changed:
        part = parts.get(_key(commit))
        if part is None:
            missing.append(commit)
        else:
            wanted[part].add(commit.version)
    found = []
    for part, versions in wanted.items():
        rows = shared.rows(part, columns)
        if rows is None:
            if part.versions <= versions:
                shared.forget(part)
            missing += [c for c in changed if c.version in versions]
        else:
            found.append(_of_versions(rows, part.versions, versions).select(list(columns)))
    if missing:
        missing.sort(key=lambda c: c.version)
        others = shared.columns if shared.is_shared and shared.has_room(most, 0) else []
        rows = _widely(table, path, missing, columns, [name for name, _ in columns_of(schema) if name in others])
        if again or shared.is_shared or rows.num_rows <= MOST_ROWS:
            part = _Part(frozenset(c.version for c in missing))
            shared.remember(part, rows)
            parts.update((_key(c), part) for c in missing)
        found.append(rows.select(list(columns)))
    return pa.concat_tables(found)


def some_changed_rows(
    table: DeltaTable, path: str, run: Sequence[Commit], columns: Sequence[str], keep: Keep
) -> pa.Table:
    """Return some of the changed rows of a run; a file is left behind before the next one is read.

    A block that reads the same rows of the same versions again, or of some of them, is given what it remembers. The errors are
    those of :func:`changed_rows`.

    Args:
        table: The source, opened at the last version of the run.
        path: Its path.
        run: Neighbouring commits.
        columns: Columns of the source, ``_change_type`` and ``_commit_version``.
        keep: What is wanted of the rows of a file.
    """
    shared, changed = table_at(path), [c for c in run if c.is_data_change]
    nothing: dict[Hashable, _Part] = {}
    parts = nothing if shared is None else shared.fact((*_name_of_parts(table), keep.name), lambda: nothing)
    known = {parts.get(_key(c)) for c in changed}
    part = known.pop() if len(known) == 1 else None
    if shared is not None and part is not None and (rows := shared.rows(part, columns)) is not None:
        return _of_versions(rows, part.versions, {c.version for c in changed}).select(list(columns))
    _refuse_irregular(path, changed)
    rows = _some_read(table, path, run, columns, keep.of)
    if shared is not None and changed:
        part = _Part(frozenset(c.version for c in changed))
        shared.remember(part, rows)
        parts.update((_key(c), part) for c in changed)
    return rows


class Keep(Struct, frozen=True):
    """What is wanted of changed rows.

    Args:
        name: Names it: the same rows are wanted under the same name.
        of: Returns those of the rows of a file that are wanted.
    """

    name: Hashable
    of: Callable[[pa.Table], pa.Table]


def _some_read(
    table: DeltaTable, path: str, run: Sequence[Commit], columns: Sequence[str], keep: Callable[[pa.Table], pa.Table]
) -> pa.Table:
    changed, found = [c for c in run if c.is_data_change], []
    for is_added, some in groupby(changed, key=lambda c: not (c.change_files or c.removes or c.metadata)):
        commits = list(some)
        rows = inserted_rows(table, path, commits, columns, keep) if is_added else None
        found.append(keep(_feed(table, path, commits, columns).select(list(columns))) if rows is None else rows)
    return pa.concat_tables(found) if found else _feed(table, path, run, columns).select(list(columns))


def changed_in(path: str, commit: Commit) -> int:
    """Return the number of changed rows of a commit, by the footers of the files that hold them."""
    if not commit.change_files:
        return sum(f.rows or 0 for f in (*commit.adds, *commit.removes) if f.data_change)
    return sum(_footer_rows(path, f.path) for f in commit.change_files)


def _footer_rows(path: str, name: str) -> int:
    file = f"{path}/{unquote(name)}"
    return fact(path, ("rows", name), lambda: int(pq.read_metadata(places.opened(file)).num_rows))


def with_images(rows: pa.Table, images: Sequence[str]) -> pa.Table:
    """Return the changed rows of some images; where all are, nothing is copied."""
    is_wanted = pc.is_in(rows["_change_type"], pa.array(images))
    return rows if pc.all(is_wanted).as_py() else rows.filter(is_wanted)


class _Part(Struct, frozen=True, eq=False):
    """Some versions whose changed rows a block remembers in one table; each part is its own name."""

    versions: frozenset[int]


def _of_versions(rows: pa.Table, there: Collection[int], wanted: Collection[int]) -> pa.Table:
    """Return the changed rows of some of the versions that are there, in one pass over the rows."""
    if len(there) == len(wanted):
        return rows
    return rows.filter(pc.is_in(rows[_VERSION], pa.array(sorted(wanted), rows[_VERSION].type)))


def _widely(
    table: DeltaTable, path: str, run: Sequence[Commit], columns: Sequence[str], others: Sequence[str]
) -> pa.Table:
    """Return the changed rows of some commits, with the columns of other readers if these can be read."""
    with suppress(DeltaError, pa.ArrowException):  # caused by a column of another reader, or raised again below
        return _feed(table, path, run, [*columns, *others])
    return _feed(table, path, run, columns)


def _feed(table: DeltaTable, path: str, run: Sequence[Commit], columns: Sequence[str]) -> pa.Table:
    """Return the changed rows of some commits in order; the library also reads those between them."""
    wanted = list(dict.fromkeys([*columns, "_change_type", _VERSION]))
    rows = inserted_rows(table, path, run, wanted)
    if rows is not None:
        return rows
    first, last = run[0].version, run[-1].version
    named = ['"' + name.replace('"', '""') + '"' for name in wanted]  # the library reads each as SQL
    feed = table.load_cdf(starting_version=first, ending_version=last, columns=named)
    rows = plain(pa.RecordBatchReader.from_stream(feed).read_all())  # pa.table() would import pandas
    values = [rows[n].cast(pa.int64()) if n == _VERSION else rows[n] for n in wanted]
    rows = pa.Table.from_arrays(values, wanted)  # as they are read from files
    return _of_versions(rows, range(first, last + 1), {c.version for c in run})


def inserted_rows(
    table: DeltaTable,
    path: str,
    run: Sequence[Commit],
    columns: Sequence[str],
    keep: Callable[[pa.Table], pa.Table] | None = None,
) -> pa.Table | None:
    """Return the feed of commits that only added files, from these files; None if only the library can tell it.

    The feed of such a commit is its files' rows. The library opens a file once for each part that it reads of it, and takes 0.4 ms
    for it; this loop takes 0.15 ms. A block with other readers remembers the rows of each file, which are rows of the table, too.

    Args:
        table: The source, opened at the last version of the run or later.
        path: Its path.
        run: The commits.
        columns: Columns of the source, ``_change_type`` and ``_commit_version``.
        keep: Returns those of the rows of a file that are wanted; None for all. Rows of files that are left behind are not remembered.
    """
    adds = [(c.version, f) for c in run for f in c.adds if f.data_change]
    if (
        not adds
        or not places.is_local(path)  # the library reads several files of a store at the same time
        or table.metadata().partition_columns
        or any(c.change_files or c.metadata or any(f.data_change for f in c.removes) for c in run)
        or any(f.has_deletion_vector or f.path.startswith("/") or ":" in f.path for _, f in adds)
    ):
        return None
    schema, names = pa.schema(table.schema().to_arrow()), [n for n in columns if n not in ("_change_type", _VERSION)]
    expected = [schema.field(n).type if n in schema.names else None for n in names]
    shared, table_id = table_at(path), str(table.metadata().id)
    read: list[pa.Table] = []
    for _, file in adds:
        name = unquote(file.path)
        source = pa.py_buffer(places.read(f"{path}/{name}")) if file.bytes <= SMALL else f"{path}/{name}"
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as opened:
            if has_old_times(opened.metadata):
                return None
            rows = opened.read(columns=names, use_threads=False)
        if not read or rows.schema != read[0].schema:
            if sorted(rows.column_names) != sorted(names) or [rows.schema.field(n).type for n in names] != expected:
                return None
            rows = pa.Table.from_arrays([rows[n] for n in names], names)
        if keep is not None:
            rows = keep(rows)
        elif shared is not None and shared.is_shared:
            shared.remember((table_id, name, file.bytes), rows)
        read.append(rows)
    rows = pa.concat_tables(read)
    versions = np.repeat(np.array([v for v, _ in adds], np.int64), [r.num_rows for r in read])
    numbers = pa.Array.from_buffers(
        pa.int64(), rows.num_rows, [None, pa.py_buffer(versions)]
    )  # pa.array() loads pandas
    rows = rows.append_column("_change_type", pa.repeat("insert", rows.num_rows)).append_column(_VERSION, numbers)
    return rows.combine_chunks().select(list(columns))


def _refuse_irregular(path: str, run: Sequence[Commit]) -> None:
    names = [f.path for c in run for f in c.change_files] + [f.path for c in run for f in c.adds]
    refuse_irregular(path, map(unquote, names))


def _key(commit: Commit) -> Hashable:
    """Return a name for the changed rows of a commit of one table."""
    files = [f.path for f in (*commit.adds, *commit.removes)] + [f.path for f in commit.change_files]
    return commit.version, commit.timestamp, *files
