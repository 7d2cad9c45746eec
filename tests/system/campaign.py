"""A long campaign of random histories, in small chunks that are kept: stop it and go on, by several processes at once.

    python -m tests.system.campaign [--minutes 30] [--target 600] [--worker 0/2] [--seed 9000] [--chunks N] [--each N] [--on s3]
    python -m tests.system.campaign --summary

Every chunk is a process of one of the machines (work and deaths, changed definitions, repairs, retention, engines, engines that are
kept for long, engines whose history is frozen) with a seed and a lane of its own; every fourth chunk of a machine is in Spark's
lane. In each history refreshes by both executors take turns.
What a chunk ran and found becomes a line of ``docs/benchmarks/campaign.jsonl``, with what the code was: a campaign is of one
state of the package ``materializer/``, and begins anew when that changes. ``--worker K/N`` takes every N-th turn of the machines, so that N
processes share the work; each stops before the chunk that would not end within its ``--minutes``. A chunk that finds something, dies
or hangs is kept with the end of its printout and the command that repeats it, the campaign goes on, and ends with status 1.

``--summary`` prints the table of ``docs/measurements.md``, and writes it there.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tests.benchmarks import history
from tests.docs import pages

FILE: Final = history.ROOT / "docs" / "benchmarks" / "campaign.jsonl"
PAGE: Final = history.ROOT / "docs" / "measurements.md"
SEED: Final = 9_000
MACHINES: Final[Mapping[str, tuple[str, int]]] = {
    "work and deaths": ("tests.system.stateful --examples {histories} --steps 12", 5),
    "changed definitions": ("tests.system.stateful --versions --examples {histories} --steps 12", 5),
    "repairs": ("tests.system.stateful --repairs --examples {histories} --steps 12", 5),
    "retention": ("tests.system.stateful --retention --examples {histories} --steps 12", 5),
    "engines": ("tests.system.engine_histories --trace --histories {histories} --steps 4", 5),
    "engines, kept": ("tests.system.engine_histories --kept --trace --histories {histories} --steps 4", 5),
    "engines, frozen": ("tests.system.engine_histories --frozen --trace --histories {histories} --steps 4", 5),
}
"""Of each machine its command, and how many histories a chunk has: what takes a minute or two."""
LONGEST: Final = 1_800
"""Seconds after which a chunk is said to hang."""
FIRST_GUESS: Final = 150
"""Seconds that a chunk is expected to take before any has ended."""
KEPT_LINES: Final = 40
_ENDS: Final = re.compile(r"^(\d+) (?:examples|histories), ", flags=re.MULTILINE)
_SEEN: Final = re.compile(r"^ *(\d+) (.+)$", flags=re.MULTILINE)


class Chunk(Struct, frozen=True):
    """Some histories of one machine.

    Args:
        number: Its place in the campaign, from 0.
        seed: Where chance begins.
        each: How many histories it has; 0 for as many as :data:`MACHINES` says.
        on: Where lakes and sources lie: ``disk`` or ``s3``.
    """

    number: int
    seed: int
    each: int = 0
    on: str = "disk"

    @property
    def machine(self) -> str:
        """The machines take turns."""
        return list(MACHINES)[self.number % len(MACHINES)]

    @property
    def lane(self) -> str:
        """Of four chunks of one machine, one is in Spark's lane, of each machine another one."""
        return "spark" if self.turn % 4 == self.number % len(MACHINES) % 4 else "driver"

    @property
    def turn(self) -> int:
        """In each turn every machine has one chunk."""
        return self.number // len(MACHINES)

    @property
    def histories(self) -> int:
        """How many histories it has."""
        return self.each or MACHINES[self.machine][1]

    @property
    def command(self) -> list[str]:
        """What runs it, and repeats it."""
        words = MACHINES[self.machine][0].format(histories=self.histories).split()
        words += [] if self.on == "disk" else ["--on", self.on]
        return ["python", "-m", *words, "--seed", str(self.seed), "--lane", self.lane]

    @property
    def can_run(self) -> bool:
        """Whether its machine takes a store; those of engines do not."""
        return self.on == "disk" or "tests.system.stateful" in self.command


