"""The query of time series against a double loop over windows and rows."""

from __future__ import annotations

import random
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.queries import time_series
from materializer.core.engines.time_series import TimeSeries
from materializer.local.kinds import NotLocal
from tests.core.engines.histories import Kind
from tests.core.engines.naive_series import series
from tests.spark.engines.frames import EXECUTORS, IDS, bounds, check, computing, drawn, merged_of, query_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def given(sizes: tuple[int, ...] = (3,), origin: int = 1, **more: Any) -> TimeSeries:
    """Parameters with windows that end every three ticks."""
    return TimeSeries(step=3, alignment=1, window_sizes=sizes, origin=origin, **more)


SERIES = {
    "tumbling": given(),
    "after their end": given(closed="right", accepted_delay=2),
    "sliding": given((9,), closed="right", update_time=3),
    "forced": given((6,), force_trigger_time=4, use_window_start_time=True),
    "filled on": given((6,), fills=(("ffill", ""),), closed="right"),
    "filled with a constant": given(fills=(("constant", "7"),), force_trigger_time=2),
    "filled with null": given((6,), fills=(("null", ""),), accepted_delay=3),
    "inner windows": given(sub_window=(1, 2)),
    "filled inner windows": given(sub_window=(0, 2), closed="right", fills=(("ffill", ""),)),
    "in ingestion time": given((6,), origin=-17, use_system_time=True, accepted_delay=2),
    "filled in ingestion time": given(origin=-17, use_system_time=True, accepted_delay=3, fills=(("ffill", ""),)),
    "grids of keys": TimeSeries(step=3, alignment=2, window_sizes=(6,), grid_origin="key"),
    "filled grids of keys": TimeSeries(
        step=3, alignment=1, window_sizes=(3,), grid_origin="key", fills=(("ffill", ""),), closed="right"
    ),
}
SIZES = {
    "of the largest": given((3, 9), measure_sizes=(1, 0)),
    "of all": given((9, 3), measure_sizes=(0, 1), multi_window_rule="all", closed="right"),
    "filled": given((3, 6), measure_sizes=(0, 1), fills=(("ffill", ""), ("constant", "7"))),
    "filled, of all": given((3, 6), measure_sizes=(1, 0), fills=(("ffill", ""),) * 2, multi_window_rule="all"),
}


@pytest.mark.one_of(4)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("is_merged", [False, True], ids=["rows", "panes"])
@pytest.mark.parametrize("name", SERIES)
def test_windows_are_those_of_a_double_loop(
    spark: SparkSession, rng: random.Random, name: str, is_merged: bool, executor: str
) -> None:
    """
    Over all rows, and over the parts of a plan beside kept rows; from rows, and from panes that merge.
    """
    p = SERIES[name]
    histories = drawn(rng, Kind(is_clocked=p.force_trigger_time is not None or p.use_system_time))
    e, at = query_of(p, {"ids": IDS}), bounds(next(iter(histories.values())))
    e = merged_of(e) if is_merged else e

    found = check(computing(executor, spark, time_series, e, at), histories, e, series(p))

    assert {r.is_shown == (r.is_final or p.update_time is not None) for r in found} == {True}
    assert {r.label - (r.w_start if p.use_window_start_time else r.w_end) for r in found} == {0}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", SIZES)
def test_windows_of_several_sizes_are_one_row(
    spark: SparkSession, rng: random.Random, name: str, executor: str
) -> None:
    """
    Each measure has the rows of its size, or null where that has none.
    """
    p, histories = SIZES[name], drawn(rng, Kind())
    e, at = query_of(p, {"ids": IDS, "more": IDS}), bounds(next(iter(histories.values())))

    check(computing(executor, spark, time_series, e, at), histories, e, series(p))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_without_keys_there_is_one_key(spark: SparkSession, executor: str) -> None:
    """
    Windows of all rows are filled from one to the next; the measure of a filled one has the type of the others.
    """
    raw = [(None, i, 1.5, t, 0, None) for i, t in enumerate((0, 1, 9))]
    p = given(origin=0, fills=(("constant", "0"),))
    e = replace(query_of(p, {"total": "sum(v)"}, keys=()), types={"total": "double"})

    rows = computing(executor, spark, time_series, e, ClosingClock())(raw, False)

    found = [(r.w_start, r.v_total, r.n, r.is_shown) for r in sorted(rows, key=attrgetter("w_start"))]
    assert [(0, 3.0, 2, True), (3, 0.0, 0, True), (6, 0.0, 0, True), (9, 1.5, 1, False)] == found
    assert {float} == {type(r.v_total) for r in rows}


def test_a_time_outside_of_the_day_is_an_error(spark: SparkSession) -> None:
    """
    Spark names it; this process leaves that to Spark.
    """
    e = query_of(given(day=10), {"ids": IDS})
    rows = [("a", 1, 1.0, 10, 0, None)]

    with pytest.raises(Exception, match="a time of day outside of the day"):
        computing("spark", spark, time_series, e, ClosingClock())(rows, False)
    with pytest.raises(NotLocal, match="Spark has to say"):
        computing("local", spark, time_series, e, ClosingClock())(rows, False)
