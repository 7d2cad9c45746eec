"""Read changes of a source, rows and stored results in the driver, without Spark, if they are few."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from msgspec import Struct
from pyarrow import fs

from materializer.core.engines.work import Key
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import SpanSet
from materializer.errors import MaterializerError, StorageError
from materializer.lake import places
from materializer.lake.arrow import mask, plain
from materializer.lake.capture.changed_rows import Keep, changed_in, changed_rows, some_changed_rows
from materializer.lake.capture.feed import MAX_CHANGE_FILES
from materializer.lake.capture.int96 import why_misread
from materializer.lake.extent import file_bounds, instants_of, time_column
from materializer.lake.failures import failure, is_of_storage
from materializer.lake.features import features_of, has_old_times, is_typed_by_others
from materializer.lake.hostile import refuse_irregular
from materializer.lake.key_rows import having_keys, is_of_keys, values_of
from materializer.lake.keys import Within
from materializer.lake.predicates import SpanIndex
from materializer.lake.reads import ReadTable, table_at
from materializer.lake.span_rows import ReadLimit, ReadLimitError, rows_of_spans, scan_spans
from materializer.lake.statistics import TimeColumn
from materializer.lake.table import DeltaFolder
from materializer.lake.types import columns_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_Args = ParamSpec("_Args")
_Read = TypeVar("_Read")


def _left_to_spark(
    read: Callable[Concatenate[str, _Args], _Read | None],
) -> Callable[Concatenate[str, _Args], _Read | None]:
    """Let *read*, which is given the path of a table first, return None where it fails: Spark may be able to read the table.

    Where the disk fails or permission is refused, it raises StorageError instead: Spark could not read either.
    """

    @wraps(read)
    def reading(path: str, /, *args: _Args.args, **more: _Args.kwargs) -> _Read | None:
        try:
            return read(path, *args, **more)
        except MaterializerError as exc:
            if isinstance(exc, StorageError) and is_of_storage(exc.__cause__ or exc):
                raise
        except (DeltaError, OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            if is_of_storage(exc):
                raise failure(path, "reading", exc) from exc
        return None

    return reading


@_left_to_spark
def read_small_changes(
    path: str,
    after: int,
    upto: int,
    columns: Sequence[str],
    *,
    max_rows: int,
    max_bytes: int,
    keep: Keep | None = None,
    again: bool = False,
) -> pa.Table | None:
    """Return the changed rows of (after, upto] with every image; None if Spark has to read them.

    Args:
        path: The source.
        after: The version that is known already.
        upto: The last version.
        columns: Columns to return, in addition to ``_change_type``.
        max_rows: Maximum number of rows in the files that hold the changes, by their statistics.
        max_bytes: Maximum size of these files.
        keep: What is wanted of the rows of a file; None for all.
        again: Whether they are read again soon, by this reader.
    """
    folder = DeltaFolder.at(path)
    run = folder.commits(after, upto)
    added = [f for c in run for f in c.adds if f.data_change]
    removed = [f for c in run for f in c.removes if f.data_change]
    files = (*added, *removed)
    if any(f.has_deletion_vector for f in files) or any(f.rows is None for f in added):
        return None
    if any(c.metadata is not None and not c.metadata.has_change_feed for c in run):
        return None  # the feed was off for some of them, which Spark refuses
    # an update writes whole files again, and its few changed rows into files of their own
    size = sum(f.bytes for c in run for f in c.change_files or [f for f in (*c.adds, *c.removes) if f.data_change])
    if size > max_bytes or sum(len(c.change_files) for c in run) > MAX_CHANGE_FILES:
        return None
    most = sum(changed_in(path, c) for c in run)
    if most > max_rows:
        return None
    with folder.reading(upto) as table:
        if features_of(table).obstacle:
            return None
        if why_misread(path, after, run, columns_of(table.schema().to_json()), columns):
            return None
        wanted = [*columns, "_change_type"]
        if keep is None:
            rows = changed_rows(table, path, run, wanted, most, again=again)
        else:
            rows = some_changed_rows(table, path, run, wanted, keep)
    return None if rows.num_rows > max_rows else rows


@_left_to_spark
def read_small_rows(
    path: str,
    version: int,
    columns: Sequence[str],
    spans: SpanSet | None,
    *,
    time: str,
    time_type: TimeType,
    max_rows: int,
    max_bytes: int,
    is_exact: bool = False,
    limit: ReadLimit | None = None,
    within: Within | None = None,
) -> pa.Table | None:
    """Return the rows of the files that may contain rows of *spans*; None if Spark has to read them.

    Args:
        path: A table.
        version: The version of the table.
        columns: Columns to return.
        spans: The wanted spans; None for all rows, also those without a time.
        time: The time column, whose statistics place a file in time.
        time_type: The type of that column.
        max_rows: Maximum number of rows in these files, by their statistics.
        max_bytes: Maximum size of these files.
        is_exact: Whether only rows in *spans* are returned; else the result may also contain others.
        limit: The most that is returned; None for no other limit than *max_rows*.
        within: Rows with other values are not wanted; files that cannot have wanted ones are not opened.

    Raises:
        ReadLimitError: If there are more rows than *limit*.
    """
    with DeltaFolder.at(path).reading(version) as table:
        time_of = time_column(table, time, time_type)
        found = _files_of(table, path, columns, spans, time_of, max_rows, max_bytes, within)
    if found is None:
        return None
    shared = table_at(path)
    if shared is not None and shared.is_shared:
        with suppress(pa.ArrowException):  # caused by a column of another reader, or raised again below
            rows = _remembered(shared, found, columns, spans if is_exact else None, time, time_type, limit)
            return None if rows is None else plain(rows)
    if any(has_old_times(f.metadata) for f in found.rows.get_fragments()):
        return None
    if is_exact:
        return plain(scan_spans(found.rows, columns, spans, time, time_type, limit))
    return plain(found.rows.to_table(columns=list(columns)))


class _Files(Struct, frozen=True):
    """Files of a table.

    Args:
        rows: The files as a dataset, each a fragment.
        keys: What names each file, in the order of the fragments.
        system: Where the files are opened by their paths; None where they are open.
    """

    rows: ds.FileSystemDataset
    keys: Sequence[tuple[str, str, int]]
    system: fs.FileSystem | None = None

    @contextmanager
    def opened(self, fragment: ds.ParquetFileFragment) -> Iterator[ds.ParquetFileFragment]:
        """Give a file that stays open in the block; by its path it would be opened for its footer and again for its rows."""
        if self.system is None:
            yield fragment
            return
        with self.system.open_input_file(fragment.path) as file:
            yield self.rows.format.make_fragment(file, partition_expression=fragment.partition_expression)


@_left_to_spark
def read_rows_of_keys(
    path: str,
    version: int,
    columns: Sequence[str],
    spans: SpanSet,
    keys: Sequence[Key],
    names: Sequence[str],
    *,
    time: str,
    time_type: TimeType,
    max_rows: int,
    max_bytes: int,
    max_opened: int,
    open_column: str = "",
) -> pa.Table | None:
    """Return the rows of some keys in *spans*; None if Spark has to read them. Other rows are skipped while files are read.

    Args:
        path: A table.
        version: The version of the table.
        columns: Columns to return.
        spans: The wanted spans.
        keys: The wanted keys.
        names: The columns of the keys, in order.
        time: The time column, whose statistics place a file in time.
        time_type: The type of that column.
        max_rows: Maximum number of rows to return.
        max_bytes: Maximum size of these rows.
        max_opened: Maximum number of rows in the files that are opened, by their statistics.
        open_column: A column of truth values; rows of which it is false are returned wherever they lie.
    """
    with DeltaFolder.at(path).reading(version) as table:
        time_of, within = time_column(table, time, time_type), values_of(names, keys)
        # many files have results that are final only, and say so
        also = {**within, open_column: frozenset([False])} if open_column else None
        files = _files_of(table, path, columns, spans, time_of, max_opened, 1 << 62, within, also)
    if files is None or any(has_old_times(f.metadata) for f in files.rows.get_fragments()):
        return None
    dataset = files.rows
    wanted = list(dict.fromkeys([*columns, *names, time, *([open_column] if open_column else [])]))
    batches, size, rows, index = [], 0, 0, SpanIndex.of(spans)
    for batch in _batches_of_keys(dataset, wanted, keys, names):
        found = plain(pa.Table.from_batches([batch]))
        is_wanted = index.inside(instants_of(found[time], time_type).fill_null(0))
        is_wanted &= found[time].is_valid().to_numpy()
        if open_column:
            is_wanted |= ~found[open_column].to_numpy()
        is_wanted &= is_of_keys([found[name] for name in names], keys)
        found = found.filter(mask(is_wanted))
        size, rows = size + found.nbytes, rows + found.num_rows
        if size > max_bytes or rows > max_rows:
            return None
        batches.append(found)
    every = pa.concat_tables(batches) if batches else plain(dataset.head(0, columns=wanted))
    return every.select(list(columns))


def _batches_of_keys(
    dataset: ds.FileSystemDataset, columns: Sequence[str], keys: Sequence[Key], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield at least the rows of some keys; a file may have a type of its own for a key, by which it is not filtered."""
    kinds: dict[tuple[pa.DataType | None, ...], list[Any]] = {}
    for fragment in dataset.get_fragments():
        schema = fragment.physical_schema
        own = tuple(schema.field(n).type if n in schema.names else None for n in names)
        kinds.setdefault(own, []).append(fragment)
    for own, fragments in kinds.items():
        as_declared = [n for n, kind in zip(names, own, strict=True) if kind == dataset.schema.field(n).type]
        # fragments know how to open their files; a dataset of a store has no file system, and asking for it ends the process
        part = type(dataset)(fragments, dataset.schema, dataset.format)
        where = having_keys(dataset.schema, [n if n in as_declared else None for n in names], keys)
        yield from part.scanner(columns=columns, filter=where, batch_readahead=1, fragment_readahead=1).to_batches()


