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
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.services.aggregate import Aggregate
from materializer.spark.query import compute as c

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from materializer.core.compiled.definition import Definition

ALL: Final = SpanSet.of(EVERYTHING)
HARD: Final = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.5, -1.5, None]
STARTS: Final = [
    dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 31, 0, 30, tzinfo=dt.UTC),
    dt.datetime(2024, 10, 27, 1, tzinfo=dt.UTC),
]
SCHEMA: Final = pa.schema(
    {
        "ts": pa.timestamp("us", tz="UTC"),
        "k": pa.int32(),
        "x": pa.float64(),
        "n": pa.int64(),
        "f": pa.float32(),
        "d": pa.decimal128(18, 2),
        "b": pa.bool_(),
        "day": pa.date32(),
        "name": pa.string(),
    }
)
MEASURES: Final = "first(x) AS a, last(x) FILTER (WHERE n > 0) AS z, count(*) AS rows"


def drawn(rng: random.Random, count: int, keys: int = 2) -> list[dict[str, Any]]:
    """Return rows of few instants around three moments."""
    found = []
    for _ in range(count):
        at = rng.choice(STARTS) + dt.timedelta(
            seconds=rng.choice([0, 1, 59, 60, 4_000]), microseconds=rng.choice([0, 1])
        )
        x, n = rng.choice(HARD), rng.choice([None, 0, 2**63 - 1, -(2**63), 1])
        d = rng.choice([None, 0, 10**16 - 1, -1])
        found.append(
            {
                "ts": at,
                "k": rng.choice([None, *range(keys)]),
                "x": x,
                "n": n,
                "f": x,
                "d": d,
                "b": rng.choice([True, False, None]),
                "day": at.date(),
                "name": "a",
            }
        )
    return found


def defined(spark: SparkSession, folder: Path, rows: list[dict[str, Any]], sql: str) -> Definition:
    """Write the rows as a table, and return a definition over it."""
    write_deltalake(str(folder / "t"), pa.Table.from_pylist(rows, schema=SCHEMA))
    m = Materializer(config=Config(lake=str(folder / "lake"), sources={"t": str(folder / "t")}), spark=spark)
    m.apply(f"CREATE MATERIALIZED VIEW a AS {sql}")
    return Aggregate.of(m.journal.view().named("a"), m.root).definition


def by_group(table: pa.Table, definition: Definition) -> dict[Any, dict[str, Any]]:
    """Return rows by group, so that NaN equals NaN, and both zeros are one."""
    rows = table.to_pylist()
    return {tuple(row[n] for n in definition.group_columns): row | {"all": shown(row)} for row in rows}


def shown(row: dict[str, Any]) -> str:
    """Return the partials of a row as text."""
    return str({n: v for n, v in row.items() if n != TIED}).replace("-0.0", "0.0")


def tied_by_hand(rows: list[dict[str, Any]], values: list[tuple[str, Any, Any]]) -> bool:
    """Whether the extreme instant of a group's rows has two different values."""
    for column, extreme, is_given in values:
        given = [row for row in rows if is_given(row)]
        at = extreme((row["ts"] for row in given), default=None)
        found = {
            struct.pack("d", row[column] + 0.0) if row[column] is not None else None for row in given if row["ts"] == at
        }
        if len(found) > 1:
            return True
    return False


@pytest.mark.parametrize("window", ["1 minute", "1 hour", "1 day", "1 month"])
def test_groups_by_hash_are_those_from_structs_where_they_are_not_tied(spark, tmp_path, window) -> None:
    """
    A group is tied exactly if its first or last instant has two values; all others have the partials of the struct form.
    """
    rows = drawn(random.Random(window), 400, keys=100)
    definition = defined(
        spark, tmp_path, rows, f"SELECT window.start AS at, k, {MEASURES} FROM t GROUP BY window(ts, '{window}'), k"
    )
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    form = by_hash(definition)
    assert form is not None

    quick = c.to_arrow(c.build_by_hash(definition, form, frame, ALL))
    whole = by_group(c.to_arrow(c.build(definition, frame, ALL)), definition)
    tied = quick.filter(quick[TIED])
    types = dict(definition.partial_columns)
    groups = c.frame_of(spark, tied.select(definition.group_columns), {n: types[n] for n in definition.group_columns})
    again = by_group(c.to_arrow(c.build_groups(definition, frame, ALL, groups)), definition)

    found = by_group(quick, definition)
    assert found.keys() == whole.keys()
    assert again.keys() == {group for group, row in found.items() if row[TIED]}
    for group, row in found.items():
        assert whole[group]["all"] == (again[group] if row[TIED] else row)["all"]
    assert 0 < tied.num_rows < quick.num_rows


def test_a_group_is_tied_only_if_its_extreme_instant_has_two_values(spark, tmp_path) -> None:
    """
    Equal values of one instant are no tie, also if they are null or NaN; a double loop agrees about every group.
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

    found = by_group(c.to_arrow(c.build_by_hash(definition, form, frame, ALL)), definition)

    values = [("x", min, lambda _: True), ("x", max, lambda row: (row["n"] or 0) > 0)]
    for (at, key), row in found.items():
        inside = [r for r in rows if r["k"] == key and at <= r["ts"] < at + dt.timedelta(minutes=1)]
        assert tied_by_hand(inside, values) == row[TIED], (at, key)


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


def unhashed(value: int) -> int:
    """Return the 64 bits with a hash: each step of XXH64 for one number, undone."""
    most, primes = (1 << 64) - 1, (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579)
    inverse = [pow(p, -1, 1 << 64) for p in primes]

    def back(of: int, by: int) -> int:
        found = of
        for _ in range(64 // by + 1):
            found = of ^ (found >> by)
        return found

    def turned(of: int, by: int) -> int:
        return (of >> by | of << (64 - by)) & most

    h = back(value & most, 32) * inverse[2] & most
    h = back(back(h, 29) * inverse[1] & most, 33)
    h = turned((h - primes[3]) * inverse[0] & most, 27)
    h ^= (42 + 2870177450012600261 + 8) & most
    return turned(h * inverse[0] & most, 31) * inverse[1] & most


def hashed_values() -> Iterator[float]:
    """Yield hard and random numbers."""
    rng = random.Random(3)
    yield from (v for v in HARD if v is not None and not (v == 0 and math.copysign(1, v) < 0))
    yield from (struct.unpack("d", rng.randbytes(8))[0] for _ in range(500))


def test_a_hash_of_a_number_can_be_undone(spark) -> None:
    """
    Different numbers have different hashes, because from each hash its number is found again.
    """
    values = [v for v in hashed_values() if not math.isnan(v)]
    frame = spark.createDataFrame([(v,) for v in values], "x double")

    found = [row[0] for row in frame.selectExpr("xxhash64(x)").collect()]

    assert [struct.pack("d", v) for v in values] == [struct.pack("Q", unhashed(h)) for h in found]


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

    (found,) = c.to_arrow(c.build_by_hash(definition, form, frame, ALL)).to_pylist()

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

    (found,) = c.to_arrow(c.build_by_hash(definition, form, frame, ALL)).to_pylist()

    assert [42, 42] == [row[0] for row in frame.selectExpr("xxhash64(n)").collect()]
    assert found[TIED]


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
