"""Clocks that jump: back by an hour or a day, ahead by a year, between commands and in the midst of one."""

from __future__ import annotations

import ast
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from msgspec.structs import replace

from materializer.core.language.define import define
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from materializer.core.time.instants import SECOND
from materializer.errors import LeaseHeldError
from materializer.journal.events import Lease, LeaseTaken, PolicyRan
from materializer.journal.fold import fold
from materializer.journal.store import JournalStore
from materializer.services import processes
from materializer.services.aggregate import Timed
from materializer.services.schedule import policies
from tests.journal.histories import DEFINED, rows_of
from tests.paths import ROOT
from tests.system.processes.clock import _READ_DATES, DAY, HOUR, YEAR, shifted, wrong_by
from tests.system.processes.mended import opened
from tests.system.processes.running import START, World
from tests.system.processes.situations import LATE, OTHER, OTHERLY, put_definition, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JUMPS: Final = {"an hour back": -HOUR, "a day back": -DAY, "a year back": -YEAR, "a year ahead": YEAR}
SLOW: Final = pytest.mark.slow
STEPS: Final = ("lease", "plan", "compute", "write", "wrote_output", "done")
COMMANDS: Final = "refresh maintain apply refresh build backup maintain refresh restore repair refresh maintain expire refresh maintain"


# -- how the product reads the time --------------------------------------------------------------------------------------


def clocks_read() -> Iterator[tuple[str, str]]:
    """Yield (module, call) of every reading of the time in the product."""
    for file in sorted((ROOT / "materializer").rglob("*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                *("time.time", "time.time_ns", "time.gmtime", "time.localtime", "time.strftime"),
                *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
            }:
                yield module, ast.unparse(node.func)
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                yield module, f"from time import {node.names[0].name}"


def test_the_tests_know_every_clock() -> None:
    """
    The product reads the time in ways that the tests can set wrong, and in no other.
    """
    # the scheduler's clock decides about deadlines of its tasks, which touch no lake
    dates = {m for m, call in clocks_read() if call == "datetime.now" and not m.startswith("materializer.adapters.")}

    assert {"time.time", "time.time_ns", "datetime.now"} == {call for _, call in clocks_read()}
    assert {module.__name__ for module in _READ_DATES} == dates


# -- leases --------------------------------------------------------------------------------------------------------------


def test_a_lease_of_this_host_knows_no_clock() -> None:
    """
    Who lives here holds his lease however the clock jumps, and who died loses it.
    """
    mine = processes.new_lease(0.0, 60.0)
    dead = replace(mine, owner="dead", started=mine.started - 1, until=1e12)
    with processes.at_work(mine):
        assert [False] * 3 == [processes.is_dead(mine, now) for now in (-YEAR, 0.0, YEAR)]
    assert [True] * 3 == [processes.is_dead(dead, now) for now in (-YEAR, 0.0, YEAR)]


# -- schedules -----------------------------------------------------------------------------------------------------------


def ran(*runs: tuple[int, bool]) -> tuple[int, int]:
    """Return when a policy ran last, after runs at some instant, each by the clock after it was ahead or not."""
    states = fold(rows_of(DEFINED, *(PolicyRan("default", at, at, is_by_clock) for at, is_by_clock in runs)))
    return states["a1"].policy_runs["default"]


def test_a_schedule_comes_back_with_the_clock() -> None:
    """
    An old window that is asked for again moves no schedule; a clock that was ahead and is right again does.
    """
    assert (90, 90) == ran((90, False), (10, False))
    assert (10, 10) == ran((90, False), (10, True))


@pytest.mark.parametrize(
    ("last", "is_ahead"),
    [("2024-03-01T09:59:00", False), ("2024-03-01T10:20:30", False), ("2025-03-01T10:00:00", True)],
)
def test_a_run_by_a_clock_that_was_ahead_is_told(last: str, is_ahead: bool) -> None:
    """
    At 10:20 an hourly policy that ran at 10:20:30 by another clock has run; one that ran next year has not.
    """
    now, then = (int(datetime.fromisoformat(f"{t}+00:00").timestamp()) * SECOND for t in ("2024-03-01T10:20:00", last))
    given = {"refresh.start_offset": "none", "refresh.schedule": "0 * * * *"}
    spec = define("bars", "trades", time="ts", width="1 hour", measures={"n": "count(*)"}, properties=given)
    definition = Timed(spec, build(spec.grid, TimeType.TIMESTAMP))
    state = fold(rows_of(DEFINED, PolicyRan("default", then, then)))["a1"]
    by_clock, as_asked = (policies.policy_states(state, definition, now, now, is_by_clock=i) for i in (True, False))

    assert is_ahead == (by_clock[0].is_due and not as_asked[0].is_due)


# -- what nobody needs ---------------------------------------------------------------------------------------------------


def test_a_journal_that_is_written_meanwhile_loses_nothing(tmp_path: Path) -> None:
    """
    However far on its clock is, who cleans the journal leaves the file that another writes just now.
    """
    store = JournalStore(tmp_path)
    store.append(rows_of(DEFINED), expected_version=-1)
    newest = max(p.stat().st_mtime for p in Path(store.path).rglob("*"))
    written = Path(store.path) / "part-of-the-next-commit.parquet"
    written.write_bytes(b"rows")
    os.utime(written, (newest + 1, newest + 1))
    with wrong_by(YEAR):
        assert [] == store.leftovers()
        os.utime(written, (newest - 1, newest - 1))
        assert [written.name] == [found.name for found in store.leftovers()]


# -- a lake --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jump", "step"),
    [
        pytest.param(jump, step, marks=[] if (jump, step) == ("a year ahead", "write") else SLOW)
        for jump in JUMPS
        for step in STEPS
    ],
)
def test_the_clock_jumps_in_a_refresh(tmp_path: Path, spark: SparkSession, jump: str, step: str) -> None:
    """
    A refresh in which the clock jumps is done; with the clock right again nothing is twice, and nothing waits.
    """
    world = World(tmp_path, spark, properties={"output.change_feed": "true", "source.retention": "3 hours"})
    world.lake.refresh("bars")
    world.insert(3, (4, 5))
    with ExitStack() as stack:
        right: list[object] = []

        def leap(at: str) -> None:
            if at == step and not right:
                right.append(stack.callback(shifted(JUMPS[jump])))

        [done] = opened(world, on_checkpoint=leap).lake.refresh("bars").runs
    assert right
    assert "merge" in done.report.strategy
    three = int((START + timedelta(hours=3)).timestamp() * SECOND)
    assert three == opened(world).state.frozen, "history is frozen by rows, not by the clock"
    assert "up-to-date" == world.lake.refresh("bars").outcome
    world.expect_true()


