"""The daily engine: sessions of a trading day, its windows, its parameters, and what a change touches."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.compiled.fingerprint import data_fingerprint
from materializer.core.engines.daily_time_series import DailyTimeSeries, dated
from materializer.core.engines.params import About
from materializer.core.engines.registry import read_params
from materializer.core.engines.trading_calendar import Calendar, schedule
from materializer.core.language.engine_define import define_engine
from materializer.core.spec.spec import Resolution, TimeType
from tests.cases.reading import DATA
from tests.fresh import for_new_data
from tests.oracle.engines import sessions as oracle

from .naive_windows import Change, Window, changes, refreshed, results

SAMPLES = DATA / "engine_samples.json"
HOUR = 3_600
DAY = 24 * HOUR
ONE_DATE = {"sessions": ((34_200, 41_400), (46_800, 54_000)), "step": 1_800, "day": DAY}


def clock(text: str) -> int:
    """Seconds of a time of day."""
    hours, minutes, seconds = text.split(":")
    return int(hours) * HOUR + int(minutes) * 60 + int(seconds)


def stated(text: str) -> int:
    """Seconds of a time such as ``D+1 02:00:00``."""
    day, time = text.removeprefix("D+").split()
    return int(day) * DAY + clock(time)


def schedules() -> list[dict[str, Any]]:
    """The shared cases about schedules."""
    return [c for c in json.loads(SAMPLES.read_text(encoding="utf-8")) if c["engine"] == "sessionSchedule"]


def test_schedules_of_the_cases() -> None:
    """
    Sessions that cross midnight.
    """
    assert schedules()
    for case in schedules():
        times = [[clock(t) for t in case["params"][name]] for name in ("sessionBegin", "sessionEnd")]
        expected = tuple((stated(r["begin"]), stated(r["end"])) for r in case["expected_rows"])
        found = schedule(times[0], times[1], DAY)
        first = found[0][0] // DAY * DAY
        assert expected == tuple((begin - first, end - first) for begin, end in found), case["id"]


@pytest.mark.parametrize(
    ("begins", "ends", "merges", "expected"),
    [
        ([9, 13], [11, 15], False, ((9, 11), (13, 15))),
        ([0], [0], False, ((0, 24),)),
        ([22], [22], False, ((22, 46),)),
        ([9], [0], False, ((9, 24),)),
        ([0, 9, 21], [2, 11, 0], False, ((-3, 2), (9, 11))),
        ([21, 9], [2, 11], False, ((-3, 2), (9, 11))),
        ([21, 9], [23, 11], False, ((-3, -1), (9, 11))),
        ([9, 21], [11, 2], False, ((9, 11), (21, 26))),
        ([21, 0, 9], [0, 2, 11], False, ((-3, 0), (0, 2), (9, 11))),
        ([0, 13], [11, 0], False, ((13, 35),)),
        ([9, 10, 13], [10, 11, 15], True, ((9, 11), (13, 15))),
        ([9, 10, 13], [10, 11, 15], False, ((9, 10), (10, 11), (13, 15))),
    ],
)
def test_schedule(begins: list[int], ends: list[int], merges: bool, expected: tuple[tuple[int, int], ...]) -> None:
    """
    Ends at midnight, sessions that touch, a day as one session; an evening opens the day that follows it, unless it is written last.
    """
    assert expected == schedule(begins, ends, 24, merges=merges)


@st.composite
def spellings(draw: st.DrawFn) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
    """The same trading day with a session across midnight, which is cut there or not."""
    times = sorted(
        draw(st.lists(st.integers(1, 23), min_size=2, max_size=8, unique=True).filter(lambda t: len(t) % 2 == 0))
    )
    morning, *between, evening = times
    begins, ends = between[::2], between[1::2]
    return ([0, *begins, evening], [morning, *ends, 0]), ([evening, *begins], [morning, *ends])


@given(spellings(), st.booleans(), st.integers(-60, 80))
def test_two_spellings_of_a_session_across_midnight(
    pair: tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]], merges: bool, t: int
) -> None:
    """
    They are the same calendar: as read from a definition, too, and to the oracle.
    """
    cut, whole = pair
    one, other = (schedule(*times, 24, merges=merges) for times in pair)
    assert one == other
    assert Calendar(one, 2, 24).window_at(t) == Calendar(other, 2, 24).window_at(t)

    first, second = (oracle.schedule(*times, 24, merges=merges) for times in (cut, whole))
    assert [b - a for a, b in first] == [b - a for a, b in second]
    assert {(b - a) % 24 for (a, _), (b, _) in zip(first, second, strict=True)} == {0}
    assert {(b - a) % 24 for (a, _), (b, _) in zip(first, one, strict=True)} == {0}


def test_an_evening_opens_the_trading_day_of_the_next_date() -> None:
    """
    What comes between the last session and the evening is dropped, what comes before the morning is in its first window; a
    holiday goes with the evening before it, and a half day ends by the clock of its date.
    """
    sessions = schedule([0, 9, 13, 21], [1, 11, 15, 0], 24)
    calendar = Calendar(sessions, 1, 24, half_days=((1, 11),), holidays=(2,))
    found = {
        t: w and (w.day, w.w_start) for t in (16, 20, 21, 24, 25, 32, 37, 44, 45, 57) for w in [calendar.window_at(t)]
    }
    assert found == {
        16: None, 20: None, 21: (1, 21), 24: (1, 24), 25: (1, 33), 32: (1, 33), 37: None, 44: None, 45: None, 57: None
    }  # fmt: skip


@pytest.mark.parametrize(("begins", "ends"), [([9, 13], [11]), ([], []), ([9, 13], [12, 10])])
def test_schedules_that_cannot_be(begins: list[int], ends: list[int]) -> None:
    """
    Lists that do not fit, and more than a day.
    """
    with pytest.raises(ValueError, match="sessions"):
        schedule(begins, ends, 24)


@pytest.mark.parametrize(
    ("at", "changes", "start"),
    [
        ("09:25:31", {}, "09:30:00"),
        ("00:00:00", {}, "09:30:00"),
        ("11:29:59", {}, "11:00:00"),
        ("11:30:00", {}, "13:00:00"),
        ("11:30:00", {"merges_end": True}, "11:00:00"),
        ("11:30:00", {"holds_end": True}, "11:00:00"),
        ("10:00:00", {"holds_end": True}, "09:30:00"),
        ("12:59:01", {}, "13:00:00"),
        ("15:00:00", {}, None),
        ("15:00:00", {"merges_end": True}, "14:30:00"),
        ("15:09:07", {}, None),
        ("10:00:00", {"holidays": (0,)}, None),
        ("10:00:00", {"weekdays": (1, 2, 3, 5)}, None),
        ("10:00:00", {"weekdays": (4,)}, "10:00:00"),
        ("13:10:00", {"half_days": ((0, 13 * HOUR),)}, None),
        ("11:29:00", {"half_days": ((0, 11 * HOUR),)}, None),
    ],
)
def test_window_of_a_row(at: str, changes: dict[str, Any], start: str | None) -> None:
    """
    Early rows, rows at an end, rows after the last session; 1970-01-01 was a Thursday.
    """
    found = Calendar(**ONE_DATE, **changes).window_at(clock(at))
    assert (None if start is None else clock(start)) == (found.w_start if found else None)


@pytest.mark.parametrize(("merges", "label", "end"), [(False, 54_600, 54_600), (True, 54_000, 54_600)])
def test_a_short_last_window(merges: bool, label: int, end: int) -> None:
    """
    It ends with the session, and is labelled so; merged, its rows go to the label before.
    """
    calendar = Calendar(((46_800, 54_600),), 1_800, DAY, merges_last=merges)
    last = list(calendar.windows_of(0))[-1]
    assert (label, end) == (last.label, last.w_end)
    assert last == calendar.window_at(54_599)


def test_sessions_on_two_dates_drop_what_lies_between_trading_days() -> None:
    """
    And midnight does not begin a day.
    """
    calendar = Calendar(((21 * HOUR, 26 * HOUR), (33 * HOUR, 35 * HOUR)), HOUR, DAY)
    assert calendar.window_at(20 * HOUR) is None
    night, morning = calendar.window_at(25 * HOUR), calendar.window_at(28 * HOUR)
    assert night is not None
    assert morning is not None
    assert (0, 25 * HOUR) == (night.day, night.w_start)
    assert (0, 33 * HOUR) == (morning.day, morning.w_start)


@pytest.mark.parametrize(("changes_", "day"), [({}, 1), ({"merges_end": True}, 0), ({"holds_end": True}, 0)])
def test_midnight_of_a_session_that_lasts_all_day(changes_: dict[str, Any], day: int) -> None:
    """
    It is the first row of the next trading day, or the last of this one.
    """
    found = Calendar(((0, DAY),), HOUR, DAY, **changes_).window_at(DAY)
    assert found is not None
    assert day == found.day


CALENDARS = st.builds(
    Calendar,
    sessions=st.sampled_from(
        [((4, 10), (12, 17)), ((20, 26), (30, 33)), ((-4, 2), (6, 9)), ((0, 24),), ((8, 32),), ((4, 10), (10, 13))]
    ),
    step=st.sampled_from([1, 2, 5]),
    day=st.just(24),
    holds_end=st.booleans(),
    merges_end=st.booleans(),
    merges_last=st.booleans(),
    holidays=st.sampled_from([(), (1,)]),
    half_days=st.sampled_from([(), ((0, 9), (2, 22))]),
    weekdays=st.sampled_from([(), (4, 5, 7)]),
)


@given(CALENDARS, st.integers(-30, 110))
def test_a_window_takes_a_run_of_rows(calendar: Calendar, t: int) -> None:
    """
    The window of a row is one of its day's, closes after the row, and later rows are in the same or a later window.
    """
    found = calendar.window_at(t)
    if found is not None:
        assert found in list(calendar.windows_of(found.day))
        assert t < found.closes
        assert t >= found.w_start - calendar.lead
        assert found.w_end - found.w_start <= calendar.length
        later = calendar.window_at(t + 1)
        assert later is None or later.w_start >= found.w_start


def daily(**values: Any) -> tuple[DailyTimeSeries | None, list[str]]:
    """Parameters for a column of seconds, and complaints."""
    given_values = {"window_size": 1_800, "step": 1_800, "session_begin": "09:30:00, 13:00:00"} | {
        "session_end": ["11:30:00", "15:00:00"],
        **values,
    }
    about = About(TimeType.BIGINT, Resolution.S, measures=(("a", "sum(v)"),))
    params, troubles = DailyTimeSeries.read(given_values, about)
    return params, [t.message for t in troubles]


def test_read() -> None:
    """
    Times of day become ticks of the column, dates days.
    """
    params, troubles = daily(holidays="2024-12-25", half_days=["2024-12-24 13:00"], weekdays="1,2,3,4,5")
    assert params is not None, troubles
    assert ONE_DATE["sessions"] == params.sessions
    assert ((20_082,), ((20_081, 46_800),)) == (params.holidays, params.half_days)
    assert params.key_purge_daily
    assert params.needs_global_max


NIGHT = {"session_begin": "00:00:00, 09:00:00, 21:00:00", "session_end": "01:00:00, 11:30:00, 00:00:00"}
EVENING = {"session_begin": "21:00:00, 09:00:00", "session_end": "01:00:00, 11:30:00"}


@pytest.mark.parametrize(
    ("values", "is_dated"),
    [
        (NIGHT, True),
        (EVENING, False),
        ({**EVENING, "weekdays": "1,2"}, True),
        ({**EVENING, "holidays": ["2024-12-25"]}, True),
        ({"session_begin": ["09:00:00", "21:00:00"], "session_end": ["11:30:00", "01:00:00"], "weekdays": "1"}, False),
        ({"session_begin": "09:30:00", "weekdays": "1"}, False),
        ({"session_begin": "25:00:00", "session_end": "soon"}, False),
    ],
)
def test_what_was_stored_before_keeps_its_trading_days(values: dict[str, Any], is_dated: bool) -> None:
    """
    A definition whose trading days the rule changed says that it follows the rule; one that does not say so is as it was.
    """
    mark = dated(values)
    assert is_dated == bool(mark)
    if values is NIGHT:
        now, before = (daily(**values, **more)[0] for more in (mark, {}))
        assert now is not None
        assert before is not None
        assert now.sessions == ((-3 * HOUR, HOUR), (9 * HOUR, 41_400))
        assert before.sessions == ((9 * HOUR, 41_400), (21 * HOUR, 25 * HOUR))


def test_two_spellings_in_definitions() -> None:
    """
    Both say the same windows of the same trading days; the one that changed is another definition than it was.
    """
    one, other = (
        define_engine(
            "a", "s", engine="daily_time_series", time="ts", measures={"n": "count(*)"}, window_size="1 hour", **v
        )
        for v in (NIGHT, EVENING)
    )
    assert read_params(one)[0].calendar == read_params(other)[0].calendar
    stored = replace(one, params=tuple((n, v) for n, v in one.params if n != "dated_by"))
    assert data_fingerprint(stored) != data_fingerprint(one)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"window_size": 3_600}, "equal to 'step'"),
        ({"session_begin": "25:00:00"}, "times of day"),
        ({"session_end": ["11:30:00"]}, "2 begins"),
        ({"use_system_time": True}, "'use_system_time'"),
        ({"holidays": "tomorrow"}, "dates"),
        ({"half_days": "2024-12-24"}, "'half_days'"),
        ({"weekdays": [0]}, "'weekdays'"),
        ({"session_begin": "09:30:00.5, 13:00:00"}, "times of day"),
        ({"merge_sesion_end": True}, "no parameter"),
    ],
)
def test_what_is_refused(values: dict[str, Any], word: str) -> None:
    """
    Each with a message that names the parameter.
    """
    params, messages = daily(**values)
    assert params is None
    assert any(word in message for message in messages)


@settings(max_examples=400)
@given(
    CALENDARS,
    changes(90),
    st.booleans(),
    st.integers(-10, 80),
)
def test_a_plan_covers_what_a_change_can_touch(calendar: Calendar, change: Change, is_filled: bool, since: int) -> None:
    """
    Computing the ranges of a plan anew, each from its rows alone, gives what computing everything gives.
    """
    p = DailyTimeSeries(
        step=calendar.step,
        sessions=calendar.sessions,
        day=24,
        closed="right" if calendar.holds_end else "left",
        merge_session_end=calendar.merges_end,
        merge_last_window=calendar.merges_last,
        key_purge_daily=False,
        holidays=calendar.holidays,
        half_days=calendar.half_days,
        weekdays=calendar.weekdays,
        fills=(("ffill", ""),) if is_filled else (),
    )

    def windows(t: int) -> list[Window]:
        found = p.calendar.window_at(t)
        return [(found.w_start, found.w_end, found.closes)] if found else []

    every = [(w.w_start, w.w_end, w.closes) for day in range(-2, 6) for w in p.calendar.windows_of(day)]
    compute = partial(results, windows_of=windows, every=every, is_filled=is_filled)
    old = compute(change.before)
    kept = [r.kept for r in old]

    found = p.ranges(change.spans, [k for k in kept if not k.is_final or k.w_start >= since], is_complete=False)
    if found is None:
        found = p.ranges(change.spans, kept, is_complete=True)

    assert found is not None
    assert {r.window: r for r in compute(change.after)} == refreshed(old, change.after, found, compute)


test_a_plan_covers_what_a_change_can_touch_for_new_data = for_new_data(test_a_plan_covers_what_a_change_can_touch)
