"""Trading calendars as data: their text, what they say of a date, and the windows that they make."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.params import About
from materializer.core.engines.trading_calendar import Calendar
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.trading_days import (
    MICROSECONDS,
    TradingDays,
    agree,
    calendar_from_sessions,
    changed,
    read_days,
    shown,
)

HOUR = MICROSECONDS // 24
MONDAY = 19_723  # 2024-01-01


def text_of(*rows: tuple[int, float, float], start: int | None = None) -> str:
    """The text of sessions: day after Monday, and hours from its midnight."""
    found = [(MONDAY + d, *((MONDAY + d) * MICROSECONDS + int(h * HOUR) for h in (b, e))) for d, b, e in rows]
    return calendar_from_sessions(found, start)


WEEK = text_of((0, 9.5, 16), (1, 9.5, 16), (2, 9.5, 13), (4, -3, 1), (4, 9, 11.5))


def test_a_calendar_is_kept_as_a_text() -> None:
    """
    A letter for each date; half days, days without sessions and evenings before are other letters.
    """
    assert WEEK == "2024-01-01 aab.c a=9:30/16:00 b=9:30/13:00 c=-3:00/1:00,9:00/11:30"
    found = read_days(WEEK, 48)
    assert (found.of(MONDAY + 3), found.of(MONDAY + 5), found.of(MONDAY - 1)) == ((), (), ())
    assert found.of(MONDAY + 4) == ((-6, 2), (18, 23))
    assert shown(WEEK) == "2024-01-01 to 2024-01-05, 4 trading days"
    assert text_of((0, 9, 16), start=MONDAY - 2) == "2023-12-30 ..a a=9:00/16:00"
    with pytest.raises(ValueError, match="no whole number of ticks"):
        read_days(text_of((0, 9.25, 16)), 24)


SESSIONS = st.lists(
    st.tuples(st.integers(-400, 400), st.integers(-20 * 3600, 20 * 3600), st.integers(1, 10**9)), min_size=1, max_size=8
)


@given(SESSIONS)
def test_what_is_kept_is_what_was_given(sessions: list[tuple[int, int, int]]) -> None:
    """
    Or it is refused, never something else.
    """
    rows = [(d, d * MICROSECONDS + s * 10**6, d * MICROSECONDS + s * 10**6 + took) for d, s, took in sessions]
    try:
        found = read_days(calendar_from_sessions(rows), MICROSECONDS)
    except ValueError:
        return
    days = range(found.first, found.last + 1)
    kept = [(d, d * MICROSECONDS + b, d * MICROSECONDS + e) for d in days for b, e in found.of(d)]
    assert kept == sorted(set(rows))


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([], "no sessions"),
        ([(0, 9, 12), (0, 11, 16)], "begins before"),
        ([(0, 9, 34), (1, 9, 16)], "begins before"),
        ([(0, 9, 9)], "cannot be"),
        ([(0, -30, 9)], "cannot be"),
        ([(d, 9, 10 + d / 100) for d in range(70)], "70 kinds"),
    ],
)
def test_what_cannot_be_a_calendar(rows: list[tuple[int, float, float]], word: str) -> None:
    """
    Each with what is wrong.
    """
    with pytest.raises(ValueError, match=word):
        text_of(*rows)


REGULAR = st.builds(
    Calendar,
    sessions=st.sampled_from([((4, 10), (12, 17)), ((-4, 2), (6, 9)), ((0, 24),), ((8, 32),), ((4, 10), (10, 13))]),
    step=st.sampled_from([1, 2, 5]),
    day=st.just(24),
    holds_end=st.booleans(),
    merges_end=st.booleans(),
    merges_last=st.booleans(),
    holidays=st.sampled_from([(), (1,), (2, 3)]),
    half_days=st.sampled_from([(), ((0, 9), (2, 22))]),
    weekdays=st.sampled_from([(), (4, 5, 7)]),
)


def dated(regular: Calendar, days: range) -> TradingDays:
    """The days of a regular calendar, each by itself."""
    kinds = {d: tuple((s.begin, s.end) for s in regular.sessions_of(d)) for d in days}
    letters = {kind: chr(97 + i) for i, kind in enumerate(dict.fromkeys(kinds.values()))}
    meanings = {letter: kind for kind, letter in letters.items() if kind}
    return TradingDays(days[0], "".join(letters[kinds[d]] if kinds[d] else "." for d in days), meanings)


@given(REGULAR, st.integers(-40, 110))
def test_a_regular_calendar_by_its_dates(regular: Calendar, t: int) -> None:
    """
    Said day by day it has the same windows, the same rows in them, and the same days and windows beside.
    """
    known = dated(regular, range(-12, 16))
    low, high = known.span
    rest = {n: getattr(regular, n) for n in ("step", "day", "holds_end", "merges_end", "merges_last")}
    same = Calendar(((low, high),), **rest, dated=known)
    if regular.opens == same.opens:  # half days may end before any evening
        assert regular.window_at(t) == same.window_at(t)
        assert regular.following(t) == same.following(t)
    assert regular.last_open(t // 24) == same.last_open(t // 24)


def test_trading_days_that_no_time_of_day_divides() -> None:
    """
    A day around the clock that begins an hour earlier in summer, as those of futures do in UTC.
    """
    known = TradingDays(0, "ww.ss", {"w": ((-1, 23),), "s": ((-2, 22),)})
    for past in (False, True):
        calendar = Calendar((known.span,), 4, 24, dated=known, merges_end=past)
        days = {t: w and w.day for t in (-2, 21, 22, 23, 46, 47, 69, 70, 93, 94, 118) for w in [calendar.window_at(t)]}
        at_end = 0 if past else 1
        assert days == {
            -2: 0, 21: 0, 22: 0, 23: at_end, 46: 1, 47: 1 if past else None, 69: None, 70: 3, 93: 3, 94: 3 if past else 4,
            118: 4 if past else None,
        }  # fmt: skip
        assert all(calendar.day_from(w.w_start) == d for d in range(5) for w in calendar.windows_of(d))


def test_what_is_said_anew_of_a_calendar() -> None:
    """
    More days change nothing; another day does, unless nothing was materialised there.
    """
    longer = text_of((0, 9.5, 16), (1, 9.5, 16), (2, 9.5, 13), (4, -3, 1), (4, 9, 11.5), (7, 9.5, 16))
    other = text_of((0, 9.5, 16), (1, 9.5, 16), (2, 9.5, 13), (3, 9.5, 13), (4, -3, 1), (4, 9, 11.5))

    def are_same(one: str, two: str, until: int | None = None, **more: str) -> bool:
        return agree({"calendar_days": one, "step": "1"}, {"calendar_days": two, "step": "1", **more}, until)

    assert are_same(WEEK, longer)
    assert not are_same(longer, WEEK)
    assert are_same(longer, WEEK, MONDAY + 4)
    assert not are_same(WEEK, other)
    assert are_same(WEEK, other, MONDAY + 2)
    assert not are_same(WEEK, longer, step="2")
    assert changed(WEEK, WEEK) == ()
    assert changed(WEEK, other) == (
        "- calendar: 2024-01-01 to 2024-01-05, 4 trading days",
        "+ calendar: 2024-01-01 to 2024-01-05, 5 trading days",
        "- sessions of 2024-01-04: none",
        "+ sessions of 2024-01-04: 9:30/13:00",
    )


def reading(**values: Any) -> tuple[Any, list[str]]:
    """Parameters of an engine, and complaints."""
    about = About(values.pop("about", TimeType.TIMESTAMP_NTZ), Resolution.NONE, measures=(("a", "sum(v)"),))
    params, troubles = DailyTimeSeries.read({"window_size": "1 hour", **values}, about)
    return params, [t.message for t in troubles]


def test_parameters_with_a_calendar() -> None:
    """
    Its text says the sessions; before it was looked up, nothing does yet.
    """
    params, troubles = reading(calendar="table:days", calendar_days=WEEK)
    assert troubles == []
    assert params.calendar.opens == -3 * HOUR
    assert next(w.w_start for w in params.calendar.windows_of(MONDAY + 2)) == MONDAY * MICROSECONDS + 57.5 * HOUR
    assert reading(calendar="exchange:XNYS")[1] == []


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"calendar": "XNYS"}, "table:NAME or exchange:NAME"),
        ({"calendar": "exchange:"}, "table:NAME or exchange:NAME"),
        ({"calendar": "table:days", "session_begin": "09:00:00"}, "'session_begin' is given beside"),
        ({"calendar": "table:days", "calendar_start": "2020-01-01"}, "'calendar_start' is given for a table"),
        ({"calendar": "exchange:XNYS", "calendar_end": "soon"}, "'calendar_end' must be a date"),
        ({"calendar_zone": "Asia/Tokyo"}, "without 'calendar'"),
        ({"calendar": "exchange:XNYS", "calendar_zone": "Asia/Tokyo", "about": TimeType.TIMESTAMP}, "are instants"),
    ],
)
def test_what_is_refused_of_a_calendar(values: dict[str, Any], word: str) -> None:
    """
    Each with a message that names the parameter.
    """
    params, messages = reading(**values)
    assert params is None
    assert any(word in message for message in messages), messages
