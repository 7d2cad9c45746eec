"""What the driver holds is bounded: with a small budget Spark reads instead, and what is published is the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from materializer.budget import LEAST_BYTES, LEAST_ROWS, Budget
from materializer.config import Config
from materializer.lake.write.new_files import OTHERS
from tests.system.builders import Site, some_slow
from tests.system.engine_histories import DEFINITIONS, World, run_history

SMALL = {"no rows": Budget(rows=0), "no files": Budget(bytes=0)}


def test_a_plan_is_possible_with_any_budget() -> None:
    """
    Whatever is configured, some rows are held, so that changes of few rows are told apart; by default more than any use takes.
    """
    small, usual = Config(driver_lane_rows=1, driver_bytes=1).budget, Config().budget

    assert Budget(LEAST_ROWS, LEAST_BYTES) == small
    assert Budget(1_000_000, 256 << 20) == usual
    assert {LEAST_ROWS} == {small.stored, small.opened, small.changed, small.passed, small.listed, small.raw}
    uses = (usual.stored, usual.opened, usual.changed, usual.passed, usual.listed, usual.raw)
    assert (1_000_000, 500_000, 200_000, 100_000, 100_000, 50_000) == uses


@pytest.mark.parametrize("budget", SMALL)
def test_spark_reads_what_the_driver_does_not_hold(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, budget: str
) -> None:
    """
    A first materialization, rows to merge, and a correction: the same rows as with the usual budget, by more jobs.
    """

    def history(folder: Path) -> tuple[Site, list[int], list[int]]:
        site = Site(folder, spark, driver_lane_rows=200_000)
        trades = site.table()
        site.hourly()
        jobs, buckets = [], []
        for change in (
            lambda: trades.trade(*((f"{h:02}:{h:02}", s, h) for h in range(8) for s in "AB")),
            lambda: trades.trade(("01:30", "A", 9), ("05:30", "C", 9)),
            lambda: trades.update("price = 9", price=7),
        ):
            change()
            (run,) = site.lake.refresh("hourly").runs
            jobs.append(run.report.jobs)
            buckets.append(run.report.buckets)
        return site, jobs, buckets

    usual, few, touched = history(tmp_path / "usual")
    monkeypatch.setattr(Config, "budget", SMALL[budget])
    small, more, computed = history(tmp_path / "small")

    assert usual.published("hourly") == small.published("hourly")
    assert all(a < b for a, b in zip(few[1:], more[1:], strict=True)), (few, more)
    # where no row is held no bucket is told apart, and all of them are computed again
    assert (touched == computed) == (budget == "no files")
    small.expect_true()


@pytest.mark.parametrize("name", some_slow(DEFINITIONS, ("sessions",)))
@pytest.mark.parametrize("budget", SMALL)
def test_an_engine_with_a_small_budget(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, budget: str
) -> None:
    """
    Its output is the whole computation after each change. Without files everything is still found, by Spark; where no row is
    held, everything is computed again.
    """
    monkeypatch.setattr(Config, "budget", SMALL[budget])

    seen = run_history(World(spark, tmp_path, random.Random(f"small {name}"), DEFINITIONS[name]), 1)

    rebuilt = seen["strategy rebuild"] + seen["strategy rebuild+settle"]
    assert (rebuilt == sum(n for what, n in seen.items() if what.startswith("strategy"))) == (budget == "no rows")


@pytest.mark.of_spark("the budget decides what Spark writes; the process finds the rows itself, within its own")
@pytest.mark.parametrize(("budget", "files"), [(Budget(rows=1), "spark"), (Budget(), "driver")])
def test_late_rows_beyond_the_budget_are_appended_by_spark(
    site: Site, monkeypatch: pytest.MonkeyPatch, budget: Budget, files: str
) -> None:
    """
    The quarantine has the same rows, whoever writes its files.
    """
    monkeypatch.setattr(Config, "budget", budget)
    trades = site.table()
    trades.trade(("00:10", "A", 1), ("02:00", "A", 2))
    parts = {"engine": "time_series", "window_size": "10 minutes", "step": "10 minutes", "lateness": "strict"}
    site.lake.define("bars", "trades", time="ts", keys=["sym"], measures={"n": "count(*)"}, **parts)
    site.lake.refresh("bars")
    trades.trade(("00:20", "A", 3), ("00:30", "A", 4), ("00:40", "A", 5))
    site.lake.refresh("bars")

    quarantine = DeltaTable(str(site.lake.root / "bars" / "quarantine"))
    assert [3, 4, 5] == sorted(quarantine.to_pyarrow_table()["price"].to_pylist())
    assert (files == "spark") == any(OTHERS in uri for uri in quarantine.file_uris())
