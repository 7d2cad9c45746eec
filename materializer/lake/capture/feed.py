"""The change data feed of a few versions, read by the library, with its rows counted against the log."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from materializer.core.refresh.lateness import Lateness
from materializer.core.time.instants import MILLISECOND
from materializer.core.time.spans import NEG_INF
from materializer.lake.capture import below_frozen
from materializer.lake.capture.buckets import ChangedRows, pieces_of
from materializer.lake.capture.changed_rows import changed_rows, is_remembered
from materializer.lake.capture.context import CaptureContext
from materializer.lake.capture.int96 import why_misread
from materializer.lake.capture.lateness import lateness_by, lateness_of
from materializer.lake.capture.result import CapturedPiece, CaptureResult, Rung, Segment, VersionCount
from materializer.lake.extent import instants_of
from materializer.lake.failures import first_line
from materializer.lake.log import Commit, DataFile
from materializer.lake.reads import fact
from materializer.lake.types import columns_of

MAX_CHANGE_FILES: Final = 500
"""Maximum number of change files to read here; Spark reads more."""

_INSERT, _PRE, _POST, _DELETE = "insert", "update_preimage", "update_postimage", "delete"


class FeedUnreadableError(Exception):
    """The feed of a run cannot be read, or does not match the log; the message says why."""


def read_feed(context: CaptureContext, run: list[Commit]) -> CaptureResult | Segment:
    """Return the result of the feed of a run of versions, or the run as a segment for Spark if the feed is large.

    Raises:
        FeedUnreadableError: If a file does not exist or rows are missing; the caller has to use another rung.
    """
    first, last = run[0].version, run[-1].version
    try:
        expected = _expected_rows(context, run)
        total = None if expected is None else sum(expected.values())
        size = _size(run)
        if expected is None or total is None or total > context.max_rows or size > context.max_bytes:
            size_in_words = (
                f"more than {MAX_CHANGE_FILES} change files"
                if total is None
                else f"{total} changed rows of {size} bytes"
            )
            most = f"{context.max_rows} rows, {context.max_bytes} bytes"
            return Segment(
                first, last, f"{size_in_words} in versions {first} to {last} are more than the driver reads ({most})"
            )
        columns = set(_columns(context))
        if obstacle := why_misread(
            context.table.path, first - 1, run, columns_of(context.table.schema_json()), columns
        ):
            return Segment(first, last, obstacle)
        rows = _rows(context, run, total)
    except (DeltaError, OSError, pa.ArrowInvalid) as exc:
        raise FeedUnreadableError(f"the change feed could not be read: {first_line(exc)}") from exc
    change, frozen, counts, lateness = _counted(context, rows, run)
    counted = {c.version: c.inserted + c.updated_pre + c.updated_post + c.deleted for c in counts}
    if counted != {v: n for v, n in expected.items() if n}:
        raise FeedUnreadableError("the change feed does not have the rows that the log names")
    pieces = [
        CapturedPiece(p.spans, Rung.FEED, p.is_insert_only, p.rows, p.keys, first, last)
        for p in pieces_of(change, context.floor, context.next_edge)
    ]
    result = CaptureResult(tuple(pieces), tuple(counts), lateness=lateness)
    return result if frozen is None else result + below_frozen.of_rows(context, frozen, first, last)


def _size(run: list[Commit]) -> int:
    """Return the bytes of the files that hold the changed rows of a run."""
    return sum(f.bytes for c in run for f in c.change_files or (f for f in (*c.adds, *c.removes) if f.data_change))


def _expected_rows(context: CaptureContext, run: list[Commit]) -> dict[int, int] | None:
    """Return the number of rows that the feed must have for each version; None if there are too many files to count.

    Raises:
        FeedUnreadableError: If the feed has less than two rows for each row that an UPDATE counted: delta-rs leaves out a new
            row that equals another row from before, and an old row that equals another new one.
    """
    expected = {}
    opened = 0
    for commit in run:
        if commit.change_files:
            opened += len(commit.change_files)
            if opened > MAX_CHANGE_FILES:
                return None
            expected[commit.version] = rows = sum(rows_of_file(context, f.path) for f in commit.change_files)
            if commit.updated is not None and rows < 2 * commit.updated:
                msg = f"the change feed has {rows} rows for {commit.updated} updated ones"
                raise FeedUnreadableError(msg)
        else:
            added = sum(_count(context, f, f.rows) for f in commit.adds if f.data_change)
            removed = sum(_count(context, f, _known_rows(context, f)) for f in commit.removes if f.data_change)
            expected[commit.version] = added + removed
        context.learn(commit)
    return expected


def _known_rows(context: CaptureContext, file: DataFile) -> int | None:
    known = context.original(file)
    return known.rows if known else None


def _count(context: CaptureContext, file: DataFile, rows: int | None) -> int:
    return rows_of_file(context, file.path) if rows is None else rows


def rows_of_file(context: CaptureContext, name: str) -> int:
    """Return the number of rows of a file, from its footer."""
    path = context.table.path
    return fact(path, ("rows", name), lambda: int(pq.read_metadata(f"{path}/{unquote(name)}").num_rows))


def _columns(context: CaptureContext) -> list[str]:
    """Return the columns of the source of which capture looks at the changed rows."""
    known = () if context.known_at is None else (context.known_at[0],)
    return [context.column.name, *(context.keys or ()), *known]


def _rows(context: CaptureContext, run: list[Commit], total: int) -> pa.Table:
    columns = list(dict.fromkeys([*_columns(context), "_change_type", "_commit_version"]))
    with context.table.reading(run[-1].version) as opened:
        if is_remembered(context.table.path, total):
            with suppress(DeltaError, pa.ArrowInvalid):  # caused by a column that only the merge reads
                wide = list(dict.fromkeys([*columns, *context.reads]))
                return changed_rows(opened, context.table.path, run, wide, total)
        return changed_rows(opened, context.table.path, run, columns, total)


def _counted(
    context: CaptureContext, rows: pa.Table, run: list[Commit]
) -> tuple[ChangedRows, below_frozen.Rows | None, list[VersionCount], Lateness]:
    instants = instants_of(rows[context.column.name], context.column.time_type)
    is_null = pc.is_null(instants)
    kinds, versions = rows["_change_type"], rows["_commit_version"]
    counts: dict[int, dict[str, int]] = {v: {"null": 0} for v in versions.unique().to_pylist()}
    for kind in kinds.unique().to_pylist():  # at most four; `Table.group_by` loads a second engine
        for group in versions.filter(pc.equal(kinds, kind)).value_counts().to_pylist():
            counts[group["values"]][kind] = group["counts"]
    for group in versions.filter(is_null).value_counts().to_pylist():
        counts[group["values"]]["null"] = group["counts"]
    unknown = {k for kinds_of_version in counts.values() for k in kinds_of_version} - {
        _INSERT,
        _PRE,
        _POST,
        _DELETE,
        "null",
    }
    if unknown:
        raise FeedUnreadableError(f"the change feed has unknown kinds of rows: {', '.join(sorted(unknown))}")
    per_version = [
        VersionCount(
            c.version,
            Rung.FEED,
            counts[c.version].get(_INSERT, 0),
            counts[c.version].get(_PRE, 0),
            counts[c.version].get(_POST, 0),
            counts[c.version].get(_DELETE, 0),
            counts[c.version]["null"],
        )
        for c in run
        if c.version in counts
    ]
    has_time = pc.invert(is_null)
    found = _keys(context, rows) if context.keys else None
    keys = None if found is None else found.filter(has_time)
    inserted = pc.equal(kinds, _INSERT).filter(has_time)
    lateness = Lateness()
    if context.known_at is not None:
        name, kind = context.known_at
        new = pc.and_(has_time, pc.equal(kinds, _INSERT))
        lateness = lateness_by(instants.filter(new), rows[name].filter(new), kind)
    elif not context.column.time_type.is_integer:
        commit_times = {c.version: c.timestamp * MILLISECOND for c in run}
        lateness = lateness_of(
            instants.filter(has_time).filter(inserted), versions.filter(has_time).filter(inserted), commit_times
        )
    change, frozen = ChangedRows(instants.filter(has_time), inserted, keys), None
    if context.frozen != NEG_INF:
        change, frozen = _split(context, change, pc.equal(kinds, _DELETE).filter(has_time), versions.filter(has_time))
    return change, frozen, per_version, lateness


def _keys(context: CaptureContext, rows: pa.Table) -> pa.Table | None:
    """Return the keys of changed rows; an empty text in the name of a folder means null."""
    keys = rows.select(list(context.keys or ()))
    for name in context.table.features().partition_columns:
        if name in keys.column_names and pa.types.is_string(keys.schema.field(name).type):
            values = pc.if_else(pc.equal(keys[name], ""), pa.scalar(None, pa.string()), keys[name])
            keys = keys.set_column(keys.column_names.index(name), name, values)
    return keys if context.evaluate is None else context.evaluate(keys)


def _split(
    context: CaptureContext, change: ChangedRows, is_delete: Any, versions: Any
) -> tuple[ChangedRows, below_frozen.Rows]:
    """Return the changed rows at or above the frozen boundary, and those below it."""
    is_frozen = pc.less(change.instants, max(context.frozen, -(1 << 63)))
    is_above = pc.invert(is_frozen)
    above = ChangedRows(
        change.instants.filter(is_above),
        change.is_insert.filter(is_above),
        None if change.keys is None else change.keys.filter(is_above),
    )
    columns = (change.instants, versions, change.is_insert, is_delete)
    return above, below_frozen.Rows(*(c.filter(is_frozen).to_numpy(zero_copy_only=False) for c in columns))
