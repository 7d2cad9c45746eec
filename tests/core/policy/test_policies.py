from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from materializer.core.language.engine_define import define_engine
from materializer.core.language.parse import parse_definitions
from materializer.core.policy.policies import (
    Policy,
    beyond,
    describe_offset,
    has_clock,
    key_of,
    micros_of,
    policies_in,
    policies_of,
    problems_of,
    promise_of,
    read_now,
    refresh_window,
    render_now,
    split_key,
    window,
)
from materializer.core.spec.spec import GridSpec, Resolution, TimeType, Width
from materializer.core.time.grid import Grid, build
from materializer.core.time.instants import DAY, HOUR, MINUTE, parse
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import DefinitionError, PolicyNowError

TS = TimeType.TIMESTAMP
HOURLY = build(GridSpec(Width(micros=HOUR)), TS)
ZONES = ("America/New_York", "Europe/Paris", "Australia/Lord_Howe", "UTC")
NOWS = st.integers(parse("1995-01-01", TS), parse("2035-01-01", TS))
GRIDS: list[Grid] = [
    HOURLY,
    build(GridSpec(Width(days=1)), TimeType.DATE),
    build(GridSpec(Width(days=7)), TimeType.TIMESTAMP_NTZ),
    *(build(GridSpec(width, zone), TS) for zone in ZONES for width in (Width(days=1), Width(months=1))),
    build(GridSpec(Width(micros=HOUR), "America/New_York"), TS),
    build(GridSpec(Width(days=1), "America/New_York"), TimeType.BIGINT, Resolution.NS),
    build(GridSpec(Width(ticks=60)), TimeType.BIGINT, Resolution.S),
]


def us(text: str) -> int:
    """Return a time in UTC as microseconds."""
    return parse(text, TS)


def named(*offsets: tuple[Width | None, Width | None]) -> tuple[Policy, ...]:
    """Return policies of (start, end) offsets, newest first."""
    return tuple(Policy(f"p{i}", start, end) for i, (start, end) in enumerate(offsets))


def codes(properties: dict[str, str], grid: GridSpec | None = None, resolution: Resolution = Resolution.NONE) -> set:
    """Return the codes of what is wrong, without their common part."""
    found = problems_of(properties, grid or GridSpec(Width(micros=HOUR)), resolution)
    return {code.removeprefix("definition.policy-") for _, code, _, _ in found}


def of_ages(*ages: tuple[int | None, int | None]) -> dict[str, str]:
    """Return properties of policies over plain integers, by (start, end) offset."""
    parts = {}
    for i, (start, end) in enumerate(ages):
        parts |= {f"refresh.p{i}.start_offset": str("none" if start is None else start)}
        parts |= {f"refresh.p{i}.end_offset": str("none" if end is None else end)}
    return parts


# -- reading -------------------------------------------------------------------------------------------------------------


def test_policies_are_read_from_a_definition() -> None:
    """
    The default policy has no name in its properties; others have one; what is not said is open, or its default.
    """
    spec, *_ = parse_definitions(
        """CREATE MATERIALIZED VIEW v TBLPROPERTIES (
          'refresh.start_offset' = '7 days', 'refresh.end_offset' = '1 hour', 'refresh.schedule' = '*/5 * * * *',
          'refresh.max_runs' = '3', 'refresh.history.end_offset' = '7 days', 'refresh.history.order' = 'Oldest',
          'Refresh.History.Catch_Dirt' = 'true', 'refresh.max_staleness' = '2 hours')
        AS SELECT window.start AS b, count(*) AS n FROM t GROUP BY window(ts, '1 hour')"""
    )
    newest, oldest = policies_of(spec)

    assert newest == Policy("default", Width(days=7), Width(micros=HOUR), "*/5 * * * *", 3)
    assert oldest == Policy("history", None, Width(days=7), None, None, "oldest", catch_dirt=True)
    assert promise_of(spec) == Width(micros=2 * HOUR)