def _remembered(
    shared: ReadTable,
    files: _Files,
    columns: Sequence[str],
    spans: SpanSet | None,
    time: str,
    time_type: TimeType,
    most: ReadLimit | None,
) -> pa.Table | None:
    """Return the rows of some files, of which a block reads each once; None if Spark has to read them.

    Args:
        shared: What the block has read of the table.
        files: The files.
        columns: Columns to return.
        spans: Where rows are wanted; None for all.
        time: The time column.
        time_type: Its type.
        most: The most that is returned.
    """
    schema = files.rows.schema
    wanted = list(dict.fromkeys([*columns, time]))
    index = None if spans is None else SpanIndex.of(spans)
    parts = []
    for key, fragment in zip(files.keys, files.rows.get_fragments(), strict=True):
        rows = shared.rows(key, wanted)
        if rows is not None and all(rows.field(c).type == schema.field(c).type for c in wanted):
            part = rows.select(wanted)
            parts.append(part if index is None else rows_of_spans(part, index, time, time_type))
            continue
        wide = [c for c in shared.wide(key, wanted) if c in schema.names]
        batches: list[pa.RecordBatch] = []
        read, size = 0, 0
        with files.opened(fragment) as file:
            if has_old_times(file.metadata):
                return None
            scanner = file.scanner(schema=schema, columns=wide, batch_readahead=1)
            for batch in scanner.to_batches():
                read, size = read + batch.num_rows, size + batch.nbytes
                if shared.has_room(read, size):
                    batches.append(batch)
                else:  # it is read again then, and only one batch is in memory
                    batches.clear()
                part = pa.Table.from_batches([batch]).select(wanted)
                parts.append(part if index is None else rows_of_spans(part, index, time, time_type))
        if shared.has_room(read, size):
            shared.remember(key, pa.Table.from_batches(batches, scanner.projected_schema))
    if not parts:
        return pa.schema([schema.field(c) for c in columns]).empty_table()
    found = pa.concat_tables(parts).select(list(columns))
    if most is not None and (found.num_rows > most.rows or found.nbytes > most.bytes):
        raise ReadLimitError
    return found


