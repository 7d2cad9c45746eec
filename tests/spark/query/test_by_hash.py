"""Partials that are aggregated by hash: right where no group is called tied, and tied only where an instant has two values."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.compiled.by_hash import TIED, by_hash
from materializer.spark.query import compute as c
from materializer.spark.query.by_hash import partials_by_hash, partials_of_groups
from tests.spark.query.by_hash_world import ALL, HARD, STARTS, defined, drawn

if TYPE_CHECKING:
    from materializer.core.compiled.definition import Definition

MEASURES: Final = "first(x) AS a, last(x) FILTER (WHERE n > 0) AS z, count(*) AS rows"


def by_group(table: pa.Table, definition: Definition) -> dict[Any, dict[str, Any]]:
    """Return rows by group, so that NaN equals NaN, and both zeros are one."""
    rows = table.to_pylist()
    return {tuple(row[n] for n in definition.group_columns): row | {"all": shown(row)} for row in rows}


def shown(row: dict[str, Any]) -> str:
    """Return the partials of a row as text."""
    return str({n: v for n, v in row.items() if n != TIED}).replace("-0.0", "0.0")


def tied_by_hand(rows: list[dict[str, Any]], ends: list[tuple[Any, Any]]) -> bool:
    """Whether rows of an extreme instant of a group differ in *x*, or in *n*, which decides among equal times."""
    for extreme, is_given in ends:
        given = [row for row in rows if is_given(row)]
        at = extreme((row["ts"] for row in given), default=None)
        first = [row for row in given if row["ts"] == at]
        if len({(r["n"], None if r["x"] is None else struct.pack("d", r["x"] + 0.0)) for r in first}) > 1:
            return True
    return False


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "bucket",
    [
        "time_bucket('1 minute', ts)",
        "time_bucket('1 hour', ts)",
        "time_bucket('1 month', ts)",
        "time_bucket('1 day', ts, 'Europe/Berlin')",
        "time_bucket('1 month', ts, 'America/New_York')",
        "time_bucket('7 days', day)",
        "time_bucket('1 hour', wall)",
        "time_bucket(10, i)",
    ],
)
def test_groups_by_hash_are_those_from_structs_where_they_are_not_tied(spark, tmp_path, bucket) -> None:
    """
    Groups that are not tied have the partials of the struct form, on grids of every kind; the tied ones get them afterwards.
    """
    rows = drawn(random.Random(bucket), 400, keys=100)
    definition = defined(spark, tmp_path, rows, f"SELECT {bucket} AS at, k, {MEASURES} FROM t GROUP BY {bucket}, k")
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    form = by_hash(definition)
    assert form is not None

    quick = c.to_arrow(partials_by_hash(definition, form, frame, ALL))
    whole = by_group(c.to_arrow(c.build(definition, frame, ALL)), definition)
    tied = quick.filter(quick[TIED])
    types = dict(definition.partial_columns)
    groups = c.frame_of(spark, tied.select(definition.group_columns), {n: types[n] for n in definition.group_columns})
    again = by_group(c.to_arrow(partials_of_groups(definition, frame, ALL, groups)), definition)

    found = by_group(quick, definition)
    assert found.keys() == whole.keys()
    assert again.keys() == {group for group, row in found.items() if row[TIED]}
    for group, row in found.items():
        assert whole[group]["all"] == (again[group] if row[TIED] else row)["all"]
    assert 0 < tied.num_rows < quick.num_rows


def test_a_group_is_tied_only_if_rows_of_its_extreme_instant_differ(spark, tmp_path) -> None:
    """
    Equal rows of one instant are no tie, also if their values are null or NaN; a double loop agrees about every group.
    """
    rows = drawn(random.Random(1), 150)
    definition = defined(
        spark,
        tmp_path,
        rows,
        "SELECT window.start AS at, k, first(x) AS a, last(x) FILTER (WHERE n > 0) AS z FROM t GROUP BY window(ts, '1 minute'), k",
    )
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    form = by_hash(definition)
    assert form is not None

    found = by_group(c.to_arrow(partials_by_hash(definition, form, frame, ALL)), definition)

    ends = [(min, lambda _: True), (max, lambda row: (row["n"] or 0) > 0)]
    for (at, key), row in found.items():
        inside = [r for r in rows if r["k"] == key and at <= r["ts"] < at + dt.timedelta(minutes=1)]
        assert tied_by_hand(inside, ends) == row[TIED], (at, key)


@pytest.mark.parametrize(
    ("measures", "is_there"),
    [
        ("first(x) AS a", True),
        ("first(n) AS a, last(f) AS b", True),
        ("first(d) AS a, last(b) AS b, any_value(day) AS c", True),
        ("first(CAST(n AS DECIMAL(19,0))) AS a", False),
        ("sum(x) AS a", False),
        ("first(name) AS a", False),
        ("first(x) AS a, min(name) AS b", False),
        ("min_by(x, n) AS a", False),
        ("first(x) AS a, collect_list(n) AS b", False),
    ],
)
def test_only_what_hashing_has_a_place_for_is_aggregated_by_hash(spark, tmp_path, measures, is_there) -> None:
    """
    Texts and lists have no place in Spark's hash aggregation, and without ``first`` and ``last`` nothing is gained.
    """
    definition = defined(
        spark,
        tmp_path,
        drawn(random.Random(2), 1),
        f"SELECT window.start AS at, {measures} FROM t GROUP BY window(ts, '1 minute')",
    )

    assert is_there == (by_hash(definition) is not None)


PRIMES: Final = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)
MOST: Final = (1 << 64) - 1


def unhashed(value: int, size: int = 8) -> int:
    """Return the bits of a number of *size* bytes, 8 or 4, with a hash: each step of XXH64, undone."""
    inverse = [pow(p, -1, 1 << 64) for p in PRIMES]

    def back(of: int, by: int) -> int:
        found = of
        for _ in range(64 // by + 1):
            found = of ^ (found >> by)
        return found

    def turned(of: int, by: int) -> int:
        return (of >> by | of << (64 - by)) & MOST

    h = back(value & MOST, 32) * inverse[2] & MOST
    h = back(back(h, 29) * inverse[1] & MOST, 33)
    if size == 8:
        h = turned((h - PRIMES[3]) * inverse[0] & MOST, 27) ^ (42 + PRIMES[4] + 8) & MOST
        return turned(h * inverse[0] & MOST, 31) * inverse[1] & MOST
    h = turned((h - PRIMES[2]) * inverse[1] & MOST, 23) ^ (42 + PRIMES[4] + 4) & MOST
    return h * inverse[0] & MOST


@pytest.mark.parametrize(
    ("kind", "size", "bits"),
    [
        ("double", 8, None),
        ("float", 4, None),
        ("bigint", 8, "x"),
        ("int", 4, "x"),
        ("smallint", 4, "CAST(x AS INT)"),
        ("tinyint", 4, "CAST(x AS INT)"),
        ("boolean", 4, "CAST(x AS INT)"),
        ("date", 4, "unix_date(x)"),
        ("timestamp", 8, "unix_micros(x)"),
        ("timestamp_ntz", 8, "unix_micros(CAST(x AS TIMESTAMP))"),
        ("decimal(18,2)", 8, "CAST(x * 100 AS BIGINT)"),
    ],
)
def test_a_hash_can_be_undone(spark, kind, size, bits) -> None:
    """
    Different values of a type have different hashes, because from each hash the bits of its value are found again.
    """
    rng, whole = random.Random(3), bits is not None
    drawn_values = [rng.randrange(-100, 100) for _ in range(50)] + (
        [] if kind in {"tinyint", "boolean"} else [2**14, -(2**14)]
    )
    hard = [v for v in HARD if v and not math.isnan(v)]
    values: list[Any] = drawn_values if whole else [*map(float, drawn_values), *hard]
    schema = "v bigint" if whole else "v double"
    typed = f"CAST(CAST(v AS TIMESTAMP) AS {kind})" if kind in {"date", "timestamp_ntz"} else f"CAST(v AS {kind})"
    frame = spark.createDataFrame([(v,) for v in values], schema).selectExpr(f"{typed} AS x")

    found = frame.selectExpr("xxhash64(x) AS h", f"{bits or 'x'} AS bits").collect()

    code = {8: "<d", 4: "<f"}[size]
    for row in found:
        number = row["bits"].to_bytes(size, "little", signed=True) if whole else struct.pack(code, row["bits"])
        assert int.from_bytes(number, "little") == unhashed(row["h"], size), row


@pytest.mark.one_of(2)
@pytest.mark.parametrize("often", [False, True], ids=["few ties", "many ties"])
def test_columns_of_a_source_may_have_the_names_of_ours(spark, tmp_path, often) -> None:
    """
    A source may have columns that are called like those of the partials, and like the scratch columns of the form.
    """
    rng, count = random.Random(8), 60_000
    seconds = 60 if often else 3_600
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    steps = [start + dt.timedelta(milliseconds=rng.randrange(seconds) * (1_000 if often else 1)) for _ in range(count)]
    names = {"slice": [rng.randrange(3) for _ in range(count)], "K_k": [rng.random() for _ in range(count)]}
    rows = {"ts": pa.array(steps, pa.timestamp("us", tz="UTC")), "k": [rng.randrange(20) for _ in range(count)]}
    write_deltalake(str(tmp_path / "t"), pa.table(rows | names | {"a0": names["K_k"]}))
    config = Config(lake=str(tmp_path / "lake"), sources={"t": str(tmp_path / "t")}, executor="spark")
    m = Materializer(config=config, spark=spark)
    measures = "first(K_k) AS a, last(slice) AS z, max(a0) AS most"
    m.apply(
        f"CREATE MATERIALIZED VIEW a AS SELECT window.start AS at, k, {measures} FROM t GROUP BY window(ts, '1 minute'), k"
    )

    m.refresh("a")

    assert m.verify("a").is_equal


@pytest.mark.one_of(3)
@pytest.mark.parametrize("lowest", [0, 40, 60])
def test_values_that_share_most_bits_of_their_hash_are_tied(spark, tmp_path, lowest) -> None:
    """
    All bits of the hash are compared: values that were made to differ in three of them only are different values.
    """
    hashes = [0x1234567890ABCDEF ^ (bits << lowest) for bits in (0, 7)]
    numbers = [int.from_bytes(unhashed(h).to_bytes(8, "little"), "little", signed=True) for h in hashes]
    template = drawn(random.Random(5), 1)[0] | {"ts": STARTS[0], "k": 1}
    rows = [template | {"n": n} for n in numbers]
    definition = defined(
        spark, tmp_path, rows, "SELECT window.start AS at, first(n) AS a FROM t GROUP BY window(ts, '1 minute')"
    )
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    form = by_hash(definition)
    assert form is not None

    (found,) = c.to_arrow(partials_by_hash(definition, form, frame, ALL)).to_pylist()

    assert numbers[0] != numbers[1]
    assert found[TIED]


def test_a_null_and_the_value_with_its_hash_are_tied(spark, tmp_path) -> None:
    """
    The hash of a null is 42; the one number whose hash is 42, too, is another value.
    """
    number = int.from_bytes(unhashed(42).to_bytes(8, "little"), "little", signed=True)
    template = drawn(random.Random(6), 1)[0] | {"ts": STARTS[0]}
    definition = defined(
        spark,
        tmp_path,
        [template | {"n": number}, template | {"n": None}],
        "SELECT window.start AS at, first(n) AS a FROM t GROUP BY window(ts, '1 minute')",
    )
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    form = by_hash(definition)
    assert form is not None

    (found,) = c.to_arrow(partials_by_hash(definition, form, frame, ALL)).to_pylist()

    assert [42, 42] == [row[0] for row in frame.selectExpr("xxhash64(n)").collect()]
    assert found[TIED]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("often", [False, True], ids=["few ties", "many ties"])
def test_a_large_refresh_settles_its_ties(spark, tmp_path, often) -> None:
    """
    A refresh of many rows has the rows of plain Spark, whether few groups are tied or most.
    """
    rng = random.Random(4)
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    steps = 6 if often else 6_000
    rows = pa.table(
        {
            "ts": pa.array(
                [
                    start + dt.timedelta(seconds=rng.randrange(60 * steps) / (1 if often else 100))
                    for _ in range(60_000)
                ],
                pa.timestamp("us", tz="UTC"),
            ),
            "k": pa.array([rng.randrange(50) for _ in range(60_000)], pa.int32()),
            "x": [rng.choice([1.0, 2.0, math.nan]) for _ in range(60_000)],
        }
    )
    write_deltalake(str(tmp_path / "t"), rows)
    config = Config(lake=str(tmp_path / "lake"), sources={"t": str(tmp_path / "t")}, executor="spark")
    m = Materializer(config=config, spark=spark)
    m.apply(
        "CREATE MATERIALIZED VIEW a AS SELECT window.start AS at, k, first(x) AS a, last(x) AS z, sum(x) AS s FROM t GROUP BY window(ts, '1 minute'), k HAVING count(*) > 1"
    )

    report = m.refresh("a")
    verdict = m.verify("a")

    assert (0, True) == (verdict.differing, verdict.rows > 0)
    assert 60_000 == sum(run.report.rows_read for run in report.runs)