@given(st.sampled_from(["default", "history", "p2"]), st.sampled_from(["start_offset", "catch_dirt"]))
def test_a_key_names_its_policy(policy: str, part: str) -> None:
    """
    Splitting a property gives back what it was made of.
    """
    assert split_key(key_of(policy, part)) == (policy, part)


@pytest.mark.parametrize("key", ["refresh.default.order", "refresh.a.b.order", "refresh.1st.order", "refresh.history"])
def test_what_names_no_policy_is_an_unknown_property(key: str) -> None:
    """
    The default policy has no name, and names are plain words.
    """
    text = f"""CREATE MATERIALIZED VIEW v TBLPROPERTIES ('{key}' = 'newest')
      AS SELECT window.start AS b, count(*) AS n FROM t GROUP BY window(ts, '1 hour')"""
    with pytest.raises(DefinitionError) as caught:
        parse_definitions(text)

    assert split_key(key) is None
    assert [p.code for p in caught.value.problems] == ["definition.unknown-property"]


# -- problems ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "wrong"),
    [
        ({"refresh.start_offset": "2 hours", "refresh.end_offset": "0"}, set()),
        ({"refresh.start_offset": "119 minutes", "refresh.end_offset": "0"}, {"window"}),
        ({"refresh.start_offset": "1 hour", "refresh.end_offset": "1 hour"}, {"window"}),
        ({"refresh.start_offset": "1 hour", "refresh.end_offset": "7 days"}, {"window"}),
        ({"refresh.start_offset": "3 days", "refresh.end_offset": "-1 day"}, set()),
        ({"refresh.start_offset": "1 minute"}, set()),
        ({"refresh.end_offset": "1 minute"}, set()),
        ({"refresh.start_offset": "none", "refresh.end_offset": "null"}, set()),
        ({"refresh.start_offset": "100"}, {"offset"}),
        ({"refresh.max_staleness": "100"}, {"offset"}),
        ({"refresh.schedule": "@daily"}, set()),
        ({"refresh.schedule": "@daily", "refresh.old.schedule": "@weekly"}, {"exists"}),
        ({"refresh.start_offset": "30 days", "refresh.old.end_offset": "30 days"}, set()),
        ({"refresh.start_offset": "30 days", "refresh.old.end_offset": "1 month"}, set()),
        ({"refresh.start_offset": "31 days", "refresh.old.end_offset": "1 month"}, {"overlap"}),
        ({"refresh.start_offset": "30 days", "refresh.old.order": "oldest"}, {"overlap"}),
    ],
)
def test_policies_are_refused_as_timescaledb_refuses_them(properties: dict[str, str], wrong: set[str]) -> None:
    """
    Two buckets at least, no overlap, no equal windows, offsets in the unit of time; windows that touch are fine.
    """
    assert wrong == codes(properties)


@pytest.mark.parametrize(
    ("properties", "resolution", "wrong"),
    [
        ({"refresh.start_offset": "20", "refresh.end_offset": "0"}, Resolution.NONE, set()),
        ({"refresh.start_offset": "19", "refresh.end_offset": "0"}, Resolution.NONE, {"window"}),
        ({"refresh.start_offset": "20 s"}, Resolution.NONE, {"offset"}),
        ({"refresh.schedule": "@daily"}, Resolution.NONE, {"schedule"}),
        ({"refresh.schedule": "@daily"}, Resolution.MS, set()),
        ({"refresh.start_offset": "20 ms", "refresh.end_offset": "0"}, Resolution.MS, set()),
        ({"refresh.start_offset": "19 ms", "refresh.end_offset": "0"}, Resolution.MS, {"window"}),
        ({"refresh.start_offset": "20", "refresh.end_offset": "0"}, Resolution.MS, set()),
        ({"refresh.start_offset": "2 s", "refresh.end_offset": "100"}, Resolution.MS, {"offset"}),
    ],
)
def test_offsets_over_integers_are_in_the_columns_unit(
    properties: dict[str, str], resolution: Resolution, wrong: set[str]
) -> None:
    """
    Plain integers take integers and no schedule; with a resolution lengths of time are understood, but not mixed.
    """
    assert wrong == codes(properties, GridSpec(Width(ticks=10)), resolution)


