"""Rows of two outputs, group by group: which are equal, on one side only, or have other values, and by how much."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from materializer.local.differences import ComparedColumn, Law, RowDifferences, compared

DAY = datetime(2024, 3, 1, tzinfo=UTC)


def rows(kind: pa.DataType, *values: tuple[str | None, Any]) -> pa.Table:
    keys, measures = zip(*values, strict=True) if values else ((), ())
    times = pa.array([DAY] * len(values), pa.timestamp("us", "UTC"))
    return pa.table({"at": times, "key": pa.array(keys, pa.string()), "v": pa.array(measures, kind)})


def diff(here: pa.Table, there: pa.Table, limit: int = 10, **column: Any) -> RowDifferences:
    return compared(here, there, ["at", "key"], [ComparedColumn("v", **column)], limit=limit)


def counts(found: RowDifferences) -> tuple[int, int, int, int]:
    return found.equal, found.only_here, found.only_there, found.differing


def test_groups_are_paired_by_bucket_and_keys_and_null_is_a_key() -> None:
    """
    A group whose key is null has its counterpart, and values of null are equal; what one side lacks is counted apart.
    """
    here = rows(pa.int64(), ("a", 1), (None, 2), ("b", 3), ("c", None))
    there = rows(pa.int64(), (None, 2), ("c", None), ("a", 5), ("d", 4))

    found = diff(here, there, is_number=True)

    assert (2, 1, 1, 1) == counts(found)
    assert [("v", 1, 4.0)] == [(c.name, c.rows, c.largest) for c in found.columns]
    shown = [(e.place["key"], e.here, e.there) for e in found.examples]
    assert [("a", {"v": 1}, {"v": 5}), ("b", {"v": 3}, None), ("d", None, {"v": 4})] == shown


def test_no_more_groups_are_returned_than_asked_for() -> None:
    """
    In the order of their keys, null first; all are counted.
    """
    here = rows(pa.int64(), ("b", 1), ("a", 1), (None, 1), ("c", 1))

    found = diff(here, rows(pa.int64()), limit=2)

    assert [None, "a"] == [e.place["key"] for e in found.examples]
    assert (0, 4, 0, 0) == counts(found)
    assert () == diff(here, rows(pa.int64()), limit=0).examples


@pytest.mark.parametrize(
    ("a", "b", "law", "is_same"),
    [
        (1e9, 1e9 + 0.5, Law.FLOAT, True),
        (1e9, 1e9 + 2, Law.FLOAT, False),
        (1e9, 1e9 + 0.5, Law.EXACT, False),
        (0.0, 1e-12, Law.FLOAT, True),
        (math.nan, math.nan, Law.FLOAT, True),
        (math.nan, 1.0, Law.FLOAT, False),
        (math.inf, math.inf, Law.FLOAT, True),
        (math.inf, -math.inf, Law.FLOAT, False),
        (math.inf, 1.0, Law.FLOAT, False),
        (None, 0.0, Law.FLOAT, False),
        (-0.0, 0.0, Law.EXACT, True),
        (math.nan, math.nan, Law.EXACT, True),
    ],
)
def test_doubles_are_equal_within_what_verify_allows(a: float, b: float, law: Law, *, is_same: bool) -> None:
    """
    Those whose last digits depend on the order of rows; others have to be equal. Either way round.
    """
    for x, y in ((a, b), (b, a)):
        found = diff(rows(pa.float64(), ("a", x)), rows(pa.float64(), ("a", y)), law=law, is_number=True)

        assert (int(is_same), 0, 0, int(not is_same)) == counts(found)


def test_differences_that_are_no_number_have_no_largest() -> None:
    """
    Of NaN, infinity and null; the largest is that of the finite ones.
    """
    here = rows(pa.float64(), ("a", math.nan), ("b", math.inf), ("c", None), ("d", 1.5))
    there = rows(pa.float64(), ("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", -1.0))

    assert [(4, 2.5)] == [(c.rows, c.largest) for c in diff(here, there, is_number=True).columns]
    assert [(1, None)] == [
        (c.rows, c.largest) for c in diff(here.slice(0, 1), there.slice(0, 1), is_number=True).columns
    ]


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        (pa.decimal128(38, 2), Decimal("99999999999999999999999.01"), Decimal("99999999999999999999999.02")),
        (pa.list_(pa.int64()), [1, None], [1, 2]),
        (pa.struct([("a", pa.int64())]), {"a": 1}, {"a": None}),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", 2)]),
        (pa.binary(), b"\x00", b"\x01"),
        (pa.timestamp("us", "UTC"), DAY, DAY.replace(year=1)),
        (pa.bool_(), True, None),
    ],
)
def test_every_type_is_compared_exactly(kind: pa.DataType, value: Any, other: Any) -> None:
    """
    A value equals itself and not another one, however large or nested.
    """
    here = rows(kind, ("a", value), ("b", value))

    assert (1, 0, 0, 1) == counts(diff(here, rows(kind, ("a", value), ("b", other))))
    assert (2, 0, 0, 0) == counts(diff(here, here))


def test_lists_of_doubles_are_compared_number_by_number() -> None:
    """
    Within what verify allows, as those of percentiles; another length is a difference.
    """
    kind = pa.list_(pa.float64())
    here = rows(kind, ("a", [1e9, None]), ("b", [1.0]), ("c", [1.0, 2.0]))
    there = rows(kind, ("a", [1e9 + 0.5, None]), ("b", [2.0]), ("c", [1.0]))

    assert (1, 0, 0, 2) == counts(diff(here, there, law=Law.FLOAT, is_list=True))


def test_values_of_sketches_are_counted_and_are_no_difference() -> None:
    """
    Two sketches of the same rows may say different ranks; only null in place of a value is a difference.
    """
    here = rows(pa.int64(), ("a", 1), ("b", 2), ("c", 3))
    there = rows(pa.int64(), ("a", 1), ("b", 3), ("c", None))

    found = diff(here, there, law=Law.RANK, is_number=True)

    assert (2, 0, 0, 1) == counts(found)
    assert [2] == [c.rows for c in found.columns]
    assert [({"v": 3}, {"v": None})] == [(e.here, e.there) for e in found.examples]


def test_repeated_groups_are_paired_one_by_one() -> None:
    """
    Rows of an engine may share their window and key; the surplus ones are on one side only.
    """
    here = rows(pa.int64(), ("a", 1), ("a", 2), ("a", 3))

    assert (2, 1, 0, 0) == counts(diff(here, rows(pa.int64(), ("a", 2), ("a", 1))))


def test_numbers_of_other_types_are_compared_by_value() -> None:
    """
    A whole number here and a decimal there, as two versions of a definition have.
    """
    here, there = (
        rows(pa.int32(), ("a", 2), ("b", 3)),
        rows(pa.decimal128(10, 2), ("a", Decimal(2)), ("b", Decimal("3.5"))),
    )

    found = diff(here, there, is_number=True)

    assert (1, 0, 0, 1) == counts(found)
    assert [0.5] == [c.largest for c in found.columns]