def chunks(seed: int, each: int = 0, on: str = "disk") -> Iterator[Chunk]:
    """Give the chunks of a campaign without end; seeds are 100 apart, as a chunk may use some that follow its own."""
    return filter(lambda chunk: chunk.can_run, (Chunk(n, seed + 100 * n, each, on) for n in count()))


def code() -> str:
    """Return what stands for the text of the package, committed or not."""
    told = hashlib.sha256()
    for path in sorted((history.ROOT / "materializer").rglob("*.py")):
        told.update(f"{path.relative_to(history.ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return told.hexdigest()[:12]


def kept(file: Path = FILE) -> list[dict[str, Any]]:
    """Return what chunks are on record, in order."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def keep(entry: Mapping[str, Any], file: Path = FILE) -> None:
    """Append one line, whole, whoever else does so."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.write(f"{json.dumps(entry)}\n")


def run(chunk: Chunk) -> dict[str, Any]:
    """Run a chunk in a process of its own; return how many histories ran, what was seen, and what was found."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *chunk.command[1:]],
        cwd=history.ROOT,
        env=os.environ | {"PYTHONPATH": str(history.ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    found = ""
    try:
        printed, _ = process.communicate(timeout=LONGEST)
    except BaseException as exc:
        os.killpg(process.pid, signal.SIGKILL)  # with its JVM
        printed, _ = process.communicate()
        if not isinstance(exc, subprocess.TimeoutExpired):
            raise
        found = f"no end within {LONGEST} s"
    if process.returncode and not found:
        found = f"ended with status {process.returncode}"
    return told(printed, found) | {"seconds": round(time.monotonic() - began, 1)}


def told(printed: str, found: str) -> dict[str, Any]:
    r"""Return what a machine's printout says: its histories, what it saw, and its end where something was found.

    Examples:
        >>> told("     3 refresh\n     1 died at fence\n2 examples, seed 7, 5 s: nothing found", "")
        {'histories': 2, 'found': '', 'seen': {'refresh': 3, 'died at fence': 1}, 'said': '2 examples, seed 7, 5 s: nothing found'}
        >>> told("killed", "ended with status -9")
        {'histories': 0, 'found': 'ended with status -9', 'seen': {}, 'said': 'killed'}
    """
    ends = _ENDS.search(printed)
    before = printed[: ends.start()] if ends else ""
    lines = printed.rstrip().replace(f"{history.ROOT}/", "").splitlines()
    return {
        "histories": int(ends[1]) if ends else 0,
        "found": found,
        "seen": {what: int(number) for number, what in _SEEN.findall(before)},
        "said": "\n".join(
            lines[-KEPT_LINES:] if found else [line for line in lines if _ENDS.match(line)][-1:] or lines[-1:]
        ),
    }


def go_on(
    options: argparse.Namespace,
    runs: Callable[[Chunk], dict[str, Any]] = run,
    file: Path = FILE,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run chunks that are not on record until there is no more time, or there are enough; return the exit status."""
    began, of, which, on = clock(), code(), history.commit(), history.machine()
    worker, workers = (int(number) for number in options.worker.split("/"))
    failed = ran = 0
    for chunk in chunks(options.seed, options.each, options.on):
        # others add to it meanwhile
        done = [e for e in kept(file) if e["code"] == of and e.get("store", "disk") == options.on]
        if sum(entry["histories"] for entry in done) >= options.target or ran == options.chunks:
            break
        if chunk.turn % workers != worker or chunk.seed in {entry["seed"] for entry in done}:
            continue
        longest = max((entry["seconds"] for entry in done), default=FIRST_GUESS)
        if clock() - began + longest > 60 * options.minutes:
            print(f"the next chunk might take {longest:.0f} s, and {options.minutes:g} minutes would be over")
            break
        print(f"$ {shlex.join(chunk.command)}", flush=True)
        found = runs(chunk)
        entry = {
            "number": chunk.number,
            "at": history.now(),
            "commit": which,
            "code": of,
            "machine": chunk.machine,
            "store": chunk.on,
            "lane": chunk.lane,
            "seed": chunk.seed,
            "command": shlex.join(chunk.command),
            "on": on,
            **found,
        }
        keep(entry, file)
        ran += 1
        print(found["said"], flush=True)
        if found["found"]:
            failed += 1
            print(f"FOUND: {found['found']}; again: {shlex.join(chunk.command)}", flush=True)
    print(f"{ran} chunks now; of this code:")
    print(*lines(kept(file), of), sep="\n")
    return 1 if failed else 0


def lines(entries: Sequence[Mapping[str, Any]], of: str) -> Iterator[str]:
    """Give how far the campaign of some code is, by machine and lane."""
    told = [entry for entry in entries if entry["code"] == of]
    total = sum(entry["histories"] for entry in told)
    in_spark = sum(entry["histories"] for entry in told if entry["lane"] == "spark")
    seconds = sum(entry["seconds"] for entry in told)
    for machine, lane in sorted({(_name(entry), entry["lane"]) for entry in told}):
        those = [entry for entry in told if (_name(entry), entry["lane"]) == (machine, lane)]
        found = sum(bool(entry["found"]) for entry in those)
        yield f"{machine:20} {lane:7} {sum(e['histories'] for e in those):5} histories in {len(those):3} chunks, {found} found something"
    share = in_spark / total if total else 0
    a_minute = 60 * total / seconds if seconds else 0
    yield f"{total} histories in {len(told)} chunks, {share:.0%} in Spark's lane, {a_minute:.1f} a minute of one process"


def _name(entry: Mapping[str, Any]) -> str:
    store = entry.get("store", "disk")
    return str(entry["machine"]) + ("" if store == "disk" else f" on {store}")


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the newest campaign: what ran, in which lane, and what was found."""
    if not entries:
        return "No campaign is on record.\n"
    newest = entries[-1]["code"]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        if entry["code"] == newest:
            groups[_name(entry), entry["lane"]].append(entry)
    rows = [
        (
            machine,
            lane,
            str(sum(e["histories"] for e in those)),
            f"{min(e['seed'] for e in those)} to {max(e['seed'] for e in those)}",
            f"{sum(e['seconds'] for e in those) / 60:.0f}",
            "; ".join(f"seed {e['seed']}: {e['found']}" for e in those if e["found"]) or "nothing",
        )
        for (machine, lane), those in sorted(
            groups.items(), key=lambda group: (list(MACHINES).index(group[1][0]["machine"]), group[0])
        )
    ]
    every = [e for those in groups.values() for e in those]
    total = sum(e["histories"] for e in every)
    in_spark = sum(e["histories"] for e in every if e["lane"] == "spark")
    commits = ", ".join(f"`{c}`" for c in dict.fromkeys(e["commit"] for e in every))
    return (
        f"At {commits}, {every[0]['at'][:10]} to {every[-1]['at'][:10]}: {total} histories, {in_spark / max(total, 1):.0%} of them in Spark's lane.\n\n"
        + pages.table(("machine", "lane", "histories", "seeds", "minutes", "found"), rows)
    )


def made(file: Path = FILE) -> str:
    """Return the page with its table of the campaign."""
    return pages.filled(PAGE.read_text(encoding="utf-8"), {"campaign": table(kept(file))})


def main(argv: Sequence[str] | None = None) -> int:
    """Go on with the campaign, or tell how far it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="stop before so many are over")
    parser.add_argument(
        "--target", type=int, default=600, help="stop when so many histories of this code are on record"
    )
    parser.add_argument(
        "--worker", default="0/1", metavar="K/N", help="take every N-th turn of the machines, from K on"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="another seed is another campaign of the same code")
    parser.add_argument("--chunks", type=int, default=-1, help="stop after so many")
    parser.add_argument("--each", type=int, default=0, help="histories of a chunk; fewer where the machine is slow")
    parser.add_argument("--on", choices=("disk", "s3"), default="disk", help="where lakes and sources lie")
    parser.add_argument("--summary", action="store_true", help="only tell how far it is, and write the table")
    options = parser.parse_args(argv)
    if options.summary:
        entries = kept()
        print(*lines(entries, code()), sep="\n")
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    return go_on(options)


if __name__ == "__main__":
    sys.exit(main())
