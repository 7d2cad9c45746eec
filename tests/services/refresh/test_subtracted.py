"""Corrected and deleted rows: they are subtracted from stored partials, from the log to the output, without a JVM."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.core.refresh.plan import Plan, Recompute, Retract
from materializer.errors import DataError
from materializer.services.planning.options import RefreshOptions
from materializer.services.refresh.reports import RefreshReport
from materializer.services.refresh.service import Refresher
from tests import tables
from tests.services.keyed import HOUR, TIME, Keyed, in_order
from tests.services.no_spark import LocalLake

SCHEMA = pa.schema([("ts", TIME), ("shop", pa.string()), ("v", pa.int64())])
MEASURES = (
    "sum(v) AS v, count(v) AS known, count_if(v < 0) AS refunds, count(*) AS n, sum(v) FILTER (WHERE v > 0) AS up"
)
COUNTED = f"{MEASURES}, count(v) FILTER (WHERE v > 0) AS ups"
MOST = (1 << 63) - 1


class Sales(LocalLake):
    """A lake with an hourly aggregate ``hourly`` of sales, whose refreshes subtract wherever they may."""

    def __init__(self, root: Path, measures: str = COUNTED, engine: Keyed | None = None, properties: str = "") -> None:
        tables.create(root / "sales", SCHEMA)
        super().__init__(root, rows=100_000, engine=engine or Keyed())
        self.apply(
            f"CREATE MATERIALIZED VIEW hourly {properties} AS SELECT time_bucket('1 hour', ts) AS at, shop, {measures} "
            "FROM sales GROUP BY ALL"
        )

    @property
    def sales(self) -> DeltaTable:
        """The source."""
        return DeltaTable(str(self.root / "sales"))

    def write(self, *rows: tuple[int, str | None, int | None]) -> None:
        """Commit rows (microseconds, shop, value)."""
        times, shops, values = zip(*rows, strict=True)
        columns = [pa.array(times, pa.int64()).cast(TIME), pa.array(shops, pa.string()), pa.array(values, pa.int64())]
        write_deltalake(str(self.root / "sales"), pa.table(columns, schema=SCHEMA), mode="append")

    def refresh(self, strategy: str = "retract") -> RefreshReport:
        """Refresh by one strategy wherever it is allowed."""
        return Refresher(self.wired).refresh("hourly", RefreshOptions(strategy=strategy))

    def published(self) -> list[tuple[Any, ...]]:
        """Return the rows of the output."""
        rows = DeltaTable(str(self.root / "hourly" / "output")).to_pyarrow_table()
        return in_order(rows.set_column(0, "at", rows["at"].cast(pa.int64())).to_pylist())

    def naive(self) -> list[tuple[Any, ...]]:
        """Return what the output must be, by a loop over all rows of the source."""
        groups: dict[tuple[Any, ...], list[int | None]] = defaultdict(list)
        rows = self.sales.to_pyarrow_table()
        for row in rows.set_column(0, "ts", rows["ts"].cast(pa.int64())).to_pylist():
            groups[row["ts"] // HOUR * HOUR, row["shop"]].append(row["v"])
        return sorted(((*group, *measured(values)) for group, values in groups.items()), key=repr)


def measured(values: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the measures of some values."""
    known = [v for v in values if v is not None]
    up = [v for v in known if v > 0]
    refunds = sum(v < 0 for v in known)
    return sum(known) if known else None, len(known), refunds, len(values), sum(up) if up else None, len(up)


def test_a_corrected_row_is_subtracted_and_added(tmp_path: Path) -> None:
    """
    Of a bucket of a thousand rows the two images of the changed row are read, and the stored groups; the price says so.
    """
    lake = Sales(tmp_path)
    lake.write(*((i, "ab"[i % 2], i) for i in range(1000)))
    lake.refresh()
    lake.sales.update(predicate="v = 7", updates={"v": "-7"})

    [run] = lake.opened.refresh("hourly").runs

    assert ("retract", "local", 2) == (run.report.strategy, run.report.executor, run.report.rows_read)
    [step] = [s for s in run.plan.steps if isinstance(s, Retract)]
    assert ["merge", "recompute"] == [r.strategy for r in step.rejected]
    assert lake.naive() == lake.published()


def test_groups_vanish_and_come_back(tmp_path: Path) -> None:
    """
    A group whose last row goes has no row in the output; one whose last value goes has no sum.
    """
    lake = Sales(tmp_path)
    lake.write((0, "a", 5), (1, "b", 6), (2, "b", None), (HOUR, "a", 7))
    lake.refresh()
    lake.sales.delete("v = 5 OR v = 6")
    [run] = lake.refresh().runs
    assert "retract" == run.report.strategy
    assert [(0, "b", None, 0, 0, 1, None, 0), (HOUR, "a", 7, 1, 0, 1, 7, 1)] == lake.published()

    lake.write((0, "a", -5))
    lake.sales.update(predicate="v = 7", updates={"ts": "CAST('1970-01-01T00:00:00Z' AS TIMESTAMP)"})
    [run] = lake.refresh().runs
    assert "retract" == run.report.strategy
    assert lake.naive() == lake.published()