AGES = st.tuples(st.none() | st.integers(20, 30), st.none() | st.integers(0, 29))


@given(AGES, AGES)
def test_policies_overlap_when_they_share_an_age(left: tuple, right: tuple) -> None:
    """
    As sets of ages two policies are equal, or share some, or share none.
    """
    ages = [set(range(-1 if end is None else end, 32 if start is None else start)) for start, end in (left, right)]
    assume(all(ages))
    wanted = {"exists"} if ages[0] == ages[1] else {"overlap"} if ages[0] & ages[1] else set()

    assert wanted == codes(of_ages(left, right), GridSpec(Width(ticks=1))) - {"window"}


@given(NOWS, st.integers(1, 60), st.integers(0, 600), st.integers(1, 600))
def test_two_buckets_are_enough_for_one_whole_bucket(now: int, width: int, end: int, length: int) -> None:
    """
    A window that is not refused holds a whole bucket whenever it is asked.
    """
    grid = build(GridSpec(Width(micros=width * MINUTE)), TS)
    properties = {"refresh.start_offset": f"{end + length} min", "refresh.end_offset": f"{end} min"}
    wrong = codes(properties, grid.spec)

    assert wrong == ({"window"} if length < 2 * width else set())
    if not wrong:
        assert refresh_window(*_only(properties), now, grid) is not None


def _only(properties: dict[str, str]) -> tuple[Policy, tuple[Policy, ...]]:
    policies = policies_in(properties)
    return policies[0], policies


def test_all_problems_are_told_at_once_at_their_place() -> None:
    """
    Each problem stands at a property of the policy that has it; half a policy is not judged.
    """
    text = """CREATE MATERIALIZED VIEW v TBLPROPERTIES (
'refresh.start_offset' = '1 hour', 'refresh.end_offset' = '1 day',
'refresh.a.start_offset' = '20 days', 'refresh.a.end_offset' = '10 days',
'refresh.b.start_offset' = '15 days', 'refresh.b.end_offset' = '12 days',
'refresh.c.start_ofset' = '40 days', 'refresh.c.end_offset' = '30 days',
'refresh.max_staleness' = '7')
AS SELECT window.start AS b, count(*) AS n FROM t GROUP BY window(ts, '1 day')"""
    with pytest.raises(DefinitionError) as caught:
        parse_definitions(text)
    with pytest.raises(DefinitionError) as again:
        parse_definitions(text.replace("'7'", "'7 days'"))

    found = [(p.line, p.code.removeprefix("definition.")) for p in caught.value.problems]
    assert found == [(5, "unknown-property"), (6, "policy-offset")]
    assert "refresh.c.start_offset" in caught.value.problems[0].hint
    found = [(p.line, p.code.removeprefix("definition.")) for p in again.value.problems]
    assert found == [(2, "policy-window"), (4, "policy-overlap"), (5, "unknown-property")]


def test_an_engine_has_policies_too() -> None:
    """
    What does not depend on slices is refused when the definition is read.
    """
    given = {"engine": "time_series", "time": "ts", "window_size": "1 minute", "step": "1 minute"}
    measures = {"n": "count(*)"}
    fine = {"refresh.start_offset": "7 days", "refresh.schedule": "@daily"}
    spec = define_engine("v", "t", measures=measures, properties=fine, **given)

    assert policies_of(spec) == (Policy("default", Width(days=7), None, "@daily"),)
    with pytest.raises(DefinitionError, match="policy-window"):
        define_engine("v", "t", measures=measures, properties=fine | {"refresh.end_offset": "8 days"}, **given)


# -- now -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g.time_type} {g.describe()}")
@given(now=NOWS)
def test_now_is_read_as_it_was_shown(grid: Grid, now: int) -> None:
    """
    What a run of a policy says of its *now* gives the same *now* again.
    """
    assert now == read_now(render_now(now, grid), grid)


