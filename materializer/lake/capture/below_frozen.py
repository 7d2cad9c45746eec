"""The changes of source versions below a frozen boundary, version by version.

Raw rows below the boundary may be deleted by retention. So a version that only deletes in a bucket counts as retention and
makes nothing dirty. A version that only inserts can be merged. Any other change is a conflict, which cannot be computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.lake.capture.buckets import buckets, whole_buckets
from materializer.lake.capture.context import Look
from materializer.lake.capture.result import CapturedPiece, CaptureResult, Rung, VersionCount
from materializer.lake.log import Commit, DataFile
from materializer.lake.statistics import FileRange

_DELETED_IN_PLACE = "DELETE"
"""The operation that leaves a file in place and marks more of its rows as deleted."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Changed rows with a time, in the order of the feed: arrays of equal length."""

    instants: Any
    versions: Any
    is_insert: Any
    is_delete: Any


def below(look: Look) -> SpanSet:
    """Return the time below the frozen boundary, in which raw rows may be deleted."""
    return SpanSet() if look.frozen == NEG_INF else SpanSet.of(Span(NEG_INF, look.frozen))


def of_rows(look: Look, rows: Rows, first: int, last: int) -> CaptureResult:
    """Return the result for rows of the change feed of versions *first* to *last*, all below the boundary."""
    if not len(rows.instants):
        return CaptureResult()
    starts, ends = buckets(np.unique(rows.instants), look.floor, look.next_edge)
    at = np.searchsorted(np.array(starts, dtype=np.int64), rows.instants, side="right") - 1
    groups, index = np.unique(np.stack([at, rows.versions.astype(np.int64)]), axis=1, return_inverse=True)
    index = index.reshape(-1)
    total, inserted, deleted = (
        np.bincount(index, weights=w, minlength=groups.shape[1]).astype(np.int64)
        for w in (None, rows.is_insert, rows.is_delete)
    )

    def spans(which: Any) -> SpanSet:
        return SpanSet.union(Span(starts[i], ends[i]) for i in np.unique(groups[0][which]))

    late, gone = inserted == total, deleted == total
    pieces = (
        CapturedPiece(spans(late), Rung.FEED, True, int(total[late].sum()), None, first, last, is_frozen=True),
        CapturedPiece(
            spans(~late & ~gone), Rung.FEED, False, int(total[~late & ~gone].sum()), None, first, last, is_frozen=True
        ),
    )
    return CaptureResult(tuple(p for p in pieces if p.times), expired=int(total[gone].sum()))


def of_files(look: Look, commit: Commit, came: list[DataFile], went: list[DataFile | FileRange]) -> CaptureResult:
    """Return the result for the time below the boundary, from the files that one version added and removed."""
    marked = {f.path for f in commit.removes} if commit.operation.upper() == _DELETED_IN_PLACE else set()
    stays = [f for f in came if f.has_deletion_vector and f.path in marked]
    new = [f for f in came if f not in stays]
    added, removed = _spans(look, new), _spans(look, went)
    pieces = (
        CapturedPiece(added - removed, Rung.FILES, True, 0, None, commit.version, commit.version, is_frozen=True),
        CapturedPiece(added & removed, Rung.FILES, False, 0, None, commit.version, commit.version, is_frozen=True),
    )
    rows = 0 if added else _rows(look, went) - _rows(look, stays)
    return CaptureResult(tuple(p for p in pieces if p.times), expired=rows)


def is_retention(look: Look, commit: Commit) -> bool:
    """Return whether a version only removed whole files below the boundary; then no row has to be read."""
    if look.frozen == NEG_INF or commit.change_files or any(f.data_change for f in commit.adds):
        return False
    went = [look.original(f) for f in commit.removes if f.data_change]
    return bool(went) and all(
        f is not None and f.is_known and f.rows is not None and (f.span is None or f.span.end <= look.frozen)
        for f in went
    )


def retention(look: Look, run: list[Commit]) -> CaptureResult:
    """Return the result for *run*, whose versions are all :func:`is_retention`: counted rows, nothing dirty."""
    counts, expired = [], 0
    for commit in run:
        went = [look.original(f) for f in commit.removes if f.data_change]
        rows = sum(f.rows or 0 for f in went if f is not None and f.span is not None)
        counts.append(VersionCount(commit.version, Rung.FEED, expired=rows))
        expired += rows
        look.learn(commit)
    return CaptureResult((), tuple(counts), expired=expired)


def _spans(look: Look, files: list[Any]) -> SpanSet:
    found = SpanSet.union(f.span for f in files if f.span is not None) & below(look)
    return whole_buckets(found, look.floor, look.next_edge)


def _rows(look: Look, files: list[Any]) -> int:
    """Return the number of rows of the files that are entirely below the boundary."""
    return sum(f.rows or 0 for f in files if f.span is not None and f.span.end <= look.frozen)
