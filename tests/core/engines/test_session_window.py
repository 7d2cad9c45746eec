"""Session windows: what parameters are refused, and that a plan touches whatever a change can touch."""

from __future__ import annotations

import random

import pytest

from materializer.core.engines.params import About
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.engines.session_window import SessionWindow
from materializer.core.spec.spec import Resolution, TimeType
from tests.core.engines.histories import Kind, hold, keeps_true
from tests.core.engines.naive_sessions import sessions

ABOUT = About(TimeType.TIMESTAMP)


@pytest.mark.parametrize("gap", [1, 2, 5])
def test_a_plan_keeps_sessions_true(rng: random.Random, gap: int) -> None:
    """
    Kept sessions with the planned ranges computed anew are the sessions of the changed rows.
    """
    p = SessionWindow(gap)

    hold(rng, Kind(), lambda h: keeps_true(h, sessions(p), p.ranges))


@pytest.mark.parametrize("force", [None, 0, 3, 12])
def test_a_plan_follows_the_clock(rng: random.Random, force: int | None) -> None:
    """
    Sessions that the clock closes, or that a newer row keeps open again, are looked at too.
    """
    p = SessionWindow(9, force_trigger_time=force)

    hold(rng, Kind(is_clocked=True), lambda h: keeps_true(h, sessions(p), p.ranges))


@pytest.mark.parametrize("recent", [-12, 0, 5])
def test_recent_sessions_are_enough_or_it_says_so(rng: random.Random, recent: int) -> None:
    """
    With recent kept rows alone a plan is right, or the planner asks for all of them.
    """
    p = SessionWindow(3)

    hold(rng, Kind(), lambda h: keeps_true(h, sessions(p), p.ranges, recent))


def test_a_late_row_bridges_two_sessions_and_nothing_else() -> None:
    """
    A row between two sessions touches both, and neither their neighbours nor rows far away.
    """
    kept = [StoredResult(t, t + 5, t, t, t < 90, 1) for t in (0, 10, 18, 30, 90)]

    assert SessionWindow(5).ranges([(14, 14)], kept[:4], is_complete=True) == [
        Range(10, 19, 10, 19),
    ]


def test_a_row_at_the_end_of_the_gap_touches_no_session() -> None:
    """
    A difference equal to the gap separates (D13).
    """
    kept = [StoredResult(0, 5, 0, 0, True, 1), StoredResult(20, 25, 20, 20, True, 1)]

    assert SessionWindow(5).ranges([(5, 5)], kept, is_complete=True) == [Range(5, 6, 5, 6)]
    assert SessionWindow(5).ranges([(15, 15)], kept, is_complete=True) == [Range(15, 16, 15, 16)]


def test_changes_a_gap_apart_are_planned_apart() -> None:
    """
    Their rows are in two sessions; nearer ones may be in one.
    """
    assert SessionWindow(5).ranges([(0, 0), (5, 5)], [], is_complete=True) == [Range(0, 1, 0, 1), Range(5, 6, 5, 6)]
    assert SessionWindow(5).ranges([(0, 0), (4, 4)], [], is_complete=True) == [Range(0, 5, 0, 5)]


def test_older_sessions_are_asked_for_where_the_change_may_touch_them() -> None:
    """
    A session that was not read ends before the oldest that was: a change at its end or later cannot touch it.
    """
    kept = [StoredResult(20, 25, 20, 20, True, 1), StoredResult(90, 95, 90, 90, False, 1)]

    assert SessionWindow(5).ranges([(24, 24)], kept, is_complete=False) is None
    assert SessionWindow(5).ranges([(25, 25)], kept, is_complete=False) == [
        Range(25, 26, 25, 26),
        Range(90, 91, 90, 91),
    ]


def test_deleting_the_newest_session_may_open_the_one_before() -> None:
    """
    The session before the newest is looked at when the newest may be gone.
    """
    kept = [StoredResult(0, 5, 0, 0, True, 1), StoredResult(20, 25, 20, 20, False, 1)]

    assert SessionWindow(5).ranges([(20, 20)], kept, is_complete=True) == [Range(0, 1, 0, 1), Range(20, 21, 20, 21)]


def test_a_forced_session_is_looked_at_again_when_only_the_bound_moved() -> None:
    """
    A newer row of another key may open it; without a force nothing can.
    """
    kept = [StoredResult(0, 9, 0, 0, True, 1), StoredResult(20, 29, 20, 20, True, 1)]

    assert SessionWindow(9, force_trigger_time=3).ranges([], kept, is_complete=True) == [Range(20, 21, 20, 21)]
    assert SessionWindow(9).ranges([], kept, is_complete=True) == []


def test_without_old_rows_an_old_change_cannot_be_planned() -> None:
    """
    A change at or before the oldest kept row that is shown needs older ones.
    """
    kept = [StoredResult(20, 25, 20, 20, True, 1)]

    assert SessionWindow(5).ranges([(22, 22)], kept, is_complete=False) is None
    assert SessionWindow(5).ranges([(25, 25)], kept, is_complete=False) == [Range(25, 26, 25, 26)]


@pytest.mark.parametrize(
    ("values", "about", "expected"),
    [
        ({"session_gap": 5}, ABOUT, 5_000),
        ({"session_gap": 5, "time_kind": "datetime"}, ABOUT, 5_000_000),
        ({"session_gap": "5 ms"}, About(TimeType.BIGINT, Resolution.US), 5_000),
        ({"session_gap": 5, "time_kind": "int"}, About(TimeType.BIGINT), 5),
        ({"session_gap": 2}, About(TimeType.DATE), 2 * 86_400_000_000),
    ],
)
def test_the_gap_is_counted_in_the_kind_of_time(values: dict[str, object], about: About, expected: int) -> None:
    """
    A whole number counts the unit of the time kind; a text says its own.
    """
    params, troubles = SessionWindow.read(values, about)

    assert params == SessionWindow(expected)
    assert troubles == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "session_gap"),
        ({"session_gap": 0}, "session_gap"),
        ({"session_gap": 5, "update_time": 1, "use_session_start_time": False}, "update_time"),
        ({"session_gap": 5, "update_time": 1, "use_system_time": True}, "update_time"),
        ({"session_gap": 5, "force_trigger_time": -1}, "force_trigger_time"),
        ({"session_gap": 5, "sesion_gap": 5}, "sesion_gap"),
        ({"session_gap": 5, "time_kind": "month"}, "month"),
        ({"session_gap": 5, "time_kind": "nanotimestamp"}, "nanotimestamp"),
    ],
)
def test_wrong_parameters_are_refused_by_name(values: dict[str, object], named: str) -> None:
    """
    Each wrong parameter is one trouble that names it, and there are no params.
    """
    params, troubles = SessionWindow.read(values, ABOUT)

    assert params is None
    assert [named in t.message for t in troubles] == [True]


def test_all_troubles_are_told_at_once() -> None:
    """
    One wrong parameter does not hide another.
    """
    _, troubles = SessionWindow.read({"update_time": 1, "use_session_start_time": False, "gap": 1}, ABOUT)

    assert len(troubles) == 3
