"""Two lakes over one source, one computed in the process and one by Spark, have the same tables after every refresh."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config
from materializer.errors import NotLocalError
from tests.local.comparing import same

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("sym", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("fee", pa.decimal128(10, 2)),
        ("is_buy", pa.bool_()),
        ("seq", pa.int32()),
    ]
)
START = datetime(2025, 3, 28, tzinfo=UTC)
DEFINITIONS = {
    "bars": """SELECT time_bucket('1 hour', ts) AS bucket, sym, first(price) AS open, max(price) AS high, min(price) AS low,
        last(price) AS close, sum(volume) AS volume, try_divide(sum(price * volume), sum(volume)) AS vwap, count(*) AS n,
        count_if(is_buy) AS buys, avg(price) AS mean, avg(volume) AS size, avg(fee) AS fee, sum(fee) AS fees
        FROM trades GROUP BY time_bucket('1 hour', ts), sym""",
    "days": """SELECT time_bucket('1 day', ts, 'Europe/Berlin') AS day, upper(sym) AS name, stddev(price) AS sd, var_pop(volume) AS spread,
        covar_samp(price, volume) AS together, corr(price, volume) AS r, min_by(price, volume) AS least, max_by(fee, price) AS most,
        bool_and(is_buy) AS all_buy, bit_or(seq) AS bits, any_value(sym) AS any_of
        FROM trades WHERE price > 0 AND sym <> 'C' GROUP BY time_bucket('1 day', ts, 'Europe/Berlin'), upper(sym)""",
    "months": """SELECT time_bucket('1 month', ts) AS month, CASE WHEN volume > 500 THEN 'large' ELSE 'small' END AS class,
        count(DISTINCT sym) AS names, median(price) AS middle, mode(sym) AS usual, collect_set(sym) AS seen,
        percentile(volume, 0.9) AS p90, sum(volume) FILTER (WHERE is_buy) AS bought, round(sum(fee), 1) AS fees
        FROM trades GROUP BY time_bucket('1 month', ts), CASE WHEN volume > 500 THEN 'large' ELSE 'small' END
        HAVING count(*) > 2""",
    "sketches": """SELECT time_bucket('1 day', ts) AS day, approx_count_distinct(sym) AS names, approx_count_distinct(price, 0.1) AS prices,
        approx_count_distinct(fee) AS fees, approx_count_distinct(ts) AS times, approx_percentile(price, array(0.1, 0.5, 0.9)) AS ranks,
        approx_percentile(volume, 0.5) FILTER (WHERE is_buy) AS middle, approx_percentile(fee, 0.25, 100) AS low, approx_percentile(ts, 0.5) AS noon,
        approx_percentile(seq, array(0.5)) AS middles, count(*) AS n FROM trades GROUP BY time_bucket('1 day', ts)""",
}


class World:
    """One source and two lakes over it."""

    def __init__(self, folder: Path, spark: SparkSession, seed: int) -> None:
        self.choose = random.Random(seed)
        self.is_hard = seed % 2 == 0  # with values for which Spark is asked in the end
        self.source = str(folder / "trades")
        DeltaTable.create(self.source, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
        config = Config(price_tie_ms=60_000, sources={"trades": self.source})
        self.lakes = {name: Materializer(folder / name, spark=spark, config=config) for name in ("local", "spark")}
        for lake in self.lakes.values():
            for name, select in DEFINITIONS.items():
                lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {select}")

    def append(self) -> None:
        """Append rows, of which some are late."""
        choose = self.choose
        count = choose.randint(1, 60)
        rows = [
            {
                "ts": START + timedelta(minutes=choose.randint(0, 5 * 24 * 60)),
                "sym": choose.choice(["A", "B", "C", "é", None] if self.is_hard else ["A", "B", "C", "a", None]),
                "price": choose.choice(
                    [None, 1.5, -0.0, 0.0, float("nan") if self.is_hard else 2.5, choose.uniform(-5, 100)]
                ),
                "volume": choose.choice([None, 0, choose.randint(1, 1000)]),
                "fee": choose.choice([None, Decimal("0.01"), Decimal(choose.randint(-9999, 9999)).scaleb(-2)]),
                "is_buy": choose.choice([None, True, False]),
                "seq": choose.randint(0, 9),
            }
            for _ in range(count)
        ]
        write_deltalake(self.source, pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")

    def change(self) -> None:
        """Delete or correct some rows."""
        table = DeltaTable(self.source)
        if self.choose.random() < 0.5:
            table.delete(f"seq = {self.choose.randint(0, 9)} AND volume > {self.choose.randint(0, 900)}")
        else:
            table.update(updates={"volume": "volume + 1"}, predicate=f"seq = {self.choose.randint(0, 9)} AND sym = 'A'")

    def rows(self, lake: str, name: str, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table in their order."""
        folder = self.lakes[lake].root / name / table
        at = folder if table == "output" else next(folder.iterdir())
        rows = DeltaTable(str(at)).to_pyarrow_table()
        columns = [c for c in rows.column_names if table == "output" or not c.startswith("p_")][:2]
        return rows.sort_by([(c, "ascending") for c in columns]).to_pylist()


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 9))])
def test_both_executors_make_the_same_tables(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """
    After appends, late rows, deletes and corrections the partials and the outputs of both lakes are equal, row by row.
    """
    world = World(tmp_path, spark, seed)
    computed = set()
    for step in (world.append, world.append, world.change, world.append):
        step()
        for name in DEFINITIONS:
            report = world.lakes["local"].refresh(name, executor="auto" if world.is_hard else "local")
            computed |= {(run.report.executor, run.report.strategy) for run in report.runs}
            world.lakes["spark"].refresh(name, executor="spark")
            for table in ("output", "partials"):
                local, by_spark = world.rows("local", name, table), world.rows("spark", name, table)
                assert len(local) == len(by_spark)
                assert [] == [(a, b) for a, b in zip(local, by_spark, strict=True) if not same(a, b)][:1]

    assert "local" in {executor for executor, _ in computed}
    assert any("merge" in strategy for _, strategy in computed)


def test_columns_with_the_names_of_ours(tmp_path: Path, spark: SparkSession) -> None:
    """
    A source may have columns that are named like internal ones, and like columns of the output.
    """
    names = ["slice", "k_slice", "bucket", "p_x", "mz", "stored"]
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), *((name, pa.int64()) for name in names)])
    source = str(tmp_path / "odd")
    DeltaTable.create(source, schema, configuration={"delta.enableChangeDataFeed": "true"})
    select = (
        "SELECT time_bucket('1 hour', ts) AS bucket, slice, p_x % 2 AS k_slice, sum(k_slice) AS p_x, max(bucket) AS stored, "
        "last(mz) AS total FROM odd GROUP BY time_bucket('1 hour', ts), slice, p_x % 2"
    )
    config = Config(price_tie_ms=60_000, sources={"odd": source})
    lakes = {name: Materializer(tmp_path / name, spark=spark, config=config) for name in ("local", "spark")}
    for lake in lakes.values():
        lake.apply(f"CREATE MATERIALIZED VIEW named AS {select}")
    for at in range(2):
        rows = [
            {"ts": START + timedelta(minutes=7 * i + at), **{n: i * (k + 2) % 5 for k, n in enumerate(names)}}
            for i in range(30)
        ]
        write_deltalake(source, pa.Table.from_pylist(rows, schema=schema), mode="append")
        found = {}
        for name, lake in lakes.items():
            lake.refresh("named", executor=name)
            table = DeltaTable(str(lake.root / "named" / "output")).to_pyarrow_table()
            found[name] = sorted(map(repr, table.to_pylist()))
        assert found["local"] == found["spark"]


def test_what_has_no_local_form_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """
    The local executor that was asked for refuses what only Spark can compute, names it, and writes nothing; the status of the
    aggregate names it, too, and so it does for an engine.
    """
    world = World(tmp_path, spark, 1)
    world.append()
    lake = world.lakes["local"]
    lake.apply(
        "CREATE MATERIALIZED VIEW other AS SELECT time_bucket('1 hour', ts) AS bucket, max(soundex(sym)) AS s FROM trades "
        "GROUP BY time_bucket('1 hour', ts)"
    )

    with pytest.raises(NotLocalError, match="soundex"):
        lake.refresh("other", executor="local")
    assert [] == lake.history("other", None)
    lake.apply(
        "CREATE MATERIALIZED VIEW running TBLPROPERTIES ('engine' = 'reactive_state', 'time' = 'ts', 'keys' = 'sym') AS "
        "SELECT ts, sym, mavg(fee, 2) AS mean FROM trades"
    )
    named = {name: lake.status(name)[0].only_spark for name in ("bars", "other", "running")}
    assert {
        "bars": (),
        "other": ("the function or form soundex",),
        "running": ("avg of decimal(10,2) over a window",),
    } == named
    assert ["spark"] == [run.plan.executor for run in lake.refresh("other").runs]
