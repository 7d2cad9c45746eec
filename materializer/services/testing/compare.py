"""Rows that are expected beside rows that are there: what is on one side only."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

TOLERANCE: Final = 1e-9
"""Largest difference of doubles, as a share of the larger one or of 1."""


class RowDifference(Struct, frozen=True):
    """A row of one side only.

    Args:
        side: Which side.
        row: Its values.
    """

    side: Literal["expected", "got"]
    row: tuple[Any, ...]


def compared(
    columns: Sequence[str],
    groups: Collection[str],
    expected: Sequence[Mapping[str, Any]],
    got: Sequence[Mapping[str, Any]],
) -> tuple[RowDifference, ...]:
    """Return the rows that are on one side only, in the order of their groups; the order of rows does not count.

    Args:
        columns: The columns that are compared.
        groups: The columns of the bucket and the keys.
        expected: Rows; a column that a row does not have is null.
        got: Rows.
    """
    wanted = [tuple(row.get(name) for name in columns) for row in expected]
    there = [tuple(row.get(name) for name in columns) for row in got]
    at = [i for i, name in enumerate(columns) if name in groups]
    by_group: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in there:
        by_group[_key(row, at)].append(row)
    left: list[RowDifference] = []
    for row in wanted:
        same = by_group[_key(row, at)]
        found = next((other for other in same if _is_same(row, other)), None)
        if found is None:
            left.append(RowDifference("expected", row))
        else:
            same.remove(found)
    left += [RowDifference("got", row) for rows in by_group.values() for row in rows]
    return tuple(sorted(left, key=lambda d: (_key(d.row, at), d.side)))


def _key(row: tuple[Any, ...], at: Sequence[int]) -> str:
    return repr([str(row[i]) for i in at])


def _is_same(a: Any, b: Any) -> bool:
    match a, b:
        case float(), float():
            return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (math.isnan(a) and math.isnan(b))
        case ((list() | tuple()), (list() | tuple())):
            return len(a) == len(b) and all(map(_is_same, a, b))
        case dict(), dict():
            return a.keys() == b.keys() and all(_is_same(a[k], b[k]) for k in a)
    return bool(a == b)
