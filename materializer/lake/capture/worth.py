"""Which change feeds are worth reading: file statistics bound what changed before a row of the feed is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import groupby
from typing import TypeAlias

import pyarrow as pa
from msgspec import Struct

from materializer.core.time.spans import SpanSet
from materializer.lake.capture.buckets import whole_buckets
from materializer.lake.capture.context import CaptureContext
from materializer.lake.capture.feed import MAX_CHANGE_FILES, rows_of_file
from materializer.lake.log import Commit, DataFile
from materializer.lake.statistics import FileRange


class FeedSize(Struct, frozen=True):
    """What has to be read for the change feed of some commits.

    Args:
        rows: Changed rows; an estimate where they are in too many files to count.
        bytes: Size of the files that hold them.
        files: Number of these files.
        by_library: How many of them only the library reads: files of the change feed, and those of commits that removed files.
    """

    rows: int = 0
    bytes: int = 0
    files: int = 0
    by_library: int = 0

    def __add__(self, other: FeedSize) -> FeedSize:
        return FeedSize(
            self.rows + other.rows,
            self.bytes + other.bytes,
            self.files + other.files,
            self.by_library + other.by_library,
        )


WhyNotRead: TypeAlias = Callable[[FeedSize, Callable[[], SpanSet | None]], str]
"""Returns why a feed is not worth reading, or ""; its arguments are the size of the feed, and what returns the whole buckets in
which the changed files may have rows (None if some file does not tell)."""


def by_worth(context: CaptureContext, run: Sequence[Commit], why_not: WhyNotRead) -> Iterator[tuple[list[Commit], str]]:
    """Yield neighbouring commits of a run, and why their feed is not worth reading; "" if it is.

    A large commit does not take the feed from the others: each is looked at alone where the whole run is too large.
    """
    ahead = context.ahead()
    sizes, files = {}, 0
    for commit in run:
        files += len(commit.change_files)
        sizes[commit.version] = _size(ahead, commit, is_counted=files <= MAX_CHANGE_FILES)
        ahead.learn(commit)

    def why(commits: Sequence[Commit]) -> str:
        size = reduce(FeedSize.__add__, (sizes[c.version] for c in commits), FeedSize())
        return why_not(size, lambda: _touched(ahead, commits))

    whole = why(run)
    alone = [(why([c]) if whole and len(run) > 1 else whole, c) for c in run]
    if not any(reason for reason, _ in alone):
        yield list(run), whole
        return
    for is_large, group in groupby(alone, key=lambda each: bool(each[0])):
        reasons, commits = zip(*group, strict=True)
        yield list(commits), reasons[0] if is_large else why(commits)


def _size(context: CaptureContext, commit: Commit, *, is_counted: bool) -> FeedSize:
    """Return the size of the feed of a commit; the rows of change files are read from their footers if they are to be counted."""
    added, removed = ([f for f in files if f.data_change] for files in (commit.adds, commit.removes))
    size, number = sum(f.bytes for f in (*added, *removed)), len(added) + len(removed)
    came: dict[str, int] = defaultdict(
        int
    )  # a file that stays, with more of its rows marked as deleted, has only these
    for file in added:
        came[file.path] += file.rows or 0
    for file in removed:
        known = context.original(file)
        came[file.path] -= 0 if known is None else known.rows or 0
    rows = sum(map(abs, came.values()))
    if not commit.change_files:
        return FeedSize(rows, size, number, number if removed else 0)
    fed, number = sum(f.bytes for f in commit.change_files), len(commit.change_files)
    if not is_counted:
        return FeedSize(round(rows * min(1.0, fed / max(size, 1))), fed, number, number)
    with suppress(OSError, pa.ArrowInvalid):  # the reading of the feed will tell
        return FeedSize(sum(rows_of_file(context, f.path) for f in commit.change_files), fed, number, number)
    return FeedSize(0, fed, number, number)


def _touched(context: CaptureContext, commits: Sequence[Commit]) -> SpanSet | None:
    """Return the whole buckets in which the changed files of some commits may have rows; None if one does not tell."""
    files: list[DataFile | FileRange | None] = [f for c in commits for f in c.adds if f.data_change]
    files += [context.original(f) for c in commits for f in c.removes if f.data_change]
    if not all(f is not None and f.is_known for f in files):
        return None
    spans = SpanSet.union(f.span for f in files if f is not None and f.span is not None)
    return whole_buckets(spans, context.floor, context.next_edge)
