"""Benchmark: what a commit costs beside the log that a table of ours keeps; no Spark.

    python -m tests.benchmarks.logs [--a-day 288] [--keep]

A table is made as ours are, and its log is filled with commits that change nothing, as many as refreshes make in 1, 7 and 30
days, with a checkpoint at the end. Told is what appending one row takes then, the median of fifteen: the library lists the log
before each commit, and the retention of the log bounds what there is to list.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from materializer.lake.log import commit_file
from materializer.lake.write.commit import append_rows, create_table
from tests.benchmarks.trades import report, reporting, timed

DAYS: Final = (0, 1, 7, 30)
TIMES: Final = 15
_ROW: Final = pa.table({"n": pa.array([1], pa.int64())})
_NOTHING: Final = json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationParameters": {}}})


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return what was measured beside so many days of log."""
    found: dict[str, Any] = {"options": {k: str(v) for k, v in vars(options).items()}}
    for days in DAYS:
        path = str(folder / f"{days} days")
        commits = days * options.a_day
        create_table(path, _ROW.schema, name="bars")
        for version in range(1, commits + 1):
            Path(commit_file(path, version)).write_text(f"{_NOTHING}\n", encoding="utf-8")
        DeltaTable(path).create_checkpoint()
        seconds = [_appended(path, n) for n in range(1, TIMES + 1)]
        assert DeltaTable(path).version() == commits + TIMES
        found[str(days)] = {"commits": commits, "seconds": round(median(seconds), 4)}
    return found


def _appended(path: str, n: int) -> float:
    return timed(lambda: append_rows(path, _ROW, "bars", n, {}))[0]


def show(found: dict[str, Any]) -> None:
    """Print the measurements as a table."""
    for days, told in found.items():
        if days != "options":
            print(f"{days:>3} days, {told['commits']:>6,} commits: one more {told['seconds'] * 1000:6.1f} ms")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a-day", type=int, default=288, help="commits a day; 288 is one in five minutes")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
