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
from materializer.lake.capture.changed_rows import KEPT_ROWS, changed_rows
from materializer.lake.capture.context import Look
from materializer.lake.capture.int96 import far_times
from materializer.lake.capture.lateness import lateness_of
from materializer.lake.capture.result import CapturedPiece, CaptureResult, Rung, Segment, VersionCount
from materializer.lake.extent import instants_of
from materializer.lake.failures import first_line
from materializer.lake.log import Commit, DataFile
from materializer.lake.types import columns_of

MAX_CHANGE_FILES: Final = 500
"""Maximum number of change files to read here; Spark reads more."""

_INSERT, _PRE, _POST, _DELETE = "insert", "update_preimage", "update_postimage", "delete"


class FeedUnreadableError(Exception):
    """The feed of a run cannot be read, or does not match the log; the message says why."""


def read_feed(look: Look, run: list[Commit]) -> CaptureResult | Segment:
    """Return the result of the feed of a run of versions, or the run as a segment for Spark if the feed is large.

    Raises:
        FeedUnreadableError: If a file does not exist or rows are missing; the caller has to use another rung.
    """
    first, last = run[0].version, run[-1].version
    try:
        expected = _expected_rows(look, run)
        total = None if expected is None else sum(expected.values())
        if expected is None or total is None or total > look.max_rows:
            found = f"more than {MAX_CHANGE_FILES} change files" if total is None else f"{total} changed rows"
            return Segment(
                first,
                last,
                f"{found} in versions {first} to {last} are more than the driver reads ({look.max_rows} rows)",
            )
        columns = {look.column.name, *(look.keys or ())}
        if far := far_times(look.table.path, first - 1, run, columns_of(look.table.schema_json()), columns):
            return Segment(first, last, far)
        rows = _rows(look, first, last, total)
    except (DeltaError, OSError, pa.ArrowInvalid) as exc:
        raise FeedUnreadableError(f"the change feed could not be read: {first_line(exc)}") from exc
    change, old, counts, lateness = _counted(look, rows, run)
    got = {c.version: c.inserted + c.updated_pre + c.updated_post + c.deleted for c in counts}
    if got != {v: n for v, n in expected.items() if n}:
        raise FeedUnreadableError("the change feed does not have the rows that the log names")
    pieces = [
        CapturedPiece(p.spans, Rung.FEED, p.is_insert_only, p.rows, p.keys, first, last)
        for p in pieces_of(change, look.floor, look.next_edge)
    ]
    result = CaptureResult(tuple(pieces), tuple(counts), lateness=lateness)
    return result if old is None else result + below_frozen.of_rows(look, old, first, last)


def _expected_rows(look: Look, run: list[Commit]) -> dict[int, int] | None:
    """Return the number of rows that the feed must have for each version; None if there are too many files to count."""
    expected = {}
    opened = 0
    for commit in run:
        if commit.change_files:
            opened += len(commit.change_files)
            if opened > MAX_CHANGE_FILES:
                return None
            expected[commit.version] = sum(_footer(look, f.path) for f in commit.change_files)
        else:
            came = sum(_count(look, f, f.rows) for f in commit.adds if f.data_change)
            went = sum(_count(look, f, _known_rows(look, f)) for f in commit.removes if f.data_change)
            expected[commit.version] = came + went
        look.learn(commit)
    return expected


def _known_rows(look: Look, file: DataFile) -> int | None:
    known = look.original(file)
    return known.rows if known else None


def _count(look: Look, file: DataFile, rows: int | None) -> int:
    return _footer(look, file.path) if rows is None else rows


def _footer(look: Look, name: str) -> int:
    return int(pq.read_metadata(f"{look.table.path}/{unquote(name)}").num_rows)


def _rows(look: Look, first: int, last: int, total: int) -> pa.Table:
    columns = list(dict.fromkeys([look.column.name, *(look.keys or ()), "_change_type", "_commit_version"]))
    with look.table.reading(last) as opened:
        if total <= KEPT_ROWS:
            with suppress(DeltaError, pa.ArrowInvalid):  # of a column that only the merge reads
                return changed_rows(opened, first, last, list(dict.fromkeys([*columns, *look.reads])))
        return changed_rows(opened, first, last, columns)


def _counted(
    look: Look, rows: pa.Table, run: list[Commit]
) -> tuple[ChangedRows, below_frozen.Rows | None, list[VersionCount], Lateness]:
    instants = instants_of(rows[look.column.name], look.column.time_type)
    is_null = pc.is_null(instants)
    kinds, versions = rows["_change_type"], rows["_commit_version"]
    by_kind = pa.table({"v": versions, "k": kinds, "n": is_null.cast(pa.int64())}).group_by(["v", "k"])
    counts: dict[int, dict[str, int]] = {}
    for group in by_kind.aggregate([("n", "sum"), ("n", "count")]).to_pylist():
        found = counts.setdefault(group["v"], {"null": 0})
        found[group["k"]] = group["n_count"]
        found["null"] += group["n_sum"]
    unknown = {k for found in counts.values() for k in found} - {_INSERT, _PRE, _POST, _DELETE, "null"}
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
    keys = rows.select(list(look.keys)).filter(has_time) if look.keys else None
    inserted = pc.equal(kinds, _INSERT).filter(has_time)
    lateness = Lateness()
    if not look.column.time_type.is_integer:
        known = {c.version: c.timestamp * MILLISECOND for c in run}
        lateness = lateness_of(
            instants.filter(has_time).filter(inserted), versions.filter(has_time).filter(inserted), known
        )
    change, old = ChangedRows(instants.filter(has_time), inserted, keys), None
    if look.frozen != NEG_INF:
        change, old = _split(look, change, pc.equal(kinds, _DELETE).filter(has_time), versions.filter(has_time))
    return change, old, per_version, lateness


def _split(look: Look, change: ChangedRows, is_delete: Any, versions: Any) -> tuple[ChangedRows, below_frozen.Rows]:
    """Return the changed rows at or above the frozen boundary, and those below it."""
    is_old = pc.less(change.instants, max(look.frozen, -(1 << 63)))
    stays = pc.invert(is_old)
    above = ChangedRows(
        change.instants.filter(stays),
        change.is_insert.filter(stays),
        None if change.keys is None else change.keys.filter(stays),
    )
    found = (change.instants, versions, change.is_insert, is_delete)
    return above, below_frozen.Rows(*(c.filter(is_old).to_numpy(zero_copy_only=False) for c in found))
