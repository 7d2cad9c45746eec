"""Benchmark: whole commands with their defaults, from start to exit, beside DuckDB and plain Spark as processes of their own.

    python -m tests.benchmarks.machine [--rows 20000000] [--days 30] [--rounds 3] [--late 20000] [--skip-spark] [--keep]

One-minute bars over synthetic trades. *DuckDB* is its own `GROUP BY` over the table's files and its write of one Parquet file;
*plain Spark* writes the reference form, with the JVM's default flags. Each is a process of its own, and so is each command. What is printed
as a ratio was measured in the same run. First the same commands run over few rows, which compiles the modules, as an installation does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from deltalake import DeltaTable, write_deltalake

from tests.benchmarks.process import asked, bytecode
from tests.benchmarks.trades import BARS, late_rows, plain, report, write_source
from tests.paths import ROOT

DUCKDB: Final = """
import sys, duckdb
to, *files = sys.argv[1:]
duckdb.sql(f'''COPY (
    SELECT time_bucket(INTERVAL '1 minute', ts) AS bucket, sym, arg_min(price, ts) AS open, max(price) AS high, min(price) AS low,
           arg_max(price, ts) AS close, sum(volume) AS volume, sum(price * volume) / sum(volume) AS vwap
    FROM read_parquet({files}) GROUP BY 1, 2) TO '{to}' (FORMAT parquet)''')
"""
"""The whole of DuckDB's process; its first and last have no rule among equal times."""


def command(folder: Path, *arguments: str) -> float:
    """Return the seconds of a command on the lake of a folder, with the defaults that a reader has."""
    return _took(_words(folder, *arguments), folder)[0]


def _words(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "materializer", *arguments, "--config", str(folder / "materializer.toml")]


def _took(words: list[str], folder: Path) -> tuple[float, int]:
    """Return the seconds of a process, and the most memory that it had, in bytes."""
    env = os.environ | bytecode(folder.parent) | {"PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, env=env)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return took, usage.ru_maxrss << 10


def _lake(folder: Path, source: Path) -> Path:
    folder.mkdir()
    (folder / "bars.sql").write_text(BARS, encoding="utf-8")
    (folder / "materializer.toml").write_text(f'lake = "{folder / "lake"}"\n[sources]\ntrades = "{source}"\n')
    return folder


def _warm(folder: Path, rng: np.random.Generator) -> None:
    """Run what is measured over few rows, which compiles the modules, as an installation does."""
    source = folder / "few"
    write_source(source, 1_000, 1, 10, rng)
    small = _lake(folder / "warm", source)
    command(small, "apply", "bars.sql")
    command(small, "backfill", "bars_1m")
    command(small, "refresh", "bars_1m", "--force")
    files = [uri.removeprefix("file://") for uri in DeltaTable(str(source)).file_uris()]
    _took([sys.executable, "-c", DUCKDB, str(folder / "few.parquet"), *files], small)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the seconds of each command; those of small ones are medians."""
    rng = np.random.default_rng(options.seed)
    source = folder / "trades"
    write_source(source, options.rows, options.days, options.symbols, rng)
    _warm(folder, rng)
    here = _lake(folder / "here", source)
    itself = [sys.executable, "-m", "tests.benchmarks.machine", "--one-plain", "--folder", str(folder)]
    files = [uri.removeprefix("file://") for uri in DeltaTable(str(source)).file_uris()]
    found: dict[str, Any] = {"apply": command(here, "apply", "bars.sql")}
    found["duckdb"] = _took([sys.executable, "-c", DUCKDB, str(folder / "duckdb.parquet"), *files], here)[0]
    found["backfill"], found["resident"] = _took(_words(here, "backfill", "bars_1m"), here)
    if not options.skip_spark:
        there = _lake(folder / "there", source)
        command(there, "apply", "bars.sql")
        found["plain"] = _took(itself, here)[0]
        found["by_spark"] = command(there, "backfill", "bars_1m", "--executor", "spark")
        found["verify"] = command(here, "verify", "bars_1m")
    write_deltalake(str(source), late_rows(rng, options.late, options.days, options.symbols), mode="append")
    found["late"] = command(here, "refresh", "bars_1m")
    one, idle = [], []
    for _ in range(options.rounds):
        write_deltalake(str(source), late_rows(rng, 10, options.days, options.symbols).slice(0, 1), mode="append")
        one.append(command(here, "refresh", "bars_1m"))
        idle.append(command(here, "refresh", "bars_1m"))
    return (
        {"options": {k: str(v) for k, v in vars(options).items()}} | found | {"one": median(one), "idle": median(idle)}
    )


def show(found: dict[str, Any]) -> None:
    """Print seconds and ratios."""
    print(f"{'DuckDB, a process':44} {found['duckdb']:7.2f} s")
    each = 1e6 * found["backfill"] / int(found["options"]["rows"])
    print(f"{'backfill, a row; resident at most':44} {each:7.3f} us, {found['resident'] / 1e9:.2f} GB")
    if "plain" in found:
        print(f"{'plain Spark, a process':44} {found['plain']:7.2f} s")
    for name, of in (
        ("backfill", "backfill, by default"),
        ("by_spark", "backfill --executor spark"),
        ("verify", "verify"),
        ("late", "refresh after many late rows"),
        ("one", "refresh after one late row"),
        ("idle", "refresh with nothing to do"),
        ("apply", "apply of a new definition"),
    ):
        if name in found:
            of_plain = f", {found[name] / found['plain']:.2f} x plain Spark" if "plain" in found else ""
            print(f"{of:44} {found[name]:7.2f} s = {found[name] / found['duckdb']:.2f} x DuckDB{of_plain}")


def _plain(folder: Path) -> None:
    """Do what plain Spark does, in this process."""
    from materializer.api import Materializer
    from materializer.config import Config, SparkConfig

    spark = SparkConfig(profile="long")
    sources = {"trades": str(folder / "trades")}
    m = Materializer(config=Config(lake=str(folder / "reference"), sources=sources, executor="spark", spark=spark))
    m.apply(BARS)
    plain(m, folder)


def main() -> None:
    """Read the options, measure, print."""
    flags = {"skip-spark": "measure nothing that starts a JVM", "one-plain": argparse.SUPPRESS}
    options = asked(__doc__, flags=flags, rows=20_000_000, days=30, rounds=3, late=20_000)
    if options.one_plain:
        _plain(options.folder)
    else:
        report(options, run, show)


if __name__ == "__main__":
    main()
