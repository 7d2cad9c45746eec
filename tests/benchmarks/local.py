"""Benchmark: small refreshes without Spark, by a command and in a process that stays, beside the same with Spark.

    python -m tests.benchmarks.local [--rows 1000000] [--late 20000] [--rounds 5] [--keep]

One-minute bars of days, symbols and prices; before each refresh late rows are inserted: one, or *late* in ten hours. A command is
measured from its start to its exit; told is its largest resident memory, with Spark that of Python alone. *Warm* is the third and
each later refresh of one process. Told are medians; *idle* is a command with nothing to do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from deltalake import write_deltalake

from materializer import Materializer
from materializer.config import read
from tests.benchmarks.process import asked, begun, bytecode, call, insert_late
from tests.benchmarks.trades import START, report, timed, trades

HOURS: Final = 10
_PEAK: Final = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def peak(folder: Path, executor: str) -> float:
    """Return the largest resident memory of a refresh by a command, in MB."""
    command = [
        sys.executable,
        "-m",
        "materializer",
        "refresh",
        "bars_1m",
        "--config",
        str(folder / "materializer.toml"),
    ]
    ours = os.environ | {"MATERIALIZER_EXECUTOR": executor} | bytecode(folder)
    asked_for = [sys.executable, "-c", _PEAK, *command]
    done = subprocess.run(asked_for, check=True, capture_output=True, text=True, cwd=folder, env=ours)
    return int(done.stdout.split()[-1]) / 1024


def insert_many(options: argparse.Namespace, folder: Path, rng: np.random.Generator) -> None:
    """Insert late rows in ten hours of the source."""
    hour = 3_600_000_000
    starts = rng.choice(options.days * 24, HOURS, replace=False)
    for start in starts:
        rows = trades(rng, options.late // HOURS, options.symbols, START + int(start) * hour, hour)
        write_deltalake(str(folder / "trades"), rows, mode="append")


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return medians in seconds, and megabytes."""
    rng = begun(options, folder)
    found: dict[str, Any] = {"options": {k: str(v) for k, v in vars(options).items()}}
    for executor in ("local", "spark"):
        seconds: dict[str, list[float]] = {"one": [], "idle": [], "warm": [], "many": []}
        environ = {"MATERIALIZER_EXECUTOR": executor}
        if executor == "local":
            environ |= {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
        for _ in range(options.rounds):
            insert_late(options, folder, rng)
            seconds["one"].append(timed(lambda environ=environ: call(folder, "refresh", "bars_1m", **environ))[0])
            seconds["idle"].append(timed(lambda environ=environ: call(folder, "refresh", "bars_1m", **environ))[0])
        insert_late(options, folder, rng)
        found[f"{executor}_peak_mb"] = peak(folder, executor)
        m = Materializer(config=read(folder / "materializer.toml"))
        for i in range(options.rounds + 2):
            insert_late(options, folder, rng)
            taken = timed(lambda m=m, executor=executor: m.refresh("bars_1m", executor=executor))[0]
            seconds["warm"] += [taken] if i >= 2 else []
        for _ in range(3):
            insert_many(options, folder, rng)
            seconds["many"].append(timed(lambda m=m, executor=executor: m.refresh("bars_1m", executor=executor))[0])
        found |= {f"{executor}_{name}": median(of) for name, of in seconds.items()}
    return found


def show(found: dict[str, Any]) -> None:
    """Print the medians side by side."""
    print(f"{'':38}{'local':>9}{'Spark':>9}")
    for name, text in (
        ("one", "one late row, by a command"),
        ("idle", "nothing to do, by a command"),
        ("warm", "one late row, warm"),
        ("many", "late rows in ten hours, warm"),
    ):
        print(f"{text:38}{found[f'local_{name}']:7.3f} s{found[f'spark_{name}']:7.3f} s")
    print(f"{'resident memory of Python':38}{found['local_peak_mb']:6.0f} MB{found['spark_peak_mb']:6.0f} MB")


def main() -> None:
    """Read the options, measure, print."""
    report(asked(__doc__, late=20_000), run, show)


if __name__ == "__main__":
    main()