@pytest.mark.parametrize(
    ("jump", "commands"),
    [
        pytest.param("an hour back", "apply refresh build maintain refresh", id="an hour back, in short"),
        *(pytest.param(jump, COMMANDS, id=jump, marks=SLOW) for jump in JUMPS),
    ],
)
def test_the_clock_jumps_between_commands(tmp_path: Path, spark: SparkSession, jump: str, commands: str) -> None:
    """
    Every other command runs with a wrong clock, maintenance removes by it: what is published and its history stay true.
    """
    world = World(tmp_path, spark, properties={"output.change_feed": "true"})
    daily = {"time": "bucket", "width": "1 day", "keys": ["k"], "measures": {"s": "sum(s)"}}
    run(world, "refresh")
    world.lake.define("daily", "bars", **daily)
    put_definition(world, OTHER, **world.properties)
    for i, command in enumerate(commands.split()):
        if command == "refresh":
            world.insert(2, LATE)
        with wrong_by(JUMPS[jump] if i % 2 else 0.0):
            opened(world)
            run(world, command)
            if command == "repair":
                world.lake.repair("daily")
            if i % 3 == 0:
                world.lake.refresh("daily")
            world.lake.status()
            world.lake.doctor("bars")
    opened(world)
    world.lake.refresh("daily")

    world.plainly = OTHERLY
    world.expect_true()
    assert world.lake.verify("daily").is_equal
    waits = [wait for state in world.lake.journal.view().all.values() for wait in state.waits]
    assert all(wait >= 0 for wait in waits)


def test_a_policy_after_the_clock_was_ahead(tmp_path: Path, spark: SparkSession) -> None:
    """
    A policy that ran by a clock a year ahead is due when the clock is right again, once.
    """
    world = World(tmp_path, spark, properties={"refresh.schedule": "0 0 1 1 *"})
    with wrong_by(2 * YEAR):
        assert 1 == len(world.lake.run_due("bars"))
        assert [] == world.lake.due("bars")
    assert [("bars", "default")] == world.lake.due("bars")
    world.insert(3, LATE)
    assert ["refreshed"] == [report.report.outcome for report in world.lake.run_due("bars")]
    assert [] == world.lake.due("bars")
    world.expect_true()


@pytest.mark.parametrize("jump", [pytest.param("a year ahead", marks=SLOW), "a day back"])
def test_a_lease_of_another_host_by_a_wrong_clock(tmp_path: Path, spark: SparkSession, jump: str) -> None:
    """
    A lease that another host gave by a wrong clock keeps others waiting until it has run out, and says whose it is.
    """
    world = World(tmp_path, spark)
    with wrong_by(JUMPS[jump]):
        lease = processes.new_lease(JUMPS[jump] + tmp_path.stat().st_mtime, 60.0)
        view = world.lake.journal.view()
        other = Lease(lease.owner, f"not-{socket.gethostname()}", 1, 1, lease.until)
        world.lake.journal.append(view.version, world.state.id, [LeaseTaken(other)])
    if JUMPS[jump] > 0:
        with pytest.raises(LeaseHeldError, match="not-"):
            world.lake.refresh("bars")
        with wrong_by(JUMPS[jump] + HOUR):
            world.lake.refresh("bars")
    else:
        world.lake.refresh("bars")
    world.expect_true()
