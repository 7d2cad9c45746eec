"""The SQL of a grid, run by Spark, against the grid."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from materializer.core.compiled.bucket_sql import (
    bucket_end_sql,
    bucket_start_sql,
    instant_of_sql,
    instant_sql,
    spans_sql,
)
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.grid import Grid, limits_of
from materializer.core.time.instants import DAY, parse
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.spark.runtime.session import work_session
from tests.grids import FROM, STAMP, TO, ZONES, instants, make_grid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = {
    TimeType.DATE: f"date_from_unix_date(CAST(i div {DAY} AS INT))",
    TimeType.TIMESTAMP: "timestamp_micros(i)",
    TimeType.TIMESTAMP_NTZ: "CAST(timestamp_micros(i) AS TIMESTAMP_NTZ)",
    TimeType.SMALLINT: "CAST(i AS SMALLINT)",
    TimeType.INT: "CAST(i AS INT)",
    TimeType.BIGINT: "i",
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session in the state that work runs in."""
    return work_session(spark)


def assert_agrees(session: SparkSession, grid: Grid, low: int, high: int, inside: SpanSet) -> None:
    """Start and end by SQL are those of the grid, in the column's own type, in one query."""
    ticks = instants(random.Random(1), grid, low, high, inside)
    time_type = grid.time_type
    rows = session.createDataFrame([(i,) for i in ticks], "i BIGINT").selectExpr("i", f"{SOURCE[time_type]} AS t")
    started = rows.selectExpr("i", "t", f"{bucket_start_sql(grid, 't', inside)} AS s")
    both = started.selectExpr("i", "t", "s", f"{bucket_end_sql(grid, 's', inside)} AS e")
    for name in ("t", "s", "e"):
        assert both.schema[name].dataType == both.schema["t"].dataType
    found = both.selectExpr("i", *(f"{instant_of_sql(c, time_type)} AS {c}" for c in "tse")).collect()

    assert len(found) == len(ticks) > 50
    most = limits_of(time_type).end - 1
    for row in found:
        assert row["t"] == row["i"]
        assert row["s"] == grid.floor(row["i"]), (grid.describe(), row)
        end = grid.next(row["s"])
        assert row["e"] == (min(end, most) if time_type.is_integer else end), (grid.describe(), row)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("width", ["7 minutes", "1 day", "1 week", "1 month", "5 months", "1 year"])
@pytest.mark.parametrize("time_type", [TimeType.DATE, TimeType.TIMESTAMP, TimeType.TIMESTAMP_NTZ])
def test_grids_without_zone(session: SparkSession, width: str, time_type: TimeType) -> None:
    """Dates and timestamps, before and after 1970, get the grid's buckets."""
    if time_type is TimeType.DATE and "minutes" in width:
        width = "11 days"
    grid = make_grid(width, time_type, offset="3 days" if "month" in width else None)

    assert_agrees(session, grid, parse("0300-01-01", STAMP), parse("9990-01-01", STAMP), SpanSet.of(EVERYTHING))


@pytest.mark.one_of(4)
@pytest.mark.parametrize("time_type", [TimeType.SMALLINT, TimeType.INT, TimeType.BIGINT])
@pytest.mark.parametrize(("width", "offset"), [("10", None), ("7", "5"), ("1000", "-3")])
def test_integers_to_their_limits(session: SparkSession, time_type: TimeType, width: str, offset: str | None) -> None:
    """Nothing overflows, not even next to the ends of 64 bits; ends are held by the type."""
    grid = make_grid(width, time_type, offset=offset)
    limits = limits_of(time_type)
    margin = 2 * int(width)

    for low, high in (
        (limits.start, limits.end),
        (limits.end - 40 * margin, limits.end - margin),
        (limits.start + margin, limits.start + 40 * margin),
        (-2000, 2000),
    ):
        assert_agrees(session, grid, low, high, SpanSet.of(Span(limits.start + margin, limits.end - 10)))


@pytest.mark.one_of(4)
@pytest.mark.parametrize(("zone", "width", "offset"), ZONES)
@pytest.mark.parametrize("is_open", [True, False])
def test_grids_in_zones(session: SparkSession, zone: str, width: str, offset: str | None, *, is_open: bool) -> None:
    """Local buckets are the grid's around each transition, whatever zone data the JVM brings."""
    grid = make_grid(width, zone=zone, offset=offset)
    some = [Span(parse(f"{y}-02-27T01:23:45", STAMP), parse(f"{y + 3}-11-05", STAMP)) for y in (1967, 1999, 2010, 2023)]

    assert_agrees(session, grid, FROM, TO, SpanSet.of(EVERYTHING) if is_open else SpanSet.union(some))


