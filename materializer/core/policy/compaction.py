"""Which files of a table are worth writing again, so that it stays laid out in time. Pure.

A file should hold few, neighbouring buckets, and few files should lie over any one instant: then replacing a bucket
rewrites little and reading a range skips much. Two things wear that off:

```
  small files side by side              files over each other
  [][] [][][]  [       ]  []            [====][====][====][====]     kept: the layer with most rows
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
from dataclasses import dataclass
from itertools import groupby
from typing import Final

FILE_ROWS: Final = 25_000
"""Rows that a file holds, roughly."""
MOST_FILES: Final = 2_000
"""A table whose files would be more than this gets larger ones."""
FEW: Final = 4
"""So many files over one instant, or small ones side by side, are too many."""
GROUP_FILES: Final = 40
"""A run of small files is written again in pieces of at most so many new files, each a commit of its own."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One data file.

    Args:
        path: Its name.
        rows: Its rows.
        bytes: Its size.
        start: Its first instant.
        last: Its last instant, included; as statistics cut it.
    """

    path: str
    rows: int
    bytes: int
    start: int
    last: int


@dataclass(frozen=True, slots=True)
class Group:
    """Files that are written again together.

    Args:
        pieces: The files, by time.
        why: ``small`` or ``deep``.
    """

    pieces: tuple[Piece, ...]
    why: str

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(p.rows for p in self.pieces)

    @property
    def bytes(self) -> int:
        """Size of all its files."""
        return sum(p.bytes for p in self.pieces)


def target_rows(total: int) -> int:
    """Return how many rows a file of a table of *total* rows should hold.

    Examples:
        >>> target_rows(10), target_rows(1_000_000_000)
        (25000, 500000)
    """
    return max(FILE_ROWS, total // MOST_FILES)


def is_small(piece: Piece, target: int) -> bool:
    """Whether a file holds less than half of what it should."""
    return 2 * piece.rows < target


def groups(pieces: Sequence[Piece], target: int) -> list[Group]:
    """Return which files are written again together; none is in two groups.

    Args:
        pieces: All files of the table.
        target: Rows that a file should hold.
    """
    ordered = _ordered(pieces)
    deep = [Group(tuple(members), "deep") for members in _deep(ordered)]
    taken = {p.path for g in deep for p in g.pieces}
    return [*deep, *_runs(ordered, taken, target)]


def depth(pieces: Sequence[Piece]) -> int:
    """Return how many files lie over the instant that most lie over; two that only share an end do not."""
    most = now = 0
    for _, is_start, _ in _events(_ordered(pieces)):
        now += 1 if is_start else -1
        most = max(most, now)
    return max(most, min(len(pieces), 1))


def cuts(counts: Sequence[int], target: int) -> list[int]:
    """Return how many buckets each new file takes, in order: whole buckets, *target* rows or a little more.

    Args:
        counts: Rows of each bucket, by time.
        target: Rows that a file should hold; the last file takes what is too little for one of its own.

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


def _ordered(pieces: Sequence[Piece]) -> list[Piece]:
    return sorted(pieces, key=lambda p: (p.start, p.last, p.path))


def _events(ordered: Sequence[Piece]) -> list[tuple[int, bool, int]]:
    """Return where files begin and end, by time, ends first: files that share an end do not lie over each other."""
    found = [(p.start, True, i) for i, p in enumerate(ordered) if p.start < p.last]
    return sorted(found + [(p.last, False, i) for i, p in enumerate(ordered) if p.start < p.last])


def _deep(ordered: Sequence[Piece]) -> list[list[Piece]]:
    """Return the files to write again where too many lie over each other: all but the layer that holds most rows."""
    found: list[list[Piece]] = []
    for members in _tangles(ordered):
        kept = _layer(members)
        rest = [p for p in members if p.path not in kept]
        found += [clump for clump in _clumps(rest) if len(clump) > 1]
    return found


def _tangles(ordered: Sequence[Piece]) -> list[list[Piece]]:
    """Return files that lie over an instant where too many do, those that meet at any such instant together."""
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
    members: defaultdict[int, list[Piece]] = defaultdict(list)
    for i in sorted(tangled):
        members[root(i)].append(ordered[i])
    return list(members.values())


def _layer(members: Sequence[Piece]) -> set[str]:
    """Return the files of one layer, none over another, that hold most rows together."""
    by_end = sorted(members, key=lambda p: (p.last, p.start, p.path))
    best, before = [0], list[int]()  # rows of the best layer of the first files; how many of them go with each file
    for i, p in enumerate(by_end):
        before.append(_count_ended(by_end, p.start, i))
        best.append(max(best[-1], best[before[i]] + p.rows))
    kept, at = set(), len(by_end)
    while at:
        if best[at] > best[at - 1]:
            kept.add(by_end[at - 1].path)
            at = before[at - 1]
        else:
            at -= 1
    return kept


def _count_ended(by_end: Sequence[Piece], start: int, upto: int) -> int:
    """Return how many of the first *upto* files end at or before *start*."""
    low, high = 0, upto
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if by_end[middle].last <= start else (low, middle)
    return low


def _clumps(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return files that lie over each other together, through others too."""
    found: list[list[Piece]] = []
    end = None
    for p in pieces:
        if end is None or p.start >= end:
            found.append([])
            end = p.last
        found[-1].append(p)
        end = max(end, p.last)
    return found


def _runs(ordered: Sequence[Piece], taken: set[str], target: int) -> list[Group]:
    """Return runs of small files side by side, cut where one would be too long."""
    found: list[Group] = []
    for is_run, members in groupby(ordered, key=lambda p: p.path not in taken and is_small(p, target)):
        run: list[Piece] = []
        rows = 0
        for p in members if is_run else ():
            run.append(p)
            rows += p.rows
            if rows >= GROUP_FILES * target:
                found.append(Group(tuple(run), "small"))
                run, rows = [], 0
        if len(run) >= FEW:
            found.append(Group(tuple(run), "small"))
    return found
