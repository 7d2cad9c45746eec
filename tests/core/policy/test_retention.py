from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.policy.retention import OUTPUT, SOURCE, clock_edge, edge, latest_instant, problems_of
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Estimate, Merge, Recompute, Settle, strategy_of
from materializer.core.refresh.strategies import Facts, decide
from materializer.core.spec.spec import GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import build, parse_width
from materializer.core.time.instants import HOUR, parse
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet

HOURLY = GridSpec(Width(micros=HOUR))
TICKS = GridSpec(Width(ticks=10))
FACTS = Facts(
    raw=lambda _: Estimate(1),
    changed=lambda _, __: Estimate(100),
    stored=lambda _: Estimate(100),
    present=lambda spans: spans & SpanSet.of(Span(0, 1000)),
    feed_from=0,
    frozen=100,
)


def late(start: int, end: int, after: int = 3) -> Entry:
    return Entry(Span(start, end), after, Cause.CHANGE, is_insert_only=True)


def test_below_the_bound_there_is_only_merging():
    """
    An entry over the bound is parted: below it is merged though reading raw rows were cheaper, above it is computed.
    """
    steps = decide([late(50, 150)], FACTS)

    assert [("merge", SpanSet.of(Span(50, 100))), ("recompute", SpanSet.of(Span(100, 150)))] == [
        (strategy_of(s), s.spans) for s in steps
    ]


def test_rows_that_are_gone_again_are_merged_all_the_same():
    """
    Below the bound nothing is settled: inserted rows count, whether or not the source still has them.
    """
    [merge] = decide([late(-50, -40)], FACTS)

    assert isinstance(merge, Merge)
    assert [Settle(SpanSet.of(Span(-50, -40)))] == [*decide([late(-50, -40)], Facts(**_but(frozen=NEG_INF)))]


def _but(**changed):
    names = ("raw", "changed", "stored", "present", "feed_from", "frozen")
    return {name: getattr(FACTS, name) for name in names} | changed


def test_every_version_below_is_merged_by_itself():
    """
    The number of merges is not limited there, because nothing else is allowed.
    """
    steps = decide([late(i, i + 1, after=i) for i in range(0, 40, 2)], FACTS)

    assert ["merge"] * 20 == [strategy_of(s) for s in steps]


def test_nothing_below_is_ever_recomputed():
    """
    A plan that takes a conflict is a bug, and says so.
    """
    with pytest.raises(ValueError, match="cannot be merged"):
        decide([Entry(Span(0, 10), None, Cause.CONFLICT)], FACTS)


def test_what_is_retired_is_discarded_without_reading():
    """
    Also below the frozen bound; where our tables can have no rows it is settled.
    """
    discard, settle = decide([Entry(Span(-10, 10), None, Cause.RETIRED)], FACTS)

    assert isinstance(discard, Recompute)
    assert ("discard", SpanSet.of(Span(0, 10)), Estimate()) == (strategy_of(discard), discard.spans, discard.estimate)
    assert SpanSet.of(Span(-10, 0)) == settle.spans


@pytest.mark.parametrize(
    ("newest", "kept", "bound"),
    [
        ("2024-03-10T05:00:00Z", "2 days", "2024-03-08T05:00:00Z"),
        ("2024-03-10T05:00:00Z", "90 minutes", "2024-03-10T03:00:00Z"),
        ("2024-03-31T05:00:00Z", "1 month", "2024-02-29T05:00:00Z"),
    ],
)
def test_the_edge_lies_a_length_before_the_newest_bucket_ends(newest, kept, bound):
    """
    Rounded down to an edge; months go back on the calendar.
    """
    grid = build(HOURLY, TimeType.TIMESTAMP)
    found = edge(parse_width(kept), parse(newest, TimeType.TIMESTAMP), grid)

    assert parse(bound, TimeType.TIMESTAMP) == found


