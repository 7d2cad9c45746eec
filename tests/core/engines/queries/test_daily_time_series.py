"""The query of daily time series against a loop over the windows of a calendar, and the calendar in SQL against the calendar."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.engine_query import TIME
from materializer.core.engines.queries import daily_time_series
from materializer.core.engines.queries.daily_time_series import begun_sql, count_sql, day_sql, number_sql, window_sql
from materializer.core.engines.trading_calendar import Calendar
from materializer.core.query.nodes import Named, Query
from materializer.core.time.trading_days import TradingDays
from materializer.local.connection import opened
from materializer.local.kinds import NotLocal
from materializer.local.render import rendered as here
from materializer.spark.query.render import rendered
from tests.core.engines.histories import Kind
from tests.core.engines.naive_days import days
from tests.spark.engines.frames import EXECUTORS, IDS, bounds, check, computing, drawn, query_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def given(sessions: tuple[tuple[int, int], ...] = ((2, 8), (11, 16)), **more: Any) -> DailyTimeSeries:
    """Parameters with days of twenty ticks, and windows of three."""
    return DailyTimeSeries(step=3, day=20, sessions=sessions, **more)


SHORT = TradingDays(-6, "a.bcab.aabc.ba", {"a": ((2, 8), (11, 16)), "b": ((2, 5),), "c": ((-4, 7), (9, 17))})
DAYS = {
    "two sessions": given(),
    "after their end": given(closed="right", merge_last_window=True, accepted_delay=2, key_purge_daily=False),
    "ends that are merged": given(merge_session_end=True, force_trigger_time=4, use_window_start_time=True),
    "across midnight": given(((-6, -1), (2, 7)), update_time=3, holidays=(1,), half_days=((0, 3),)),
    "whole days": given(((0, 20),), closed="right", fills=(("ffill", ""),), weekdays=(1, 3, 4, 5)),
    "filled by day": given(fills=(("ffill", ""),), merge_last_window=True),
    "filled by day, forced": given(fills=(("null", ""),), force_trigger_time=1, accepted_delay=1),
    "filled on": given(fills=(("constant", "7"),), key_purge_daily=False, holidays=(0, 3)),
    "filled on, forced": given(
        fills=(("ffill", ""),), key_purge_daily=False, force_trigger_time=2, force_trigger_session_end_time=3
    ),
    "of a calendar": given((SHORT.span,), dated=SHORT, key_purge_daily=False),
    "filled on of a calendar": given((SHORT.span,), dated=SHORT, key_purge_daily=False, fills=(("ffill", ""),)),
    "filled by day of a calendar": given((SHORT.span,), dated=SHORT, fills=(("ffill", ""),), closed="right"),
}


@pytest.mark.one_of(4)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", DAYS)
def test_windows_are_those_of_a_loop_over_the_calendar(
    spark: SparkSession, rng: random.Random, name: str, executor: str
) -> None:
    """
    Over all rows, and over the parts of a plan beside kept rows; rows outside of sessions only move time on.
    """
    p = DAYS[name]
    histories = drawn(rng, Kind(is_clocked=p.force_trigger_time is not None, most=60))
    e, at = query_of(p, {"ids": IDS}), bounds(next(iter(histories.values())))

    found = check(computing(executor, spark, daily_time_series, e, at), histories, e, days(p))

    assert {r.is_shown == (r.is_final or p.update_time is not None) for r in found} == {True}
    assert all(r.label == r.w_start if p.use_window_start_time else r.w_start < r.label <= r.w_end for r in found)


def rows_of(spark: SparkSession, executor: str, query: Query, times: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the rows of a query over rows with a time."""
    if executor == "spark":
        return [
            tuple(row)
            for row in rendered(query, {"raw": spark.createDataFrame([(t,) for t in times], "_t long")}).collect()
        ]
    with opened() as connection:
        connection.register("raw", pa.table({"_t": pa.array(times, pa.int64())}))
        found = connection.query(here(query).sql)
    return [tuple(row.values()) for row in found.to_pylist()]


RAW = Named("raw", ((TIME, "bigint"),))
DATED = TradingDays(
    -5, ".aab.cddd.dd.dd", {"a": ((-10, 90),), "b": ((-10, 20),), "c": ((-20, 30), (31, 47)), "d": ((-20, 80),)}
)
"""Of a clock that is put forward; "b" and "c" are shorter."""
HALVES = {"holidays": (2,), "half_days": ((3, 31), (4, 5)), "weekdays": (1, 2, 4, 5, 6, 7)}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", EXECUTORS)
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
def test_windows_by_number_and_by_their_start(spark: SparkSession, calendar: Calendar, executor: str) -> None:
    """
    Sessions that touch, that cross midnight, that last all day, that differ from date to date; days without sessions, or with fewer.
    """
    windows = [(w.w_start, w.day, i) for d in range(-5, 9) for i, w in enumerate(calendar.windows_of(d))]
    query = RAW.add(d=daily_time_series.day_from_sql(calendar, TIME)).add(i=begun_sql(calendar, TIME, "d"))
    query = query.add(w=window_sql(calendar, "d", "i"), n=count_sql(calendar, "d"))
    query = query.select(t=TIME, d="d", i="i", s="w.w_start", e="w.w_end", n="n")

    found = rows_of(spark, executor, query, [t for t, _, _ in windows])

    ends = {w.w_start: w.w_end for d in range(-5, 9) for w in calendar.windows_of(d)}
    counts = {d: sum(w[1] == d for w in windows) for d in range(-5, 9)}
    assert [(t, d, i, t, ends[t], counts[d]) for t, d, i in windows] == sorted(found)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(((-30, -10), (4, 11)), 3, 100, **HALVES),
        Calendar((DATED.span,), 7, 100, dated=DATED),
        Calendar((DATED.span,), 7, 100, merges_end=True, dated=DATED),
    ],
)
def test_the_window_of_a_row(spark: SparkSession, calendar: Calendar, executor: str) -> None:
    """
    Its trading day and its number there, of a row and of another column that lies elsewhere.
    """
    times = list(range(-320, 850, 3)) + [d * 100 + t for d in range(-3, 8) for t in (-21, -20, -10, 20, 47, 80, 90)]
    query = RAW.add(other=f"500L - {TIME}")
    query = query.add(_day=day_sql(calendar, TIME), that=day_sql(calendar, "other"))
    query = query.select(t=TIME, n=number_sql(calendar), o="other", m=number_sql(calendar, "other", "that"))

    found = rows_of(spark, executor, query, times)

    def number(t: int) -> int | None:
        window = calendar.window_at(t)
        return window and [w.w_start for w in calendar.windows_of(window.day)].index(window.w_start)

    assert sorted((t, number(t), 500 - t, number(500 - t)) for t in times) == sorted(found)


def test_a_row_of_a_day_that_no_calendar_knows(spark: SparkSession) -> None:
    """
    It is an error that names the day; dropped, it would be missing once the calendar knows its day. The process leaves that to
    Spark.
    """
    known = TradingDays(2, "aa", {"a": ((0, 20),)})
    e = query_of(given((known.span,), dated=known), {"ids": IDS})
    rows = [("a", 1, 1.0, 90, 0, None)]

    with pytest.raises(Exception, match="the trading day 1970-01-05, which the calendar does not know"):
        computing("spark", spark, daily_time_series, e, ClosingClock())(rows, False)
    with pytest.raises(NotLocal, match="Spark has to say"):
        computing("local", spark, daily_time_series, e, ClosingClock())(rows, False)
