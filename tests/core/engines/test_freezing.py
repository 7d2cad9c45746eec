"""Cutting history: which results a row belongs to, where trading sessions can be cut, and what cannot be cut at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.engines import (
    daily_time_series,
    event_time_window,
    interval_windows,
    reactive_state,
    session_window,
    time_series,
)
from materializer.core.engines.closing import EVERYTHING
from materializer.core.engines.freezing import above
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.engines.trading_calendar import Calendar
from materializer.core.language.define import define
from materializer.core.spec.spec import GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import build
from materializer.core.time.spans import NEG_INF
from tests.fresh import for_new_data
from tests.oracle.engines import intervals
from tests.oracle.engines.rows import Event

HOUR = 3_600
DAY = 24 * HOUR
GRID = build(GridSpec(Width(micros=HOUR * 1_000_000), None, 0), TimeType.BIGINT, Resolution.S)
SPEC = define("v", "t", time="ts", width="1 hour", measures={"s": "sum(x)"})
SERIES = time_series.TimeSeries(step=3, window_sizes=(6,), alignment=3)
DAILY = daily_time_series.DailyTimeSeries(step=1_800, sessions=((34_200, 41_400), (46_800, 54_000)), day=DAY)
SCHEDULES = [
    DAILY.sessions,
    ((75_600, 93_600), (118_800, 126_000)),
    ((0, DAY),),
    ((35_000, 36_001),),
    ((36_000, 43_200), (43_200, 50_000)),
]
EVENTS = event_time_window.EventTimeWindow(interval_duration=6, creation_period=4, pane_offset=1)
ROWS = reactive_state.ReactiveState((("cumsum", "v", 0),), (("s", "_call_0"),))


@given(
    t=st.integers(0, 60), below=st.integers(0, 20), steps=st.integers(1, 4), closed=st.sampled_from(["left", "right"])
)
def test_windows_that_take_a_row(t: int, below: int, steps: int, closed: str) -> None:
    """
    The first window that takes the row, found by looking at all of them, tells whether history would change.
    """
    p = time_series.TimeSeries(step=3, window_sizes=(3 * steps,), alignment=3, closed=closed)
    ends = range(-99, 199, 3)
    starts = [e - p.length for e in ends if (e - p.length <= t < e if closed == "left" else e - p.length < t <= e)]
    bound = t - below
    assert (min(starts) if min(starts) < bound else None) == p.begins_below(t, bound, [])


@given(
    t=st.integers(0, 60),
    below=st.integers(0, 20),
    duration=st.integers(1, 9),
    period=st.integers(1, 9),
    offset=st.integers(0, 3),
)
def test_panes_that_take_a_row(t: int, below: int, duration: int, period: int, offset: int) -> None:
    """
    Likewise of event time; a row between two panes is in none.
    """
    p = event_time_window.EventTimeWindow(interval_duration=duration, creation_period=period, pane_offset=offset)
    starts = [s for s in range(offset - 100 * period, 99, period) if s <= t < s + duration]
    bound = t - below
    expected = min((s for s in starts if s < bound), default=None)
    assert expected == p.begins_below(t, bound, [])


def sessions(times: list[int], gap: int) -> list[StoredResult]:
    """Sessions by a loop over the rows of one key."""
    found: list[list[int]] = []
    for t in sorted(times):
        if not found or t - found[-1][-1] >= gap:
            found.append([])
        found[-1].append(t)
    return [StoredResult(g[0], g[-1] + gap, g[0], g[-1], True, len(g)) for g in found]


@given(
    times=st.lists(st.integers(0, 60), max_size=14),
    gap=st.integers(1, 6),
    bound=st.integers(0, 60),
    late=st.integers(0, 60),
)
def test_sessions_are_cut_without_a_seam(times: list[int], gap: int, bound: int, late: int) -> None:
    """
    Kept sessions below and those of the rows that may be read above are the sessions of all rows, also after a row that belongs to
    none below; a row that does is told, and changes nothing above.
    """
    p, late = session_window.SessionWindow(gap), bound + late
    kept = [k for k in sessions(times, gap) if k.w_start < bound]
    [r] = above(p, [EVERYTHING], bound, kept)

    def computed(rows: list[int]) -> list[StoredResult]:
        return kept + sessions([t for t in rows if r.raw_start <= t < r.raw_end], gap)

    assert sessions(times, gap) == computed(times)
    if p.begins_below(late, bound, kept) is None:
        assert sessions([*times, late], gap) == computed([*times, late])
    else:
        assert kept != [k for k in sessions([*times, late], gap) if k.w_start < bound]
        assert computed(times) == computed([*times, late])


test_sessions_are_cut_without_a_seam_for_new_data = for_new_data(test_sessions_are_cut_without_a_seam)


LASTING = {
    interval_windows.HOPPING: interval_windows.IntervalWindow(
        interval_windows.HOPPING, "until", 6, 4, 1, default_end=60
    ),
    interval_windows.COMPRESSED: interval_windows.IntervalWindow(interval_windows.COMPRESSED, "until", 6, 4, 1),
    interval_windows.SNAPSHOT: interval_windows.IntervalWindow(interval_windows.SNAPSHOT, "until"),
    interval_windows.COUNT: interval_windows.IntervalWindow(interval_windows.COUNT, "until", count=3),
}


def lasting(kind: str, events: list[tuple[int, int, int]]) -> list[tuple[StoredResult, int]]:
    """Results of events (start, end, value) by the oracle, in order, each with the sum of its values; 99 is no end."""
    rows = [
        intervals.Lasting(Event(start, 0, i, (), {"v": value}), start, None if end == 99 else max(end, start + 1))
        for i, (start, end, value) in enumerate(events)
    ]
    p, seen = LASTING[kind], intervals.Seen([{"name": "s", "expr": "sum(v)"}])
    how = {"duration": p.duration, "period": p.period, "alignment": p.alignment}
    match kind:
        case interval_windows.HOPPING:
            found = intervals.hopping(rows, seen, **how, clips=True, bound=p.default_end)
        case interval_windows.COMPRESSED:
            found = intervals.compressed(rows, seen, **how)
        case interval_windows.SNAPSHOT:
            found = intervals.snapshots(rows, seen)
        case _:
            found = intervals.counts(rows, seen, count=p.count)
    ends = [(row["window_start"], row["window_end"], row["s"]) for row in found.final]
    return [(StoredResult(s, 99 if e is None else e, s, s, True, 1), v) for s, e, v in sorted(ends, key=lambda r: r[0])]


EVENT = st.tuples(st.integers(0, 30), st.integers(0, 40) | st.just(99), st.integers(1, 9))


@pytest.mark.parametrize("kind", LASTING)
@given(
    events=st.lists(EVENT, max_size=6),
    bound=st.integers(8, 24),
    since=st.integers(-4, 4),
    length=st.integers(0, 9),
    comes=st.booleans(),
)
def test_events_that_last_go_by_their_ends(
    kind: str, events: list[tuple[int, int, int]], bound: int, since: int, length: int, comes: bool
) -> None:
    """
    Results above the bound need the events that end above it, or begin there where starts are counted; an event that counts above
    changes no result below that is not told. (One that comes and begins below is told when it is captured.)
    """
    events = [*events, (40, 41, 1), (41, 42, 1)]  # a window that is not full holds the bound
    p, last = LASTING[kind], LASTING[kind].lasts_from(bound)
    other = (bound + since, bound + since + length, 100)

    def counts(event: tuple[int, int, int]) -> bool:
        return event[0] >= bound if last is None else max(event[0], event[1] - 1) >= last

    everything = lasting(kind, events)
    left = lasting(kind, [e for e in events if counts(e)])
    assert [r for r in everything if r[0].w_start >= bound] == [r for r in left if r[0].w_start >= bound]

    changed = everything if not comes else lasting(kind, [*events, other])
    before = everything if comes else lasting(kind, [*events, other])
    kept = [r for r in before if r[0].w_start < bound]
    is_told = comes and since < 0
    if (
        counts(other)
        and not is_told
        and p.begins_below(other[0], bound, [k for k, _ in kept], may_go=not comes) is None
    ):
        assert kept == [r for r in changed if r[0].w_start < bound]


def test_ranges_of_what_lasts_keep_the_events_that_they_need() -> None:
    """
    Raw rows of events are cut by their ends.
    """
    found = above(LASTING[interval_windows.SNAPSHOT], [Range(5, 40, 4, 41)], 12, [])
    assert [Range(12, 40, 11, 41)] == found
    found = above(LASTING[interval_windows.COMPRESSED], [Range(5, 40, -9, 41)], 12, [])
    assert [Range(12, 40, 6, 41)] == found
    assert [Range(12, 40, 12, 41)] == above(LASTING[interval_windows.COUNT], [Range(5, 40, 4, 41)], 12, [])
    assert SERIES.lasts_from(12) is None
    assert LASTING[interval_windows.SNAPSHOT].lasts_from(NEG_INF) == NEG_INF


def test_ranges_below_are_left_alone() -> None:
    """
    What lies below is dropped, what reaches below is cut.
    """
    found = above(SERIES, [Range(0, 9, 0, 12), Range(6, 20, 3, 23), Range(30, 40, 27, 43)], 12, [])
    assert [Range(12, 20, 12, 23), Range(30, 40, 27, 43)] == found
    assert [] == above(
        session_window.SessionWindow(5), [Range(8, 16, 8, 16)], 12, [StoredResult(8, 17, 8, 12, True, 2)]
    )


@given(
    hours=st.integers(0, 24 * 9),
    merges=st.booleans(),
    closed=st.sampled_from(["left", "right"]),
    sessions=st.sampled_from(SCHEDULES[:4]),
    weekdays=st.sampled_from([(), (1, 2, 3, 4, 5)]),
)
def test_trading_sessions_are_cut_between_windows(
    hours: int,
    merges: bool,
    closed: str,
    sessions: tuple[tuple[int, int], ...],
    weekdays: tuple[int, ...],
) -> None:
    """
    No row on one side is in a window that begins on the other, not even one that came before its session.
    """
    p = replace(DAILY, sessions=sessions, closed=closed, merge_session_end=merges, weekdays=weekdays)
    bound = hours * HOUR
    edge = p.edge_for(bound, GRID)
    if edge == NEG_INF:  # where a window or a day holds its end, a row at the edge belongs to what is before it
        assert closed == "right" or merges or sessions[0][0] % HOUR
        return
    assert edge <= bound
    assert bound - edge <= 2 * DAY
    times = {edge - 1, edge, edge + 1, *range(edge - 2 * DAY, edge + 2 * DAY, 900)}
    for t in times:
        window = p.calendar.window_at(t)
        assert window is None or (window.w_start >= edge) == (t >= edge), (t, window)


test_trading_sessions_are_cut_between_windows_for_new_data = for_new_data(test_trading_sessions_are_cut_between_windows)


CALENDAR = st.fixed_dictionaries(
    {
        "closed": st.sampled_from(["left", "right"]),
        "merge_session_end": st.booleans(),
        "merge_last_window": st.booleans(),
        "sessions": st.sampled_from(SCHEDULES),
        "weekdays": st.sampled_from([(), (1, 2, 3, 4, 5)]),
        "holidays": st.sampled_from([(), (2,), (3, 4)]),
        "half_days": st.sampled_from([(), ((5, 40_000),), ((1, 45_000), (6, 10))]),
    }
)
DAYS = range(-4, 40)


@given(hours=st.integers(0, 24 * 9), calendar=CALENDAR, purges=st.booleans())
def test_filled_trading_sessions_are_cut_between_what_is_filled_from_each_other(
    hours: int, calendar: dict[str, Any], purges: bool
) -> None:
    """
    Where filling ends with the day no day has windows on both sides; where it goes on the edge is that between windows. Of such edges it
    is the last, found by looking at all windows.
    """
    p = replace(DAILY, **calendar, fills=(("null", ""),), key_purge_daily=purges)
    bound = hours * HOUR

    def parts_days(edge: int) -> bool:
        return all(len({w.w_start < edge for w in p.calendar.windows_of(day)}) < 2 for day in DAYS)

    def parts_windows(edge: int) -> bool:
        times = {edge - 1, edge, edge + 1, *range(edge - DAY, edge + DAY, 1_800)}
        windows = [(t, p.calendar.window_at(t)) for t in times]
        return all(w is None or (w.w_start >= edge) == (t >= edge) for t, w in windows)

    edges = range(bound, bound - 2 * DAY, -HOUR)
    expected = next((e for e in edges if parts_windows(e) and (not purges or parts_days(e))), NEG_INF)
    assert expected == p.edge_for(bound, GRID)


test_filled_trading_sessions_are_cut_between_what_is_filled_from_each_other_for_new_data = for_new_data(
    test_filled_trading_sessions_are_cut_between_what_is_filled_from_each_other
)


@given(calendar=CALENDAR, day=st.integers(0, 8), number=st.integers(0, 20))
def test_what_is_filled_after_a_window(calendar: dict[str, Any], day: int, number: int) -> None:
    """
    The next one of all windows, also where days without any lie between.
    """
    p = replace(DAILY, **calendar, fills=(("null", ""),), key_purge_daily=False)
    starts = [w.w_start for d in DAYS for w in p.calendar.windows_of(d)]
    here = starts.index(next(s for s in starts if s >= day * DAY)) + number
    assert starts[here + 1] == p.filled_after(starts[here])


@given(
    calendar=CALENDAR,
    kept=st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 60)), max_size=6
    ),
)
def test_days_that_are_not_filled_to_their_end(
    calendar: dict[str, Any], kept: list[tuple[int, list[bool], int]]
) -> None:
    """
    Some window after the first one that is kept is not kept.
    """
    p = replace(DAILY, **calendar, fills=(("null", ""),))
    days, expected = [], []
    for day, is_kept, until in kept:
        starts = [w.w_start for w in p.calendar.windows_of(day)]
        there = [s for i, s in enumerate(starts) if i >= until or is_kept[i % len(is_kept)]]
        if there:
            days.append((there[0], len(there)))
            if any(s > there[0] and s not in there for s in starts):
                expected.append(there[0])
    assert min(expected, default=None) == p.first_unfilled(days)


def test_other_engines_are_cut_anywhere() -> None:
    """
    A bound that nobody set stays so.
    """
    assert 99 == SERIES.edge_for(99, GRID)
    assert NEG_INF == DAILY.edge_for(NEG_INF, GRID)
    assert isinstance(DAILY.calendar, Calendar)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (SERIES, ""),
        (replace(SERIES, fills=(("ffill", ""),)), ""),
        (replace(SERIES, use_system_time=True), "ingestion time"),
        (replace(SERIES, alignment=2), "set 'origin'"),
        (replace(SERIES, alignment=2, origin=0), ""),
        (DAILY, ""),
        (replace(DAILY, fills=(("null", ""),)), ""),
        (replace(DAILY, fills=(("null", ""),), key_purge_daily=False), ""),
        (EVENTS, ""),
        (session_window.SessionWindow(5), ""),
        (session_window.SessionWindow(5, force_trigger_time=0), "opens sessions again"),
        (session_window.SessionWindow(5, use_system_time=True), "clock alone"),
        (ROWS, ""),
        (replace(ROWS, calls=(("cumsum", "v", 0), ("mavg", "v", 5))), ""),
        (interval_windows.IntervalWindow(interval_windows.SNAPSHOT, "until"), ""),
        (interval_windows.IntervalWindow(interval_windows.COUNT, count=3), ""),
    ],
)  # fmt: skip
def test_what_cannot_be_cut(params: Any, words: str) -> None:
    """
    Each with a reason; an empty one means that it can.
    """
    found = params.why_not_freezable("recompute")
    assert words in found
    assert bool(words) == bool(found)


def test_rows_that_do_not_hold_what_functions_look_back_on_cannot_be_cut() -> None:
    """
    What is kept of a definition tells whether it does; nothing is looked back on by ``mavg(x, 1)`` and cumulative functions.
    """
    p = replace(ROWS, calls=(("cumsum", "v", 0), ("mavg", "v", 1), ("mavg", "v", 5), ("prev", "w", 1)))
    assert "" == p.why_not_freezable("recompute", ["x_ordinal", "x_arg2", "x_arg3"])
    assert "do not hold 'w'" in p.why_not_freezable("recompute", ["x_ordinal", "x_arg2"])
    assert "" == ROWS.why_not_freezable("recompute", ["x_ordinal"])


def test_arrival_cannot_be_cut() -> None:
    """
    Where rows are judged as they come, the first ones count as much as the last.
    """
    assert "order in which they came" in SERIES.why_not_freezable("strict")
