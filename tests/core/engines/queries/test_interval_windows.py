"""The queries of windows over events that last, against double loops."""

from __future__ import annotations

import random
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.interval_windows import CLIP, COMPRESSED, COUNT, HOPPING, OPEN, SNAPSHOT, IntervalWindow
from materializer.core.engines.queries import interval_windows
from materializer.local.kinds import NotLocal
from tests.core.engines.histories import Kind
from tests.core.engines.naive_intervals import BOUND, ENGINES
from tests.spark.engines.frames import EXECUTORS, IDS, bounds, check, computing, drawn, query_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.one_of(2)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "p",
    [
        IntervalWindow(HOPPING, "e", 7, 3, 1, default_end=BOUND),
        IntervalWindow(HOPPING, "e", 2, 5, 1, default_end=BOUND, tick=3),
        IntervalWindow(COMPRESSED, "e", 7, 3, -2),
        IntervalWindow(SNAPSHOT, "e"),
        IntervalWindow(SNAPSHOT, "e", tick=3),
        IntervalWindow(COUNT, "e", count=3),
    ],
    ids=lambda p: f"{p.kind}, tick {p.tick}",
)
def test_windows_are_those_of_a_double_loop(
    spark: SparkSession, rng: random.Random, p: IntervalWindow, executor: str
) -> None:
    """
    Over all events, and over the parts of a plan beside kept rows.
    """
    histories = drawn(rng, Kind(is_lasting=True, is_clocked=True))
    e = query_of(p, {"ids": IDS})
    at = bounds(next(iter(histories.values())))

    check(computing(executor, spark, interval_windows, e, at), histories, e, ENGINES[p.kind](p))


def test_an_open_event_without_a_bound_is_an_error(spark: SparkSession) -> None:
    """
    Plain hopping windows say what is wrong and what to do instead of running for ever; this process leaves that to Spark.
    """
    e = query_of(IntervalWindow(HOPPING, "e", 5, 2), {"ids": IDS})
    rows = [("a", 1, 1.0, 0, 0, None, None)]

    with pytest.raises(Exception, match=r"data\.open-event.*default_end"):
        computing("spark", spark, interval_windows, e, ClosingClock())(rows, True)
    with pytest.raises(NotLocal, match="Spark has to say"):
        computing("local", spark, interval_windows, e, ClosingClock())(rows, True)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_open_event_never_ends_a_snapshot(spark: SparkSession, executor: str) -> None:
    """
    Its last stretch has an open end, is final without a clock, and is not with one.
    """
    raw = [("a", 1, 1.0, 0, 0, None, None), ("a", 2, 1.0, 3, 0, None, 5)]
    e = query_of(IntervalWindow(SNAPSHOT, "e"), {"n": "count(*)"})

    found = {
        at: sorted(
            computing(executor, spark, interval_windows, e, ClosingClock(as_of=at))(raw, True),
            key=attrgetter("w_start"),
        )
        for at in (None, 4)
    }

    assert [(r.w_start, r.w_end, r.v_n) for r in found[None]] == [(0, 3, 1), (3, 5, 2), (5, OPEN, 1)]
    assert [r.is_final for r in found[None]] == [True, True, True]
    assert [r.is_shown for r in found[4]] == [True, False, False]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("policy", "lives"), [(CLIP, (0, 5, 0)), ("point_align_to_window_end", (5, 6, 5))])
def test_the_output_policy_makes_a_point_or_the_whole_window(
    spark: SparkSession, policy: str, lives: tuple[int, int, int], executor: str
) -> None:
    """
    A point event at the window's end lasts one tick, and the label follows.
    """
    e = query_of(IntervalWindow(HOPPING, "e", 5, 5, output_policy=policy), {"n": "count(*)"})

    (row,) = computing(executor, spark, interval_windows, e, ClosingClock())([("a", 1, 1.0, 1, 0, None, 2)], True)

    assert (row.x_event_start, row.x_event_end, row.label) == lives
