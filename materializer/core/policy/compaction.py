"""Which files of a table are worth writing again, so that it stays laid out in time. Pure.

A file should hold few, neighbouring buckets, and few files should lie over any one instant: then replacing a bucket
rewrites little and reading a range skips much. Two patterns of files need a rewrite:

```
  small files side by side              files over each other
  [][] [][][]  [       ]  []            [====][====][====][====]     stays: the layer with most rows
  ──────────────────────────▶ time      [      ---------       ]  ┐
  merged                                   [  -----------  ]      ├  written again, cut into files that do
                                        [ ------------------- ]   ┘  not lie over each other
```

Where fewer than :data:`FEW` files lie over each other, or fewer than that are small side by side, nothing is done: a
table that was just maintained needs nothing, and late rows are merged with each other before they are merged with all
that lies below them. No group covers an instant that none of its files covered, so nowhere do more files lie over each
other afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

FILE_ROWS: Final = 25_000
"""Rows that a file should hold, roughly."""
MOST_FILES: Final = 2_000
"""The largest number of files that a table should have; a table that would have more gets larger files."""
FEW: Final = 4
"""The least number of files over one instant, or of small files side by side, that is too many."""
GROUP_FILES: Final = 40
"""The largest number of new files in one commit; a longer run of small files is rewritten in several commits."""


class FileExtent(Struct, frozen=True):
    """One data file.

    Args:
        path: Name of the file.
        rows: Number of its rows.
        bytes: Size of the file.
        start: First instant of its rows.
        last: Last instant of its rows, included; file statistics may truncate it.
    """

    path: str
    rows: int
    bytes: int
    start: int
    last: int


class Group(Struct, frozen=True):
    """Files that are rewritten together.

    Args:
        pieces: The files, by time.
        why: ``small`` or ``deep``.
    """

    pieces: tuple[FileExtent, ...]
    why: str

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(p.rows for p in self.pieces)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(p.bytes for p in self.pieces)


def target_rows(total: int) -> int:
    """Return how many rows a file of a table of *total* rows should hold.

    Examples:
        >>> target_rows(10), target_rows(1_000_000_000)
        (25000, 500000)
    """
    return max(FILE_ROWS, total // MOST_FILES)


def is_small(piece: FileExtent, target: int) -> bool:
    """Whether a file holds less than half of its target rows."""
    return 2 * piece.rows < target


def groups(pieces: Sequence[FileExtent], target: int) -> list[Group]:
    """Return the groups of files that are rewritten together; no file is in two groups.

    Args:
        pieces: All files of the table.
        target: Rows that a file should hold.
    """
    ordered = _ordered(pieces)
    deep = [Group(tuple(members), "deep") for members in _deep(ordered)]
    taken = {p.path for g in deep for p in g.pieces}
    return [*deep, *_runs(ordered, taken, target)]


def depth(pieces: Sequence[FileExtent]) -> int:
    """Return the largest number of files over one instant; two files that only share an end do not overlap."""
    most = open_files = 0
    for _, is_start, _ in _events(_ordered(pieces)):
        open_files += 1 if is_start else -1
        most = max(most, open_files)
    return max(most, min(len(pieces), 1))


def cuts(counts: Sequence[int], target: int) -> list[int]:
    """Return how many buckets each new file takes, in order: whole buckets, *target* rows or a little more.

    Args:
        counts: Rows of each bucket, by time.
        target: Rows that a file should hold; the last file also takes a rest that is too small for a file of its own.

    Examples:
        >>> cuts([4, 4, 4, 4, 1], 8), cuts([1, 30, 1], 8), cuts([], 8)
        ([2, 3], [2, 1], [])
    """
    sizes: list[tuple[int, int]] = []
    buckets = rows = 0
    for n in counts:
        buckets, rows = buckets + 1, rows + n
        if rows >= target:
            sizes.append((buckets, rows))
            buckets = rows = 0
    if buckets and sizes and 2 * rows < target and sizes[-1][1] < 2 * target:
        sizes[-1] = (sizes[-1][0] + buckets, sizes[-1][1] + rows)
    elif buckets:
        sizes.append((buckets, rows))
    return [size for size, _ in sizes]


def _ordered(pieces: Sequence[FileExtent]) -> list[FileExtent]:
    return sorted(pieces, key=lambda p: (p.start, p.last, p.path))


def _events(ordered: Sequence[FileExtent]) -> list[tuple[int, bool, int]]:
    """Return the starts and ends of files in order of time, ends first, so that files that share an end do not overlap."""
    starts = [(p.start, True, i) for i, p in enumerate(ordered) if p.start < p.last]
    return sorted(starts + [(p.last, False, i) for i, p in enumerate(ordered) if p.start < p.last])


def _deep(ordered: Sequence[FileExtent]) -> list[list[FileExtent]]:
    """Return the files to rewrite where too many overlap: all but the layer with most rows."""
    clumps: list[list[FileExtent]] = []
    for members in _tangles(ordered):
        layer = _layer(members)
        rest = [p for p in members if p.path not in layer]
        clumps += [clump for clump in _clumps(rest) if len(clump) > 1]
    return clumps


def _tangles(ordered: Sequence[FileExtent]) -> list[list[FileExtent]]:
    """Return the files over an instant where too many overlap, grouped by the instants that they share."""
    parent = list(range(len(ordered)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    active: dict[int, None] = {}
    tangled: set[int] = set()
    for _, is_start, i in _events(ordered):
        if not is_start:
            active.pop(i)
            continue
        active[i] = None
        if len(active) >= FEW:
            tangled.update(active)
            for other in active:
                parent[root(other)] = root(i)
    members: defaultdict[int, list[FileExtent]] = defaultdict(list)
    for i in sorted(tangled):
        members[root(i)].append(ordered[i])
    return list(members.values())


def _layer(members: Sequence[FileExtent]) -> set[str]:
    """Return the files of the layer with most rows; a layer is a set of files that do not overlap."""
    by_end = sorted(members, key=lambda p: (p.last, p.start, p.path))
    best, before = [0], list[int]()  # rows of the best layer of the first files; how many of these fit with each file
    for i, p in enumerate(by_end):
        before.append(_count_ended(by_end, p.start, i))
        best.append(max(best[-1], best[before[i]] + p.rows))
    layer, count = set(), len(by_end)
    while count:
        if best[count] > best[count - 1]:
            layer.add(by_end[count - 1].path)
            count = before[count - 1]
        else:
            count -= 1
    return layer


def _count_ended(by_end: Sequence[FileExtent], start: int, upto: int) -> int:
    """Return how many of the first *upto* files end at or before *start*."""
    low, high = 0, upto
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if by_end[middle].last <= start else (low, middle)
    return low


def _clumps(pieces: Sequence[FileExtent]) -> list[list[FileExtent]]:
    """Return groups of files that overlap directly or through other files."""
    clumps: list[list[FileExtent]] = []
    end = None
    for p in pieces:
        if end is None or p.start >= end:
            clumps.append([])
            end = p.last
        clumps[-1].append(p)
        end = max(end, p.last)
    return clumps


def _runs(ordered: Sequence[FileExtent], taken: set[str], target: int) -> list[Group]:
    """Return runs of neighbouring small files, split where a run would be too long."""
    runs: list[Group] = []
    for is_run, members in groupby(ordered, key=lambda p: p.path not in taken and is_small(p, target)):
        run: list[FileExtent] = []
        rows = 0
        for p in members if is_run else ():
            run.append(p)
            rows += p.rows
            if rows >= GROUP_FILES * target:
                runs.append(Group(tuple(run), "small"))
                run, rows = [], 0
        if len(run) >= FEW:
            runs.append(Group(tuple(run), "small"))
    return runs
