"""Grids without zones: the laws of every grid, months, limits, and what cannot be built."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.spec.spec import GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import Grid, build, parse_width
from materializer.core.time.instants import DAY, HOUR, parse, render
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import DefinitionError, OutOfRangeError

US = 1_000_000
NEAR = st.integers(parse("1890-01-01", TimeType.TIMESTAMP), parse("2210-01-01", TimeType.TIMESTAMP))
ZONES = ["America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana", "Asia/Amman"]


def make_grid(
    width: str,
    time_type: TimeType = TimeType.TIMESTAMP,
    *,
    zone: str | None = None,
    origin: str | None = None,
    offset: str | None = None,
    resolution: Resolution = Resolution.NONE,
) -> Grid:
    """Build a grid from texts."""
    at = None if origin is None else parse(origin, time_type, resolution)
    spec = GridSpec(parse_width(width), zone, at, None if offset is None else parse_width(offset))
    return build(spec, time_type, resolution)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """A grid over timestamps: fixed or months, with and without zone, origin and offset."""
    months = draw(st.booleans())
    unit = draw(st.sampled_from(["month", "year"] if months else ["second", "minute", "hour", "day", "week"]))
    width = parse_width(f"{draw(st.integers(1, 40))} {unit}")
    zone = draw(st.sampled_from([None, *ZONES]))
    origin = draw(st.none() | NEAR)
    offset = draw(
        st.none()
        | st.builds(
            Width,
            months=st.integers(-3, 3) if months else st.just(0),
            days=st.integers(-40, 40),
            micros=st.sampled_from([0, 15 * 60 * US, -7 * HOUR, 1]),
        )
    )
    return build(GridSpec(width, zone, origin, offset), TimeType.TIMESTAMP)


@given(grids(), NEAR)
def test_a_bucket_holds_its_instant(grid: Grid, instant: int) -> None:
    """The edge at or before an instant, the instant, the next edge; the start is its own floor, and edges chain."""
    edge = grid.floor(instant)
    end = grid.next(edge)

    assert edge <= instant < end
    assert grid.floor(edge) == edge
    assert grid.floor(end) == end
    assert grid.floor(end - 1) == edge
    assert grid.bucket(instant) == Span(edge, end)


@given(grids(), NEAR, NEAR)
def test_floor_is_monotone(grid: Grid, one: int, other: int) -> None:
    """A later instant is never in an earlier bucket."""
    first, second = sorted((one, other))

    assert grid.floor(first) <= grid.floor(second)


@given(grids(), NEAR, st.integers(1, 500 * DAY))
def test_cover_is_the_smallest_run_of_buckets_around_a_span(grid: Grid, start: int, length: int) -> None:
    """Each end of the cover is an edge, no nearer edge would do, and covering twice changes nothing."""
    span = Span(start, start + length)
    cover = grid.cover(span)

    assert cover == Span(grid.bucket(span.start).start, grid.bucket(span.end - 1).end)
    assert grid.cover(cover) == cover
    assert grid.cover_set(SpanSet.of(span)) == SpanSet.of(cover)


@given(grids(), NEAR, st.integers(1, 500 * DAY))
def test_within_is_the_cover_less_the_cut_buckets(grid: Grid, start: int, length: int) -> None:
    """The inner run leaves out exactly the buckets that the span cuts."""
    span = Span(start, start + length)
    cover, within = grid.cover(span), grid.within(span)
    first = cover.start if cover.start == span.start else grid.next(cover.start)
    last = cover.end if cover.end == span.end else grid.floor(cover.end - 1)

    assert within == (Span(first, last) if first < last else None)
    if within:
        assert grid.cover(within) == within == grid.within(within)


@given(grids(), NEAR, st.integers(0, 60), st.integers(0, 10**9), st.integers(1, 10**9))
def test_count_is_what_walking_counts(grid: Grid, start: int, buckets: int, before: int, after: int) -> None:
    """The number of buckets of a span is that of the steps over it."""
    edges = [grid.floor(start)]
    for _ in range(buckets + 1):
        edges.append(grid.next(edges[-1]))
    first = min(edges[0] + before, edges[1] - 1)
    last = min(max(edges[-2] + after, first + 1), edges[-1])
    walked = sum(1 for a, b in pairwise(edges) if a < last and b > first)

    assert grid.count(Span(first, last)) == walked


@given(grids())
def test_open_ends_stay_open(grid: Grid) -> None:
    """Infinity has no bucket of its own: it is its own floor, and covering or shrinking leaves it."""
    assert (grid.floor(NEG_INF), grid.floor(POS_INF)) == (NEG_INF, POS_INF)
    assert grid.cover(EVERYTHING) == EVERYTHING == grid.within(EVERYTHING)
    with pytest.raises(ValueError, match="open span"):
        grid.count(EVERYTHING)


@pytest.mark.parametrize(
    ("width", "at", "expected"),
    [
        ("1 hour", "1969-12-31T23:59:59.999999Z", "1969-12-31T23:00:00Z"),
        ("1 week", "2000-01-02T23:00:00Z", "1999-12-27T00:00:00Z"),
        ("1 week", "2000-01-03T00:00:00Z", "2000-01-03T00:00:00Z"),
        ("1 month", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z"),
        ("5 months", "1999-12-31T00:00:00Z", "1999-08-01T00:00:00Z"),
        ("1 year", "1900-02-28T00:00:00Z", "1900-01-01T00:00:00Z"),
        ("4 years", "1999-12-31T00:00:00Z", "1996-01-01T00:00:00Z"),
        ("1 day", "0001-01-01T12:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_default_origins(width: str, at: str, expected: str) -> None:
    """Fixed widths start from Monday 2000-01-03, months from January 2000; both go back without end."""
    assert render(make_grid(width).floor(parse(at, TimeType.TIMESTAMP)), TimeType.TIMESTAMP) == expected


@pytest.mark.parametrize(
    ("width", "at", "expected"),
    [
        ("1 month", "2024-01-31", 31),
        ("1 month", "2024-02-10", 29),
        ("1 month", "2023-02-10", 28),
        ("1 year", "2024-02-10", 366),
    ],
)
def test_months_are_as_long_as_they_are(width: str, at: str, expected: int) -> None:
    """Month ends and leap days follow the calendar."""
    bucket = make_grid(width, TimeType.DATE).bucket(parse(at, TimeType.DATE))

    assert bucket.end - bucket.start == expected * DAY


def test_the_day_of_a_months_origin_does_not_count() -> None:
    """Only the month of an origin matters for months; an offset shifts them within the month."""
    grid = make_grid("2 months", TimeType.TIMESTAMP_NTZ, origin="1999-12-17T11:00:00", offset="14 days")

    assert render(grid.floor(parse("2000-02-14T23:00:00", TimeType.TIMESTAMP_NTZ)), TimeType.TIMESTAMP_NTZ) == (
        "1999-12-15T00:00:00"
    )


@pytest.mark.parametrize(
    ("time_type", "width", "offset", "at", "expected"),
    [
        (TimeType.SMALLINT, "10", None, -11, -20),
        (TimeType.SMALLINT, "10", "2", 1, -8),
        (TimeType.SMALLINT, "10", "-2", -13, -22),
        (TimeType.SMALLINT, "10", None, -32760, -32760),
        (TimeType.SMALLINT, "10", None, 32767, 32760),
        (TimeType.BIGINT, "10", None, 2**63 - 1, 9223372036854775800),
        (TimeType.SMALLINT, "10", None, -32761, None),
        (TimeType.SMALLINT, "10", "1000", -32768, None),
        (TimeType.SMALLINT, "10", "-32768", 32767, None),
        (TimeType.INT, "1000", "1", -2147483000, None),
        (TimeType.INT, "1000", "-2147483648", 2147483647, None),
        (TimeType.BIGINT, "1000", "9223372036854775807", -(2**63), None),
        (TimeType.INT, "10", None, 2**31, None),
    ],
)
def test_integers_and_their_limits(
    time_type: TimeType, width: str, offset: str | None, at: int, expected: int | None
) -> None:
    """Integer widths floor toward minus infinity; a shifted time or start outside the type is refused."""
    grid = make_grid(width, time_type, offset=offset)

    if expected is not None:
        assert grid.floor(at) == expected
        return
    with pytest.raises(OutOfRangeError):
        grid.floor(at)
    assert at in grid.cover(Span(at, at + 1))


def test_the_last_bucket_may_end_after_the_type() -> None:
    """The bucket of the last value of a type ends where it ends."""
    assert make_grid("10", TimeType.SMALLINT).bucket(32767) == Span(32760, 32770)
    last = parse("9999-12-31T23:59:59Z", TimeType.TIMESTAMP)
    assert render(make_grid("1 day").bucket(last).end, TimeType.TIMESTAMP) == "+10000-01-01T00:00:00Z"


@pytest.mark.parametrize("resolution", [Resolution.S, Resolution.MS, Resolution.US, Resolution.NS])
@pytest.mark.parametrize(("width", "zone"), [("1 hour", None), ("1 month", None), ("1 day", "America/New_York")])
@given(instant=NEAR)
def test_integer_columns_with_a_resolution_have_the_edges_of_timestamps(
    resolution: Resolution, width: str, zone: str | None, instant: int
) -> None:
    """Ticks of a declared resolution are bucketed as the timestamps that they stand for."""
    scale = {Resolution.S: (1, US), Resolution.MS: (1, 1000), Resolution.US: (1, 1), Resolution.NS: (1000, 1)}
    times, over = scale[resolution]
    tick = instant // over * times + (999 if times > 1 else 0)
    grid, plain = make_grid(width, TimeType.BIGINT, zone=zone, resolution=resolution), make_grid(width, zone=zone)

    expected = plain.bucket(instant // over * over)
    assert grid.bucket(tick) == Span(expected.start * times // over, expected.end * times // over)
    assert grid.count(Span(tick, tick + 1)) == 1


@pytest.mark.parametrize(
    ("spec", "time_type", "codes"),
    [
        (GridSpec(Width()), TimeType.TIMESTAMP, {"definition.width-zero"}),
        (GridSpec(Width(micros=-1)), TimeType.TIMESTAMP, {"definition.width-zero"}),
        (GridSpec(Width(ticks=0)), TimeType.INT, {"definition.width-zero"}),
        (GridSpec(Width(months=1, days=1)), TimeType.TIMESTAMP, {"definition.width-mixed"}),
        (GridSpec(Width(days=1, ticks=1)), TimeType.INT, {"definition.width-mixed"}),
        (GridSpec(Width(ticks=5)), TimeType.TIMESTAMP, {"definition.width-type"}),
        (GridSpec(Width(days=1)), TimeType.BIGINT, {"definition.width-type"}),
        (GridSpec(Width(micros=25 * HOUR)), TimeType.DATE, {"definition.width-type"}),
        (GridSpec(Width(ticks=2**63)), TimeType.BIGINT, {"definition.width-too-long"}),
        (GridSpec(Width(days=1), "Europe/Atlantis"), TimeType.TIMESTAMP, {"definition.timezone-unknown"}),
        (GridSpec(Width(days=1), "../zoneinfo/UTC"), TimeType.TIMESTAMP, {"definition.timezone-unknown"}),
        (GridSpec(Width(days=1), "Europe/Berlin"), TimeType.DATE, {"definition.timezone-type"}),
        (GridSpec(Width(days=1), None, POS_INF), TimeType.TIMESTAMP, {"definition.origin-invalid"}),
        (GridSpec(Width(days=1), None, 1), TimeType.DATE, {"definition.origin-invalid"}),
        (GridSpec(Width(days=7), None, None, Width(micros=HOUR)), TimeType.DATE, {"definition.offset-type"}),
        (GridSpec(Width(days=7), None, None, Width(ticks=1)), TimeType.DATE, {"definition.offset-type"}),
        (GridSpec(Width(days=7), None, None, Width(months=1)), TimeType.DATE, {"definition.offset-mixed"}),
        (
            GridSpec(Width(), "Nowhere", NEG_INF, Width(months=1)),
            TimeType.DATE,
            {
                "definition.width-zero",
                "definition.timezone-unknown",
                "definition.timezone-type",
                "definition.origin-invalid",
                "definition.offset-mixed",
            },
        ),
    ],
)
def test_what_makes_no_grid_is_refused_with_all_its_problems(
    spec: GridSpec, time_type: TimeType, codes: set[str]
) -> None:
    """Each thing wrong has its own code, and all are told at once."""
    with pytest.raises(DefinitionError) as caught:
        build(spec, time_type)

    assert {p.code for p in caught.value.problems} == codes


def test_a_width_finer_than_a_tick_is_refused() -> None:
    """Half a second is no whole number of seconds."""
    with pytest.raises(DefinitionError, match=r"definition\.width-type"):
        make_grid("500 ms", TimeType.INT, resolution=Resolution.S)


def test_a_near_miss_of_a_zone_name_is_hinted_at() -> None:
    """A misspelt zone is answered with the one that was meant."""
    with pytest.raises(DefinitionError, match="did you mean 'Europe/Berlin'"):
        make_grid("1 day", zone="Europe/Berln")


def test_next_refuses_what_is_no_edge() -> None:
    """A bucket starts at an edge; asking for the end of anything else is a mistake of the caller."""
    with pytest.raises(ValueError, match="is no edge of 1 h"):
        make_grid("1 hour").next(1)


def test_grids_describe_themselves() -> None:
    """A grid says what it is in the words of its declaration."""
    assert make_grid("1 hour").describe() == "1 h"
    assert make_grid("24 hours", zone="America/New_York").describe() == "24 h in America/New_York"
    assert make_grid("10", TimeType.INT, origin="3", offset="1").describe() == "10 from 3 shifted by 1"
