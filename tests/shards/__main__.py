"""Run the slow tests shard by shard, and keep what came of them: ``python -m tests.shards [--only SHARD…] [--minutes N] [--list]``.

Shards that have an outcome at the newest commit are not run again, so the same command goes on where it stopped. A commit that
changes nothing a shard depends on leaves its outcome as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests import drawn
from tests.paths import ROOT
from tests.shards import record
from tests.shards.cut import Shard, cut
from tests.shards.record import Outcome

SEED: Final = 20130310
PATIENCE: Final = 60
"""Seconds that a shard that was told to stop has to clean up."""


def next_of(waiting: Iterable[Shard], left: float, known: Mapping[str, Outcome]) -> Shard | None:
    """Return the first shard that ends in the seconds that are left, as far as anybody can tell."""
    for shard in waiting:
        last = known.get(shard.name)
        if (last.seconds * 1.2 if last else shard.seconds) <= left:
            return shard
    return None


@dataclass(slots=True)
class Running:
    """A shard and the process that runs it.

    Args:
        shard: The shard.
        process: Its pytest.
        folder: Where its tests, their outcomes and what it prints lie.
        began: When it began, by the clock that only goes forward.
        at: When it began.
    """

    shard: Shard
    process: subprocess.Popen[bytes]
    folder: Path
    began: float
    at: str


def pytest_command(folder: Path, *words: str) -> list[str]:
    """Return the command that writes which tests there were and what came of them into a folder."""
    ours = ["-p", "tests.shards.outcomes", f"--outcomes={folder / 'outcomes'}", "-p", "no:cacheprovider", "-q"]
    return [sys.executable, "-m", "pytest", *ours, *words]


def collected() -> tuple[Shard, ...]:
    """Return the shards of all tests that `make test` leaves out."""
    with tempfile.TemporaryDirectory(prefix="shards-") as folder:
        command = pytest_command(Path(folder), "--collect-only", "-m", "slow or long")
        everything = {**os.environ, drawn.ALL: "1"}
        said = subprocess.run(command, cwd=ROOT, env=everything, capture_output=True, text=True, check=False)
        if said.returncode:
            raise SystemExit(said.stdout + said.stderr)
        return cut(json.loads((Path(folder) / "outcomes").read_text(encoding="utf-8"))["tests"])


def start(shard: Shard, folder: Path, seed: int) -> Running:
    """Start a shard in a process group of its own."""
    folder.mkdir()
    (folder / "tests").write_text("\n".join(shard.tests), encoding="utf-8")
    environment = {**os.environ, "MATERIALIZER_TEST_SEED": str(seed), drawn.ALL: "1"}
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            pytest_command(folder, "--tb=short", f"@{folder / 'tests'}"),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Running(shard, process, folder, time.monotonic(), at)


def outcome_of(running: Running, tree: str, commit: str, seed: int) -> Outcome:
    """Return what came of a shard that has ended; a test of which nothing is known did not come to an end, and failed."""
    file = running.folder / "outcomes"
    found = json.loads(file.read_text(encoding="utf-8"))["outcomes"] if file.is_file() else {}
    of_each = {test: found.get(test, "failed") for test in running.shard.tests}
    counts = {how: sum(o == how for o in of_each.values()) for how in ("passed", "failed", "skipped")}
    failed = tuple(test for test, how in of_each.items() if how == "failed")
    seconds = round(time.monotonic() - running.began)
    return Outcome(running.shard.name, commit, tree, **counts, names=failed, seconds=seconds, seed=seed, at=running.at)


def stop(under_way: list[Running]) -> None:
    """End shards, as Ctrl-C would, so that they clean up; then for sure."""
    until = time.monotonic() + PATIENCE
    for running in under_way:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGINT)
    for running in under_way:
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(max(0.0, until - time.monotonic()))
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        print(f"{running.shard.name}: stopped, nothing is kept of it", flush=True)


class Campaign:
    """Runs shards and keeps what comes of them.

    Args:
        shards: All that there are.
        trees: The state that each depends on.
        seed: What random data are drawn from.
        jobs: How many at once.
        until: When to stop, by the clock that only goes forward.
    """

    def __init__(self, shards: tuple[Shard, ...], trees: Mapping[str, str], seed: int, jobs: int, until: float) -> None:
        self.shards, self.trees, self.seed, self.jobs, self.until = shards, trees, seed, jobs, until
        self.names = [shard.name for shard in shards]
        self.commit = record.commit()
        self.failed: list[str] = []

    def run(self, waiting: list[Shard]) -> list[Shard]:
        """Run what fits in the time; return what was not run to its end."""
        under_way: list[Running] = []
        known = record.read()
        with tempfile.TemporaryDirectory(prefix="shards-") as folder:
            try:
                while waiting or under_way:
                    left = self.until - time.monotonic()
                    shard = next_of(waiting, left - PATIENCE, known) if len(under_way) < self.jobs else None
                    if shard is not None:
                        waiting.remove(shard)
                        under_way.append(start(shard, Path(folder) / str(len(waiting)), self.seed))
                        continue
                    if not under_way or left < PATIENCE:
                        break
                    time.sleep(0.5)
                    for running in [r for r in under_way if r.process.poll() is not None]:
                        under_way.remove(running)
                        self.ended(running)
            finally:
                stop(under_way)
        return [*waiting, *(r.shard for r in under_way)]

    def ended(self, running: Running) -> None:
        """Keep what came of a shard, and say so."""
        name = running.shard.name
        outcome = outcome_of(running, self.trees[name], self.commit, self.seed)
        record.keep(outcome, self.names)
        print(line_of(running.shard, outcome, self.trees[name]), flush=True)
        if outcome.failed:
            self.failed.append(name)
            print((running.folder / "said").read_text(encoding="utf-8", errors="replace"), flush=True)


def line_of(shard: Shard, outcome: Outcome | None, tree: str) -> str:
    """Return in a line what is known of a shard."""
    line = f"{record.state(outcome, tree):8}{shard.name:42}{len(shard.tests):4} tests"
    if outcome is None:
        return f"{line}, about {max(1, shard.seconds // 60)} min"
    counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
    return f"{line}: {counts}, {outcome.seconds} s, commit {outcome.commit}, seed {outcome.seed}, {outcome.at}"


def chosen(shards: tuple[Shard, ...], only: Collection[str], states: Mapping[str, str]) -> list[Shard]:
    """Return what is to run: what is named, by a shard or by the beginning of its name; or else all that has no outcome."""
    if not only:
        return [shard for shard in shards if states[shard.name] in {"never", "stale"}]
    unknown = [name for name in only if not any(shard.name.startswith(name) for shard in shards)]
    if unknown:
        raise SystemExit(f"no shard is called so: {', '.join(unknown)}; --list shows all")
    return [shard for shard in shards if shard.name.startswith(tuple(only))]


def main() -> int:
    """Run shards until the time is up; return 1 when one of them failed now or before, 2 when nothing could be run."""
    parser = argparse.ArgumentParser(prog="python -m tests.shards", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="SHARD", help="run these, also when they have run")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop before so many have gone")
    parser.add_argument("--jobs", type=int, default=2, help="shards at once")
    parser.add_argument("--seed", type=int, default=SEED, help="what random data are drawn from")
    parser.add_argument("--list", action="store_true", help="say what is known of each at the newest commit")
    args = parser.parse_args()
    until = time.monotonic() + 60 * args.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is under way is stopped, too
    shards = collected()
    blobs, known = record.blobs(), record.read()
    trees = {s.name: record.tree_of(s, blobs, record.imports_of(s.file)) for s in shards}
    states = {s.name: record.state(known.get(s.name), trees[s.name]) for s in shards}
    if args.list:
        print(*(line_of(s, known.get(s.name), trees[s.name]) for s in shards), sep="\n")
    elif changed := record.changed():
        print(f"commit first: an outcome is kept for a commit, and these stand otherwise: {', '.join(changed)}")
        return 2
    else:
        campaign = Campaign(shards, trees, args.seed, args.jobs, until)
        left = campaign.run(chosen(shards, args.only, states))
        known = record.read()
        states = {s.name: record.state(known.get(s.name), trees[s.name]) for s in shards}
        print(f"{len(left)} left to run: {', '.join(s.name for s in left)}" if left else "all have run", flush=True)
    counts = {how: sum(state == how for state in states.values()) for how in dict.fromkeys(states.values())}
    print(f"{record.commit()}: {len(shards)} shards, " + ", ".join(f"{n} {how}" for how, n in counts.items()))
    return 1 if "failed" in states.values() else 0


if __name__ == "__main__":
    sys.exit(main())
