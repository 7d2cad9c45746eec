"""Processes that refresh one lake in a loop, of which some are killed at a random time: ``python -m tests.attacks.soak --minutes M``.

One writer adds rows meanwhile. At the end one more refresh is made, and each output is compared with a loop over the raw rows. A run that
ends with another status than done, nothing to do, busy or to be tried again counts as wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable
from msgspec import Struct, field

from tests.hints.world import BEGIN, DAILY, HOURLY, World
from tests.paths import ROOT

LANES = 2
"""Processes at a time."""
KILLED = 5
"""One in so many is killed."""
SLOWEST = 2.5
"""Seconds after which a process that is to be killed is killed at the latest."""
BUSY = (0, 1, 3, 75)
"""Statuses of a process that found another one at work."""


class Soaked(Struct):
    """What came of it.

    Args:
        runs: Processes that were started.
        ended: Those that ended by themselves.
        killed: Those that were killed before they ended.
        wrong: What went wrong: statuses with errors that no busy lake gives, and outputs that differ.
    """

    runs: int = 0
    ended: int = 0
    killed: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.runs} runs, {self.ended} ended, {self.killed} killed, {len(self.wrong)} wrong"
        return "\n".join([counts, *self.wrong])


def sums(rows: Sequence[dict[str, object]], column: str, width: int) -> dict[int, int]:
    """Return the sum of ``v`` for each so many hours since the first row."""
    found: Counter[int] = Counter()
    for row in rows:
        at, value = row[column], row["v"]
        assert isinstance(at, datetime)
        assert isinstance(value, int)
        found[int((at.astimezone(UTC) - BEGIN).total_seconds() // 3600) // width] += value
    return dict(found)


def differing(root: Path) -> list[str]:
    """Return the outputs that differ from a loop over the raw rows."""
    raw = DeltaTable(str(root / "raw")).to_pyarrow_table().to_pylist()
    wrong = []
    for name, width in (("hourly", 1), ("daily", 24)):
        output = DeltaTable(str(root / name / "output")).to_pyarrow_table().to_pylist()
        is_single = len({row["at"] for row in output}) == len(output)
        if not is_single or sums(output, "at", width) != sums(raw, "ts", width):
            wrong.append(f"the output of '{name}' differs from its raw rows")
    return wrong


def soak(root: Path, seconds: float, seed: int) -> Soaked:
    """Refresh a new lake in *root* by processes, some of which are killed, for so many seconds; compare at the end."""
    drawn, soaked = random.Random(seed), Soaked()
    world = World(root)
    world.apply(HOURLY, DAILY)
    world.works("refresh --all")
    running: dict[subprocess.Popen[str], float | None] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until or running:
        now = time.monotonic()
        if now < until:
            world.add([drawn.randrange(72) for _ in range(drawn.randrange(1, 5))], value=drawn.randrange(1, 9))
        while now < until and len(running) < LANES:
            at = now + drawn.random() * SLOWEST if drawn.randrange(KILLED) == 0 else None
            running[_started(root)] = at
            soaked.runs += 1
        for process, at in list(running.items()):
            if at is not None and now >= at and process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                process.communicate()
            if process.poll() is not None:
                del running[process]
                _count(process, soaked)
        time.sleep(0.1)
    world.works("refresh --all")
    soaked.wrong += differing(root)
    return soaked


def _started(root: Path) -> subprocess.Popen[str]:
    words = ["refresh", "--all", "--json", "--lake", str(root)]
    environ = os.environ | {"PYTHONPATH": str(ROOT), "MATERIALIZER_EXECUTOR": "auto"}
    command = [sys.executable, "-m", "materializer", *words]
    return subprocess.Popen(
        command, cwd=root, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _count(process: subprocess.Popen[str], soaked: Soaked) -> None:
    if process.returncode == -signal.SIGKILL:
        soaked.killed += 1
        return
    soaked.ended += 1
    _, errors = process.communicate()
    found = [json.loads(line)["error"] for line in errors.splitlines() if line.startswith('{"error"')]
    odd = [e for e in found if e["exit_status"] not in BUSY]
    if process.returncode not in BUSY or odd:
        soaked.wrong.append(f"a run ended with {process.returncode}: {[(e['code'], e['message'][:300]) for e in odd]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Soak a lake in a temporary folder and print what came of it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(argv)
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        soaked = soak(Path(folder), asked.minutes * 60, asked.seed)
    print(soaked)
    return int(bool(soaked.wrong))


if __name__ == "__main__":
    raise SystemExit(main())