@_left_to_spark
def files_inside(
    path: str,
    version: int,
    columns: Sequence[str],
    spans: SpanSet,
    *,
    time: str,
    time_type: TimeType,
    within: Within | None = None,
) -> list[str] | None:
    """Return the names of the files that may contain rows of *spans*, below the folder of the table.

    Any reader of Parquet reads *columns* in them as the table has them. None if only a reader of Delta does: rows may be marked as
    deleted, columns have other names or types in the files or are in no file, or files lie elsewhere.

    Args:
        path: A table.
        version: The version of the table.
        columns: The columns to read.
        spans: The wanted spans.
        time: The time column, whose statistics place a file in time.
        time_type: The type of that column.
        within: Rows with other values are not wanted; files that cannot have wanted ones are left out.
    """
    with DeltaFolder.at(path).reading(version) as table:
        if table.metadata().partition_columns:
            return None
        found = _names_of(table, columns, spans, time_column(table, time, time_type), within)
    return None if found is None or any(map(_lies_elsewhere, found[0])) else sorted(found[0])


def _files_of(
    table: DeltaTable,
    path: str,
    columns: Sequence[str],
    spans: SpanSet | None,
    time: TimeColumn,
    max_rows: int,
    max_bytes: int,
    within: Within | None,
    also: Within | None = None,
) -> _Files | None:
    """Return the files that may contain rows of *spans*, all without them, or rows of *also*; None if Spark has to read them."""
    found = _names_of(table, columns, spans, time, within, also)
    if found is None or found[1] > max_rows or sum(found[0].values()) > max_bytes:
        return None
    return _dataset(table, path, found[0])


