"""Other processes, clocks and crowds around a lake: stopped in a commit, killed at random, years off, thousands of names; no JVM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.journal.store import JournalStore
from materializer.lake import places
from tests.attacks.soak import soak
from tests.attacks.sums import added_up, published
from tests.attacks.table import attack
from tests.hints.world import World
from tests.paths import ROOT

# -- a process that is stopped in the middle of a commit -----------------------------------------------------------------

STOPS = """
import os, signal, sys
from materializer import Materializer
from materializer.config import Config
from materializer.errors import MaterializerError

def stop(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGSTOP)

try:
    Materializer(sys.argv[1], config=Config(lease_seconds=1, price_tie_ms=60_000, executor="local"), on_checkpoint=stop).refresh("hourly")
except MaterializerError as exc:
    print(exc.code)
"""
ELSEWHERE = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
"""Runs a command on what looks like another host: only the end of a lease tells whether its process is alive."""


def stopped(world: World, step: str, *before: str, lake: str = "") -> subprocess.Popen[str]:
    """Start a refresh that stops itself before a step, and return it when it has."""
    command = [*before, sys.executable, "-c", STOPS, lake or str(world.root), step]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), status
    return child


def expect_once(world: World) -> None:
    """Expect that each row is counted once, also after rows that come later."""
    world.add([3, 51])
    world.works("refresh hourly")
    assert added_up(world) == published(world)


@attack(
    "Processes",
    "one is stopped in the middle of a commit (SIGSTOP) for longer than its lease, and another one refreshes",
    "on the same machine the other one waits (`lease.held`); the first one ends its work",
)
def test_a_stopped_process_keeps_its_lease_here(world: World) -> None:
    """
    Who lives can still write, so its lease does not end by the clock.
    """
    world.add([3, 50], value=5)
    child = stopped(world, "wrote_partials")
    try:
        time.sleep(1.2)
        assert ["lease.held"] == [e["code"] for e in world.run("refresh hourly").errors]
    finally:
        child.send_signal(signal.SIGCONT)
    assert "" == child.communicate()[0]
    assert added_up(world) == published(world)
    expect_once(world)


@pytest.mark.parametrize("step", ["plan", "write", "done"])
@attack(
    "Processes",
    "the same on another host, whose lease ends; the other one refreshes, and the first one is continued",
    "`lease.lost` or `write.fenced` for the first one; no row is lost or doubled",
)
def test_a_stopped_process_of_another_host_is_fenced(world: World, step: str) -> None:
    """
    What it would commit then is refused by the tables, and what it committed is finished for it.
    """
    if subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not take another host name")
    world.add([3, 50], value=5)
    child = stopped(world, step, *ELSEWHERE)
    try:
        world.add([4], value=7)
        time.sleep(1.2)
        world.works("refresh hourly")
        assert added_up(world) == published(world)
    finally:
        child.send_signal(signal.SIGCONT)
    said = child.communicate()[0].strip()
    assert said in ("lease.lost", "write.fenced"), said
    expect_once(world)


@pytest.mark.parametrize("step", ["plan", "write", "done"])
@attack(
    "Processes",
    "the same with the lake on a store: nothing but conditional writes keeps two hosts apart",
    "`lease.lost` or `write.fenced` for the first one; no row is lost or doubled",
)
def test_a_stopped_process_is_fenced_on_a_store(world: World, bucket: str, step: str) -> None:
    """
    The lake is copied to the store as it is; its source stays where it was.
    """
    if subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not take another host name")
    lake, source = f"{bucket}/lake", Path(world.state().source.path)
    for file in places.files(str(world.root)):
        if not (world.root / file.name).is_relative_to(source):
            places.put(f"{lake}/{file.name}", places.read(f"{world.root}/{file.name}"))
    here = Materializer(lake, config=Config(lease_seconds=1, executor="local"))
    world.add([3, 50], value=5)
    child = stopped(world, step, *ELSEWHERE, lake=lake)
    try:
        world.add([4], value=7)
        time.sleep(1.2)
        assert "refreshed" == here.refresh("hourly").outcome
        assert added_up(world) == published(world, lake)
    finally:
        child.send_signal(signal.SIGCONT)
    said = child.communicate()[0].strip()
    assert said in ("lease.lost", "write.fenced"), said
    world.add([3, 51])
    here.refresh("hourly")
    assert added_up(world) == published(world, lake)


@attack(
    "Processes",
    "two refresh one lake in a loop while rows are added, and one in five is killed (`kill -9`) after a random time",
    "each ends well or says that the other is at work; at the end each output is what a loop over the raw rows says",
)
def test_killed_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A few seconds of what `python -m tests.attacks.soak --minutes M` does for longer.
    """
    monkeypatch.chdir(tmp_path)
    soaked = soak(tmp_path, 4, seed=7)

    assert [] == soaked.wrong
    assert soaked.runs == soaked.ended + soaked.killed


