"""Corrected and deleted rows: both executors subtract them from stored partials, and publish what a rebuild publishes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config
from tests.local.comparing import same

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 3, 28, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("shop", pa.float64()),
        ("v", pa.int64()),
        ("w", pa.int64()),
        ("small", pa.int16()),
        ("fee", pa.decimal128(24, 4)),
        ("x", pa.float64()),
    ]
)
SHOPS = [0.0, -0.0, float("nan"), 1.5, None]
MEASURES = (
    "sum(v) AS v, count(v) AS known, avg(w) AS calm, avg(small) AS mean, sum(fee) AS fee, count(fee) AS fees, "
    "count_if(x > 0.5) AS large, count(v, x) AS both, count(*) AS n, avg(v) FILTER (WHERE x < 0) AS below"
)
ENDS = [(1 << 62) - 1, 1 - (1 << 62), (1 << 63) - 1]


def row(choose: random.Random) -> dict[str, Any]:
    """Return a row of the first three hours; half of the averaged values lie near the ends of their type."""

    def some(value: Any) -> Any:
        return None if choose.random() < 0.2 else value

    return {
        "ts": START + timedelta(minutes=choose.randrange(180)),
        "shop": choose.choice(SHOPS),
        "v": some(choose.randint(-99, 99)),
        "w": some(choose.choice([*ENDS, choose.randint(-99, 99)])),
        "small": some(choose.randint(-(1 << 15), (1 << 15) - 1)),
        "fee": some(Decimal(choose.randint(-(10**24) + 1, 10**24 - 1)).scaleb(-4)),
        "x": some(choose.uniform(-1, 1)),
    }


def correct(table: DeltaTable, choose: random.Random) -> None:
    """Correct, refund, move or delete the rows of one value."""
    predicate = f"v = {choose.randint(-99, 99)}"
    match choose.randrange(5):
        case 0:
            table.delete(predicate)
        case 1:
            table.update(predicate=predicate, updates={"v": "-v", "fee": "-fee", "x": "-x"})
        case 2:
            table.update(predicate=predicate, updates={"shop": choose.choice(["NULL", "7.0", "0.0"])})
        case 3:
            table.update(predicate=predicate, updates={"w": "NULL", "small": "small / 2"})
        case _:
            table.update(predicate=predicate, updates={"ts": "ts + INTERVAL '1 hour'"})


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a table in their order."""
    return sorted(DeltaTable(str(folder)).to_pyarrow_table().to_pylist(), key=lambda r: repr([*r.values()][:2]))


@pytest.mark.parametrize(("seed", "size"), [(1, 1 << 28), (2, 16)], ids=["driver", "spark"])
def test_changed_rows_are_subtracted(tmp_path: Path, spark: SparkSession, seed: int, size: int) -> None:
    """
    After refunds, corrections, moves and deletes, groups that vanish and come back, both lakes have equal tables and equal the
    reference, and both subtracted; Spark also where the driver may hold nothing.
    """
    choose, source = random.Random(seed), str(tmp_path / "sales")
    DeltaTable.create(source, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    configs = {
        "local": Config(sources={"sales": source}),
        "spark": Config(sources={"sales": source}, driver_bytes=size),
    }
    lakes = {name: Materializer(tmp_path / name, spark=spark, config=config) for name, config in configs.items()}
    for lake in lakes.values():
        lake.apply(
            f"CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS bucket, shop, {MEASURES} "
            "FROM sales GROUP BY ALL"
        )
    found = Counter[str]()
    executors: tuple[Literal["local", "spark"], ...] = ("local", "spark")
    for turn in range(4):
        rows = [row(choose) for _ in range(1 if turn else 3000)]
        write_deltalake(source, pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")
        if turn == 2:
            DeltaTable(source).delete("shop IS NULL AND ts < '2025-03-28T01:00:00Z'")
        if turn:
            correct(DeltaTable(source), choose)
            correct(DeltaTable(source), choose)
        for name in executors:
            asked: Literal["retract"] | None = (
                "retract" if turn > 1 else None
            )  # the price of a busy machine may be another one
            for run in lakes[name].refresh("hourly", executor=name, strategy=asked).runs:
                assert ("local" if name == "local" else "") == run.report.executor
                found.update(f"{name} {strategy}" for strategy in run.report.strategy.split("+"))
            report = lakes[name].verify("hourly")
            assert report.is_equal, report.examples
        for table in ("output", "partials"):
            folders = [tmp_path / name / "hourly" / table for name in executors]
            folders = [f if table == "output" else next(f.iterdir()) for f in folders]
            local, by_spark = map(rows_of, folders)
            assert len(local) == len(by_spark)
            assert [] == [(a, b) for a, b in zip(local, by_spark, strict=True) if not same(a, b)][:1]
    assert {"local retract", "spark retract"} <= found.keys()
