"""Processes that work on one aggregate at once, and those that wait for one which dies: each row counts once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from materializer.core.spec.spec import AggregateSpec
from tests.system.processes.mended import BORROW, Prepared, again, expect_whole, opened
from tests.system.processes.running import PLAINLY, World
from tests.system.processes.situations import OTHER, OTHERLY, SITUATIONS, Situation, put_definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATE: Final = (3, 4, 5)
"""Hours that rows come into; none of them is ever frozen."""
BESIDE: Final = ("maintain", "expire", "another version", "repair", "invalidate", "backfill")
"""What a third process does while two refresh."""
SLOW: Final = pytest.mark.slow
WAITED_FOR: Final = [
    pytest.param("a switch", "switch_fence", "refresh", marks=SLOW),
    pytest.param("a switch", "switch_write", "refresh", marks=SLOW),
    pytest.param("history to be frozen", "bound", "expire", marks=SLOW),
    pytest.param("worn tables", "maintain_written", "maintain"),
    pytest.param("an output that is missing", "repair_swap", "repair", marks=SLOW),
    pytest.param("tables ahead of their journal", "repair_journal", "repair", marks=SLOW),
]
"""Who dies where, and what two others do that wait for him."""


@pytest.mark.parametrize(
    ("command", "times"), [pytest.param("maintain", 2), *(pytest.param(c, 8, marks=SLOW) for c in BESIDE)]
)
def test_two_refresh_and_a_third_works_beside_them(
    tmp_path: Path, spark: SparkSession, command: str, times: int
) -> None:
    """
    Two processes refresh again and again while rows come and a third does something else: nothing is lost, nothing twice.
    """
    world = World(tmp_path, spark)
    world.lake.refresh("bars")
    put_definition(world, OTHER)
    often = ["--borrow", "--times", str(times)]
    with ExitStack() as stack:
        three = [stack.enter_context(world.child(each, *often)) for each in ("refresh", "refresh", command)]
        for _ in range(times):
            world.insert(2, LATE)
        one, other, _ = (child.end() for child in three)
    runs = [run["n"] for said in (one, other) for report in said["done"] for run in report["runs"]]
    assert len(runs) == len(set(runs)), "two processes did the same refresh"

    opened(world)
    world.lake.refresh("bars")
    world.plainly = OTHERLY if "low" in measures(world) else PLAINLY
    world.expect_true()
    world.lake.maintain("bars")
    world.expect_true()


def measures(world: World) -> set[str]:
    """Return the names of the measures that are published."""
    return {measure.name for measure in AggregateSpec.from_json(world.state.spec).measures}


def owner_of(world: World) -> str:
    """Return who holds the lease."""
    lease = opened(world).state.lease
    return lease.owner if lease else ""


@pytest.mark.parametrize(("name", "checkpoint", "others"), WAITED_FOR)
def test_two_wait_for_one_that_dies(
    prepared: Callable[[Situation], Prepared], name: str, checkpoint: str, others: str
) -> None:
    """
    While one works two others are kept waiting; when it is killed one of them takes over, once, and both go on.
    """
    situation = next(s for s in SITUATIONS if s.name == name)
    lake = prepared(situation)
    world = lake.put_back()
    with world.child(situation.command, "--wait", checkpoint, BORROW) as dying, ExitStack() as stack:
        dying.wait_at(checkpoint)
        owner = owner_of(world)
        often = ["--times", "2", "--wait", "lease", BORROW]
        waiting = [stack.enter_context(world.child(others, *often)) for _ in range(2)]
        for child in waiting:
            child.wait_at("lease")
            child.go_on()
        assert owner == owner_of(world), "somebody took the lease from the living"
        dying.kill()
        for child in waiting:
            child.end()

    again(opened(world), situation)
    expect_whole(lake, is_verified=True)
