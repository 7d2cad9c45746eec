"""Whether the buckets of one grid lie in those of another: laws against walks from edge to edge, and known pairs."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.core.spec.spec import GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import YEARS_1_TO_9999, Grid, build, parse_width
from materializer.core.time.instants import DAY, HOUR, parse, render
from materializer.core.time.nesting import misfit
from materializer.core.time.zones import RULES_END

STAMP = TimeType.TIMESTAMP
NEW_YORK, KOLKATA, BERLIN = "America/New_York", "Asia/Kolkata", "Europe/Berlin"


def grid(width: str, zone: str | None = None, *, origin: str | None = None, offset: str | None = None) -> Grid:
    """Build a grid over timestamps from texts."""
    at = None if origin is None else parse(origin, STAMP)
    return build(GridSpec(parse_width(width), zone, at, parse_width(offset) if offset else None), STAMP)


def walked(grid: Grid, start: int, edges: int) -> list[int]:
    """Return the first edges from an instant on, one bucket after the other."""
    found = [grid.edge_from(start)]
    while len(found) < edges:
        found.append(grid.next(found[-1]))
    return found


def walked_to(grid: Grid, start: int, end: int) -> set[int]:
    """Return all edges in [start, end], one bucket after the other."""
    found, at = set(), grid.edge_from(start)
    while at <= end:
        found.add(at)
        at = grid.next(at)
    return found


# -- known pairs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "child", "instant"),
    [
        # equally long buckets: a whole number of them, from the same edge on
        (grid("2 minutes"), grid("5 minutes"), "2000-01-01T00:05:00Z"),
        (grid("2 minutes"), grid("6 minutes"), None),
        (grid("6 minutes"), grid("2 minutes"), "2000-01-01T00:02:00Z"),
        (grid("1 hour"), grid("1 day", offset="30 minutes"), "2000-01-01T00:30:00Z"),
        (grid("30 minutes"), grid("1 day", offset="30 minutes"), None),
        (grid("2 days"), grid("4 days", origin="2000-01-02"), "2000-01-02T00:00:00Z"),
        (grid("1 day"), grid("7 days", origin="1970-01-01"), None),
        # months
        (grid("7 days"), grid("1 month"), "2000-01-01T00:00:00Z"),
        (grid("10 days"), grid("1 month"), "2000-01-01T00:00:00Z"),
        (grid("1 month"), grid("7 days"), "2000-01-03T00:00:00Z"),
        (grid("1 day"), grid("1 month"), None),
        (grid("6 hours"), grid("1 month", offset="1 day"), None),
        (grid("7 hours"), grid("1 month"), "2000-01-01T00:00:00Z"),
        (grid("1 month"), grid("3 months"), None),
        (grid("1 month"), grid("7 months"), None),
        (grid("2 months"), grid("3 months"), "2000-04-01T00:00:00Z"),
        (grid("3 months"), grid("1 year", offset="1 month"), "2000-02-01T00:00:00Z"),
        (grid("1 month"), grid("1 month", offset="1 day"), "2000-01-02T00:00:00Z"),
        # 1 March and 31 days is 1 April in every year; 1 February and 28 days is 1 March but in leap years
        (grid("1 month"), grid("1 year", origin="2000-03-01", offset="31 days"), None),
        (grid("1 month"), grid("1 year", origin="2001-02-01", offset="28 days"), "2000-02-29T00:00:00Z"),
        (grid("1 month"), grid("4 years", origin="2000-02-01", offset="29 days"), "2100-03-02T00:00:00Z"),
        # four years are equally long until 2100, four hundred for ever
        (grid("1 month"), grid("1461 days", origin="2000-01-01"), "2104-01-02T00:00:00Z"),
        (grid("1 month"), grid("146097 days", origin="2000-01-01"), None),
        # zones
        (grid("1 day", NEW_YORK), grid("1 month", NEW_YORK), None),
        (grid("1 hour", NEW_YORK), grid("1 day", NEW_YORK), None),
        (grid("1 day", NEW_YORK), grid("1 month", BERLIN), "2000-01-31T23:00:00Z"),
        (grid("1 day", NEW_YORK), grid("1 month"), "2000-01-01T00:00:00Z"),
        (grid("1 day"), grid("1 day", NEW_YORK), "2000-01-01T05:00:00Z"),
        (grid("1 day", "Europe/Paris"), grid("1 month", BERLIN), "1979-04-30T23:00:00Z"),
        (grid("1 hour"), grid("1 day", NEW_YORK), None),
        (grid("1 hour"), grid("1 day", KOLKATA), "2000-01-01T18:30:00Z"),
        (grid("30 minutes"), grid("1 day", KOLKATA), None),
        (grid("1 hour"), grid("1 day", "+05:30"), "2000-01-01T18:30:00Z"),
        (grid("1 day", "PST"), grid("1 day", "-08:00"), None),
        # in winter the hours of two zones are as long as those of UTC, in summer Lord Howe's are half an hour off
        (grid("1 hour"), grid("1 day", "Australia/Lord_Howe"), "2000-03-26T13:30:00Z"),
        (grid("30 minutes"), grid("1 day", "Australia/Lord_Howe"), None),
        # three hours of standard time do not follow an hour of summer
        (grid("3 hours"), grid("1 day", BERLIN), "2000-01-01T23:00:00Z"),
        (grid("1 day", NEW_YORK), grid("7 days", NEW_YORK, offset="1 hour"), "2000-01-03T06:00:00Z"),
    ],
    ids=lambda value: value.describe() if isinstance(value, Grid) else str(value),
)  # fmt: skip
def test_known_pairs(parent: Grid, child: Grid, instant: str | None) -> None:
    """Where an edge does not fit, the first from 2000 on is told, and the nearest one before when there is none."""
    found = misfit(child, parent)

    assert (None if found is None else render(found, STAMP)) == instant


@pytest.mark.parametrize(
    ("zone", "instant"),
    [("Africa/Monrovia", "1972-01-07T00:44:30Z"), ("Asia/Singapore", "1970-01-01T16:30:00Z"), ("Asia/Pyongyang", "2015-08-14T15:30:00Z")],
)  # fmt: skip
def test_a_short_time_of_another_offset_counts(zone: str, instant: str) -> None:
    """A zone that was off by a part of an hour for some years does not fit hours, whenever that was since 1970."""
    found = misfit(grid("1 day", zone), grid("1 hour"))

    assert found is not None
    assert render(found, STAMP) == instant
    assert found % HOUR != 0


def test_integers_count_by_their_own_unit() -> None:
    """Plain ticks are compared over all that the column holds; with a resolution they are times."""
    plain = [build(GridSpec(Width(ticks=n)), TimeType.BIGINT) for n in (2, 5, 10)]
    assert misfit(plain[1], plain[0]) is not None
    assert misfit(plain[2], plain[0]) is None
    assert misfit(build(GridSpec(Width(ticks=4), offset=Width(ticks=1)), TimeType.SMALLINT), plain[0]) is not None
    one, other = (
        build(GridSpec(parse_width(w), zone), TimeType.BIGINT, Resolution.NS)
        for w, zone in (("1 hour", None), ("1 day", NEW_YORK))
    )
    assert misfit(other, one) is None
    assert misfit(one, other) is not None


@pytest.mark.parametrize("zone", [NEW_YORK, "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Europe/Dublin"])
@pytest.mark.parametrize(("parent", "child"), [("1 minute", "1 day"), ("1 day", "1 month"), ("6 hours", "7 days")])
def test_days_and_their_parts_nest_in_one_zone_over_all_time(zone: str, parent: str, child: str) -> None:
    """Also where midnight is skipped or comes twice, and in the local mean time of the nineteenth century."""
    assert misfit(grid(child, zone), grid(parent, zone)) is None


# -- laws ----------------------------------------------------------------------------------------------------------------

ZONES = [None, None, NEW_YORK, BERLIN, KOLKATA, "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "+05:30"]
FIXED = ["20 minutes", "30 minutes", "1 hour", "90 minutes", "3 hours", "1 day", "2 days", "7 days", "36 hours"]
MONTHS = ["1 month", "2 months", "3 months", "1 year"]
GRIDS = st.builds(
    grid,
    st.sampled_from([*FIXED, *MONTHS]),
    st.sampled_from(ZONES),
    origin=st.sampled_from([None, None, "1970-01-01", "2000-02-01", "2001-01-01T12:00:00Z"]),
    offset=st.sampled_from([None, None, None, "30 minutes", "1 day", "-1 hour"]),
)


@given(GRIDS, GRIDS, st.integers(0, RULES_END - 1))
def test_what_is_told_is_what_a_walk_finds(child: Grid, parent: Grid, instant: int) -> None:
    """A misfit is an edge of the child alone, and none lies between 2000 and it; without one, no walk finds any."""
    found = misfit(child, parent)
    if found is not None:
        start, end = parent.edge_at(found), parent.edge_from(found + 1)
        assert start < found < end == parent.next(start)
        assert child.edge_at(found) == found
        assert found in YEARS_1_TO_9999
        before = list(takewhile(lambda edge: edge < found, walked(child, parse("2000-01-01", STAMP), 50)))
    else:
        before = walked(child, instant, 50)
    edges = walked_to(parent, before[0], before[-1]) if before and before[-1] - before[0] < 400 * DAY else None
    for edge in before:
        assert parent.edge_at(edge) == edge if edges is None else edge in edges


@settings(max_examples=20)
@given(GRIDS)
def test_each_grid_lies_in_itself(one: Grid) -> None:
    """Its edges are its own."""
    assert misfit(one, one) is None


@given(GRIDS, GRIDS, GRIDS)
def test_what_fits_fits_through(one: Grid, two: Grid, three: Grid) -> None:
    """Buckets inside buckets inside buckets lie in the last ones, as far as zones are compared."""
    if misfit(three, two) is None and misfit(two, one) is None:
        found = misfit(three, one)
        assert found is None or found < 0