@pytest.mark.parametrize(("first", "then"), [(MOST, -MOST), (-MOST, MOST), (-MOST, 0)])
def test_sums_at_the_ends_of_their_type_are_subtracted(tmp_path: Path, first: int, then: int) -> None:
    """
    What is between the stored sum and the new one need not fit the type.
    """
    lake = Sales(tmp_path, "sum(v) AS v, count(v) AS known")
    lake.write((0, "a", first), (1, "a", None))
    lake.refresh()
    lake.sales.update(predicate="v IS NOT NULL", updates={"v": str(then)})

    [run] = lake.refresh().runs

    assert ("retract", [(0, "a", then, 1)]) == (run.report.strategy, lake.published())


@pytest.mark.parametrize(
    ("measures", "reason"),
    [
        (MEASURES, "sum(v) FILTER (WHERE v > 0) cannot be subtracted without the count of its values"),
        ("count(*) AS n, max(v) AS most", "max(v) cannot be subtracted exactly"),
    ],
)
def test_what_is_not_exact_is_recomputed_with_its_reason(tmp_path: Path, measures: str, reason: str) -> None:
    """
    One measure that cannot be subtracted is enough.
    """
    lake = Sales(tmp_path, measures)
    lake.write(*((i, "a", i) for i in range(1000)))
    lake.refresh()
    lake.sales.delete("v = 7")

    [run] = lake.refresh().runs

    assert "recompute" == run.report.strategy
    [step] = [s for s in run.plan.steps if isinstance(s, Recompute)]
    assert ("retract", reason) in [(r.strategy, r.reason) for r in step.rejected]


class Overflowing(Keyed):
    """Spark, whose computations fail because of the data."""

    def __init__(self) -> None:
        self.strategies: list[str] = []

    def compute(self, _definition: object, _source: object, _path: str, plan: Plan, **_: object) -> None:
        """See :class:`materializer.spark.run.spark.Spark`."""
        self.strategies.append(plan.strategy)
        raise DataError("[ARITHMETIC_OVERFLOW] long overflow")


def test_a_subtraction_that_fails_is_planned_again_as_a_recompute(tmp_path: Path) -> None:
    """
    The sum of the rows that went leaves its type, where that of all rows did not; the failure of a recompute is final.
    """
    engine = Overflowing()
    lake = Sales(tmp_path, "sum(v) AS v, count(v) AS known", engine)
    lake.write((0, "a", MOST), (1, "a", 0))
    lake.refresh()
    lake.write((2, "a", 0))
    lake.refresh()
    lake.sales.update(predicate="v = 0", updates={"v": str(MOST)})
    with pytest.raises(DataError):
        lake.refresh()
    assert ["retract", "recompute"] == engine.strategies

    lake.sales.update(predicate="v > 0", updates={"v": "1"})
    assert ["recompute"] == [run.report.strategy for run in lake.refresh("recompute").runs]
    assert lake.naive()[0][:4] == lake.published()[0]


def test_stored_partials_that_count_too_few_rows_are_not_subtracted_from(tmp_path: Path) -> None:
    """
    They are not what the feed begins with, so the bucket is computed from its raw rows.
    """
    engine = Overflowing()
    lake = Sales(tmp_path, engine=engine)
    lake.write((0, "a", 1), (1, "a", 2), (2, "a", 3), (HOUR, "a", 3))
    lake.refresh()
    [partials] = (tmp_path / "hourly" / "partials").iterdir()
    count = lake.wired.aggregate(lake.state("hourly")).definition.layout.row_count
    DeltaTable(str(partials)).update(updates={str(count): "1"})
    lake.sales.delete("v < 3")

    [run] = lake.refresh().runs

    assert (["retract"], "recompute") == (engine.strategies, run.report.strategy)
    assert lake.naive() == lake.published()


@pytest.mark.one_of(4)
@pytest.mark.parametrize("seed", range(12))
def test_random_histories_are_what_a_loop_over_all_rows_gives(tmp_path: Path, seed: int) -> None:
    """
    Whatever is sold, refunded, corrected, moved to another shop or hour, or deleted, every output is right.
    """
    choose, lake, found = random.Random(seed), Sales(tmp_path), Counter[str]()

    def rows(count: int) -> list[tuple[int, str | None, int | None]]:
        shops, values = ["a", "b", "", None], [None, *range(-9, 10)]
        return [(choose.randrange(3 * HOUR), choose.choice(shops), choose.choice(values)) for _ in range(count)]

    lake.write(*rows(40))
    for _ in range(10):
        predicate = f"v = {choose.randint(-9, 9)}"
        match choose.randrange(6):
            case 0:
                lake.write(*rows(choose.randint(1, 3)))
            case 1:
                lake.sales.delete(predicate)
            case 2:
                lake.sales.delete(f"shop = '{choose.choice('ab')}' AND ts < '1970-01-01T01:00:00Z'")
            case 3:
                lake.sales.update(predicate=predicate, updates={"v": choose.choice(["v + 1", "-v", "NULL"])})
            case 4:
                lake.sales.update(predicate=predicate, updates={"shop": choose.choice(["NULL", "'b'", "'new'"])})
            case _:
                lake.sales.update(predicate=predicate, updates={"ts": "ts + INTERVAL '1 hour'"})
        if choose.random() < 0.6:
            for run in lake.refresh().runs:
                found.update(run.report.strategy.split("+"))
            assert lake.naive() == lake.published()

    if seed == 1:
        assert found["retract"]
