"""The calendar of the daily engine in SQL: what it says of a window is what the calendar says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from materializer.core.engines.sessions import Calendar
from materializer.spark.engines.daily_time_series import begun_sql, count_sql, window_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HALVES = {"holidays": (2,), "half_days": ((3, 31), (4, 5)), "weekdays": (1, 2, 4, 5, 6, 7)}


@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(((10, 20), (20, 35)), 4, 100, merges_end=True, **HALVES),
        Calendar(((70, 90), (104, 111)), 3, 100, holds_end=True, merges_last=True, **HALVES),
        Calendar(((-30, -10), (4, 11)), 3, 100, holds_end=True, merges_last=True, **HALVES),
        Calendar(((0, 100),), 30, 100, merges_end=True, **HALVES),
    ],
)
def test_windows_by_number_and_by_their_start(spark: SparkSession, calendar: Calendar) -> None:
    """
    Sessions that touch, that cross midnight, that last all day; days without sessions, or with fewer.
    """
    windows = [(w.day, i, w.w_start, w.w_end) for d in range(-5, 9) for i, w in enumerate(calendar.windows_of(d))]
    frame = spark.createDataFrame(windows, "d long, i long, s long, e long").selectExpr(
        "d", begun_sql(calendar, "s", "d"), f"{window_sql(calendar, 'd', 'i')}.w_start", f"{count_sql(calendar, 'd')}"
    )
    counts = {d: sum(w[0] == d for w in windows) for d in range(-5, 9)}
    assert [(d, i, s, counts[d]) for d, i, s, _ in windows] == [tuple(row) for row in frame.collect()]
