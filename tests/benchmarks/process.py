"""Benchmark: a refresh in a process of its own, from command to exit, with the class-data archive and without.

    python -m tests.benchmarks.process [--rows 1000000] [--rounds 5] [--keep]

One-minute bars; before each call one late row is inserted. The archive is the one that ``materializer setup`` made; *without*
moves it away meanwhile. The JVM's profile is ``short``, the default. Told are medians; *idle* is a call with nothing to do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from deltalake import write_deltalake

from materializer.machine import cache_dir
from materializer.spark.runtime import class_data, jars
from tests.benchmarks.trades import BARS, DAY, START, report, reporting, timed, trades, write_source


def begun(options: argparse.Namespace, folder: Path) -> np.random.Generator:
    """Make a lake of one-minute bars, refreshed, and return the source of its random numbers."""
    rng = np.random.default_rng(options.seed)
    source = folder / "trades"
    write_source(source, options.rows, options.days, options.symbols, rng)
    (folder / "bars.sql").write_text(BARS, encoding="utf-8")
    (folder / "materializer.toml").write_text(
        f'lake = "{folder / "lake"}"\n[sources]\ntrades = "{source}"\n', encoding="utf-8"
    )
    call(folder, "setup")
    call(folder, "apply", "bars.sql")
    call(folder, "refresh", "bars_1m")
    return rng


def call(folder: Path, *arguments: str, **environ: str) -> None:
    """Run a command on the lake in a process of its own; Spark computes, unless *environ* says otherwise."""
    command = [sys.executable, "-m", "materializer", *arguments, "--config", str(folder / "materializer.toml")]
    ours = {"MATERIALIZER_SPARK_PROFILE": "short", "MATERIALIZER_EXECUTOR": "spark", **bytecode(folder), **environ}
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=os.environ | ours)


def bytecode(folder: Path) -> dict[str, str]:
    """Return the environment in which modules are compiled once, as in an installation, whatever this process does."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def insert_late(options: argparse.Namespace, folder: Path, rng: np.random.Generator) -> None:
    """Insert one late row."""
    one = trades(rng, 1, options.symbols, START + int(rng.integers(options.days)) * DAY, DAY)
    write_deltalake(str(folder / "trades"), one, mode="append")


def asked(about: str | None, *, flags: Mapping[str, str] | None = None, **more: int) -> argparse.Namespace:
    """Read the options that benchmarks of commands have, *more* numbers or other defaults, and flags with what they do."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in ({"rows": 1_000_000, "days": 5, "symbols": 100, "rounds": 5, "seed": 7} | more).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, does in (flags or {}).items():
        parser.add_argument(f"--{name}", action="store_true", help=does)
    return reporting(parser)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return medians in seconds."""
    rng = begun(options, folder)
    found = jars.find(None, cache_dir())
    assert found is not None
    place = class_data.place(cache_dir(), found)
    aside = place.with_suffix(".aside")
    seconds: dict[str, list[float]] = {"with": [], "without": [], "idle": []}
    for _ in range(options.rounds):
        for kind in ("with", "without"):
            insert_late(options, folder, rng)
            if kind == "without":
                place.rename(aside)
            try:
                seconds[kind].append(timed(lambda: call(folder, "refresh", "bars_1m"))[0])
            finally:
                if kind == "without":
                    aside.rename(place)
        seconds["idle"].append(timed(lambda: call(folder, "refresh", "bars_1m"))[0])
    return {"options": {k: str(v) for k, v in vars(options).items()}} | {k: median(v) for k, v in seconds.items()}


def show(found: dict[str, Any]) -> None:
    """Print the medians."""
    print(f"one late row, with the archive     {found['with']:6.2f} s")
    print(f"one late row, without              {found['without']:6.2f} s")
    print(f"nothing to do                      {found['idle']:6.2f} s")


def main() -> None:
    """Read the options, measure, print."""
    report(asked(__doc__), run, show)


if __name__ == "__main__":
    main()
