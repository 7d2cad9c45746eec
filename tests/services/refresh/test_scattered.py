"""Changes that lie in hundreds of buckets: computed in the process, as every other, at a cost that follows what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.config import Config
from materializer.errors import NotLocalError
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import TooLarge
from materializer.spark.run.executor import Executor
from tests.counting import calls_of
from tests.services.keyed import HOUR, Readings
from tests.services.no_spark import LocalLake, NoSpark, Opened, each, view

MANY = {"rows": 1_000_000, "size": 1 << 28}
HOURS = 2_000
EACH = 4


def filled(root: Path, condition: str = "", **options: Any) -> LocalLake:
    """Return a lake with some rows in each of many hours, refreshed."""
    lake = LocalLake(root, **(MANY | options))
    lake.add(*((i * HOUR + j, i) for i in range(HOURS) for j in range(EACH)))
    definition = view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n").replace(
        "FROM raw", f"FROM raw {condition}"
    )
    lake.apply(definition)
    lake.opened.refresh("hourly")
    return lake


def published(lake: LocalLake) -> dict[int, tuple[int, int]]:
    """Return sum and count by hour."""
    rows = lake.rows_of("hourly")
    return {int(r["at"].timestamp()) // 3600: (r["v"], r["n"]) for r in rows}


def raw(lake: LocalLake) -> dict[int, tuple[int, int]]:
    """Return the same of the raw rows, row by row."""
    found: dict[int, tuple[int, int]] = {}
    rows = DeltaTable(str(lake.root / "raw")).to_pyarrow_table()
    for at, v in zip(rows["ts"].cast(pa.int64()).to_pylist(), rows["v"].to_pylist(), strict=True):
        total, n = found.get(at // HOUR, (0, 0))
        found[at // HOUR] = (total + v, n + 1)
    return found


def test_late_rows_in_hundreds_of_places_are_merged(tmp_path: Path) -> None:
    """
    Late rows in 500 hours are merged in the process; the rows that are aggregated are the late ones, with a condition on them, too.
    """
    lake = filled(tmp_path, "WHERE v >= 0")
    lake.add(*((4 * i * HOUR + 7, 1000) for i in range(HOURS // 4)))

    [run] = lake.opened.refresh("hourly").runs

    assert ("merge", "local", HOURS // 4) == (run.report.strategy, run.report.executor, run.report.rows_read)
    assert raw(lake) == published(lake)


def test_corrections_in_hundreds_of_places_are_computed_here(tmp_path: Path) -> None:
    """
    Rows that were corrected and deleted in hundreds of hours need no Spark, and only these hours are aggregated.
    """
    lake = filled(tmp_path)
    table = DeltaTable(str(tmp_path / "raw"))
    table.update(predicate="v % 10 = 0", updates={"v": "v + 1000000"})
    table.delete("v % 10 = 5")

    [run] = lake.opened.refresh("hourly", strategy="recompute").runs

    assert ("recompute", "local", HOURS // 10 * EACH) == (
        run.report.strategy,
        run.report.executor,
        run.report.rows_read,
    )
    assert raw(lake) == published(lake)


def test_changed_keys_in_hundreds_of_places_are_computed_here(tmp_path: Path) -> None:
    """
    Of hundreds of hours only the groups of changed keys are aggregated, wherever other keys changed.
    """
    lake = Readings(tmp_path, {"device": pa.string()}, **MANY)
    lake.write([(h * HOUR + d, f"d{d}", h) for h in range(300) for d in range(8)])
    lake.opened.refresh("hourly")
    lake.readings.update(predicate="v % 2 = 0 AND device = 'd1'", updates={"v": "v + 1000"})
    lake.readings.update(predicate="v % 5 = 0 AND device = 'd2'", updates={"v": "v + 10"})

    [run] = lake.opened.refresh("hourly", strategy="recompute-keys").runs

    assert ("recompute-keys", "local") == (run.report.strategy, run.report.executor)
    assert run.report.rows_read == 150 + 60
    assert lake.naive() == lake.published()


def test_a_log_that_is_too_long_still_merges(tmp_path: Path) -> None:
    """
    Where a log joins neighbours, what lies between them is as exact as they are: late rows are merged all the same.
    """
    sql = view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n")
    lake = LocalLake(tmp_path, config=Config(price_tie_ms=60_000, log_max_entries=10), **MANY)
    lake.add(*((i * HOUR + j, i) for i in range(HOURS) for j in range(5)))
    lake.apply(sql)
    lake.opened.refresh("hourly")
    lake.add(*((4 * i * HOUR + 7, 1000) for i in range(HOURS // 4)))
    lake.add(*((9 * i * HOUR + 8, 1) for i in range(HOURS // 9)))

    [run] = lake.opened.refresh("hourly").runs

    assert ("merge", HOURS // 4 + HOURS // 9) == (run.report.strategy, run.report.rows_read)
    assert raw(lake) == published(lake)


@pytest.mark.parametrize("change", ["insert", "update"])
def test_work_grows_with_the_spans(tmp_path: Path, change: str) -> None:
    """
    A refresh of eight times as many places takes at most some eight times the steps of the process.
    """

    def steps(places: int) -> int:
        lake = filled(tmp_path / f"{places}")
        step = HOURS // places
        if change == "insert":
            lake.add(*((step * i * HOUR + 7, 1) for i in range(places)))
        else:
            DeltaTable(str(lake.root / "raw")).update(predicate=f"v % {step} = 0", updates={"v": "v + 1"})
        return calls_of(lambda: lake.opened.refresh("hourly"))

    (tmp_path / "125").mkdir()
    (tmp_path / "1000").mkdir()
    few, many = steps(125), steps(1_000)

    assert many < 8 * few


@pytest.mark.parametrize("files", [1, 12])
def test_what_is_more_than_one_run_of_the_process_is_some_runs(tmp_path: Path, files: int) -> None:
    """
    More rows than the memory of the process keeps at a time are computed in a few runs, whether they lie in one file or in many.
    """
    lake = LocalLake(tmp_path, rows=1_000_000, size=48_000)
    rows = [(i * HOUR + j, i) for i in range(HOURS // 2) for j in range(EACH)]
    each_file = len(rows) // files
    for first in range(0, each_file * files, each_file):
        lake.add(*rows[first : first + each_file])
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n"))

    first = lake.opened.refresh("hourly")
    DeltaTable(str(tmp_path / "raw")).update(predicate="v % 2 = 0", updates={"v": "v + 1000000"})
    again = lake.opened.refresh("hourly", strategy="recompute")

    # before anything is stored each row may make a group; later groups are known to be fewer
    for done, most in ((first, 1_000), (again, 1_500)):
        assert {"local"} == {run.report.executor for run in done.runs}
        assert all(run.report.rows_read <= most for run in done.runs)
        assert sum(run.report.rows_read for run in done.runs) <= len(rows)
    assert raw(lake) == published(lake)


def test_a_run_of_a_merge_is_as_large_as_what_it_reads_and_writes(tmp_path: Path) -> None:
    """
    A merge reads stored groups and late rows, not the rows of the source: its runs are sized by these.
    """
    lake = filled(tmp_path, size=150_000)
    lake.add(*((4 * i * HOUR + 7, 1000) for i in range(HOURS // 4)))

    runs = lake.opened.refresh("hourly", strategy="merge").runs

    assert [("merge", "local")] * 2 == [(run.report.strategy, run.report.executor) for run in runs]
    assert raw(lake) == published(lake)


def test_few_late_rows_far_apart_are_some_runs_of_the_process(tmp_path: Path) -> None:
    """
    What lies between dirty buckets is copied: where that is more than its memory holds, the process has some runs of it.
    """
    lake = LocalLake(tmp_path, config=Config(price_tie_ms=60_000), rows=1_000_000, size=48_000)
    for first in range(0, HOURS, 400):
        lake.add(*((i * HOUR, i) for i in range(first, first + 400)))
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n"))
    lake.opened.refresh("hourly")
    lake.add(*((20 * i * HOUR + 7, 1000) for i in range(HOURS // 20)))

    runs = lake.opened.refresh("hourly").runs

    assert ["local"] * 2 == [run.report.executor for run in runs]
    assert raw(lake) == published(lake)


@pytest.mark.slow
def test_groups_without_late_rows_take_no_memory_in_a_merge(tmp_path: Path) -> None:
    """
    Of 200,000 groups with forty measures 2,000 have a late row: the others are passed on, and the process has room for all.
    """
    lake = LocalLake(tmp_path, rows=1_000_000, size=1 << 27)
    hours = 200_000
    lake.add(*((i * HOUR, i) for i in range(hours)))
    lake.apply(view("hourly", each("1 hour"), measure=", ".join(f"sum(v + {i}) AS s{i}" for i in range(40))))
    lake.opened.refresh("hourly")
    lake.wired = replace(lake.wired, local=LocalExecutor(**MANY))
    lake.opened = Opened(lake.wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]
    lake.add(*((100 * i * HOUR + 7, 1000) for i in range(hours // 100)))

    [run] = lake.opened.refresh("hourly", strategy="merge").runs

    assert ("merge", "local") == (run.report.strategy, run.report.executor)
    assert run.report.partials_written > 0.9 * hours


class Small(LocalExecutor):
    """An executor whose memory is too small for rows that it was thought to be large enough for."""

    def read(self, *args: Any, **options: Any) -> pa.Table:
        """Read some rows."""
        found = super().read(*args, **options)
        if found.num_rows > 12_000:
            raise TooLarge("out of memory")
        return found


def test_a_run_that_does_not_fit_into_memory_is_some_runs(tmp_path: Path) -> None:
    """
    Its plan is ended, nothing is written, and runs of half as many rows take its place, until they fit; Spark is not asked.
    """
    lake = LocalLake(tmp_path, **MANY)
    lake.add(*((i * HOUR // 20, i) for i in range(40_000)))
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n"))
    lake.wired = replace(lake.wired, local=Small(**MANY))
    lake.opened = Opened(lake.wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]

    runs = lake.opened.refresh("hourly").runs

    assert {"local"} == {run.report.executor for run in runs}
    assert len(runs) >= 4
    assert raw(lake) == published(lake)


def test_one_that_asked_for_the_process_hears_what_does_not_fit(tmp_path: Path) -> None:
    """
    Where a run cannot be smaller, asking for the process ends with what can be done about it.
    """
    lake = LocalLake(tmp_path, **MANY)
    lake.add(*((i, i) for i in range(15_000)))
    lake.apply(view("hourly", each("1 hour")))
    lake.wired = replace(lake.wired, local=Small(**MANY))
    lake.opened = Opened(lake.wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]

    with pytest.raises(NotLocalError, match="out of memory") as raised:
        lake.opened.refresh("hourly", executor="local")
    assert "local_memory" in raised.value.hint


def test_a_request_of_more_rows_is_for_spark(tmp_path: Path) -> None:
    """
    What counts is all that was asked for, and not each of its runs.
    """
    lake = LocalLake(tmp_path, config=Config(run_rows=1_000), rows=5_000, size=1 << 28)
    lake.add(*((i * HOUR, i) for i in range(8_000)))
    lake.apply(view("hourly", each("1 hour")))

    shown = lake.opened.plan("hourly")

    assert shown.plan is not None
    assert "spark" == shown.plan.executor
    assert "8,000 rows, and up to 5,000" in shown.plan.executor_reason


class Broken(LocalExecutor):
    """An executor with a bug."""

    def read(self, *_args: Any, **_options: Any) -> pa.Table:
        """Fail as nobody expected."""
        raise ZeroDivisionError("a bug")


class Asked(NoSpark):
    """Stands for Spark, and counts how often it is asked to compute."""

    def __init__(self) -> None:
        self.computed = 0

    def compute(self, *_args: Any, **_options: Any) -> None:
        """Count, and end the refresh."""
        self.computed += 1
        raise KeyboardInterrupt


def test_a_bug_of_the_process_is_left_to_spark(tmp_path: Path) -> None:
    """
    An error that nobody expected while the process computes lets the same refresh ask Spark.
    """
    engine = Asked()
    lake = LocalLake(tmp_path, engine=engine, **MANY)
    lake.add((0, 1))
    lake.apply(view("hourly", each("1 hour")))
    lake.wired = replace(lake.wired, local=Broken(**MANY))
    lake.opened = Opened(lake.wired, Executor(Config(), None, {}, started=engine))  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        lake.opened.refresh("hourly")

    assert 1 == engine.computed
