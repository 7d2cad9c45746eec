"""Real processes that die, race and are stopped, each at a chosen step; the next command must not notice."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from materializer.errors import LeaseHeldError
from tests.system.builders import LANES
from tests.system.processes.running import DEATHS, World, gone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATE: Final = (1, 2, 4)
"""Hours that late rows are inserted into."""


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> World:
    """A lake, refreshed, and then late rows; the parameter is how many rows the driver commits itself, or an executor."""
    given = getattr(request, "param", 200_000)
    made = World(tmp_path, spark, **({"executor": given} if isinstance(given, str) else {"driver_lane_rows": given}))
    made.lake.refresh("bars")
    made.insert(3, LATE)
    return made


SLOW: Final = pytest.mark.slow
in_sparks_lane = pytest.mark.parametrize("world", [0], indirect=True, ids=["spark"])
sparks_lane_is_slow = pytest.mark.parametrize("world", LANES, indirect=True)
by_either = pytest.mark.parametrize("world", ["local", pytest.param("spark", marks=SLOW)], indirect=True)
"""What a death leaves does not depend on who computed: in each run children compute without a JVM, which takes a fifth."""


def expect_merge(world: World) -> None:
    """Assert that what the dead process planned, or ended, is a merge in the lane of this test."""
    plan, ended = world.state.plan, world.lake.history("bars")
    lane = "driver" if world.driver_lane_rows else "spark"
    found = (plan.strategy, plan.lane.value) if plan else (ended[0].report.strategy, ended[0].report.lane)
    assert ("merge", lane) == found


# -- killed before anything was written ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "checkpoint", ["plan", "compute", *(pytest.param(c, marks=pytest.mark.slow) for c in ("lease", "recover"))]
)
def test_killed_before_anything_was_written(world: World, checkpoint: str) -> None:
    """
    A refresh that is killed before it wrote anything is done by the next one, as if it had never begun.
    """
    world.killed_at(checkpoint)
    report = world.lake.refresh("bars")

    assert ([(2, "aborted")] if checkpoint == "compute" else []) == list(report.recovered)
    assert ["merge"] == [run.report.strategy for run in report.runs]
    world.expect_true()


def test_killed_again_and_again_while_undoing(world: World) -> None:
    """
    Recovery that is killed at each of its steps is taken up by the next process, and undoes once.
    """
    for checkpoint in ("compute", "fence", "abort", "aborted"):
        world.killed_at(checkpoint)
    report = world.lake.refresh("bars")

    assert ((2, "aborted"),) == report.recovered
    assert [("done", 3), ("aborted", 2), ("done", 1)] == [(e.outcome, e.n) for e in world.lake.history("bars")]
    expect_merge(world)
    world.expect_true()


# -- killed while writing ------------------------------------------------------------------------------------------------


def die(world: World, death: str) -> str:
    """Have a merge die; return how it is to be recovered."""
    how = world.die(death)
    expect_merge(world)
    return how


@sparks_lane_is_slow
@pytest.mark.parametrize("death", ["only the partials are", pytest.param("only the output is", marks=pytest.mark.slow)])
def test_killed_between_partials_and_output(world: World, death: str) -> None:
    """
    A merge killed when one of the two tables is written is finished or undone, and merges no row twice.
    """
    how = die(world, death)
    report = world.refresh_when_free()

    assert ((2, how),) == report.recovered
    assert ("up-to-date" if how == "finished" else "refreshed") == report.outcome
    expect_merge(world)
    world.expect_true()


@pytest.mark.slow
def test_output_of_an_undone_merge_is_not_merged_into(world: World) -> None:
    """
    When only the output is written, what comes later is merged into the old partials and the output is made anew.
    """
    die(world, "only the output is")
    world.insert(2, (0, 1))
    report = world.lake.refresh("bars")

    assert ((2, "aborted"),) == report.recovered
    world.expect_true()


@by_either
def test_killed_again_while_finishing(world: World) -> None:
    """
    Recovery that dies before and after it publishes the output is taken up; the output is published once.
    """
    die(world, "only the partials are")
    world.killed_at("finish")
    assert (2, 1) == (world.n_in("partials"), world.n_in("output"))
    world.killed_at("finished")
    assert (2, 2) == (world.n_in("partials"), world.n_in("output"))
    report = world.lake.refresh("bars")

    assert ((2, "finished"),) == report.recovered
    assert {"recovered": True} == world.lake.history("bars")[0].report.extra
    world.expect_true()


def test_looking_at_what_a_death_left(world: World) -> None:
    """
    After a merge was killed between its tables, commands that only look tell the truth and change nothing.
    """
    die(world, "only the partials are")
    version = world.lake.journal.view().version
    [status] = world.lake.status("bars")
    verified = world.lake.verify("bars")
    fresh = world.lake.read("bars", fresh=True).agg({"n": "sum"}).collect()[0][0]
    world.lake.plan("bars")

    assert ("unfinished", 2) == (status.state, status.open_refresh)
    assert (0, 2 * (6 - len(LATE))) == (verified.differing, verified.rows), "the open refresh's buckets are left out"
    assert len(world.source.at(world.source.newest)) == fresh
    assert [1] == [ended.n for ended in world.lake.history("bars")]
    assert (version, 1) == (world.lake.journal.view().version, world.n_in("output"))
    world.lake.invalidate("bars")
    assert "done" == world.lake.history("bars")[0].outcome
    world.lake.refresh("bars")
    world.expect_true()


@by_either
@pytest.mark.parametrize(
    ("death", "command"),
    [
        pytest.param(death, command, marks=[] if (death, command) == ("only the output is", "writing") else SLOW)
        for death in ("only the partials are", "only the output is")
        for command in ("refresh", "backfill", "writing")
    ],
)
def test_any_writing_command_recovers_first(world: World, death: str, command: str) -> None:
    """
    Whatever writing command comes after a death, it ends the open refresh before it does anything else.
    """
    how = die(world, death)
    match command:
        case "refresh":
            world.lake.refresh("bars")
        case "backfill":
            world.lake.backfill("bars", buckets_per_run=1)
        case _:
            with world.lake.writing("bars") as state:
                assert state.plan is None

    outcome = "done" if how == "finished" else "aborted"
    assert [outcome] == [ended.outcome for ended in world.lake.history("bars", None) if ended.n == 2]
    world.lake.refresh("bars")
    world.expect_true()


@pytest.mark.parametrize("world", ["local", pytest.param(200_000, id="driver", marks=SLOW), LANES[1]], indirect=True)
@pytest.mark.parametrize("death", [pytest.param(d, marks=() if d == "both are" else SLOW) for d in DEATHS])
def test_killed_anywhere_in_a_merge(world: World, death: str) -> None:
    """
    A merge killed at any step of writing is finished or undone by a refresh that also has new rows to merge.
    """
    how = die(world, death)
    world.insert(2, (0, 1))
    report = world.refresh_when_free()

    assert ((2, how),) == report.recovered
    assert "merge" in report.runs[0].report.strategy
    world.expect_true()


@in_sparks_lane
@pytest.mark.parametrize(
    "checkpoint", ["abort", *(pytest.param(c, marks=SLOW) for c in ("fence", "aborted", "finish", "finished"))]
)
def test_killed_anywhere_in_recovery_of_sparks_lane(world: World, checkpoint: str) -> None:
    """
    Recovery of a merge that Spark committed may die at any step too.
    """
    how = die(world, "only the partials are" if checkpoint.startswith("finish") else "only the output is")
    world.killed_at(checkpoint)
    report = world.refresh_when_free()

    assert ((2, how),) == report.recovered
    world.expect_true()


# -- a JVM that outlives its Python --------------------------------------------------------------------------------------


@in_sparks_lane
def test_a_jvm_that_outlives_its_python_commits_nothing(world: World) -> None:
    """
    Spark writes files, and the driver alone commits: the next refresh need not wait until the JVM of a dead one has gone too,
    and what that wrote is removed.
    """
    with world.child("refresh", "--wait", "wrote_partials") as child:
        child.wait_at("wrote_partials")
        [jvm] = map(int, Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split())
        os.kill(jvm, signal.SIGSTOP)
        child.kill()
        report = world.lake.refresh("bars")
        os.kill(jvm, signal.SIGCONT)
        gone(jvm)

    assert ((2, "finished"),) == report.recovered
    world.lake.maintain("bars")
    folders = (world.root / "lake").rglob("plan-*")
    assert not [f for f in folders if (f / "_delta_log").exists()], "of the dead refresh nothing is left"
    world.expect_true()


# -- two at once ---------------------------------------------------------------------------------------------------------


@by_either
def test_second_refresh_is_refused_while_the_first_works(world: World) -> None:
    """
    Of two refreshes at once the second is refused and writes nothing; after the first has ended it has nothing to do.
    """
    with world.child("refresh", "--wait", "write") as child:
        child.wait_at("write")
        before = world.lake.journal.view().version
        with pytest.raises(LeaseHeldError, match=f"process {child.pid} ") as caught:
            world.lake.refresh("bars")
        after = world.lake.journal.view().version
        child.go_on()
        said = child.end()

    assert (75, "nothing was written") == (caught.value.exit_status, caught.value.wrote)
    assert before == after
    assert [{"n": 2, "strategy": "merge", "lane": "driver", "executor": world.executor}] == said["done"][0]["runs"]
    assert "up-to-date" == world.lake.refresh("bars").outcome
    world.expect_true()


@pytest.mark.parametrize(
    ("world", "times"),
    [
        pytest.param(200_000, 2, id="driver, twice"),
        *(pytest.param(rows, 8, id=f"{lane}, often", marks=SLOW) for rows, lane in ((200_000, "driver"), (0, "spark"))),
    ],
    indirect=["world"],
)
def test_processes_race_over_a_source_that_changes(world: World, times: int) -> None:
    """
    Two processes refresh again and again, each waiting for the other, while rows come in: every row counts once.
    """
    often = ["--times", str(times)]
    with world.child("refresh", *often) as one, world.child("refresh", *often) as other:
        for _ in range(times - times // 4):
            world.insert(2, LATE)
        runs = [run["n"] for child in (one, other) for report in child.end()["done"] for run in report["runs"]]
    world.refresh_when_free()

    assert len(runs) == len(set(runs)), "two processes did the same refresh"
    world.expect_true()


# -- stopped by hand -----------------------------------------------------------------------------------------------------


@pytest.mark.follows_hint("interrupted")
@pytest.mark.parametrize(
    ("checkpoint", "how"), [pytest.param("compute", "aborted", marks=pytest.mark.slow), ("done", "finished")]
)
def test_ctrl_c_is_mended_by_the_next_command(world: World, checkpoint: str, how: str) -> None:
    """
    Ctrl-C gives the lease back at once; the next command, in any process, ends what was begun.
    """
    with world.child("refresh", "--wait", checkpoint) as child:
        child.wait_at(checkpoint)
        child.interrupt()
        assert {"interrupted": True} == child.end(130)
        assert world.state.lease is None
        report = world.lake.refresh("bars")

    assert ((2, how),) == report.recovered
    world.expect_true()


@pytest.mark.parametrize(
    ("world", "options", "seconds"),
    [
        pytest.param(200_000, ["--warm"], 1.0, id="computing"),
        pytest.param(200_000, [], 4.0, id="starting", marks=pytest.mark.slow),
        pytest.param(0, ["--warm"], 2.0, id="computing for Spark's lane", marks=pytest.mark.slow),
    ],
    indirect=["world"],
)
def test_ctrl_c_in_the_middle_of_spark(world: World, options: list[str], seconds: float) -> None:
    """
    Ctrl-C while Spark works ends the process as Ctrl-C, and leaves nothing that a refresh does not mend.
    """
    with world.child("refresh", "--wait", "compute", "--hang", "done", *options) as child:
        child.wait_at("compute")
        child.go_on()
        time.sleep(seconds)
        child.interrupt()
        assert {"interrupted": True} == child.end(130)
        assert world.state.lease is None
        world.lake.refresh("bars")

    world.expect_true()


# -- a backfill killed half-way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["local", pytest.param("spark", marks=SLOW)])
def test_backfill_killed_half_way_goes_on_where_it_was(tmp_path: Path, spark: SparkSession, executor: str) -> None:
    """
    A backfill killed in its third run keeps the two that are done: the next one does what is left, nothing twice.
    """
    world = World(tmp_path, spark, executor=executor)
    world.killed_at("done:3", "backfill by hours")
    assert 2 == len(world.lake.history("bars"))
    report = world.lake.backfill("bars", buckets_per_run=1)

    assert ((3, "finished"),) == report.recovered
    assert [4, 5, 6] == [run.plan.n for run in report.runs]
    assert [(1, 400)] * 3 == [(run.report.buckets, run.report.rows_read) for run in report.runs]
    assert [6, 5, 4, 3, 2, 1] == [ended.n for ended in world.lake.history("bars", None)]
    world.expect_true()
