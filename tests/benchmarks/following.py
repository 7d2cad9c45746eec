"""Benchmark: ``materializer run`` over many aggregates while late rows come: freshness, and the memory of the process that stays.

    python -m tests.benchmarks.following [--minutes 60] [--aggregates 200] [--sources 20] [--rows 20000] [--every 100ms] [--executor auto]
    python -m tests.benchmarks.following --summary

The aggregates are shared out over the sources, so a late row, one a second, makes one bucket of some of them dirty (ten, by default).
*Seen* is the time from the look that found the row to the end of the refresh, as ``run`` says it; *whole* the time from the commit to the line that says
that it is published. Resident memory is read from the system each second. Each minute appends a line to
``docs/benchmarks/following.jsonl``; ``--summary`` prints what the newest run came to, also one that was ended early.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import IO, Any, Final

import numpy as np
from deltalake import DeltaTable, write_deltalake

from tests.benchmarks import history
from tests.benchmarks.due import MINUTES
from tests.benchmarks.process import bytecode
from tests.benchmarks.trades import BARS, DAY, START, trades, write_source
from tests.paths import ROOT
from tests.system.campaign import code, keep, kept

FILE: Final = history.ROOT / "docs" / "benchmarks" / "following.jsonl"
DAYS: Final = 5
SYMBOLS: Final = 20
FOLLOWED: Final = "TBLPROPERTIES ('refresh.start_offset' = 'none')\nAS SELECT"
WARM: Final = 0.2
"""The share of a run after which the process is warm."""


def definition(number: int, sources: int) -> str:
    """Return the definition of an aggregate."""
    width = MINUTES[number // sources % len(MINUTES)]
    text = BARS.replace("bars_1m", f"bars_{number}").replace("AS SELECT", FOLLOWED, 1)
    return text.replace("FROM trades", f"FROM trades_{number % sources}").replace("'1 minute'", f"'{width} minutes'")


def resident(process: int) -> float:
    """Return the resident memory of a process in MB; see proc(5)."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


class Waiting:
    """Rows that were committed, and are not published by some aggregates yet.

    Args:
        aggregates: How many there are.
        sources: How many sources they share.
    """

    def __init__(self, aggregates: int, sources: int) -> None:
        self.aggregates, self.sources = aggregates, sources
        self.commits: dict[int, list[tuple[int, float, set[int]]]] = {}
        self.whole: list[float] = []
        self.seen: list[float] = []
        self.failed: list[str] = []
        self.guard = threading.Lock()

    def committed(self, source: int, version: int, at: float) -> None:
        """Note a commit."""
        with self.guard:
            readers = {n for n in range(self.aggregates) if n % self.sources == source}
            self.commits.setdefault(source, []).append((version, at, readers))

    def line(self, line: dict[str, Any], at: float) -> None:
        """Take a line of ``run``."""
        if "failed" in line:
            self.failed.append(f"{line['name']}: {line['failed']}")
        if "lag_seconds" not in line:
            return
        number = int(line["name"].removeprefix("bars_"))
        source = number % self.sources
        with self.guard:
            waiting = self.commits.get(source, [])
            for version, since, readers in waiting:
                if version <= line["source_version"] and number in readers:
                    readers.remove(number)
                    self.whole.append(at - since)
                    self.seen.append(line["lag_seconds"])
            self.commits[source] = [one for one in waiting if one[2]]

    def taken(self) -> tuple[list[float], list[float], list[str], int]:
        """Return and forget what was measured since the last call, and how many publications are still awaited."""
        with self.guard:
            found = self.whole, self.seen, self.failed
            self.whole, self.seen, self.failed = [], [], []
            return *found, sum(len(readers) for all_ in self.commits.values() for _, _, readers in all_)


def made(options: argparse.Namespace, folder: Path, rng: np.random.Generator) -> dict[str, str]:
    """Make sources and a lake with every aggregate applied; return the environment of its commands."""
    sources = {f"trades_{i}": folder / f"trades_{i}" for i in range(options.sources)}
    for path in sources.values():
        write_source(path, options.rows, DAYS, SYMBOLS, rng)
    lines = "\n".join(f'{name} = "{path}"' for name, path in sources.items())
    (folder / "materializer.toml").write_text(f'lake = "{folder / "lake"}"\n[sources]\n{lines}\n', encoding="utf-8")
    (folder / "bars.sql").write_text(";\n".join(definition(i, options.sources) for i in range(options.aggregates)))
    env = os.environ | {"MATERIALIZER_EXECUTOR": options.executor, "PYTHONPATH": str(ROOT)} | bytecode(folder)
    subprocess.run([*words(folder, "apply", "bars.sql")], check=True, capture_output=True, cwd=folder, env=env)
    return env


def words(folder: Path, *command: str) -> list[str]:
    """Return the words of a command over the lake."""
    return [sys.executable, "-m", "materializer", *command, "--config", str(folder / "materializer.toml")]


def read(lines: IO[str], waiting: Waiting) -> None:
    """Take all lines of ``run`` as they come."""
    for line in lines:
        at = time.monotonic()
        waiting.line(json.loads(line), at)


