from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.adapters.airflow.dags.schedules import is_due, previous_point
from materializer.adapters.airflow.dags.windows import run_window, window_arguments
from materializer.core.policy.policies import instant_of
from materializer.core.spec.spec import GridSpec, Resolution, TimeType
from materializer.core.time.grid import build, parse_width
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import UsageError

CRONS = ["*/5 * * * *", "17 * * * *", "0 3 * * *", "30 1 * * 1-5", "0 0 1 * *", "@weekly", "59 23 28-31 2 *"]
WIDTHS = ["7 minutes", "1 hour", "1 day", "1 week", "1 month", "5 days"]
ZONES = [None, "America/New_York", "Asia/Kolkata"]


def moments(first: int, last: int) -> st.SearchStrategy[datetime]:
    begin = datetime(first, 1, 1, tzinfo=UTC)
    seconds = int((datetime(last, 1, 1, tzinfo=UTC) - begin).total_seconds())
    return st.integers(0, seconds).map(lambda s: begin + timedelta(seconds=s))


@st.composite
def grids(draw):
    kind = draw(st.sampled_from([TimeType.TIMESTAMP, TimeType.TIMESTAMP_NTZ, TimeType.DATE, TimeType.BIGINT]))
    widths = WIDTHS[2:] if kind is TimeType.DATE else WIDTHS
    zone = draw(st.sampled_from(ZONES)) if kind is TimeType.TIMESTAMP else None
    resolution = draw(st.sampled_from([Resolution.S, Resolution.MS])) if kind.is_integer else Resolution.NONE
    width = parse_width(draw(st.sampled_from(widths)))
    return build(GridSpec(width, zone, None, None), kind, resolution)


@given(
    grids(),
    st.lists(st.sampled_from(CRONS), min_size=1, max_size=3, unique=True),
    moments(1969, 2031),
    st.integers(2, 12),
)
def test_every_bucket_belongs_to_exactly_one_run(grid, crons, last, count):
    """
    The windows of consecutive schedule points neither overlap nor leave a gap, for any grid and any schedules: together
    they are the buckets that end in the whole stretch.
    """
    points = [last]
    while len(points) < count:
        points.append(previous_point(crons, points[-1]))
    points.reverse()
    windows = [w for before, at in pairwise(points[1:]) if (w := run_window(grid, before, at))]
    ends = [
        grid.edge_at(instant_of(int((p - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)), grid))
        for p in (points[1], points[-1])
    ]

    assert all(left.end <= right.start for left, right in pairwise(windows))
    assert SpanSet.union([Span(*ends)] if ends[0] < ends[1] else []) == SpanSet.union(windows)
    assert all(grid.within(w) == w for w in windows)


def test_a_run_takes_the_buckets_that_ended_since_the_point_before():
    """
    At 03:00 a nightly run takes the hours that ended after 03:00 of the day before.
    """
    grid = build(GridSpec(parse_width("1 hour"), None, None, None), TimeType.TIMESTAMP)
    at = datetime(2013, 12, 2, 3, 0, tzinfo=UTC)
    window = run_window(grid, previous_point(["0 3 * * *"], at), at)

    assert window is not None
    assert ["--start", "2013-12-01T03:00:00Z", "--end", "2013-12-02T03:00:00Z"] == window_arguments(window, grid)
    assert run_window(grid, at, at + timedelta(minutes=59)) is None


def test_plain_integers_have_no_clock():
    """
    A backfill by dates of an aggregate whose time is a plain integer is refused.
    """
    grid = build(GridSpec(parse_width("10"), None, None, None), TimeType.BIGINT)
    with pytest.raises(UsageError, match="no clock"):
        run_window(grid, datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC))


@given(st.sampled_from(CRONS[:4]), moments(2020, 2021))
def test_a_schedule_is_due_when_it_has_a_point_since(cron, at):
    """
    Due are the points in (since, at], by stepping through all minutes.
    """
    point = previous_point([cron], at)

    assert point < at
    assert is_due(cron, point - timedelta(seconds=1), at)
    assert is_due(cron, None, at)
    assert is_due(cron, point, at) == (at.second == 0 and at.microsecond == 0 and is_point(cron, at))
    assert is_due(cron, point - timedelta(seconds=1), point)
    assert not is_due(cron, point, point)


def is_point(cron: str, at: datetime) -> bool:
    return previous_point([cron], at + timedelta(seconds=1)) == at


def test_the_point_before_is_that_of_any_schedule():
    """
    Of a nightly and a five-minute schedule at 03:00 it is 02:55, not yesterday's 03:00.
    """
    at = datetime(2013, 12, 2, 3, 0, tzinfo=UTC)

    assert at - timedelta(minutes=5) == previous_point(["0 3 * * *", "*/5 * * * *"], at)
