from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.oracle import naive

NOON = datetime(2024, 3, 9, 12, tzinfo=UTC)
ROWS = [
    {"ts": NOON, "k": "a", "v": 1},
    {"ts": NOON + timedelta(minutes=10), "k": "a", "v": None},
    {"ts": NOON + timedelta(minutes=59), "k": None, "v": 4},
    {"ts": None, "k": "a", "v": 100},
]
HOUR = naive.every(timedelta(hours=1))


def test_a_worked_example() -> None:
    """
    Three rows in one hour and two keys, one of them null; the row without a time counts nowhere.
    """
    order = ("ts", "k", "v")
    measures = [
        naive.count(),
        naive.of("v", sum),
        naive.last("v", order),
        naive.only(lambda row: row["v"] == 4, naive.count(), 0),
    ]
    found = naive.aggregate(ROWS, time="ts", bucket=HOUR, keys=["k"], measures=measures)

    assert {(NOON, "a", 2, 1, None, 0), (NOON, None, 1, 4, 4, 1)} == set(found)


def test_days_follow_the_zone() -> None:
    """
    The day in which New York's clocks go forward has 23 hours, and the hour before 1970 is floored, not truncated.
    """
    day = naive.days_in("America/New_York")

    assert datetime(2024, 3, 10, 5, tzinfo=UTC) == day(datetime(2024, 3, 11, 3, 59, tzinfo=UTC))
    assert datetime(2024, 3, 11, 4, tzinfo=UTC) == day(datetime(2024, 3, 11, 4, tzinfo=UTC))
    assert datetime(1969, 12, 31, 23, tzinfo=UTC) == HOUR(datetime(1969, 12, 31, 23, 59, tzinfo=UTC))
    assert datetime(2024, 2, 1, tzinfo=UTC) == naive.months_in("UTC")(datetime(2024, 2, 29, 23, tzinfo=UTC))


def test_numbers() -> None:
    """
    Variance and median of known values; too few values give null.
    """
    rows = [{"v": v} for v in (1, 2, 4, None)]

    assert 7 / 3 == naive.of("v", lambda values: naive.variance(values, 1), least=2)(rows)
    assert 2 == naive.of("v", naive.median)(rows)
    assert naive.of("v", lambda values: naive.variance(values, 1), least=2)(rows[:1]) is None


def test_differences_are_seen() -> None:
    """
    A missing, an extra, a doubled and a changed row are each said; nothing is said of equal results in another order.
    """
    rows = [(1, "a", 2.0), (2, "a", 3.0)]

    assert [] == naive.differences(rows, [(2, "a", 3.0 + 1e-12), (1, "a", 2.0)], 2)
    assert ["missing: (2, 'a', 3.0)"] == naive.differences(rows, rows[:1], 2)
    assert ["extra: (2, 'a', 3.0)"] == naive.differences(rows[:1], rows, 2)
    assert ["twice: (2, 'a', 3.0)"] == naive.differences(rows, [*rows, rows[1]], 2)
    assert 1 == len(naive.differences(rows, [rows[0], (2, "a", 3.1)], 2))
    assert 1 == len(naive.differences(rows, [rows[0], (2, "a", None)], 2))
