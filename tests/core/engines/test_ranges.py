"""What planning the ranges of one key looks at: stored results are sorted, and found by bisection."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any

import pytest

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.event_time_window import EventTimeWindow
from materializer.core.engines.interval_windows import COMPRESSED, COUNT, HOPPING, SNAPSHOT, IntervalWindow
from materializer.core.engines.ranges import StoredResult
from materializer.core.engines.reactive_state import ReactiveState
from materializer.core.engines.session_window import SessionWindow
from materializer.core.engines.time_series import TimeSeries

EVERY, COUNT_OF_RESULTS = 10, 4_000
FIELDS = ("w_start", "w_end", "first_t", "last_t", "is_final", "n")
FILL = (("null", ""),)
ENGINES: dict[str, WindowEngine] = {
    "sessions": SessionWindow(5),
    "forced sessions": SessionWindow(5, force_trigger_time=3),
    "series": TimeSeries(step=EVERY, window_sizes=(EVERY,), alignment=EVERY, origin=0),
    "filled series": TimeSeries(step=EVERY, window_sizes=(EVERY,), alignment=EVERY, origin=0, fills=FILL),
    "filled days": DailyTimeSeries(step=EVERY, sessions=((0, 100),), day=100, fills=FILL, key_purge_daily=False),
    "event time": EventTimeWindow(EVERY, EVERY),
    "hopping": IntervalWindow(HOPPING, "end", duration=20, period=10),
    "compressed": IntervalWindow(COMPRESSED, "end", duration=20, period=10),
    "snapshots": IntervalWindow(SNAPSHOT, "end"),
    "counts": IntervalWindow(COUNT, count=3),
    "moving state": ReactiveState((("mavg", "v", 5),), (("m", "_call_0"),)),
    "running state": ReactiveState((("cumsum", "v", 0),), (("m", "_call_0"),)),
}


class Looked(StoredResult):
    """A stored result that counts how often somebody looks at a value of it."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        if name in FIELDS:
            Looked.looks += 1
        return super().__getattribute__(name)


def looks(engine: WindowEngine, spans: Sequence[tuple[int, int]], *, frozen: int | None = None) -> int:
    """Return how many values an engine looks at for some changed spans of one key with many stored results."""
    starts = range(0, EVERY * COUNT_OF_RESULTS, EVERY)
    stored = [Looked(t, t + 5, t, t, True, 1) for t in starts]
    Looked.looks = 0
    if frozen is None:
        assert engine.ranges(spans, stored, is_complete=True) is not None
    else:
        for lo, _ in spans:
            engine.begins_below(lo, frozen, stored)
    return Looked.looks


@pytest.mark.parametrize("name", ENGINES)
def test_many_changes_of_a_hot_key_are_planned_in_order_of_both(name: str) -> None:
    """
    A change bisects the stored results of its key; it does not walk them.
    """
    spans = [(t, t) for t in range(3, EVERY * COUNT_OF_RESULTS, 4 * EVERY)]

    assert looks(ENGINES[name], spans) <= 8 * COUNT_OF_RESULTS + 8 * len(spans) * log2(COUNT_OF_RESULTS)


@pytest.mark.parametrize("name", ENGINES)
def test_what_would_change_below_a_frozen_bound_is_bisected(name: str) -> None:
    """
    Each changed time above the bound finds the one stored result across it.
    """
    bound = EVERY * COUNT_OF_RESULTS // 2
    spans = [(t, t) for t in range(bound + 3, EVERY * COUNT_OF_RESULTS, 4 * EVERY)]

    assert looks(ENGINES[name], spans, frozen=bound) <= 4 * len(spans) * log2(COUNT_OF_RESULTS)