def minutes(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Run it, and yield what each minute came to; rows begin to come when everything was computed once."""
    rng = np.random.default_rng(options.seed)
    env, waiting = made(options, folder, rng), Waiting(options.aggregates, options.sources)
    for source in range(options.sources):
        waiting.committed(source, DAYS - 1, time.monotonic())
    command = words(folder, "run", "--every", options.every, "--json", *(["--serve"] if options.serve else []))
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=env)
        try:
            assert process.stdout is not None
            threading.Thread(target=read, args=(process.stdout, waiting), daemon=True).start()
            while waiting.taken()[3]:
                if process.poll() is not None:
                    raise SystemExit((folder / "errors").read_text()[-2000:])
                time.sleep(0.2)
            tables = [DeltaTable(str(folder / f"trades_{i}")) for i in range(options.sources)]
            for minute in range(round(options.minutes)):
                yield {"minute": minute, **one_minute(process.pid, tables, waiting, rng)}
            process.terminate()
            if process.wait(60):
                raise SystemExit(f"run ended with {process.returncode}")
        finally:
            process.kill()


def one_minute(
    process: int, tables: Sequence[DeltaTable], waiting: Waiting, rng: np.random.Generator
) -> dict[str, Any]:
    """Commit a late row each second for a minute; return what was published meanwhile, and the memory of the process."""
    memory, began, used = [], time.monotonic(), cpu(process)
    for second in range(60):
        source = int(rng.integers(len(tables)))
        row = trades(rng, 1, SYMBOLS, START + int(rng.integers(DAYS)) * DAY, DAY)
        write_deltalake(tables[source], row, mode="append")
        tables[source].update_incremental()
        waiting.committed(source, tables[source].version(), time.monotonic())
        memory.append(resident(process))
        time.sleep(max(began + second + 1 - time.monotonic(), 0.0))
    whole, seen, failed, left = waiting.taken()
    return {
        "published": len(whole),
        "whole": counts(whole),
        "seen": counts(seen),
        "failed": failed,
        "left": left,
        "memory_mb": round(median(memory), 1),
        "cpu_seconds": round(cpu(process) - used, 1),
    }


def counts(seconds: Sequence[float]) -> dict[str, int]:
    """Return how often each hundredth of a second is there."""
    return {f"{value:.2f}": n for value, n in sorted(Counter(round(value, 2) for value in seconds).items())}


def cpu(process: int) -> float:
    """Return the seconds of processors that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(entries: Sequence[dict[str, Any]]) -> str:
    """Return what the newest run on record came to."""
    if not entries:
        return "No run is on record."
    run = [entry for entry in entries if entry["run"] == entries[-1]["run"]]
    whole, seen = (sum((Counter(entry[of]) for entry in run), Counter[str]()) for of in ("whole", "seen"))
    memory = [entry["memory_mb"] for entry in run]
    warm = memory[int(len(memory) * WARM) :]
    part = max(len(warm) // 4, 1)
    failed = [line for entry in run for line in entry["failed"]]
    share = sum(entry["cpu_seconds"] for entry in run) / (60 * len(run))
    return (
        f"At `{run[0]['commit']}`, {run[0]['at'][:10]}: {run[0]['aggregates']} aggregates of {run[0]['sources']} sources, a late row a second for "
        f"{len(run)} min, {whole.total():,} publications; "
        f"seen p50 {at(seen, 0.5):.2f} s, p99 {at(seen, 0.99):.2f} s; whole p50 {at(whole, 0.5):.2f} s, p99 {at(whole, 0.99):.2f} s; "
        f"{share:.2f} cores; memory {memory[0]:.0f} to {memory[-1]:.0f} MB, {median(warm[-part:]) / median(warm[:part]):.3f} of the first warm quarter; "
        f"left {run[-1]['left']}, failed: {failed or 'nothing'}"
    )


def at(seconds: Mapping[str, int], share: float) -> float:
    """Return the value below which a share of counted ones lies."""
    values = sorted(float(value) for value, n in seconds.items() for _ in range(n))
    return values[min(int(len(values) * share), len(values) - 1)] if values else float("nan")


def main() -> None:
    """Read the options, run, and print what it came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    for name, default in {"aggregates": 200, "sources": 20, "rows": 20_000, "seed": 7}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--every", default="100ms", help="time between two looks")
    parser.add_argument("--executor", choices=["auto", "local", "spark"], default="auto")
    parser.add_argument("--serve", action="store_true", help="serve the page, metrics and health, too")
    parser.add_argument("--file", type=Path, default=FILE, help="where the minutes are appended")
    parser.add_argument("--summary", action="store_true", help="print what the newest run on record came to")
    options = parser.parse_args()
    if not options.summary:
        whole = {"run": history.now(), "commit": history.commit(), "code": code(), "on": history.machine()}
        whole |= {name: getattr(options, name) for name in ("aggregates", "sources", "every", "executor", "serve")}
        with tempfile.TemporaryDirectory(prefix="materializer-bench-") as folder:
            for minute in minutes(options, Path(folder)):
                keep({"at": history.now(), **whole, **minute}, options.file)
                told = {name: value for name, value in minute.items() if name not in {"whole", "seen"}}
                p50, p99 = (at(minute["whole"], share) for share in (0.5, 0.99))
                print(json.dumps(told | {"whole_p50": p50, "whole_p99": p99}), flush=True)
    print(summary(kept(options.file)))


if __name__ == "__main__":
    main()
