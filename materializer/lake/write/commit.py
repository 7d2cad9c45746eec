"""Commits to our tables, all of them by the driver and without a JVM.

A commit is made against exactly the version that was opened, without the library's rebasing. So no other commit can come
between the check of the transaction number and the write. A commit is known by its note, which no other commit has: where the
answer to a write was lost, or another process ended the same plan, the commit is recognised and not made again. Our tables
have no deletion vectors, no column mapping, no clustering and no partitions.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction, WriterProperties
from deltalake import write_deltalake as write_to_delta
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from msgspec import Struct

from materializer.core.policy.compaction import FILE_ROWS
from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import SpanSet
from materializer.errors import (
    NOTHING,
    ForeignTableError,
    LogGapError,
    MaterializerError,
    RetryableError,
    SourceDamagedError,
    StorageError,
    WriteFencedError,
)
from materializer.lake import places
from materializer.lake.arrow import mask
from materializer.lake.extent import instants_of
from materializer.lake.failures import first_line, translated
from materializer.lake.log import Commit, forget, is_begun, read_commit
from materializer.lake.predicates import inside
from materializer.lake.table import DeltaFolder, open_table
from materializer.lake.types import columns_of, schema_of

ATTEMPTS: Final = 5
ROW_GROUP: Final = 65_536
CHECKPOINT_EVERY: Final = 10
NOT_COMMITTED: Final = "nothing was committed; files of the failed write may stay until the next vacuum"
PROPERTIES: Final[Mapping[str, str]] = {
    "delta.enableDeletionVectors": "false",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
    "delta.dataSkippingNumIndexedCols": "-1",
}
"""Properties of every new table of ours, so that session defaults have no effect; binary columns have no statistics."""

NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
WRITER: Final = WriterProperties(max_row_group_size=ROW_GROUP, compression="SNAPPY")


class CommitResult(Struct, frozen=True):
    """The result of one commit.

    Args:
        version: The version that the commit made.
        files_added: Number of added files.
        files_removed: Number of removed files.
        bytes: Size of the added files.
        rows_copied: Number of rows outside the spans that had to be rewritten.
    """

    version: int
    files_added: int
    files_removed: int
    bytes: int
    rows_copied: int


def create_table(
    path: str,
    schema: pa.Schema | Sequence[Sequence[str]],
    *,
    name: str,
    description: str = "",
    properties: Mapping[str, str] | None = None,
) -> str:
    """Create an empty table of ours, and return its id.

    Args:
        path: Folder, which must not hold a table.
        schema: Arrow schema, or (name, Spark type text) of each column.
        name: The table's name, for people.
        description: The table's description, for people.
        properties: Additional table properties; they override ``PROPERTIES``.

    Raises:
        ForeignTableError: If the folder already holds a table.
        StorageError: If the table cannot be written.
    """
    if is_begun(path):
        raise ForeignTableError(
            f"'{path}' holds a table already", hint="move it away, or choose another name", path=path, wrote=NOTHING
        )
    shape = Schema.from_arrow(schema) if isinstance(schema, pa.Schema) else Schema.from_json(schema_of(schema))
    mark = _text({"mark": uuid4().hex})
    # without retries of the library, which would create it again, as version 1
    properties_of_commit = CommitProperties({"userMetadata": mark}, max_commit_retries=0)
    with translated(path, "creating", wrote=NOT_COMMITTED):
        places.make_folder(path)
        forget(path)  # of a table that was there before, commits may still be in memory
        try:
            create_table_with_add_actions(
                path,
                shape,
                [],
                name=name,
                description=description,
                configuration={**PROPERTIES, **(properties or {})},
                commit_properties=properties_of_commit,
                post_commithook_properties=NO_HOOKS,
                storage_options=places.options_of(path),
            )
        except CommitFailedError:
            if not is_begun(path) or read_commit(path, 0).user_metadata != mark:  # else only the answer was lost
                raise
        made = read_commit(path, 0).metadata
        if made is None:
            raise SourceDamagedError(f"version 0 of '{path}' has no metadata", wrote=NOT_COMMITTED)
        return made.id


def append_rows(path: str, table: pa.Table, app_id: str, n: int, note: Mapping[str, Any]) -> CommitResult:
    """Append *table* in one commit that carries number *n*; the errors are those of :func:`replace_all`."""
    return committed(
        path,
        app_id,
        n,
        lambda opened: append_to(opened, fitted(path, opened, table), stamped(app_id, n, note)),
        note,
        new_rows=table.num_rows,
    )


def fence(path: str, app_id: str, n: int, note: Mapping[str, Any]) -> int | None:
    """Record number *n* in an empty commit, so that a late writer with this number is refused.

    Returns:
        The version that the commit made; None if another commit gave the table *n* or a higher number.
    """
    try:
        return committed(
            path,
            app_id,
            n,
            lambda opened: append_to(opened, shape_of(opened).empty_table(), stamped(app_id, n, note)),
            note,
            new_rows=0,
        ).version
    except WriteFencedError:
        return None


def replace_all(
    path: str,
    columns: Sequence[Sequence[str]],
    batches: Callable[[pa.Schema], Iterable[pa.RecordBatch]],
    app_id: str,
    n: int,
    note: Mapping[str, Any],
    *,
    row_bytes: float = 0,
) -> CommitResult:
    """Replace the columns and rows of a table of ours in one commit that carries number *n*; the table's id stays.

    Args:
        path: The table.
        columns: (name, Spark type text) of each column.
        batches: Returns the sorted batches for the Arrow schema that it is given; called once for each attempt.
        app_id: Transaction identifier.
        n: The number of the commit.
        note: The note for ``commitInfo.userMetadata``.
        row_bytes: Approximate size of a row in a file; 0 if unknown.

    Raises:
        WriteFencedError: If the table already carries *n* or a higher number.
        RetryableError: If other writers' commits came first in every attempt.
        StorageError: If the disk is full or permission is refused.
    """
    shape = _arrow(columns)

    def attempt(opened: DeltaTable) -> None:
        write_to_delta(
            opened,
            pa.RecordBatchReader.from_batches(shape, batches(shape)),
            mode="overwrite",
            schema_mode="overwrite",
            target_file_size=max(1 << 18, int(row_bytes * FILE_ROWS)),
            writer_properties=WRITER,
            commit_properties=stamped(app_id, n, note),
            post_commithook_properties=NO_HOOKS,
        )

    return committed(path, app_id, n, attempt, note, new_rows=0)


def committed(
    path: str,
    app_id: str | None,
    n: int,
    attempt: Callable[[DeltaTable], object],
    note: Mapping[str, Any],
    *,
    new_rows: int,
) -> CommitResult:
    """Run *attempt* against the newest version until its commit succeeds or is refused.

    Args:
        path: The table.
        app_id: Transaction identifier; None for a commit without a number.
        n: The number of the commit.
        attempt: Commits against exactly the version of the table that it is given, and updates the table handle.
        note: The note of the commit, which no other commit to the table has.
        new_rows: Number of new rows in the commit; the other rows were copied.

    Raises:
        WriteFencedError: If the table already carries *n* or a higher number, and not by a commit with this note.
        RetryableError: If other writers' commits came first in every attempt.
    """
    folder = DeltaFolder.at(path)
    for _ in range(ATTEMPTS):
        opened = folder.taken()
        base = opened.version()
        carried = None if app_id is None else folder.carried(opened, app_id)
        if carried is not None and carried >= n:
            if (own := _own(path, base, app_id, n, note)) is not None:
                return _result(own, new_rows)
            message = f"the write of refresh {n} to '{path}' was overtaken: the table carries {carried} already"
            raise WriteFencedError(message, path=path, found=carried, n=n)
        try:
            with translated(path, "writing to", wrote=NOT_COMMITTED):
                attempt(opened)
        except StorageError as exc:
            try:
                newest = open_table(path).version()
            except MaterializerError:
                exc.wrote = "whether it was committed is not known; the next command finds out"
                raise exc from exc.__cause__
            if (own := _own(path, newest, app_id, n, note, after=base)) is not None:  # the answer was lost
                return _result(own, new_rows)
            if not isinstance(exc.__cause__, CommitFailedError) or newest == base:
                raise
            continue
        keep_short(opened)
        folder.given_back(opened)
        return _result(read_commit(path, base + 1), new_rows)
    raise RetryableError(f"other commits to '{path}' came first, {ATTEMPTS} times", wrote=NOT_COMMITTED, path=path)


def _own(
    path: str, newest: int, app_id: str | None, n: int, note: Mapping[str, Any], *, after: int = -1
) -> Commit | None:
    """Return the commit with this note among the versions from *newest* back to *after*, which is excluded; None without it.

    A commit with another number under the same identifier ends the search: numbers only rise.
    """
    text = _text(note)
    for version in range(newest, after, -1):
        try:
            commit = read_commit(path, version)
        except (LogGapError, SourceDamagedError):
            return None
        carried = None if app_id is None else commit.transactions.get(app_id)
        if commit.user_metadata == text and carried == (None if app_id is None else n):
            return commit
        if carried is not None and carried <= n:
            return None
    return None


def keep_short(opened: DeltaTable) -> None:
    """After every :data:`CHECKPOINT_EVERY` commits, write a checkpoint and remove expired log files."""
    # The commit has succeeded: a failure here only costs speed, and the next round number tries again.
    if opened.version() % CHECKPOINT_EVERY == 0:
        with contextlib.suppress(DeltaError, OSError):
            opened.create_checkpoint()
            opened.cleanup_metadata()


def _result(commit: Commit, new_rows: int) -> CommitResult:
    rows = sum(f.rows or 0 for f in commit.adds)
    size = sum(f.bytes for f in commit.adds)
    return CommitResult(commit.version, len(commit.adds), len(commit.removes), size, max(0, rows - new_rows))


def append_to(opened: DeltaTable, table: pa.Table, properties: CommitProperties) -> None:
    """Append sorted rows, in files of about the target size."""
    write_to_delta(
        opened,
        table,
        mode="append",
        target_file_size=_file_size(table),
        writer_properties=WRITER,
        commit_properties=properties,
        post_commithook_properties=NO_HOOKS,
    )


def commit_files(opened: DeltaTable, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties) -> None:
    """Add and remove files in one commit, which may be empty."""
    if not actions:
        append_to(opened, shape_of(opened).empty_table(), properties)
        return
    opened.create_write_transaction(
        list(actions),
        "append",
        opened.schema(),
        commit_properties=properties,
        post_commithook_properties=NO_HOOKS,
    )
    opened.update_incremental()


def stamped(app_id: str | None, n: int, note: Mapping[str, Any]) -> CommitProperties:
    """Return the properties of a commit: the note and, if there is one, the number of its transaction."""
    transactions = None if app_id is None else [Transaction(app_id, n)]
    return CommitProperties({"userMetadata": _text(note)}, max_commit_retries=0, app_transactions=transactions)


def _text(note: Mapping[str, Any]) -> str:
    return json.dumps(dict(note), separators=(",", ":"))


def _file_size(table: pa.Table) -> int:
    """Return the target size in bytes of a file of these rows."""
    # Compressed columns take about half of their size in memory.
    width = table.nbytes / table.num_rows if table.num_rows else 0
    return max(1 << 18, int(width * FILE_ROWS / 2))


def _arrow(columns: Sequence[Sequence[str]]) -> pa.Schema:
    return pa.schema(Schema.from_json(schema_of(columns)).to_arrow())


def why_no_table(columns: Sequence[Sequence[str]]) -> str:
    """Return why no Delta table can have columns of these names and types; "" if one can."""
    try:
        _arrow(columns)
    except (ValueError, DeltaError) as exc:
        return first_line(exc)
    return ""


def shape_of(opened: DeltaTable) -> pa.Schema:
    """Return the columns of a table."""
    return pa.schema(opened.schema().to_arrow())


def fitted(path: str, opened: DeltaTable, table: pa.Table) -> pa.Table:
    """Return *table* with the columns in the table's order; the library would silently cast other types."""
    table = _in_utc(table)
    expected = columns_of(opened.schema().to_json())
    try:
        given = dict(columns_of(Schema.from_arrow(table.schema).to_json()))
    except Exception as exc:
        raise ValueError(f"rows for '{path}' have a type that Delta does not store: {first_line(exc)}") from exc
    wrong = [
        f"{name}: {given.get(name, 'missing')} instead of {kind}" for name, kind in expected if given.get(name) != kind
    ]
    wrong += [f"{name}: not in the table" for name in given if name not in dict(expected)]
    if wrong:
        raise ForeignTableError(
            f"the table at '{path}' has other columns than the rows that are to be written: {'; '.join(wrong)}",
            hint="run 'materializer repair' on the aggregate that it belongs to",
            path=path,
            wrote=NOTHING,
        )
    return table.select([name for name, _ in expected])


def _in_utc(table: pa.Table) -> pa.Table:
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz not in {None, "UTC"}:
            column = table.column(i).cast(pa.timestamp(field.type.unit, tz="UTC"))
            table = table.set_column(i, pa.field(field.name, column.type), column)
    return table


def part_of(table: pa.Table, column: SliceColumn, spans: SpanSet) -> pa.Table:
    """Return the rows of *table* that belong to the buckets in *spans*."""
    return table.filter(mask(inside(values(table, column.name, column.type), column.values_in(spans))))


def values(table: pa.Table, column: str, time_type: TimeType) -> Any:
    """Return the instants of a column."""
    return instants_of(table[column], time_type).to_numpy()


def shaped(old: pa.Table, shape: pa.Schema) -> pa.Table:
    """Return the rows of a file with the columns of its table; a column added after the file is null."""
    columns = [
        old[field.name].cast(field.type) if field.name in old.column_names else pa.nulls(old.num_rows, field.type)
        for field in shape
    ]
    return pa.Table.from_arrays(columns, schema=shape)
