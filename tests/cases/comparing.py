"""When two results of a case are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_same(
    expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]], *, is_complete: bool, tolerance: float
) -> bool:
    """Whether *found* has the expected rows in any order, each as often as expected; and no others if complete."""
    left = list(found)
    for row in expected:
        match = next((i for i, other in enumerate(left) if _is_same_row(row, other, tolerance)), None)
        if match is None:
            return False
        del left[match]
    return not (is_complete and left)


def is_same_rows(expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two results have the same columns and rows, in any order; numbers equal within 1e-6."""
    columns = sorted(expected[0]) if expected else []
    if expected and any(sorted(row) != columns for row in (*expected, *found)):
        return False
    ours, theirs = ([tuple(row[c] for c in columns) for row in rows] for rows in (expected, found))
    return is_same(ours, theirs, is_complete=True, tolerance=1e-6)


def _is_same_row(row: Sequence[Any], other: Sequence[Any], tolerance: float) -> bool:
    return len(row) == len(other) and all(_is_same_value(a, b, tolerance) for a, b in zip(row, other, strict=True))


def _is_same_value(a: Any, b: Any, tolerance: float) -> bool:
    numbers = (int, float, Decimal)
    if isinstance(a, numbers) and isinstance(b, numbers):
        return abs(float(a) - float(b)) <= tolerance * max(1.0, abs(float(a)), abs(float(b)))
    return bool(a == b)
