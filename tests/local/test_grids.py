"""The SQL of a grid, compiled for DuckDB, against the grid."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from materializer.core.compiled.bucket_sql import (
    bucket_end_sql,
    bucket_start_sql,
    clock_of_end,
    clock_of_start,
    spans_sql,
)
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.grid import Grid, limits_of
from materializer.core.time.instants import DAY, parse
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.lake.extent import instants_of
from materializer.local.clocks import CLOCK_COLUMNS, with_clock
from materializer.local.connection import Connection, connected
from materializer.local.expressions import compiled
from materializer.local.kinds import kind_of
from materializer.local.scope import Scope
from tests.grids import FROM, STAMP, TO, ZONES, instants, make_grid

ARROW = {
    TimeType.DATE: pa.date32(),
    TimeType.TIMESTAMP: pa.timestamp("us", "UTC"),
    TimeType.TIMESTAMP_NTZ: pa.timestamp("us"),
    TimeType.SMALLINT: pa.int16(),
    TimeType.INT: pa.int32(),
    TimeType.BIGINT: pa.int64(),
}


def times(ticks: list[int | None], time_type: TimeType) -> pa.Array:
    """Return instants as values of a type of time."""
    if time_type is TimeType.DATE:
        return pa.array([None if t is None else t // DAY for t in ticks], pa.int32()).cast(pa.date32())
    return pa.array(ticks, pa.int64()).cast(ARROW[time_type])


def assert_agrees(grid: Grid, low: int, high: int, inside: SpanSet) -> None:
    """Start and end by SQL are those of the grid, in the column's own type."""
    ticks = instants(random.Random(1), grid, low, high, inside)
    time_type = grid.time_type
    scope = Scope({name: kind_of(str(time_type)) for name in ("t", "s")})
    start, end = (
        compiled(make(grid, c, inside), scope) for make, c in ((bucket_start_sql, "t"), (bucket_end_sql, "s"))
    )
    assert start.kind == end.kind == kind_of(str(time_type))
    con = connected()
    con.register("rows", pa.table({"i": pa.array(ticks, pa.int64()), "t": times(ticks, time_type)}))
    sql = f"SELECT i, s, {end.sql} AS e FROM (SELECT i, t, {start.sql} AS s FROM rows) ORDER BY i"
    assert_same(grid, ticks, con.sql(sql).to_arrow_table())


def assert_agrees_on_clock(grid: Grid, low: int, high: int, inside: SpanSet) -> None:
    """Start and end that are looked up in joined changes of the clock are those of the grid; a null time has neither."""
    ticks = instants(random.Random(1), grid, low, high, inside)
    kind = kind_of(str(grid.time_type))
    connection = Connection(connected())
    connection.register(
        "rows", pa.table({"i": pa.array([*ticks, None], pa.int64()), "t": times([*ticks, None], grid.time_type)})
    )
    rows = "SELECT * FROM rows"
    for column, edge, of in (("t", "s", clock_of_start), ("s", "e", clock_of_end)):
        clock = of(grid, column, inside)
        assert clock is not None
        joined = with_clock(connection, f"clock_{edge}", rows, clock, compiled(clock.micros, Scope({column: kind})).sql)
        found = compiled(clock.edge, Scope(CLOCK_COLUMNS))
        assert found.kind == kind
        rows = f"SELECT * EXCLUDE ({', '.join(CLOCK_COLUMNS)}), {found.sql} AS {edge} FROM ({joined})"
    table = connection.query(f"{rows} ORDER BY i NULLS LAST")
    assert [None] * 4 == list(table.slice(len(ticks)).to_pylist()[0].values())
    assert_same(grid, ticks, table.slice(0, len(ticks)))


def assert_same(grid: Grid, ticks: list[int], found: pa.Table) -> None:
    """The starts and ends that were found of ticks are those of the grid."""
    time_type = grid.time_type
    assert found.num_rows == len(ticks) > 50
    most = limits_of(time_type).end - 1
    starts, ends = (instants_of(found[c], time_type).to_pylist() for c in "se")
    for at, first, last in zip(found["i"].to_pylist(), starts, ends, strict=True):
        assert first == grid.floor(at), (grid.describe(), at)
        expected = grid.next(first)
        assert last == (min(expected, most) if time_type.is_integer else expected), (grid.describe(), at)


@pytest.mark.parametrize("width", ["7 minutes", "1 day", "1 week", "1 month", "5 months", "1 year"])
@pytest.mark.parametrize("time_type", [TimeType.DATE, TimeType.TIMESTAMP, TimeType.TIMESTAMP_NTZ])
def test_grids_without_zone(width: str, time_type: TimeType) -> None:
    """
    Dates and timestamps, before and after 1970, get the grid's buckets.
    """
    if time_type is TimeType.DATE and "minutes" in width:
        width = "11 days"
    grid = make_grid(width, time_type, offset="3 days" if "month" in width else None)

    assert_agrees(grid, parse("0300-01-01", STAMP), parse("9990-01-01", STAMP), SpanSet.of(EVERYTHING))


