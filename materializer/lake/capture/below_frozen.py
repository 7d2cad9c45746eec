"""The changes of source versions below a frozen boundary, version by version.

Raw rows below the boundary may be deleted by retention. So a version that only deletes in a bucket counts as retention and
makes nothing dirty. A version that only inserts can be merged. Any other change is a conflict, which cannot be computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.lake.capture.buckets import buckets, whole_buckets
from materializer.lake.capture.context import CaptureContext
from materializer.lake.capture.result import CapturedPiece, CaptureResult, Rung, VersionCount
from materializer.lake.log import Commit, DataFile
from materializer.lake.statistics import FileRange

_DELETED_IN_PLACE = "DELETE"
"""The operation that leaves a file in place and marks more of its rows as deleted."""


class Rows(Struct, frozen=True):
    """Changed rows with a time, in the order of the feed: arrays of equal length."""

    instants: Any
    versions: Any
    is_insert: Any
    is_delete: Any


def below(context: CaptureContext) -> SpanSet:
    """Return the time below the frozen boundary, in which raw rows may be deleted."""
    return SpanSet() if context.frozen == NEG_INF else SpanSet.of(Span(NEG_INF, context.frozen))


def of_rows(context: CaptureContext, rows: Rows, first: int, last: int) -> CaptureResult:
    """Return the result for rows of the change feed of versions *first* to *last*, all below the boundary."""
    if not len(rows.instants):
        return CaptureResult()
    starts, ends = buckets(np.unique(rows.instants), context.floor, context.next_edge)
    bucket = np.searchsorted(np.array(starts, dtype=np.int64), rows.instants, side="right") - 1
    groups, index = np.unique(np.stack([bucket, rows.versions.astype(np.int64)]), axis=1, return_inverse=True)
    index = index.reshape(-1)
    total, inserted, deleted = (
        np.bincount(index, weights=w, minlength=groups.shape[1]).astype(np.int64)
        for w in (None, rows.is_insert, rows.is_delete)
    )

    def spans(which: Any) -> SpanSet:
        return SpanSet.union(Span(starts[i], ends[i]) for i in np.unique(groups[0][which]))

    is_inserted, is_deleted = inserted == total, deleted == total
    pieces = (
        CapturedPiece(
            spans(is_inserted), Rung.FEED, True, int(total[is_inserted].sum()), None, first, last, is_frozen=True
        ),
        CapturedPiece(
            spans(~is_inserted & ~is_deleted),
            Rung.FEED,
            False,
            int(total[~is_inserted & ~is_deleted].sum()),
            None,
            first,
            last,
            is_frozen=True,
        ),
    )
    return CaptureResult(tuple(p for p in pieces if p.times), expired=int(total[is_deleted].sum()))


def of_files(
    context: CaptureContext, commit: Commit, added_files: list[DataFile], removed_files: list[DataFile | FileRange]
) -> CaptureResult:
    """Return the result for the time below the boundary, from the files that one version added and removed."""
    if context.frozen == NEG_INF:
        return CaptureResult()
    marked_paths = {f.path for f in commit.removes} if commit.operation.upper() == _DELETED_IN_PLACE else set()
    marked_files: list[DataFile] = []
    new_files: list[DataFile] = []
    for file in added_files:
        (marked_files if file.has_deletion_vector and file.path in marked_paths else new_files).append(file)
    added, removed = _spans(context, new_files), _spans(context, removed_files)
    pieces = (
        CapturedPiece(added - removed, Rung.FILES, True, 0, None, commit.version, commit.version, is_frozen=True),
        CapturedPiece(added & removed, Rung.FILES, False, 0, None, commit.version, commit.version, is_frozen=True),
    )
    rows = 0 if added else _rows(context, removed_files) - _rows(context, marked_files)
    return CaptureResult(tuple(p for p in pieces if p.times), expired=rows)


def is_retention(context: CaptureContext, commit: Commit) -> bool:
    """Return whether a version only removed whole files below the boundary; then no row has to be read."""
    if context.frozen == NEG_INF or commit.change_files or any(f.data_change for f in commit.adds):
        return False
    removed = [context.original(f) for f in commit.removes if f.data_change]
    return bool(removed) and all(
        f is not None and f.is_known and f.rows is not None and (f.span is None or f.span.end <= context.frozen)
        for f in removed
    )


def retention(context: CaptureContext, run: list[Commit]) -> CaptureResult:
    """Return the result for *run*, whose versions are all :func:`is_retention`: counted rows, nothing dirty."""
    counts, expired = [], 0
    for commit in run:
        removed = [context.original(f) for f in commit.removes if f.data_change]
        rows = sum(f.rows or 0 for f in removed if f is not None and f.span is not None)
        counts.append(VersionCount(commit.version, Rung.FEED, expired=rows))
        expired += rows
        context.learn(commit)
    return CaptureResult((), tuple(counts), expired=expired)


def _spans(context: CaptureContext, files: list[Any]) -> SpanSet:
    spans = SpanSet.union(f.span for f in files if f.span is not None) & below(context)
    return whole_buckets(spans, context.floor, context.next_edge)


def _rows(context: CaptureContext, files: list[Any]) -> int:
    """Return the number of rows of the files that are entirely below the boundary."""
    return sum(f.rows or 0 for f in files if f.span is not None and f.span.end <= context.frozen)
