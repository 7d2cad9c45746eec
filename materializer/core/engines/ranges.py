"""The results of one key that are computed anew, and the raw rows that they need."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

NO_TIME: Final = -(1 << 63)
"""Stands for the event time of a row without one, in an array of 64-bit integers."""


class StoredResult(NamedTuple):
    """A stored result row of one key, published or withheld; a tuple, because a plan makes hundreds of thousands of them.

    Args:
        w_start: First instant of its window, which identifies the row within its key.
        w_end: First instant after its window.
        first_t: Smallest event time in it; None for a filled row.
        last_t: Largest event time in it; None for a filled row.
        is_final: Whether its window is closed.
        n: Number of source rows in it; 0 for a filled row.
    """

    w_start: int
    w_end: int
    first_t: int | None
    last_t: int | None
    is_final: bool
    n: int


class StoredOfKey(Struct, frozen=True):
    """The stored result rows of one key.

    Args:
        rows: The rows in order of time; only those around its changes where :meth:`WindowEngine.looks_at` says that these are enough.
        carried: For each of them the values of the columns that running state carries on.
        starts: The starts of all rows that were read, in order, where *rows* has only some of them.
        newest: The largest event time of each of these; ``NO_TIME`` for a filled row.
    """

    rows: list[StoredResult] = field(default_factory=list)
    carried: list[tuple[Any, ...]] = field(default_factory=list)
    starts: Sequence[int] = ()
    newest: Sequence[int] = ()

    def count_in(self, start: int, end: int) -> int:
        """Return how many rows that were read begin in [start, end)."""
        if self.starts:
            return bisect_left(self.starts, end) - bisect_left(self.starts, start)
        first, stop = (bisect_left(self.rows, t, key=lambda k: k.w_start) for t in (start, end))
        return stop - first

    def newest_outside(self, ranges: Sequence[Range]) -> int | None:
        """Return the largest event time of the rows that begin outside of some ranges, which are disjoint and in order."""
        starts = self.starts or [row.w_start for row in self.rows]
        newest = self.newest or [NO_TIME if row.last_t is None else row.last_t for row in self.rows]
        edges = [0, *(bisect_left(starts, t) for r in ranges for t in (r.start, r.end)), len(starts)]
        outside = zip(edges[::2], edges[1::2], strict=True)
        found = max((max(newest[a:b]) for a, b in outside if a < b), default=NO_TIME)
        return None if found == NO_TIME else found


class Range(Struct, frozen=True):
    """A range of results of one key to compute anew.

    Args:
        start: Result rows with ``start <= w_start`` …
        end: … and ``w_start < end`` are replaced.
        raw_start: They are computed from the raw rows with ``raw_start <= t`` …
        raw_end: … and ``t < raw_end``.
    """

    start: int
    end: int
    raw_start: int
    raw_end: int


def first_across(t: int, bound: int, stored: Sequence[StoredResult]) -> int:
    """Return the start of the first stored result that begins below *bound* and ends after *t*; *bound* without one.

    Args:
        t: An instant.
        bound: A boundary.
        stored: Stored results in order of their starts, which is the order of their ends, too.
    """
    at = bisect_right(stored, t, key=lambda k: k.w_end)
    return min(stored[at].w_start, bound) if at < len(stored) else bound


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges in order, with those merged that overlap in results or in raw rows.

    Examples:
        >>> merge_ranges([Range(5, 9, 5, 9), Range(0, 6, 0, 6), Range(20, 21, 20, 21)])
        [Range(start=0, end=9, raw_start=0, raw_end=9), Range(start=20, end=21, raw_start=20, raw_end=21)]
    """
    merged: list[Range] = []
    for r in sorted(ranges, key=lambda r: (min(r.start, r.raw_start), r.start)):
        last = merged[-1] if merged else None
        if last is not None and (r.start <= last.end or r.raw_start < last.raw_end):
            merged[-1] = Range(
                min(last.start, r.start),
                max(last.end, r.end),
                min(last.raw_start, r.raw_start),
                max(last.raw_end, r.raw_end),
            )
        else:
            merged.append(r)
    return merged
