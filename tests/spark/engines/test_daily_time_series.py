"""The calendar of the daily engine in SQL: what it says of a window is what the calendar says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from materializer.core.engines.engine_query import TIME
from materializer.core.engines.trading_calendar import Calendar
from materializer.core.time.trading_days import TradingDays
from materializer.spark.engines.daily_time_series import begun_sql, count_sql, day_sql, number_sql, window_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATED = TradingDays(
    -5, ".aab.cddd.dd.dd", {"a": ((-10, 90),), "b": ((-10, 20),), "c": ((-20, 30), (31, 47)), "d": ((-20, 80),)}
)
"""Of a clock that is put forward; "b" and "c" are shorter."""
HALVES = {"holidays": (2,), "half_days": ((3, 31), (4, 5)), "weekdays": (1, 2, 4, 5, 6, 7)}


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(((10, 20), (20, 35)), 4, 100, merges_end=True, **HALVES),
        Calendar(((70, 90), (104, 111)), 3, 100, holds_end=True, merges_last=True, **HALVES),
        Calendar(((-30, -10), (4, 11)), 3, 100, holds_end=True, merges_last=True, **HALVES),
        Calendar(((0, 100),), 30, 100, merges_end=True, **HALVES),
        Calendar((DATED.span,), 7, 100, holds_end=True, dated=DATED),
    ],
)
def test_windows_by_number_and_by_their_start(spark: SparkSession, calendar: Calendar) -> None:
    """
    Sessions that touch, that cross midnight, that last all day, that differ from date to date; days without sessions, or with fewer.
    """
    windows = [(w.day, i, w.w_start, w.w_end) for d in range(-5, 9) for i, w in enumerate(calendar.windows_of(d))]
    frame = spark.createDataFrame(windows, "d long, i long, s long, e long").selectExpr(
        "d", begun_sql(calendar, "s", "d"), f"{window_sql(calendar, 'd', 'i')}.w_start", f"{count_sql(calendar, 'd')}"
    )
    counts = {d: sum(w[0] == d for w in windows) for d in range(-5, 9)}
    assert [(d, i, s, counts[d]) for d, i, s, _ in windows] == [tuple(row) for row in frame.collect()]


@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(((-30, -10), (4, 11)), 3, 100, **HALVES),
        Calendar((DATED.span,), 7, 100, dated=DATED),
        Calendar((DATED.span,), 7, 100, merges_end=True, dated=DATED),
    ],
)
def test_the_window_of_a_row(spark: SparkSession, calendar: Calendar) -> None:
    """
    Its trading day and its number there, of a row and of another column that lies elsewhere.
    """
    times = list(range(-320, 850, 3)) + [d * 100 + t for d in range(-3, 8) for t in (-21, -20, -10, 20, 47, 80, 90)]
    frame = spark.createDataFrame([(t,) for t in times], "_t long").selectExpr("_t", "500L - _t AS other")
    frame = frame.selectExpr("*", f"{day_sql(calendar, TIME)} AS _day", f"{day_sql(calendar, 'other')} AS that")
    found = frame.selectExpr(TIME, number_sql(calendar), "other", number_sql(calendar, "other", "that")).collect()

    def number(t: int) -> int | None:
        window = calendar.window_at(t)
        return window and [w.w_start for w in calendar.windows_of(window.day)].index(window.w_start)

    assert [(t, number(t), 500 - t, number(500 - t)) for t in times] == [tuple(row) for row in found]


def test_a_row_of_a_day_that_no_calendar_knows(spark: SparkSession) -> None:
    """
    It is an error that names the day; dropped, it would be missing once the calendar knows its day.
    """
    calendar = Calendar(((0, 100),), 30, 100, dated=TradingDays(2, "aa", {"a": ((0, 100),)}))
    frame = spark.createDataFrame([(450,)], "_t long").selectExpr("_t", f"{day_sql(calendar, TIME)} AS _day")
    with pytest.raises(Exception, match="the trading day 1970-01-05, which the calendar does not know"):
        frame.selectExpr(number_sql(calendar)).collect()