@pytest.mark.one_of(4)
@pytest.mark.parametrize("resolution", [Resolution.S, Resolution.MS, Resolution.US, Resolution.NS])
@pytest.mark.parametrize(("zone", "width"), [(None, "1 hour"), (None, "1 month"), ("Europe/Berlin", "1 day")])
def test_integer_columns_with_a_resolution(
    session: SparkSession, resolution: Resolution, zone: str | None, width: str
) -> None:
    """Ticks get buckets of time in ticks."""
    grid = make_grid(width, TimeType.BIGINT, zone, resolution=resolution)
    low, high = (parse(t, TimeType.BIGINT, resolution) for t in ("1900-01-01", "2200-01-01"))

    assert_agrees(session, grid, low, high, SpanSet.of(EVERYTHING))


def test_null_has_no_bucket(session: SparkSession) -> None:
    """A row without a time comes out without a bucket."""
    for grid in (make_grid("1 hour"), make_grid("1 month"), make_grid("1 day", zone="Europe/Berlin")):
        sql = bucket_start_sql(grid, "CAST(NULL AS TIMESTAMP)", SpanSet.of(EVERYTHING))
        end = bucket_end_sql(grid, "CAST(NULL AS TIMESTAMP)", SpanSet.of(EVERYTHING))
        assert tuple(session.sql(f"SELECT {sql}, {end}").collect()[0]) == (None, None)


def test_a_text_stays_small_for_a_run_of_a_few_years() -> None:
    """A zone costs a few cases a year, and nothing where all its offsets divide alike."""
    years = SpanSet.of(Span(parse("2020-01-01", STAMP), parse("2025-01-01", STAMP)))

    assert len(bucket_start_sql(make_grid("1 day", zone="Europe/Berlin"), "t", years)) < 4000
    assert "CASE" not in bucket_start_sql(make_grid("1 hour", zone="Europe/Berlin"), "t", years)


@pytest.mark.parametrize("time_type", list(TimeType))
def test_literals_are_the_values_of_their_instants(session: SparkSession, time_type: TimeType) -> None:
    """A literal is read back as its instant and has the column's type, at both ends of the type too."""
    limits = limits_of(time_type) & Span(-(2**63), 2**63)
    assert limits
    unit = DAY if time_type is TimeType.DATE else 1
    values = [-(-limits.start // unit) * unit, -unit, 0, unit, 19783 * DAY, (limits.end - 1) // unit * unit]
    held = [v for v in values if v in limits]
    row = session.sql("SELECT " + ", ".join(f"{instant_sql(time_type, v)} AS c{i}" for i, v in enumerate(held)))

    assert {f.dataType.simpleString() for f in row.schema} == {str(time_type)}
    assert list(row.selectExpr(*(instant_of_sql(c, time_type) for c in row.columns)).collect()[0]) == held


def test_no_literal_for_what_the_type_cannot_hold() -> None:
    """Infinities, times of day for dates, and numbers beyond the type are the caller's mistakes."""
    for time_type, instant in ((STAMP, POS_INF), (STAMP, NEG_INF), (TimeType.DATE, 1), (TimeType.SMALLINT, 2**15)):
        with pytest.raises(ValueError, match="is no instant"):
            instant_sql(time_type, instant)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("time_type", list(TimeType))
def test_predicates_hold_for_what_lies_in_the_spans(session: SparkSession, time_type: TimeType) -> None:
    """The predicate selects the values of the spans, leaves out null, and copes with open and unreachable ends."""
    unit = DAY if time_type is TimeType.DATE else 1
    ticks = [i * unit for i in range(-50, 50)]
    rows = session.createDataFrame([*((i,) for i in ticks), (None,)], "i BIGINT")
    rows = rows.selectExpr("i", f"{SOURCE[time_type]} AS t")
    for spans in (
        SpanSet(),
        SpanSet.of(EVERYTHING),
        SpanSet.of(Span(-7 * unit, 9 * unit)),
        SpanSet.of(Span(NEG_INF, -20 * unit), Span(-3 * unit, 4 * unit), Span(30 * unit, POS_INF)),
        SpanSet.of(Span(-(2**68), 5 * unit), Span(2**68, 2**69)),
        SpanSet.of(Span(-3 * unit - 1, 2 * unit + 1)),
    ):
        found = rows.where(spans_sql("t", spans, time_type)).select("i").collect()
        assert sorted(r["i"] for r in found) == [i for i in ticks if i in spans]


def test_delta_skips_files_by_the_predicate(session: SparkSession, tmp_path: Path) -> None:
    """The comparisons reach Delta as literals: a replaced and a read span touch only the files that overlap it."""
    path = str(tmp_path / "skipped")
    for start in range(3):
        frame = session.range(start * 100, start * 100 + 100).selectExpr("timestamp_micros(id * 1000000) AS t", "id")
        frame.coalesce(1).write.format("delta").mode("append").save(path)
    predicate = spans_sql("t", SpanSet.of(Span(110 * 10**6, 120 * 10**6), Span(500 * 10**6, POS_INF)), STAMP)

    files = session.read.format("delta").load(path).where(predicate).selectExpr("_metadata.file_path").distinct()
    assert files.count() == 1
    deleted = session.sql(f"DELETE FROM delta.`{path}` WHERE {predicate}")
    assert deleted.collect()[0][0] == 10
    metrics = session.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]["operationMetrics"]
    assert metrics["numRemovedFiles"] == "1"