def test_now_of_integers_is_in_their_ticks_or_a_time() -> None:
    """
    A plain integer needs an integer; with a resolution a time is understood too.
    """
    plain = build(GridSpec(Width(ticks=10)), TimeType.INT)
    millis = build(GridSpec(Width(micros=HOUR)), TimeType.BIGINT, Resolution.MS)

    assert (1200, False) == (read_now("1200", plain), has_clock(plain))
    assert us("1970-01-01T00:00:01.2Z") == read_now(1200, millis) == read_now("1970-01-01T00:00:01.2Z", millis)
    for told, grid in (("2024-01-01", plain), ("soon", HOURLY), ("inf", HOURLY), ("1200", HOURLY)):
        with pytest.raises(PolicyNowError):
            read_now(told, grid)


# -- windows -------------------------------------------------------------------------------------------------------------


def naive_back(now: int, offset: Width, zone: str) -> int:
    """Return what ``datetime`` says of *now* minus months, days and time, in this order."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)
    if offset.months or offset.days:
        local = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        for _ in range(offset.months):
            first = local.replace(day=1) - timedelta(days=1)
            local = local.replace(year=first.year, month=first.month, day=1)
        day = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)).astimezone(ZoneInfo(zone)).day
        last = ((local.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)).day
        local = local.replace(day=min(day, last)) - timedelta(days=offset.days)
        at = local.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) - offset.micros


OFFSETS = st.builds(Width, st.integers(0, 30), st.integers(0, 400), st.integers(-3 * DAY, 3 * DAY))


@given(NOWS, OFFSETS, st.sampled_from(ZONES))
def test_a_window_starts_where_the_calendar_says(now: int, offset: Width, zone: str) -> None:
    """
    Months and days go back on the wall clock of the zone, the rest is time passed.
    """
    grid = build(GridSpec(Width(days=1), zone), TS)

    assert window(Policy("p", offset), now, grid) == Span(naive_back(now, offset, zone), POS_INF)


@pytest.mark.parametrize(
    ("now", "offset", "zone", "start"),
    [
        ("2024-03-31T12:00:00Z", Width(months=1), "UTC", "2024-02-29T12:00:00Z"),
        ("2024-01-31T12:00:00Z", Width(months=11), "UTC", "2023-02-28T12:00:00Z"),
        ("2024-03-11T12:00:00Z", Width(days=1), "America/New_York", "2024-03-10T12:00:00Z"),
        ("2024-03-11T12:00:00Z", Width(days=2), "America/New_York", "2024-03-09T13:00:00Z"),
        ("2024-03-11T06:30:00Z", Width(days=1), "America/New_York", "2024-03-10T07:30:00Z"),
        ("2024-03-11T07:30:00Z", Width(days=1), "America/New_York", "2024-03-10T07:30:00Z"),
        ("2024-11-04T06:30:00Z", Width(days=1), "America/New_York", "2024-11-03T05:30:00Z"),
        ("2024-11-04T07:30:00Z", Width(days=1), "America/New_York", "2024-11-03T07:30:00Z"),
    ],
)
def test_month_ends_and_clock_changes(now: str, offset: Width, zone: str, start: str) -> None:
    """
    A missing day is the month's last; a time that is skipped is read as before the jump, a repeated one the first time.
    """
    grid = build(GridSpec(Width(days=1), zone), TS)

    assert window(Policy("p", offset), us(now), grid) == Span(us(start), POS_INF)


def test_ends_beyond_the_type_are_open() -> None:
    """
    Offsets saturate; a window that the column cannot hold at all is none.
    """
    grid = build(GridSpec(Width(ticks=10)), TimeType.SMALLINT)

    assert window(Policy("p", Width(ticks=40_000), Width(ticks=-40_000)), 0, grid) == Span(NEG_INF, POS_INF)
    assert window(Policy("p", Width(ticks=50_000), Width(ticks=40_000)), 0, grid) is None


def cuts(grid: Grid) -> st.SearchStrategy[list[Width]]:
    """Offsets of one unit, ascending and at least two buckets apart."""
    unit = 60 if grid.spec.width.months else 14 if grid.spec.width.days == 7 else 2
    numbers = st.lists(st.integers(0, 12), min_size=2, max_size=4, unique=True).map(sorted)
    if grid.spec.width.micros:
        return numbers.map(lambda found: [Width(micros=n * unit * HOUR) for n in found])
    if grid.spec.width.ticks:
        return numbers.map(lambda found: [Width(ticks=n * unit * 60 + 7) for n in found])
    days = numbers.map(lambda found: [Width(days=n * unit, micros=17 * MINUTE) for n in found])
    return days | numbers.map(lambda found: [Width(months=2 * n) for n in found]) if grid.spec.width.months else days


@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g.time_type} {g.describe()}")
@given(data=st.data(), now=NOWS)
def test_policies_that_touch_leave_no_bucket_uncovered(grid: Grid, data: st.DataObject, now: int) -> None:
    """
    Their windows are disjoint, and together they are the whole buckets of the window that one policy would have.
    """
    offsets = data.draw(cuts(grid))
    policies = named(*((start, end) for end, start in pairwise(offsets)))
    windows = [w for p in policies if (w := refresh_window(p, policies, now, grid))]
    one = (Policy("all", offsets[-1], offsets[0]),)
    whole = SpanSet.of(*(w for p in one if (w := refresh_window(p, one, now, grid))))

    assert SpanSet.of(*windows) == whole
    assert sum(w.end - w.start for w in windows) == sum(w.end - w.start for w in whole)
    assert not beyond(policies, now, grid) & whole


@given(NOWS)
def test_a_policy_that_is_not_the_newest_ends_with_its_bucket(now: int) -> None:
    """
    The newest ends before the bucket that is not over yet; the others take theirs whole.
    """
    policies = named((Width(days=2), Width(days=1)), (Width(days=9), Width(days=5)))
    newest, oldest = (refresh_window(p, policies, now, HOURLY) for p in policies)

    assert newest.end == HOURLY.edge_at(now - DAY)
    assert oldest.end == HOURLY.edge_from(now - 5 * DAY)
    gaps = [Span(NEG_INF, oldest.start), Span(oldest.end, newest.start)]
    assert beyond(policies, now, HOURLY) == SpanSet.of(*gaps)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(20, 60)), min_size=1, max_size=4), st.integers(-500, 500))
def test_what_is_beyond_every_policy_is_told_instant_by_instant(parts: list[tuple[int, int]], now: int) -> None:
    """
    Older than the newest window's end, and in no window.
    """
    grid = build(GridSpec(Width(ticks=10)), TimeType.BIGINT)
    policies = policies_in(of_ages(*((end + length, end) for end, length in parts)))
    windows = [w for p in policies if (w := refresh_window(p, policies, now, grid))]
    newest = max(w.end for w in windows)
    found = beyond(policies, now, grid)

    for at in range(now - 450, now + 50):
        assert (at in found) == (at < newest and not any(at in w for w in windows))


def test_offsets_are_shown_as_they_are_written() -> None:
    """
    What is shown of an offset can be written as one.
    """
    for text in ("7 days", "1 h 30 min", "none", "100", "1 month"):
        (policy,) = policies_in({"refresh.start_offset": text})
        (again,) = policies_in({"refresh.start_offset": describe_offset(policy.start_offset)})
        assert policy == again


def test_instants_of_integers_are_microseconds_of_the_clock() -> None:
    """
    With a resolution ticks are converted, plain integers stay.
    """
    assert micros_of(3, build(GridSpec(Width(micros=HOUR)), TimeType.BIGINT, Resolution.S)) == 3_000_000
    assert micros_of(3, build(GridSpec(Width(ticks=10)), TimeType.BIGINT)) == 3
