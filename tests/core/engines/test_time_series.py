"""The time-series engine: its parameters, and what a change touches."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.core.engines.params import About
from materializer.core.engines.time_series import TimeSeries
from materializer.core.spec.spec import Resolution, TimeType
from tests.fresh import for_new_data

from .naive_windows import Change, Window, changes, refreshed, results

TWO = (("a", "sum(v)"), ("b", "max(v)"))


def given_params(time_type: TimeType = TimeType.TIMESTAMP, **values: Any) -> TimeSeries:
    """Parameters that must be good, with two measures."""
    params, troubles = TimeSeries.read({"window_size": 6, "step": 3, **values}, About(time_type, measures=TWO))
    assert params is not None, troubles
    return params


def complaints(**values: Any) -> list[str]:
    """What is wrong with parameters."""
    params, troubles = TimeSeries.read({"window_size": 6, "step": 3, **values}, About(TimeType.TIMESTAMP, measures=TWO))
    assert params is None
    return [t.message for t in troubles]


def test_whole_numbers_count_milliseconds() -> None:
    """
    A timestamp's unit; a text says its own.
    """
    assert (given_params().step, given_params(step="3 ms").length) == (3_000, 6_000)
    assert given_params(time_kind="datetime").step == 3_000_000


def test_sizes_share_measures() -> None:
    """
    Without a list of indexes each size has one measure.
    """
    found = given_params(window_size=[6, 12])
    assert ((6_000, 12_000), (0, 1)) == (found.window_sizes, found.measure_sizes)
    assert (0, 0) == given_params().measure_sizes


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        ("none", ()),
        ("ffill", (("ffill", ""), ("ffill", ""))),
        ("null, -1.5", (("null", ""), ("constant", "-1.5"))),
        ([None, "it's"], (("null", ""), ("constant", "'it\\'s'"))),
        ("a\\b", (("constant", "'a\\\\b'"),) * 2),
    ],
)
def test_fill(fill: object, expected: tuple[tuple[str, str], ...]) -> None:
    """
    One for all measures or one for each; values are literals of Spark SQL.
    """
    assert expected == given_params(fill=fill).fills


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"step": 0}, "'step' must be at least 1"),
        ({"step": 4}, "multiple of 'step'"),
        ({"window_size": [6, 12, 24]}, "3 sizes for 2 measures"),
        ({"window_size": [6, 12], "measure_sizes": [0, 0]}, "sizes without a measure"),
        ({"window_size": [6, 12], "use_window_start_time": True}, "'use_window_start_time'"),
        ({"fill": "none,0"}, "cannot be 'none'"),
        ({"fill": "1,2,3"}, "3 values for 2 measures"),
        ({"update_time": 2}, "multiple of 'update_time'"),
        ({"update_time": 1, "use_system_time": True}, "'use_system_time' exclude"),
        ({"update_time": 1, "accepted_delay": 1}, "'accepted_delay' exclude"),
        ({"update_time": 1, "force_trigger_time": 1}, "'force_trigger_time' exclude"),
        ({"force_trigger_time": 1, "use_system_time": True}, "'use_system_time' exclude"),
        ({"force_trigger_time": 1, "accepted_delay": 1}, "'accepted_delay' exclude"),
        ({"accepted_delay": 7}, "'accepted_delay' must not be longer"),
        ({"key_purge_freq_in_sec": 60}, "needs 'force_trigger_time'"),
        ({"key_purge_freq_in_sec": 60, "force_trigger_time": 1, "fill": 0}, "'fill' exclude"),
        ({"sub_window": [1, 2]}, "equal to 'step'"),
        ({"window_size": 3, "sub_window": [2, 1]}, "inside the window"),
        ({"window_size": 3, "sub_window": [1, 2], "update_time": 1}, "'sub_window' and 'update_time'"),
        ({"window_size": 3, "sub_window": [1, 2], "use_system_time": True}, "'sub_window' and 'use_system_time'"),
        ({"time_kind": "datehour"}, "no alignment"),
        ({"time_kind": "nanotimestamp"}, "integer time column"),
        ({"step": "1 month"}, "fixed length"),
        ({"parallelism": 64}, "at most 63"),
        ({"windowsize": 6}, "no parameter 'windowsize'"),
    ],
)
def test_what_is_refused(values: dict[str, Any], word: str) -> None:
    """
    Each with a message that names the parameter.
    """
    assert any(word in message for message in complaints(**values))


def test_all_troubles_come_at_once() -> None:
    """
    A reader of the message has one round of mending.
    """
    assert 4 <= len(complaints(step=4, fill="none,0", closed="middle", foo=1))


def test_what_a_job_has_no_use_for_is_accepted() -> None:
    """
    These parameters never change a result.
    """
    plain = given_params()
    assert plain == given_params(garbage_size=50, parallelism=4, raft_group=1, snapshot_dir="x")


def test_anchor() -> None:
    """
    An origin that was given wins over the first row; no row at all is no trouble.
    """
    assert 1_538_960_461_000_000 == given_params().anchor(1_538_960_461_002_000)
    assert 0 == given_params().anchor(None)
    assert 3_000 == given_params(origin="1970-01-01T00:00:00.003").anchor(99)
    assert not given_params().is_grid_fixed
    assert given_params(step=5, window_size=5).is_grid_fixed


def windows(p: TimeSeries, t: int) -> list[Window]:
    """Windows that take a row."""
    right = 1 if p.closed == "right" else 0
    first = (t - right) // p.step * p.step + p.step
    return [(end - p.length, end, end + right) for end in range(first, first + p.length, p.step)]


@settings(max_examples=400)
@given(
    changes(60),
    st.sampled_from([(3, 3), (3, 9)]),
    st.sampled_from(["left", "right"]),
    st.sampled_from([0, 3]),
    st.booleans(),
    st.sampled_from([(-99, -99), (20, 20), (20, 33), (40, 25)]),
    st.integers(-10, 60),
)
def test_a_plan_covers_what_a_change_can_touch(
    change: Change,
    shape: tuple[int, int],
    closed: str,
    delay: int,
    is_filled: bool,
    bounds: tuple[int, int],
    since: int,
) -> None:
    """
    Computing the ranges of a plan anew, each from its rows alone, gives what computing everything gives.
    """
    p = TimeSeries(
        step=shape[0],
        window_sizes=(shape[1],),
        alignment=shape[0],
        closed=closed,
        accepted_delay=delay,
        fills=(("ffill", ""),) if is_filled else (),
    )
    every = [(e - p.length, e, e + (1 if closed == "right" else 0)) for e in range(0, 120, p.step)]
    compute = partial(results, windows_of=partial(windows, p), every=every, slack=delay, is_filled=is_filled)
    old = compute(change.before, bound=bounds[0])
    kept = [r.kept for r in old]

    found = p.ranges(change.spans, [k for k in kept if not k.is_final or k.w_start >= since], is_complete=False)
    if found is None or not (change.spans or any(not k.is_final or k.w_start >= since for k in kept)):
        found = p.ranges(change.spans, kept, is_complete=True)

    assert found is not None
    expected = {r.window: r for r in compute(change.after, bound=bounds[1])}
    assert expected == refreshed(old, change.after, found, partial(compute, bound=bounds[1]))


test_a_plan_covers_what_a_change_can_touch_for_new_data = for_new_data(test_a_plan_covers_what_a_change_can_touch)


def test_a_change_far_back_touches_little() -> None:
    """
    A row among many leads to its own windows and to those that are still open.
    """
    p = given_params(TimeType.BIGINT, origin=0)
    compute = partial(results, windows_of=partial(windows, p), every=[(e - 6, e, e) for e in range(0, 1_100, 3)])
    kept = [r.kept for r in compute(range(1_000))]

    found = p.ranges([(500, 500)], kept, is_complete=True)

    assert found is not None
    assert [(494, 501)] == [(r.start, r.end) for r in found[:-1]]
    assert found[-1].start >= 980


def test_keys_with_their_own_grids_are_computed_whole() -> None:
    """
    A change of the first row would move all windows of its key.
    """
    about = About(TimeType.BIGINT, Resolution.MS, measures=TWO)
    p, _ = TimeSeries.read({"window_size": 3, "step": 3, "grid_origin": "key"}, about)
    assert p is not None
    assert p.has_grid_by_key
    found = p.ranges([(5, 5)], [], is_complete=False)
    assert found is not None
    assert 1 == len(found)
