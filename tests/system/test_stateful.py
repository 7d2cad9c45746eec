from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from materializer.core.refresh.plan import Lane
from tests.paths import ROOT
from tests.system import keeping
from tests.system.lake import Death
from tests.system.stateful import explore
from tests.system.stateful_repairs import Mending
from tests.system.stateful_versions import Changing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST: Final = 6
"""Batches of examples, each with its own seed; more are not tried to meet what a test asks for."""
HAPPENS: Final = (
    "died at",
    "recovered: finished",
    "recovered: aborted",
    "strategy merge",
    "held back",
    "refused by the gate",
)

EVERYTHING: Final = (None, None)
"""The window of a refresh of everything."""


def how(examples: int) -> settings:
    """Return how many examples to run."""
    return settings(
        max_examples=examples,
        stateful_step_count=12,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # shrinking takes minutes: `python -m tests.system.stateful --shrink`
        suppress_health_check=list(HealthCheck),
    )


def until(
    wanted: Collection[str],
    spark: SparkSession,
    folder: Path,
    examples: int,
    *,
    explores: Callable[..., Counter[str]] = explore,
    first: int = 1,
    seeds: Iterable[int] = (),
    **options: Any,
) -> Counter[str]:
    """Run batches of examples, the same ones every time, until what is wanted has happened; assert that it has.

    Args:
        wanted: How what has to happen begins.
        spark: The session.
        folder: An empty folder.
        examples: How many are in a batch.
        explores: Runs a batch.
        first: The first seed: one in which much happens saves minutes.
        seeds: Such seeds, which are taken before all others.
        options: Of *explores*.
    """
    seen: Counter[str] = Counter()
    for number, seed in enumerate(chain(seeds, count(first)), 1):
        seen += explores(spark, folder, how(examples), seed, **options)
        missing = [what for what in wanted if not any(happened.startswith(what) for happened in seen)]
        if not missing:
            return seen
        assert number < MOST, f"never {missing}: {dict(seen)}"
    raise AssertionError


def begun(spark: SparkSession, folder: Path) -> keeping.Keeping:
    """Return a lake for steps that are written down."""
    keeping.Keeping.spark, keeping.Keeping.folder, keeping.Keeping.seen = spark, folder, Counter()
    keeping.Keeping.driver_lane_rows = 200_000
    return keeping.Keeping()


def taken(work: keeping.Keeping, steps: Iterable[Callable[[], object]]) -> None:
    """Take the steps, and see after each that history is remembered."""
    try:
        for step in steps:
            step()
            work.history_is_remembered()
    finally:
        work.teardown()


def test_random_work_and_deaths_leave_the_truth(spark, tmp_path) -> None:
    """
    After any sequence of commits, commands and deaths: what is clean is true, nothing that a gate refuses is published,
    and a refresh of everything mends the rest. That the dead had written everything happens in the history of retention below.
    """
    wanted = [what for what in HAPPENS if what != "recovered: finished"]
    until(
        [*wanted, "lane driver", "executor local", "executor spark"],
        spark,
        tmp_path,
        2,
        lane=Lane.DRIVER,
        seeds=(8, 10),
    )


@pytest.mark.slow
def test_more_random_work_and_deaths(spark, tmp_path) -> None:
    """
    More of it, in which everything happens.
    """
    until([*HAPPENS, "lane driver"], spark, tmp_path, 6, lane=Lane.DRIVER, first=8)


@pytest.mark.slow
def test_random_work_leaves_the_truth_when_spark_commits(spark, tmp_path) -> None:
    """
    The same where Spark commits.
    """
    until(["lane spark", "died at"], spark, tmp_path, 2, lane=Lane.SPARK)


def test_random_work_leaves_the_truth_on_s3(bucket) -> None:
    """
    One history with the lake, its suites and the source in a bucket, by a Spark that can read it, in a process of its own.
    """
    command = [
        sys.executable,
        "-m",
        "tests.system.stateful",
        "--on",
        "s3",
        "--examples",
        "1",
        "--steps",
        "6",
        "--seed",
        "8",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)

    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
    assert "1 examples, seed 8" in done.stdout
    assert "rows of plain Spark" in done.stdout


def test_random_changes_of_definitions_leave_the_truth(spark, tmp_path) -> None:
    """
    Definitions that are changed, built, switched, rolled back and given up in any order: what is clean is true.
    """
    until(["switched", "data started", "build"], spark, tmp_path, 4, lane=Lane.DRIVER, machine=Changing, first=6)


@pytest.mark.slow
def test_random_changes_of_definitions_in_every_way(spark, tmp_path) -> None:
    """
    More of them, in both lanes.
    """
    for lane in Lane:
        wanted = ["switched", "not switched", "data started", "measures started", "roll back", "died at"]
        until(wanted, spark, tmp_path, 8, lane=lane, machine=Changing)


def test_random_harm_is_repaired(spark, tmp_path) -> None:
    """
    Tables that are lost, harmed or old, events that nobody can read and old journals: repaired by processes that die, what is
    clean is true.
    """
    wanted = ["repair: repaired", "restore: restored", "died at re"]
    until(wanted, spark, tmp_path, 2, lane=Lane.DRIVER, machine=Mending)


