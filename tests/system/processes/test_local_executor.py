"""Refreshes that are computed in the process, without Spark: killed, without room, out of memory, and beside refreshes by Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest

from materializer.errors import NotLocalError, StorageError
from materializer.lake.notes import find_notes
from tests.system.builders import DAY, Site
from tests.system.processes.disk import Disk
from tests.system.processes.mended import BORROW
from tests.system.processes.running import DEATHS, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REACHED: Final = (
    *("lease", "recover", "plan", "compute", "audit", "write"),
    *("writing_partials", "writing_output", "wrote_partials", "wrote_output", "done", "end"),
)
"""The checkpoints of a local refresh."""
QUICK: Final = ("compute",)


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    """A lake of the local executor, refreshed, and then late rows."""
    made = World(tmp_path, spark, executor="local")
    made.lake.refresh("bars")
    made.insert(3, (1, 2, 4))
    return made


def test_checkpoints_of_a_local_refresh(world: World) -> None:
    """
    A refresh in the process comes by these steps, at each of which it is killed below, and Spark computes nothing.
    """
    with world.child() as child:
        said = child.end()

    assert sorted(REACHED) == sorted(said["reached"])
    assert [{"n": 2, "strategy": "merge", "lane": "driver", "executor": "local"}] == said["done"][0]["runs"]
    world.expect_true()


@pytest.mark.parametrize("checkpoint", [pytest.param(c, marks=() if c in QUICK else pytest.mark.slow) for c in REACHED])
def test_a_killed_local_refresh_is_mended(world: World, checkpoint: str) -> None:
    """
    Whichever step a local refresh is killed at with signal 9, the next one, by either executor, makes the tables right.
    """
    world.killed_at(checkpoint)
    world.lake.refresh("bars", executor=("local", "spark")[REACHED.index(checkpoint) % 2])

    world.expect_true()


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
def test_a_local_refresh_killed_between_its_writes(world: World, death: str) -> None:
    """
    A local merge killed when one of the two tables is written is finished or undone, as one by Spark is.
    """
    how = world.die(death)
    report = world.lake.refresh("bars")

    assert ((2, how),) == report.recovered
    assert {"local"} >= {run.report.executor for run in report.runs}
    world.expect_true()


def test_a_disk_that_is_full_in_a_local_refresh(world: World, disk_at: Callable[[Path], Disk]) -> None:
    """
    The error says so, readers see the old rows, and with room the same command does it all.
    """
    disk = disk_at(world.root / "bars")
    before = world.published()
    disk.fill()

    with pytest.raises(StorageError):
        world.lake.refresh("bars")
    assert before == world.published()

    disk.make_room()
    assert ["local"] == [run.report.executor for run in world.lake.refresh("bars").runs]
    world.expect_true()


@pytest.mark.parametrize("times", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_executors_race_over_one_aggregate(world: World, times: int) -> None:
    """
    Two processes, one of each executor, refresh again and again while rows come in: every row counts once.
    """
    often = ["--times", str(times)]
    with world.child("refresh", *often) as here, world.child("refresh", *often, "--executor", "spark", BORROW) as there:
        for _ in range(times):
            world.insert(2, (1, 4))
        said = {"local": here.end(), "spark": there.end()}
    world.refresh_when_free()

    runs = {name: [run for report in found["done"] for run in report["runs"]] for name, found in said.items()}
    numbers = [run["n"] for found in runs.values() for run in found]
    assert len(numbers) == len(set(numbers)), "two processes did the same refresh"
    assert all(run["executor"] == name for name, found in runs.items() for run in found)
    world.expect_true()


# -- out of memory -------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, spark: SparkSession) -> Site:
    """A lake with an aggregate that has to hold every text of a day, each of them long."""
    made = Site(tmp_path, spark, executor="auto", local_memory=1 << 30)
    made.table()
    texts = {f"texts{i}": f"count(DISTINCT concat(note, '{i}', CAST(price AS STRING)))" for i in range(3)}
    made.hourly(keys=[], measures={"n": "count(*)", **texts})
    times = [DAY + timedelta(milliseconds=i) for i in range(WIDE)]
    columns = [times, ["A"] * WIDE, range(WIDE), ["x" * 12_000] * WIDE]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, made.tables["trades"].schema, strict=True)]
    made.tables["trades"].write(pa.table(arrays, schema=made.tables["trades"].schema))
    return made


WIDE: Final = 20_000
"""Rows that are few, in small files, and that DuckDB cannot hold."""


def test_what_is_too_large_for_duckdb_is_computed_by_spark(site: Site) -> None:
    """
    A refresh for which DuckDB's memory does not suffice has written nothing; Spark computes the same run, the report says why,
    and the next small refresh is local again.
    """
    with pytest.raises(NotLocalError, match="needs more memory than it may take here"):
        site.lake.refresh("hourly", executor="local")
    assert [] == site.published("hourly")
    assert [] == [note for note in find_notes(f"{site.lake.root}/hourly/output", 0) if note.kind == "data"]

    [run] = site.lake.refresh("hourly").runs
    site.tables["trades"].trade(("05:00", "A", 1))
    [small] = site.lake.refresh("hourly").runs

    assert ("local", "") == (run.plan.executor, run.report.executor)
    assert "needs more memory than it may take here" in str(run.report.extra["left_to_spark"])
    assert ("local", {}) == (small.report.executor, dict(small.report.extra))
    assert [(WIDE,) * 4, (1,) * 4] == [row[1:] for row in site.published("hourly")]