@pytest.mark.parametrize("time_type", [TimeType.SMALLINT, TimeType.INT, TimeType.BIGINT])
@pytest.mark.parametrize(("width", "offset"), [("10", None), ("7", "5"), ("1000", "-3")])
def test_integers_to_their_limits(time_type: TimeType, width: str, offset: str | None) -> None:
    """
    Nothing overflows, not even next to the ends of 64 bits; ends are held by the type.
    """
    grid, limits, margin = make_grid(width, time_type, offset=offset), limits_of(time_type), 2 * int(width)
    for low, high in (
        (limits.start, limits.end),
        (limits.end - 40 * margin, limits.end - margin),
        (limits.start + margin, limits.start + 40 * margin),
        (-2000, 2000),
    ):
        assert_agrees(grid, low, high, SpanSet.of(Span(limits.start + margin, limits.end - 10)))


@pytest.mark.parametrize(("zone", "width", "offset"), ZONES)
@pytest.mark.parametrize("is_open", [pytest.param(True, marks=pytest.mark.slow), False])
def test_grids_in_zones(zone: str, width: str, offset: str | None, *, is_open: bool) -> None:
    """
    Local buckets are the grid's around each jump of the wall clock; many jumps are looked up in lists.
    """
    grid = make_grid(width, zone=zone, offset=offset)
    some = [Span(parse(f"{y}-02-27T01:23:45", STAMP), parse(f"{y + 3}-11-05", STAMP)) for y in (1967, 1999, 2010, 2023)]

    assert_agrees(grid, FROM, TO, SpanSet.of(EVERYTHING) if is_open else SpanSet.union(some))


@pytest.mark.parametrize(("zone", "width", "offset"), ZONES)
def test_changes_of_a_clock_are_joined(zone: str, width: str, offset: str | None) -> None:
    """
    Rows of 380 years get their buckets from a table of the changes of the clock, where cases in a text would be too many.
    """
    grid = make_grid(width, zone=zone, offset=offset)
    if clock_of_start(grid, "t", SpanSet.of(EVERYTHING)) is None:
        assert_agrees(grid, FROM, TO, SpanSet.of(EVERYTHING))  # there are few cases
        return

    assert_agrees_on_clock(grid, FROM, TO, SpanSet.of(EVERYTHING))


@pytest.mark.parametrize("resolution", [Resolution.S, Resolution.MS, Resolution.US, Resolution.NS])
def test_changes_of_a_clock_are_joined_to_ticks(resolution: Resolution) -> None:
    """
    The changes are in microseconds, whatever a tick of the column is.
    """
    grid = make_grid("1 month", TimeType.BIGINT, "Europe/Berlin", resolution=resolution)
    low, high = (parse(t, TimeType.BIGINT, resolution) for t in ("1990-01-01", "2190-01-01"))

    assert_agrees_on_clock(grid, low, high, SpanSet.of(Span(low, high)))


@pytest.mark.parametrize("resolution", [Resolution.S, Resolution.MS, Resolution.US, Resolution.NS])
@pytest.mark.parametrize(("zone", "width"), [(None, "1 hour"), (None, "1 month"), ("Europe/Berlin", "1 day")])
def test_integer_columns_with_a_resolution(resolution: Resolution, zone: str | None, width: str) -> None:
    """
    Ticks get buckets of time in ticks.
    """
    grid = make_grid(width, TimeType.BIGINT, zone, resolution=resolution)
    low, high = (parse(t, TimeType.BIGINT, resolution) for t in ("1990-01-01", "2030-01-01"))

    assert_agrees(grid, low, high, SpanSet.of(Span(low, high)))


@pytest.mark.parametrize("time_type", list(TimeType))
def test_predicates_hold_for_what_lies_in_the_spans(time_type: TimeType) -> None:
    """
    The predicate selects the values of the spans, leaves out null, and copes with open and unreachable ends.
    """
    unit = DAY if time_type is TimeType.DATE else 1
    ticks = [i * unit for i in range(-50, 50)]
    con = connected()
    con.register("rows", pa.table({"i": pa.array([*ticks, None], pa.int64()), "t": times([*ticks, None], time_type)}))
    for spans in (
        SpanSet(),
        SpanSet.of(EVERYTHING),
        SpanSet.of(Span(-7 * unit, 9 * unit)),
        SpanSet.of(Span(NEG_INF, -20 * unit), Span(-3 * unit, 4 * unit), Span(30 * unit, POS_INF)),
        SpanSet.of(Span(-(2**68), 5 * unit), Span(2**68, 2**69)),
        SpanSet.of(Span(-3 * unit - 1, 2 * unit + 1)),
    ):
        sql = compiled(spans_sql("t", spans, time_type), Scope({"t": kind_of(str(time_type))})).sql
        found = con.sql(f"SELECT i FROM rows WHERE {sql} ORDER BY i").fetchall()
        assert [i for (i,) in found] == [i for i in ticks if i in spans]
