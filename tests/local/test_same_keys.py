"""Late and corrected rows of few keys: both executors compute only their groups, and publish what a rebuild publishes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
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
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), [f"d{i}" for i in range(20)] + ["", "é", "'", "\\", None]),
    "small": (pa.int8(), [*range(-10, 10), None]),
    "long": (pa.int64(), [(1 << 63) - 1, -(1 << 63), *range(18), None]),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [date(1582, 10, 4), date(9999, 12, 31), *(date(2025, 1, d) for d in range(1, 20)), None]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [datetime(2025, 3, 30, 1, 30, tzinfo=UTC), *(START - timedelta(microseconds=i) for i in range(20)), None],
    ),
    "wall": (
        pa.timestamp("us"),
        [*((START - timedelta(days=30_000, microseconds=i)).replace(tzinfo=None) for i in range(20)), None],
    ),
    "fee": (pa.decimal128(10, 2), [*(Decimal(i).scaleb(-2) for i in range(-10, 10)), None]),
    "raw": (pa.binary(), [bytes([i]) for i in range(20)] + [b"", None]),
    "real": (pa.float64(), [0.0, -0.0, float("nan"), *map(float, range(18)), None]),
}
MEASURES = "sum(v) AS v, count(*) AS n, median(v) AS middle, first(v) AS opened"


class World:
    """One source with two key columns, and two lakes over it, one of each executor."""

    def __init__(self, folder: Path, spark: SparkSession, names: tuple[str, str], seed: int, by: str = "") -> None:
        self.choose, self.folder, self.names = random.Random(seed), folder, names
        kinds = [(n, KEYS[n][0]) for n in names]
        self.schema = pa.schema([("ts", pa.timestamp("us", "UTC")), *kinds, ("v", pa.int64())])
        self.source = str(folder / "readings")
        DeltaTable.create(self.source, self.schema, configuration={"delta.enableChangeDataFeed": "true"})
        config = Config(sources={"readings": self.source})
        self.lakes = {name: Materializer(folder / name, spark=spark, config=config) for name in ("local", "spark")}
        by = by or ", ".join(names)
        for lake in self.lakes.values():
            lake.apply(
                f"CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS bucket, {by}, {MEASURES} "
                "FROM readings GROUP BY ALL"
            )

    def row(self, hours: int) -> dict[str, Any]:
        """Return a row of the first hours."""
        choose = self.choose
        keys = {n: choose.choice(KEYS[n][1]) for n in self.names}
        minutes = choose.randint(0, 60 * hours - 1)
        return {"ts": START + timedelta(minutes=minutes), **keys, "v": choose.choice([None, choose.randint(0, 999)])}

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Commit rows."""
        write_deltalake(self.source, pa.Table.from_pylist(rows, schema=self.schema), mode="append")

    def correct(self) -> None:
        """Correct, delete or move rows, as few as one value selects."""
        table, v = DeltaTable(self.source), self.choose.randint(0, 999)
        match self.choose.randint(0, 3):
            case 0:
                table.delete(f"v = {v}")
            case 1:
                table.update(predicate=f"v = {v}", updates={"v": "v + 1"})
            case 2:
                table.update(predicate=f"v = {v}", updates={self.names[0]: "NULL"})
            case _:
                table.update(predicate=f"v = {v}", updates={"ts": "ts + INTERVAL '1 hour'"})

    def rows(self, lake: str, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table in their order."""
        folder = self.folder / lake / "hourly" / table
        rows = DeltaTable(str(folder if table == "output" else next(folder.iterdir()))).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda r: repr([*r.values()][:3]))

    def refreshed(self) -> Counter[str]:
        """Refresh both lakes, compare their tables and the truth, and count the strategies of steps."""
        found = Counter[str]()
        executors: tuple[Literal["local", "spark"], ...] = ("local", "spark")
        for name in executors:
            lake = self.lakes[name]
            for run in lake.refresh("hourly", executor=name).runs:
                assert ("local" if name == "local" else "") == run.report.executor
                found.update(f"{name} {strategy}" for strategy in run.report.strategy.split("+"))
            assert lake.verify("hourly").is_equal
        for table in ("output", "partials"):
            local, by_spark = self.rows("local", table), self.rows("spark", table)
            assert len(local) == len(by_spark)
            assert [] == [(a, b) for a, b in zip(local, by_spark, strict=True) if not same(a, b)][:1]
        return found


@pytest.mark.parametrize(
    ("names", "seed", "by"),
    [
        pytest.param(("text", "long"), 1, "", marks=pytest.mark.slow),
        pytest.param(("day", "moment"), 2, "", marks=pytest.mark.slow),
        pytest.param(("wall", "fee"), 3, "", marks=pytest.mark.slow),
        pytest.param(("raw", "flag"), 4, "", marks=pytest.mark.slow),
        pytest.param(("small", "real"), 5, "", marks=pytest.mark.slow),
        pytest.param(("text", "long"), 6, "concat(text, '!') AS name, long % 7 AS rest", marks=pytest.mark.slow),
    ],
)
def test_only_changed_groups_are_computed(
    tmp_path: Path, spark: SparkSession, names: tuple[str, str], seed: int, by: str
) -> None:
    """
    After corrections, deletes and moves of few rows, both lakes have equal tables and equal the reference; where the types of
    the keys are recorded, both computed groups and not buckets.
    """
    world = World(tmp_path, spark, names, seed, by)
    world.append([world.row(3) for _ in range(1500)] * 3)
    world.refreshed()
    found = Counter[str]()
    for _ in range(4):
        world.correct()
        world.append([world.row(3)])
        found += world.refreshed()

    wanted = (
        {"local recompute", "spark recompute"} if "real" in names else {"local recompute-keys", "spark recompute-keys"}
    )
    assert wanted <= found.keys()
