"""What an engine's results say of rows that are missing: the law behind it, and where it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from materializer.core.language.define import define
from tests.oracle.engines import intervals
from tests.oracle.engines import session_window as sessions
from tests.oracle.engines.rows import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEC = define("v", "t", time="ts", width="1 hour", measures={"s": "sum(x)"})
SERIES = time_series.TimeSeries(step=3, window_sizes=(8,), alignment=3)
SESSIONS = session_window.SessionWindow(session_gap=5)
DAILY = daily_time_series.DailyTimeSeries(step=1_800, sessions=((34_200, 41_400),), day=86_400)
PANES = event_time_window.EventTimeWindow(interval_duration=6, creation_period=4)
ROWS = reactive_state.ReactiveState((("cumsum", "v", 0),), (("s", "_call_0"),))
SNAPSHOTS = interval_windows.IntervalWindow(interval_windows.SNAPSHOT, "until")
COUNTS = interval_windows.IntervalWindow(interval_windows.COUNT, "until", count=3)
COUNT = [{"name": "n", "expr": "count(v)"}]
EVENTS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12) | st.none()), max_size=8)


def results(kind: str, events: Sequence[tuple[int, int | None]]) -> list[tuple[int, int]]:
    """Return start and rows counted of each result, by the oracle; an event is its start and its length."""
    found = [Event(start, 0, i, (), {"v": 1}) for i, (start, _) in enumerate(events)]
    if kind == "sessions":
        answer = sessions.run(found, COUNT, gap=5, lateness="recompute")
        return [(row["time"], row["n"]) for row in (*answer.final, *answer.open)]
    lasting = [
        intervals.Lasting(e, e.t, None if length is None else e.t + length)
        for e, (_, length) in zip(found, events, strict=True)
    ]
    seen, grid = intervals.Seen(COUNT), {"duration": 6, "period": 4, "alignment": 1}
    match kind:
        case "hopping":
            answer = intervals.hopping(lasting, seen, **grid, clips=True, bound=60)
        case "compressed":
            answer = intervals.compressed(lasting, seen, **grid)
        case _:
            answer = intervals.snapshots(lasting, seen)
    return [(row["window_start"], row["n"]) for row in (*answer.final, *answer.open)]


@pytest.mark.parametrize("kind", ["sessions", "hopping", "compressed", "snapshots"])
@given(events=EVENTS, more=EVENTS)
def test_rows_that_come_take_no_count_away(kind: str, events: Any, more: Any) -> None:
    """
    The rows counted by all results that begin before an instant never get fewer, whatever comes.
    """
    before, after = results(kind, events), results(kind, [*events, *more])
    for instant in range(-20, 91):
        was, now = (sum(n for at, n in counted if at < instant) for counted in (before, after))
        assert was <= now


@pytest.mark.parametrize(
    ("params", "most"),
    [(SERIES, 3), (DAILY, 1), (PANES, 2), (ROWS, 1), (SESSIONS, None), (SNAPSHOTS, None)],
    ids=lambda p: type(p).__module__.rpartition(".")[2],
)
def test_how_often_a_row_is_counted(params: Any, most: int | None) -> None:
    """
    In so many windows of one size; where other rows move when one goes, nobody can say.
    """
    assert most == params.most_counts


@pytest.mark.parametrize("params", [SERIES, DAILY, PANES, ROWS, SESSIONS, SNAPSHOTS], ids=lambda p: type(p).__module__)
def test_what_is_counted(params: Any) -> None:
    """
    Every engine tells missing rows by its results where they are computed from all rows.
    """
    assert "" == params.why_not_counted("recompute")
    assert "lateness 'strict'" in params.why_not_counted("strict")


@pytest.mark.parametrize(
    ("params", "word"),
    [
        (replace(SERIES, grid_origin="key", alignment=0), "older row"),
        (replace(SERIES, use_system_time=True), "ingestion time"),
        (replace(SESSIONS, use_system_time=True), "ingestion time"),
        (replace(SESSIONS, force_trigger_time=1), "another key"),
        (COUNTS, "older event"),
    ],
    ids=["grid-by-key", "clock", "session-clock", "forced", "count"],
)
def test_where_a_row_that_comes_takes_counts_away(params: Any, word: str) -> None:
    """
    Where a new row moves or closes what other rows are in, fewer rows say nothing.
    """
    assert word in params.why_not_counted("recompute")
