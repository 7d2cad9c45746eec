"""Data files by time, as columns: a hundred thousand of them are looked through without a value for each.

Integers beyond 64 bits stay exact: a column with one holds objects of Python.
"""

# ruff: noqa: PLC0415 - what has no files is known without numpy

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

from msgspec import Struct

from materializer.core.time.spans import Span, SpanSet

_MOST: Final = 1 << 62
"""Integers below this can be added and subtracted in 64 bits."""


class FileStat(Struct, frozen=True):
    """One data file: its rows, its size, and the half-open time range that contains its rows."""

    rows: int
    bytes: int
    start: int
    end: int


class FileTimes(Sequence[FileStat]):
    """Files in the order of their starts.

    Args:
        counts: The rows of each, as a column of :func:`column_of`.
        sizes: The bytes of each.
        starts: The first instant of each.
        ends: The instant after the last one of each.
    """

    __slots__ = ("counts", "ends", "sizes", "starts")

    def __init__(self, counts: Any, sizes: Any, starts: Any, ends: Any) -> None:
        self.counts, self.sizes, self.starts, self.ends = counts, sizes, starts, ends

    @classmethod
    def of(cls, files: Iterable[FileStat]) -> FileTimes:
        """Return files that are given one by one, in their order."""
        if isinstance(files, FileTimes):
            return files
        known = tuple(files)
        return cls(
            column_of([f.rows for f in known]),
            column_of([f.bytes for f in known]),
            column_of([f.start for f in known]),
            column_of([f.end for f in known]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> FileStat: ...
    @overload
    def __getitem__(self, at: slice) -> FileTimes: ...
    def __getitem__(self, at: int | slice) -> FileStat | FileTimes:
        cells = self.counts[at], self.sizes[at], self.starts[at], self.ends[at]
        return FileTimes(*cells) if isinstance(at, slice) else FileStat(*map(int, cells))

    def __iter__(self) -> Iterator[FileStat]:
        return map(FileStat, *map(_plain, (self.counts, self.sizes, self.starts, self.ends)))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (FileTimes, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def rows(self) -> int:
        """The rows of all."""
        return _sum(self.counts)

    @property
    def bytes(self) -> int:
        """The bytes of all."""
        return _sum(self.sizes)

    @property
    def hull(self) -> Span | None:
        """The smallest span that contains all; None if there are none."""
        return Span(int(self.starts[0]), int(self.ends.max())) if len(self) else None

    @property
    def spans(self) -> SpanSet:
        """The instants at which there may be rows."""
        if not len(self):
            return SpanSet()
        import numpy as np

        reached = np.maximum.accumulate(self.ends)
        first = np.flatnonzero(np.append(True, self.starts[1:] > reached[:-1]))
        ends = np.append(reached[first[1:] - 1], reached[-1])
        return SpanSet(tuple(map(Span, _plain(self.starts[first]), _plain(ends))))

    def newest_before(self, edge: int) -> int | None:
        """Return the last instant before *edge* at which there may be rows; of a file that extends beyond it, its first one."""
        before = self[: self._up_to(edge)]
        if not len(before):
            return None
        import numpy as np

        return int(np.where(before.ends <= edge, before.ends - 1, before.starts).max())

    def since(self, start: int) -> FileTimes:
        """Return the files that may have rows from an instant on, as far as these rows are concerned."""
        later = self.only(self.ends > start)
        if not len(later) or start <= int(later.starts[0]):
            return later
        import numpy as np

        return FileTimes(later.counts, later.sizes, np.maximum(later.starts, start), later.ends)

    def near(self, spans: SpanSet) -> FileTimes:
        """Return the files that meet the hull of *spans*: few of many files if *spans* is one late row."""
        hull = spans.hull
        if hull is None or not len(self):
            return self[:0]
        before = self[: self._up_to(hull.end)]
        return before.only(before.ends > hull.start)

    def inside(self, spans: SpanSet) -> tuple[FileTimes, float, bool]:
        """Return the files that meet *spans*, their likely rows in these, and whether no span cuts a file."""
        near = self.near(spans)
        if not len(near):
            return near, 0.0, True
        import numpy as np

        ours = spans & SpanSet.of(Span(int(near.starts[0]), int(near.ends.max())))
        if not ours:
            return near[:0], 0.0, True
        starts, ends = column_of([s.start for s in ours]), column_of([s.end for s in ours])
        before = np.append(0, np.cumsum(ends - starts))  # how much of the spans lies before each of them

        def covered(instants: Any) -> Any:
            at = np.searchsorted(starts, instants, side="right") - 1
            within = np.minimum(instants, ends[at]) - starts[at]
            return np.where(at < 0, 0, before[at] + within)

        inside = covered(near.ends) - covered(near.starts)
        is_met = inside > 0
        met, inside = near.only(is_met), inside[is_met]
        is_cut = inside < met.ends - met.starts
        cut = met.only(is_cut)
        whole = met.rows - cut.rows
        parts = zip(cut, _plain(inside[is_cut]), strict=True)
        likely = sum((f.rows * part / (f.end - f.start) for f, part in parts), float(whole))
        return met, likely, not len(cut)

    def _up_to(self, edge: int) -> int:
        """Return how many files begin before an instant."""
        import numpy as np

        if abs(edge) < _MOST or self.starts.dtype == object:
            return int(np.searchsorted(self.starts, edge))
        return len(self) if edge > 0 else 0

    def only(self, mask: Any) -> FileTimes:
        """Return the files where a mask is true."""
        return FileTimes(self.counts[mask], self.sizes[mask], self.starts[mask], self.ends[mask])


def column_of(values: Any) -> Any:
    """Return integers, given as a list or as an array, as a column whose cells can be added and subtracted exactly."""
    import numpy as np

    if isinstance(values, np.ndarray):
        if values.dtype == object or not len(values):
            return values
        is_small = int(values.min()) > -_MOST and int(values.max()) < _MOST
        return values if is_small else values.astype(object)
    is_small = all(-_MOST < value < _MOST for value in values)
    return np.array(values, np.int64 if is_small else object)


def _plain(column: Any) -> list[int]:
    values: list[int] = column.tolist()
    return values


def _sum(column: Any) -> int:
    if not len(column):
        return 0
    if column.dtype == object or int(column.max()) * len(column) < _MOST:
        return int(column.sum())
    return sum(_plain(column))
