"""How many windows rows make at most, against windows that are made one by one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from materializer.core.engines import daily_time_series, event_time_window, interval_windows, time_series
from materializer.core.engines.cardinality import (
    Life,
    in_parts,
    is_too_many,
)
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.ranges import StoredOfKey, StoredResult
from materializer.core.engines.work import Part
from materializer.core.time.spans import NEG_INF, POS_INF, Span

FILL = (("null", ""),)
INSTANTS = st.integers(-10_000, 10_000)
DAILY = daily_time_series.DailyTimeSeries(
    step=7, sessions=((10, 40), (50, 95)), day=100, fills=FILL, key_purge_daily=False
)


def bars(step: int, *sizes: int, fills: tuple[tuple[str, str], ...] = FILL, **more: int) -> time_series.TimeSeries:
    return time_series.TimeSeries(step=step, window_sizes=sizes or (step,), alignment=step, fills=fills, **more)


def part(start: int, end: int) -> Part:
    return Part(("a",), start, end, start, end, None)


@given(st.integers(1, 50), INSTANTS, st.integers(0, 5_000))
def test_windows_between_two_rows_are_not_more_than_said(step, start, length) -> None:
    """
    Every grid of a step has at most so many edges between two instants, and at least one fewer.
    """
    said = bars(step).between(start, start + length)
    for origin in range(min(step, 7)):
        edges = sum((t - origin) % step == 0 for t in range(start, start + length + 1))
        assert said - 1 <= edges <= said


@given(INSTANTS, st.integers(0, 1_000))
@example(0, 0)
def test_windows_of_trading_days_are_not_more_than_said(start, length) -> None:
    """
    The windows of all trading days that two instants touch.
    """
    calendar = DAILY.calendar
    first, last = calendar.day_of(start), calendar.day_of(start + length)
    made = [
        w for day in range(first, last + 1) for w in calendar.windows_of(day) if start <= w.w_start <= start + length
    ]
    assert len(made) <= DAILY.between(start, start + length)


@given(st.integers(1, 40), st.integers(1, 40), INSTANTS, st.integers(1, 2_000))
def test_an_event_is_in_no_more_windows_than_said(duration, period, start, length) -> None:
    """
    A window that begins at a multiple of the period holds an event when it overlaps its life.
    """
    p = interval_windows.IntervalWindow(interval_windows.HOPPING, "end", duration=duration, period=period)
    end = start + length
    first = (start - duration) // period * period
    held = sum(w < end and w + duration > start for w in range(first, end + period, period))
    assert held <= p.between(start, end)
    assert p.between(start, end) <= held + p.share + 1


@given(st.integers(1, 30), st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), INSTANTS)
def test_a_row_is_in_as_many_windows_as_said(step, multiples, t) -> None:
    """
    Windows of several sizes end on the edges of one grid, and make one result there; a row is in those that it lies in.
    """
    p = bars(step, *(m * step for m in multiples), fills=())
    assert p.grows_by == "rows"
    ends = range((t // step - 10) * step, (t // step + 10) * step, step)
    assert p.share == sum(any(end - size <= t < end for size in p.window_sizes) for end in ends)


def test_panes_of_event_time_overlap() -> None:
    """
    A pane of 25 every 10: a row is in three at most.
    """
    p = event_time_window.EventTimeWindow(25, 10)
    assert (3, True) == (p.share, p.grows_by == "rows")


def test_filling_goes_on_until_what_closes_windows() -> None:
    """
    Without a force the newest row of all keys closes nothing; the clock always does. Where keys are forgotten daily, nothing
    is filled after the day.
    """
    clock = ClosingClock(None, 70, 90)
    assert 70 == bars(10).filled_until(clock)
    assert 90 == bars(10, force_trigger_time=5).filled_until(clock)
    assert 90 == DAILY.filled_until(clock)
    purged = daily_time_series.DailyTimeSeries(step=7, sessions=((10, 40),), day=100, fills=FILL)
    assert purged.filled_until(clock) is None
    assert bars(10, fills=()).filled_until(clock) is None
    assert bars(10).filled_until(ClosingClock()) is None


def test_an_open_range_ends_with_the_life_of_its_key() -> None:
    """
    A range without an end is no longer than what is known of its key, or than what is filled after it.
    """
    lives = {
        ("a",): Life.of(
            [(100, 110)],
            StoredOfKey([StoredResult(40, 50, 41, 49, True, 2), StoredResult(200, 210, 201, 202, True, 1)]),
        )
    }
    assert Life(40, 210) == lives["a",]
    p = bars(10)
    assert 12 + 1 == in_parts(p, [part(100, POS_INF)], lives, None, ClosingClock())
    assert 91 + 1 == in_parts(p, [part(100, POS_INF)], lives, None, ClosingClock(None, 1_000))
    assert 3 + 1 == in_parts(p, [part(100, 120)], lives, None, ClosingClock(None, 1_000)), "the next row ends it"


def test_a_range_without_a_beginning_begins_with_the_rows() -> None:
    """
    Rows that no kept result shows may lie anywhere where the source has rows; where that is unknown, so is the number.
    """
    lives = {("a",): Life.of([(100, 110)], StoredOfKey())}
    everything = [part(NEG_INF, POS_INF)]
    assert 61 + 1 + 1 == in_parts(bars(10), everything, lives, Span(-500, 700), ClosingClock())
    assert in_parts(bars(10), everything, lives, None, ClosingClock()) is None


def test_too_many_is_one_row_or_all_of_them() -> None:
    """
    A row may make as many as the limit; all of them ten times as many, and ten times what each is in anyway.
    """
    p = bars(10, 20)
    assert not is_too_many(p, 1_000, 1_000, 1, 1_000)
    assert is_too_many(p, 1_001, 1_001, 1, 1_000)
    assert not is_too_many(p, 10_000 + 20 * 30, 50, 30, 1_000)
    assert is_too_many(p, 10_000 + 20 * 30 + 1, 50, 30, 1_000)