# -- a clock that is wrong -----------------------------------------------------------------------------------------------

OFF = """
import os, time
read, read_ns, off = time.time, time.time_ns, float(os.environ["CLOCK_IS_OFF"])
time.time = lambda: read() + off
time.time_ns = lambda: read_ns() + int(off * 1e9)
"""
COMMANDS = """
import os, sys, time
from materializer.adapters.cli.app import main

assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME) - float(os.environ["CLOCK_IS_OFF"])) < 1
words = ("policy run --due", "refresh hourly", "maintain hourly", "status")
sys.exit(max(main([*each.split(), "--json", "--lake", sys.argv[1]]) for each in words))
"""
HOUR, YEAR = 3600, 365 * 86400


@attack(
    "The clock",
    "it jumps by hours and years, backwards too, from command to command: refreshes, policies, maintenance",
    "each ends well, and rows stay right",
)
def test_the_clock_jumps_between_commands(world: World, tmp_path: Path) -> None:
    """
    Instants of rows decide what is dirty and what is kept; the clock decides when, and which leftovers go.
    """
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(OFF)
    world.works("policy add hourly --start-offset '9000 days' --end-offset '1 day' --schedule '0 * * * *'")
    jumps = (YEAR, -HOUR, 3 * HOUR, -YEAR, 0)
    for number, off in enumerate(jumps):
        world.add([number, 50 + number], value=3)
        env = os.environ | {"PYTHONPATH": f"{planted}:{ROOT}", "CLOCK_IS_OFF": str(off)}
        command = [sys.executable, "-c", COMMANDS, str(world.root)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert (0, True) == (ran.returncode, "refreshed" in ran.stdout), (off, ran.stderr)
        assert added_up(world) == published(world), off


# -- a crowd -------------------------------------------------------------------------------------------------------------


@attack(
    "The journal",
    "2,000 aggregates with names of 128 characters that differ in a few of them",
    "`status`, `history` and `refresh` of one take seconds; a name that is almost one of them is `aggregate.unknown`",
)
def test_a_crowd_of_long_names(world: World) -> None:
    """
    What asks for one aggregate takes no longer for a crowd around it; what asks for all, as many times as they are.
    """
    store = JournalStore(world.root)
    now = store.read()
    defined = next(row for row in now.rows if row.kind == "defined")
    names = [f"n{number:05d}".ljust(128, "x") for number in range(2_000)]
    crowd = [
        replace(defined, aggregate=f"{n:032x}", payload=defined.payload.replace('"hourly"', json.dumps(name)))
        for n, name in enumerate(names)
    ]
    store.append(crowd, expected_version=now.version)
    world.add([50])

    for words, most in (("status", 15), (f"history {names[7]}", 4), (f"status {names[7]}", 4), ("refresh hourly", 4)):
        began = time.monotonic()
        world.works(words)
        assert time.monotonic() - began < most, words
    assert ["aggregate.unknown"] == [e["code"] for e in world.run(f"status {names[7][:-1]}").errors]
    assert added_up(world) == published(world)