def _names_of(
    table: DeltaTable,
    columns: Sequence[str],
    spans: SpanSet | None,
    time: TimeColumn,
    within: Within | None,
    also: Within | None = None,
) -> tuple[dict[str, int], int] | None:
    """Return the files that may contain rows of *spans*, by name with their sizes, and their rows; None as for :func:`files_inside`.

    Those are added that may have rows with the values of *also* wherever these lie; *also* has all values of *within*.
    """
    if features_of(table).obstacle:
        return None
    wanted: dict[str, int] = {}
    rows, hull = 0, None if spans is None else spans.hull
    anywhere = set() if also is None else {name for name, _, _ in file_bounds(table, time, also)}
    for name, bytes_, bounds in file_bounds(table, time, within):
        if bounds.rows is None:
            return None
        is_near = bounds.span is not None and hull is not None and bounds.span & hull is not None
        is_inside = spans is None or (is_near and bounds.span is not None and spans & SpanSet.of(bounds.span))
        if is_inside or not bounds.is_known or name in anywhere:
            wanted[name] = bytes_
            rows += bounds.rows
    return None if is_typed_by_others(table, columns) else (wanted, rows)


def _lies_elsewhere(name: str) -> bool:
    return name.startswith("/") or ":" in name


def _dataset(table: DeltaTable, path: str, wanted: Mapping[str, int]) -> _Files | None:
    """Return some files of a table, given with their sizes; None if one of them cannot be found."""
    refuse_irregular(path, wanted)
    import pyarrow.dataset as ds  # noqa: PLC0415 - it imports pandas, which costs time that most commands do not have

    # Spark stores timestamps as INT96; as nanoseconds, which is the default, they could not hold every time
    options = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
    if table.metadata().partition_columns or any(map(_lies_elsewhere, wanted)):
        whole = table.to_pyarrow_dataset(parquet_read_options=options)
        fragments = [f for f in whole.get_fragments() if f.path in wanted]
        names = [f.path for f in fragments]
        system = whole.filesystem
        dataset = ds.FileSystemDataset(fragments, whole.schema, whole.format, system)
    else:
        # the library would make a fragment with bounds for every file of the table: 0.2 s for a thousand files
        form = ds.ParquetFileFormat(options, pre_buffer=True)
        system = fs.LocalFileSystem() if places.is_local(path) else None
        names = sorted(wanted)
        fragments = [form.make_fragment(file, system) for file in places.all_opened(path, names)]
        dataset = ds.FileSystemDataset(fragments, pa.schema(table.schema().to_arrow()), form, system)
    table_id = str(table.metadata().id)
    keys = [(table_id, name, wanted[name]) for name in names]
    return _Files(dataset, keys, system) if len(names) == len(wanted) else None
