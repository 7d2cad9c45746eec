"""A naive oracle: bucketed aggregates over a list of rows, by a double loop, with nothing but ``datetime``.

A row is a mapping from column to value. A measure is a function of the rows of one group. Rows whose time is null have
no bucket. Nulls count as in SQL, and come first where rows are ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import isclose
from typing import Any
from zoneinfo import ZoneInfo

Row = Mapping[str, Any]
Test = Callable[[Row], bool | None]
Measure = Callable[[list[Row]], Any]
Bucket = Callable[[datetime], datetime]


def aggregate(
    rows: Iterable[Row],
    *,
    time: str,
    bucket: Bucket,
    measures: Sequence[Measure],
    keys: Sequence[str] = (),
    where: Test = lambda _: True,
) -> list[tuple[Any, ...]]:
    """Return one row ``(bucket, *keys, *measures)`` a group, in no order."""
    wanted = [row for row in rows if row[time] is not None and where(row)]
    groups = {(bucket(row[time]), *(row[key] for key in keys)) for row in wanted}
    found = []
    for group in groups:
        members = [row for row in wanted if (bucket(row[time]), *(row[key] for key in keys)) == group]
        found.append((*group, *(measure(members) for measure in measures)))
    return found


# -- grids ---------------------------------------------------------------------------------------------------------------


def every(width: timedelta, origin: datetime = datetime(2000, 1, 3, tzinfo=UTC)) -> Bucket:
    """Return buckets of one length that meet *origin*."""
    return lambda at: origin + (at - origin) // width * width


def days_in(zone: str) -> Bucket:
    """Return local days, whatever their length; their midnights must exist once."""

    def midnight(at: datetime) -> datetime:
        local = at.astimezone(ZoneInfo(zone))
        return datetime(local.year, local.month, local.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)

    return midnight


def months_in(zone: str) -> Bucket:
    """Return local months; their midnights must exist once."""

    def first(at: datetime) -> datetime:
        local = at.astimezone(ZoneInfo(zone))
        return datetime(local.year, local.month, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)

    return first


# -- measures ------------------------------------------------------------------------------------------------------------


def present(rows: list[Row], column: str) -> list[Any]:
    """Return the values of a column that are not null."""
    return [row[column] for row in rows if row[column] is not None]


def count() -> Measure:
    """``count(*)``."""
    return len


def of(column: str, function: Callable[[list[Any]], Any], least: int = 1) -> Measure:
    """Return *function* of the values that are not null, or null when there are fewer than *least*."""
    return lambda rows: function(present(rows, column)) if len(present(rows, column)) >= least else None


def mean(values: list[Any]) -> float:
    """Return the exact mean, rounded once."""
    return float(Fraction(sum(Fraction(v) for v in values), len(values)))


def variance(values: list[Any], less: int) -> float:
    """Return the sum of squared distances from the mean, divided by their number less *less*."""
    middle = Fraction(sum(Fraction(v) for v in values), len(values))
    return float(sum((Fraction(v) - middle) ** 2 for v in values) / (len(values) - less))


def median(values: list[Any]) -> float:
    """Return the middle value, or the mean of the middle two."""
    ordered = sorted(values)
    return mean([ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]])


def distinct(values: list[Any]) -> int:
    """Return how many different values there are."""
    return len(set(values))


def first(column: str, order: Sequence[str]) -> Measure:
    """Return the value in the first row by the columns of *order*, null or not."""
    return lambda rows: min(rows, key=lambda row: _place(row, order))[column]


def last(column: str, order: Sequence[str]) -> Measure:
    """Return the value in the last row by the columns of *order*, null or not."""
    return lambda rows: max(rows, key=lambda row: _place(row, order))[column]


def only(test: Test, measure: Measure, when_none: Any = None) -> Measure:
    """Return ``measure FILTER (WHERE test)``; *when_none* when no row passes."""

    def measured(rows: list[Row]) -> Any:
        passing = [row for row in rows if test(row)]
        return measure(passing) if passing else when_none

    return measured


def _place(row: Row, order: Sequence[str]) -> list[tuple[bool, Any]]:
    return [(row[column] is not None, 0 if row[column] is None else row[column]) for column in order]


# -- comparing -----------------------------------------------------------------------------------------------------------


def differences(expected: Iterable[tuple[Any, ...]], found: Iterable[tuple[Any, ...]], keys: int) -> list[str]:
    """Return in words where two results differ; a row is known by its first *keys* values and may occur once.

    Reals are equal within 1e-9 of the larger one.
    """
    ours, theirs = list(expected), list(found)
    said = [f"twice: {row}" for i, row in enumerate(theirs) if row[:keys] in [r[:keys] for r in theirs[:i]]]
    for row in ours:
        matches = [r for r in theirs if r[:keys] == row[:keys]]
        if not matches:
            said.append(f"missing: {row}")
        said += [f"expected {row}, found {r}" for r in matches if not all(map(_same, row, r))]
    return said + [f"extra: {row}" for row in theirs if row[:keys] not in [r[:keys] for r in ours]]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)
