"""The query of event-time panes against a double loop."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from materializer.core.engines.event_time_window import EventTimeWindow
from materializer.core.engines.queries import event_time_window
from tests.core.engines.histories import Clock, Kind, Result, Row
from tests.spark.engines.frames import EXECUTORS, IDS, bounds, check, computing, drawn, merged_of, query_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def panes(p: EventTimeWindow):
    """The engine as a loop over panes around all rows."""

    def naive(rows: Sequence[Row], outside: int | None, clock: Clock) -> list[Result]:
        known = [] if clock.global_max is None else [clock.global_max - p.lag]
        bound = max(known + ([] if clock.as_of is None else [clock.as_of]), default=None)
        found = []
        for start in range(-200 * p.creation_period + p.pane_offset, 200, p.creation_period):
            mine = [row for row in rows if start <= row.t < start + p.interval_duration]
            if mine:
                end = start + p.interval_duration
                ids = (tuple(sorted(row.id for row in mine)),)
                first, last = min(row.t for row in mine), max(row.t for row in mine)
                is_final = bound is not None and end <= bound
                found.append(Result(start, end, first, last, len(mine), is_final, ids))
        return found

    return naive


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("is_merged", [True, False], ids=["panes merged", "from rows"])
@pytest.mark.parametrize(
    "p",
    [EventTimeWindow(6, 4, pane_offset=1, lag=3), EventTimeWindow(5, 5), EventTimeWindow(2, 7, pane_offset=1)],
    ids=["overlapping", "side by side", "with gaps"],
)
def test_panes_are_those_of_a_double_loop(
    spark: SparkSession, rng: random.Random, p: EventTimeWindow, is_merged: bool, executor: str
) -> None:
    """
    Over all rows, and over the parts of a plan beside kept rows; with measures that merge and with others.
    """
    histories = drawn(rng, Kind(is_clocked=True))
    e = merged_of(query_of(p, {"ids": IDS})) if is_merged else query_of(p, {"ids": IDS})
    at = bounds(next(iter(histories.values())))

    found = check(computing(executor, spark, event_time_window, e, at), histories, e, panes(p))

    assert {r.x_ordinal for r in found} <= {0}
    assert {(r.x_timing == "onTime") == r.is_final == r.is_shown for r in found} <= {True}
