"""Event-time panes: parameters, the watermark, and what a change touches."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.core.engines.event_time_window import EventTimeWindow, advanced, watermarks
from materializer.core.engines.params import About
from materializer.core.engines.ranges import StoredResult
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.instants import parse
from tests.cases.reading import DATA
from tests.fresh import for_new_data

from .naive_windows import Change, Window, changes, refreshed, results


def cases() -> list[dict[str, Any]]:
    """The shared cases about watermarks."""
    found = [json.loads((DATA / f"{n}.json").read_text(encoding="utf-8")) for n in ("seed_cases", "engine_samples")]
    return [c for document in found for c in document if c["engine"] == "watermarkLog"]


def test_watermarks_of_the_cases() -> None:
    """
    Every advance by at least the gap, after the row that made it.
    """
    assert cases()
    for case in cases():
        about = About(TimeType.TIMESTAMP_NTZ)
        values = {"lag": case["params"].get("lag"), "minimum_gap": case["params"].get("minimumGap")}
        p, _ = EventTimeWindow.read(
            {"interval_duration": 10.0, **{k: v for k, v in values.items() if v is not None}}, about
        )
        assert p is not None
        column, rows = case["params"]["timeColumn"], case["input_rows"]
        times = [parse(row[column], TimeType.TIMESTAMP_NTZ) for row in rows]
        found = [(rows[i]["_seq"], t) for i, t in watermarks(times, p.lag, p.minimum_gap)]
        expected = [(r["after_seq"], parse(r["watermark"], TimeType.TIMESTAMP_NTZ)) for r in case["expected_rows"]]
        assert expected == found, case["id"]


def test_numbers_are_seconds() -> None:
    """
    As in the annotation, with its defaults: no lag, a tenth of a second, panes side by side.
    """
    p, _ = EventTimeWindow.read({"interval_duration": 10.0}, About(TimeType.TIMESTAMP))
    assert EventTimeWindow(10_000_000, 10_000_000, minimum_gap=100_000) == p
    p, _ = EventTimeWindow.read({"interval_duration": 10, "lag": 1.5}, About(TimeType.BIGINT))
    assert EventTimeWindow(10_000, 10_000, lag=1_500, minimum_gap=100) == p
    p, _ = EventTimeWindow.read(
        {"interval_duration": 10, "creation_period": "4 s"}, About(TimeType.BIGINT, Resolution.NS)
    )
    assert EventTimeWindow(10 * 10**9, 4 * 10**9, minimum_gap=10**8) == p


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "'interval_duration' is missing"),
        ({"interval_duration": 0}, "at least 1"),
        ({"interval_duration": 10, "offset": 10}, "less than 'interval_duration'"),
        ({"interval_duration": 10, "lag": -1}, "'lag' must be at least 0"),
        ({"interval_duration": 10, "discardage": 1}, "no parameter 'discardage'"),
    ],
)
def test_what_is_refused(values: dict[str, Any], word: str) -> None:
    """
    Each with a message that names the parameter.
    """
    params, troubles = EventTimeWindow.read(values, About(TimeType.TIMESTAMP))
    assert params is None
    assert any(word in t.message for t in troubles)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(0, 5), st.integers(0, 9))
def test_a_watermark_only_advances(watermark: int, newest: int, lag: int, gap: int) -> None:
    """
    By the gap or more, never back.
    """
    moved = advanced(watermark, newest, lag, gap)
    assert (moved is not None) == (newest - lag > watermark and newest - lag >= watermark + gap)
    assert newest - lag == advanced(None, newest, lag, gap)


@settings(max_examples=400)
@given(
    changes(60),
    st.sampled_from([(6, 6, 0), (9, 4, 1), (3, 5, 2)]),
    st.sampled_from([0, 4]),
    st.sampled_from([(0, 0), (0, 9), (20, 0), (0, 30)]),
    st.integers(-10, 60),
)
def test_a_plan_covers_what_a_change_can_touch(
    change: Change,
    shape: tuple[int, int, int],
    lag: int,
    others: tuple[int, int],
    since: int,
) -> None:
    """
    Computing the ranges anew gives what computing everything gives, wherever other keys take the watermark.
    """
    duration, period, offset = shape
    p = EventTimeWindow(duration, period, offset, lag)
    every = [(s, s + duration, s + duration) for s in range(offset - 20 * period, 100, period)]

    def panes(t: int) -> list[Window]:
        return [w for w in every if w[0] <= t < w[1]]

    marks = [
        max(times, default=0) + more - lag for times, more in ((change.before, others[0]), (change.after, others[1]))
    ]
    compute = partial(results, windows_of=panes, every=every, slack=1_000)
    old = compute(change.before, bound=marks[0])
    kept = [r.kept for r in old]

    found = p.ranges(change.spans, [k for k in kept if not k.is_final or k.w_start >= since], is_complete=False)
    if found is None or not (change.spans or any(not k.is_final or k.w_start >= since for k in kept)):
        found = p.ranges(change.spans, kept, is_complete=True)

    assert found is not None
    expected = {r.window: r for r in compute(change.after, bound=marks[1])}
    assert expected == refreshed(old, change.after, found, partial(compute, bound=marks[1]))


test_a_plan_covers_what_a_change_can_touch_for_new_data = for_new_data(test_a_plan_covers_what_a_change_can_touch)


def test_what_a_watermark_that_lags_by_the_gap_leaves_open_is_planned() -> None:
    """
    A row that does not advance the watermark by the gap closes nothing: without the newest row a closed pane may be open.
    """
    p = EventTimeWindow(10, 10, 0, lag=3, minimum_gap=7)
    assert [(0, 16), (2, 37)] == list(watermarks([19, 25, 40], p.lag, p.minimum_gap))
    assert [(0, 16)] == list(watermarks([19, 25], p.lag, p.minimum_gap))

    kept = [
        StoredResult(10, 20, 19, 19, True, 1),
        StoredResult(20, 30, 25, 25, True, 1),
        StoredResult(40, 50, 40, 40, False, 1),
    ]
    found = p.ranges([(40, 40)], kept, is_complete=True)
    assert found is not None
    assert any(r.start <= 10 < r.end for r in found)