def test_the_edge_of_integers():
    """
    Ticks are subtracted; a length of time where a tick has a resolution.
    """
    assert 60 == edge(Width(ticks=35), 100, build(TICKS, TimeType.INT))
    seconds = build(GridSpec(Width(ticks=3600)), TimeType.BIGINT, Resolution.S)
    assert 86_400 == edge(Width(days=1), 2 * 86_400, seconds)
    assert NEG_INF == edge(Width(ticks=35), NEG_INF, build(TICKS, TimeType.INT))
    assert NEG_INF == edge(Width(ticks=1 << 40), 100, build(TICKS, TimeType.SMALLINT))


NOON = parse("2024-03-10T12:20:00Z", TimeType.TIMESTAMP)


@pytest.mark.parametrize(
    ("grid", "edge_after"),
    [
        (build(HOURLY, TimeType.TIMESTAMP), parse("2024-03-10T13:00:00Z", TimeType.TIMESTAMP)),
        (build(HOURLY, TimeType.TIMESTAMP_NTZ), parse("2024-03-11T03:00:00Z", TimeType.TIMESTAMP)),
        (build(GridSpec(Width(days=1)), TimeType.DATE), parse("2024-03-12T00:00:00Z", TimeType.TIMESTAMP)),
        (build(GridSpec(Width(ticks=3600)), TimeType.BIGINT, Resolution.S), NOON // 10**6 // 3600 * 3600 + 3600),
        (build(GridSpec(Width(ticks=3600)), TimeType.BIGINT, Resolution.MS), NOON // 10**3 // 3600 * 3600 + 3600),
        (build(GridSpec(Width(ticks=3600)), TimeType.BIGINT), POS_INF),
        (build(GridSpec(Width(ticks=60)), TimeType.SMALLINT, Resolution.S), POS_INF),
    ],
)
def test_rows_are_followed_up_to_the_bucket_that_holds_the_clock(grid, edge_after):
    """
    Times without a zone may be 14 hours ahead of UTC; plain integers have no clock, and some types do not reach up to now.
    """
    assert edge_after == clock_edge(latest_instant(NOON, grid), grid)


@given(st.integers(-(10**6), 10**6), st.integers(20, 10**5))
def test_the_edge_never_takes_more_than_asked(end, kept):
    """
    Everything at least as new as the length stays at or above the edge, and it is an edge.
    """
    grid = build(TICKS, TimeType.BIGINT)
    found = edge(Width(ticks=kept), end, grid)

    assert found <= end - kept < found + 10
    assert grid.edge_at(found) == found


@pytest.mark.parametrize(
    ("properties", "grid", "resolution", "said"),
    [
        ({SOURCE: "2 hours"}, HOURLY, Resolution.NONE, None),
        ({SOURCE: "119 minutes"}, HOURLY, Resolution.NONE, "less than two buckets"),
        ({OUTPUT: "30 days"}, GridSpec(Width(months=1)), Resolution.NONE, "less than two buckets"),
        ({OUTPUT: "100"}, HOURLY, Resolution.NONE, "a length of time"),
        ({OUTPUT: "100"}, TICKS, Resolution.NONE, None),
        ({OUTPUT: "2 days"}, TICKS, Resolution.NONE, "a whole number"),
        ({OUTPUT: "2 days"}, GridSpec(Width(ticks=86_400)), Resolution.S, None),
        ({OUTPUT: "1 day"}, GridSpec(Width(ticks=86_400)), Resolution.S, "less than two buckets"),
        ({OUTPUT: "86400"}, GridSpec(Width(days=1)), Resolution.S, "less than two buckets"),
        ({}, HOURLY, Resolution.NONE, None),
        ({SOURCE: "1 minute"}, None, Resolution.NONE, None),
    ],
)
def test_what_is_wrong_with_a_retention(properties, grid, resolution, said):
    """
    It is in the unit of the time column and keeps two buckets at least.
    """
    found = [message for _, code, message, _ in problems_of(properties, grid, resolution)]

    assert (said is not None) == bool(found)
    assert all(said in message for message in found)
