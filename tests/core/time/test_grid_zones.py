"""Grids in time zones: days of 23 and 25 hours, gaps, folds, and the zone data itself."""

from __future__ import annotations

import datetime as dt
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from materializer.core.spec.spec import GridSpec, TimeType
from materializer.core.time import zones
from materializer.core.time.grid import Grid, build, parse_width
from materializer.core.time.instants import DAY, HOUR, SECOND, parse, render
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span
from materializer.core.time.wallclock import FixedLattice, WallClock
from materializer.core.time.zones import RULES_END, Zone, load
from tests.fresh import for_new_data

STAMP = TimeType.TIMESTAMP
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LISTED = Span(parse("1900-01-01", STAMP), RULES_END)


def make_grid(width: str, zone: str, *, origin: str | None = None, offset: str | None = None) -> Grid:
    """Build a grid over timestamps from texts."""
    at = None if origin is None else parse(origin, STAMP)
    return build(GridSpec(parse_width(width), zone, at, parse_width(offset) if offset else None), STAMP)


def python_zone(name: str) -> ZoneInfo:
    """Python's own reading of the same zone data."""
    path = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, name)


def python_offset(zone: ZoneInfo, instant: int) -> int:
    """The offset that Python gives, in microseconds."""
    offset = (EPOCH + dt.timedelta(microseconds=instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // dt.timedelta(microseconds=1)


NAMES = [n for n in zones.names() if n not in zones.ABBREVIATIONS]


@given(st.sampled_from(NAMES), st.integers(LISTED.start, RULES_END - 1))
@example("Pacific/Norfolk", parse("2016-07-01", STAMP))  # its last listed transition but one is not yet the rule
@example("Europe/Dublin", parse("2199-07-01", STAMP))  # summer is standard time, winter is "daylight" time
@example("Africa/Casablanca", parse("2080-06-01", STAMP))
def test_offsets_are_pythons(name: str, instant: int) -> None:
    """A zone's offset is what zoneinfo says, and both neighbours of its run of constant offset differ from it."""
    zone = load(name)
    regime = zone.regime_at(instant)

    assert regime.start <= instant < regime.end
    assert regime.offset == python_offset(python_zone(name), instant)
    assert zone.regime_at(regime.start) == regime == zone.regime_at(regime.end - 1)
    if regime.end < RULES_END:
        following = zone.regime_at(regime.end)
        assert (following.start, following.before) == (regime.end, regime.offset)
        assert following.offset != regime.offset


test_offsets_are_pythons_for_new_data = for_new_data(test_offsets_are_pythons)


def test_every_zone_can_be_read() -> None:
    """All names of the release load, and their transitions up to 2199 are Python's."""
    assert len(NAMES) > 500
    for name in NAMES[::7]:
        python = python_zone(name)
        for regime in load(name).regimes(LISTED):
            if regime.start in LISTED:
                assert python_offset(python, regime.start) == regime.offset
                assert python_offset(python, regime.start - SECOND) != regime.offset


def test_the_rule_goes_on_from_the_last_listed_transition() -> None:
    """Around the last change of offset that is listed, and the last transition that is, no change is left out or added."""
    for name in (n for n in NAMES if load(n).rule):
        zone, python = load(name), python_zone(name)
        for at in {*zone.starts[-1:], zone.settled} - {NEG_INF}:
            for regime in (zone.regime_at(at), *zone.regimes(Span(at - 1, at + 400 * DAY))):
                assert regime.end < RULES_END
                ends = (max(regime.start, LISTED.start), regime.end - 1)
                assert {regime.offset} == {python_offset(python, instant) for instant in ends}
                assert regime.offset != python_offset(python, regime.end)


def test_zones_keep_their_offset_after_2199() -> None:
    """A row of the year 9999 costs no more than one of 2200: no zone changes any more."""
    assert load("America/New_York").regime_at(parse("9999-07-01", STAMP)).offset == -5 * HOUR
    assert load("America/New_York").regime_at(parse("2200-01-01", STAMP)).end == EVERYTHING.end


@pytest.mark.parametrize(
    ("name", "hours"), [("PST", -8), ("EST", -5), ("CET", 1), ("UTC", 0), ("+05:30", 5.5), ("-03:00", -3)]
)
def test_abbreviations_and_offsets_are_fixed(name: str, hours: float) -> None:
    """An abbreviation means its offset in summer and winter alike; a signed offset counts to the east."""
    for at in ("1950-07-01", "2024-01-01", "2024-07-01"):
        assert load(name).regime_at(parse(at, STAMP)).offset == hours * HOUR


@pytest.mark.parametrize(
    ("zone", "at", "hours"),
    [
        ("America/New_York", "2024-03-10T12:00:00Z", 23),
        ("America/New_York", "2024-11-03T12:00:00Z", 25),
        ("America/New_York", "2024-07-04T12:00:00Z", 24),
        ("Australia/Lord_Howe", "2024-10-06T00:00:00Z", 23.5),
        ("Australia/Lord_Howe", "2024-04-07T00:00:00Z", 24.5),
        ("America/Havana", "2024-11-03T12:00:00Z", 25),  # 01:00 back to 00:00: midnight comes twice
        ("America/Sao_Paulo", "2018-11-04T12:00:00Z", 23),  # 00:00 to 01:00: no midnight
        ("America/Sao_Paulo", "2018-02-17T12:00:00Z", 25),  # 24:00 back to 23:00
        ("Asia/Amman", "2021-03-26T12:00:00Z", 23),
    ],
)
def test_days_are_as_long_as_the_zone_makes_them(zone: str, at: str, hours: float) -> None:
    """A local day has the hours that its date has."""
    bucket = make_grid("1 day", zone).bucket(parse(at, STAMP))

    assert bucket.end - bucket.start == hours * HOUR


def test_a_date_that_never_was_has_no_bucket() -> None:
    """Samoa went from the 29th to the 31st of December 2011: the two days touch."""
    grid = make_grid("1 day", "Pacific/Apia")
    day = grid.bucket(parse("2011-12-30T09:00:00Z", STAMP))

    assert render(day.end, STAMP) == "2011-12-30T10:00:00Z"
    assert day.end - day.start == DAY
    assert grid.bucket(day.end) == Span(day.end, day.end + DAY)


@pytest.mark.parametrize(
    ("width", "zone", "offset", "at", "expected"),
    [
        ("1 hour", "America/New_York", None, "2024-11-03T05:30:00Z", "2024-11-03T05:00:00Z"),
        ("1 hour", "America/New_York", None, "2024-11-03T06:30:00Z", "2024-11-03T06:00:00Z"),
        ("2 hours", "America/New_York", None, "2024-11-03T06:30:00Z", "2024-11-03T04:00:00Z"),
        ("1 hour", "Asia/Kolkata", None, "2024-11-03T06:45:00Z", "2024-11-03T06:30:00Z"),
        ("1 hour", "Asia/Kathmandu", None, "2024-11-03T06:10:00Z", "2024-11-03T05:15:00Z"),
        ("20 minutes", "Australia/Lord_Howe", None, "2024-10-05T15:39:00Z", "2024-10-05T15:30:00Z"),
        ("1 day", "America/Havana", None, "2024-11-03T05:30:00Z", "2024-11-03T04:00:00Z"),
        ("1 day", "Asia/Amman", "15 minutes", "2021-03-25T22:00:00Z", "2021-03-24T22:15:00Z"),
        ("1 hour", "Asia/Amman", "-15 minutes", "2021-03-25T22:30:00Z", "2021-03-25T21:45:00Z"),
        ("1 hour", "Asia/Amman", "15 minutes", "2021-03-25T22:00:00Z", "2021-03-25T21:15:00Z"),
        ("30 minutes", "Asia/Amman", "1 hour", "2021-03-25T22:30:00Z", "2021-03-25T22:30:00Z"),
        ("30 seconds", "Europe/Berlin", "-15 seconds", "2025-10-26T00:00:00Z", "2025-10-25T23:59:45Z"),
        ("1 hour", "Europe/Berlin", "15 minutes", "2025-10-26T01:00:00Z", "2025-10-26T00:15:00Z"),
        ("1 hour", "Europe/Berlin", "15 minutes", "2025-10-26T01:30:00Z", "2025-10-26T01:15:00Z"),
        ("2 months", "America/New_York", "14 days", "2000-05-18T04:00:00Z", "2000-05-15T04:00:00Z"),
        ("1 month", "Europe/Berlin", None, "2000-04-01T00:00:00Z", "2000-03-31T22:00:00Z"),
        ("1 week", "Europe/Berlin", None, "2024-03-31T23:00:00Z", "2024-03-31T22:00:00Z"),
    ],
)
def test_edges_of_local_time(width: str, zone: str, offset: str | None, at: str, expected: str) -> None:
    """Buckets start on the wall clock; time of an offset passes, days of it are days of the wall clock."""
    assert render(make_grid(width, zone, offset=offset).floor(parse(at, STAMP)), STAMP) == expected


@given(st.sampled_from(NAMES), st.integers(parse("1972-01-01", STAMP), parse("2090-01-01", STAMP)))
def test_a_day_holds_one_local_date(name: str, instant: int) -> None:
    """The date of a bucket's first instant is that of all of it, by Python's zone data."""
    day = make_grid("1 day", name).bucket(instant)
    python = python_zone(name)

    def date(at: int) -> dt.date:
        return (EPOCH + dt.timedelta(microseconds=at)).astimezone(python).date()

    assert date(day.start) == date(instant)
    assert date(day.end) > date(day.start)
    assert date(day.start - 1) < date(day.start)


def test_edges_chain_around_every_kind_of_jump() -> None:
    """Walking forward over a jump and flooring each instant meet the same edges."""
    gap, fold = (0, HOUR), (HOUR, 0)
    for before, after in (gap, fold, (0, 23 * HOUR), (24 * HOUR, 0), (0, HOUR // 2)):
        for lattice in (7, 13, 40, 60, 90, 120, 1440, 2000):
            for jump in (0, 17 * 60 * SECOND, 5 * HOUR + 1):
                zone = Zone("made up", before, (jump,), (after,))
                wall = WallClock(FixedLattice(lattice * 60 * SECOND, 11 * SECOND), zone)
                edges = [wall.edge_at(-3 * DAY)]
                while edges[-1] < 3 * DAY:
                    edges.append(wall.edge_from(edges[-1] + 1))
                for start, end in pairwise(edges):
                    assert {wall.edge_at(t) for t in (start, (start + end) // 2, end - 1)} == {start}
                    assert {wall.edge_from(t) for t in (start + 1, (start + end + 1) // 2, end)} == {end}
                assert wall.edges_within(edges[0], edges[-1]) == len(edges) - 1