@pytest.mark.slow
def test_random_harm_of_every_kind(spark, tmp_path) -> None:
    """
    More of it, with canaries that look.
    """
    harms = [
        "harm: journal",
        *(f"harm: {table} {how}" for table in ("partials", "output") for how in ("missing", "foreign")),
    ]
    until(["died at repair", "died at restore", "canaries looked", *harms], spark, tmp_path, 10, machine=Mending)


def test_random_retention_leaves_what_an_oracle_remembers(spark, tmp_path) -> None:
    """
    One history, in which old rows go and history stays.
    """
    until(
        ["rows gone", "buckets remembered"], spark, tmp_path, 3, explores=keeping.explore, lane=Lane.DRIVER, seeds=(2,)
    )


def test_a_refresh_that_dies_when_all_is_written_is_finished_by_the_next(spark, tmp_path) -> None:
    """
    History that was frozen meanwhile is what an oracle remembers.
    """
    work = begun(spark, tmp_path)
    late = [keeping.Commit("comes", [{"after": timedelta(hours=1), "k": "a", "v": 3}])]
    steps: list[Callable[[], object]] = [
        lambda: work.open([], copies=1, retention=None, keeps=None, bound=5, run=None, canaries=0),
        lambda: work.refresh(late, EVERYTHING, force=False, death=Death("done", 1, is_kill=True)),
        lambda: work.refresh([], EVERYTHING, force=False, death=None),
    ]
    taken(work, steps)
    happened = ("expired", "refresh died at done", "left unfinished", "recovered: finished", "buckets remembered")
    assert [] == [what for what in happened if not work.seen[what]]


@pytest.mark.slow
def test_random_retention_leaves_what_is_remembered(spark, tmp_path) -> None:
    """
    While old rows go and come, are corrected and frozen, and commands die, tables are harmed and repaired, the output lets go
    and definitions change: what is published is what an oracle remembers that forgets nothing.
    """
    wanted = [
        *("expired", "rows gone", "conflicts", "buckets remembered", "strategy merge", "expire.dirty", "window.frozen"),
        *("refresh died at", "backfill died at", "expire died at", "thaw died at", "maintain died at"),
        *("recovered: aborted", "recovered: finished", "tables maintained"),
        *("strategy discard", "retired", "wanted again", "canaries looked"),
        *("harm: output missing", "harm: output ahead", "harm: partials", "harm: journal", "buckets stuck by a repair"),
        *("repair died at", "published by change", "published by roll back", "change died at"),
    ]
    until(wanted, spark, tmp_path, 8, explores=keeping.explore, lane=Lane.DRIVER)
    until(wanted[:3], spark, tmp_path, 2, explores=keeping.explore, lane=Lane.SPARK)


@pytest.mark.slow
def test_what_chance_seldom_does_to_history(spark, tmp_path) -> None:
    """
    A death between the tables below the bound, an output that is lost then, a switch that a dead process left, old buckets that
    are wanted again, a journal from before and one that nobody can read, a bound that a next version holds: each happens, and
    history is what is remembered.
    """
    late, new = ([keeping.Commit("comes", [{"after": timedelta(hours=h), "k": "a", "v": 3}])] for h in (1, 12))
    work = begun(spark, tmp_path)
    steps: list[Callable[[], object]] = [
        lambda: work.open([], copies=8, retention=None, keeps=None, bound=5, run=2, canaries=2),
        lambda: work.maintain(None),
        lambda: work.change(late, is_other=True, death=Death("switch_done", 1, is_kill=True)),
        lambda: work.refresh([], EVERYTHING, force=False, death=None),
        lambda: work.roll_back(late, None),
        lambda: work.refresh(late, EVERYTHING, force=False, death=Death("wrote_partials", 1, is_kill=True)),
        lambda: work.repair(late, ["output missing"], None),
        work.back_up,
        lambda: work.refresh(late, EVERYTHING, force=True, death=None),
        lambda: work.repair(late, ["journal old"], None),
        lambda: work.repair(late, ["partials missing", "output missing"], Death("repair_swap", 1, is_kill=True)),
        lambda: work.keep(4, wants=False, death=None),
        lambda: work.refresh([], EVERYTHING, force=False, death=None),
        lambda: work.keep(None, wants=True, death=None),
        lambda: work.refresh([], EVERYTHING, force=False, death=None),
        lambda: work.change(new, is_other=True, death=Death("writing_partials", 1, is_kill=True)),
        lambda: work.expire([], 7, is_deleted=False, death=None),
        lambda: work.repair(late, ["journal unreadable"], None),
    ]
    taken(work, steps)
    happened = ["tables maintained", "left in a switch", "published by refresh", "published by roll back", "retired"]
    happened += ["wanted again", "left unfinished below the bound", "late rows given up", "harm: journal old"]
    happened += ["history.building", "harm: journal unreadable"]
    assert [] == [what for what in [*happened, "buckets stuck by a repair"] if not work.seen[what]]
