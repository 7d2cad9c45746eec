"""Benchmark: commands over a source of very many files.

    python -m tests.benchmarks.many_files [--files 100000] [--rounds 5] [--folder DIR]

Each hour has a file of ten rows, which other names of the hour are links to, so that a million files are made in a minute and are files all
the same. The log has a checkpoint. Told are ``apply`` and ``backfill``, once, and the medians of a refresh after one late row, of one that
has nothing to do, and of ``plan`` and ``status``: seconds from the start of the process to its end, its processor seconds, and what it had
resident at most. No Java can be found. With ``--folder``, what is in the folder is measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

BEGIN: Final = datetime(2024, 3, 1, tzinfo=UTC)
ROWS: Final = 10
"""Rows of a file."""
HOURS: Final = 1_000
COMMIT: Final = 50_000
"""Files of a commit."""
FORM: Final = "%Y-%m-%dT%H:%M:%S.000Z"
MEASURED: Final = """
import sys
from materializer.adapters.cli import main
status = main(sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
raise SystemExit(status)
"""
"""Runs a command, and tells the most kilobytes that it had resident; the system counts those of the process that started it, too."""
STATEMENT: Final = """CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS at, sum(v) AS v, count(*) AS n
FROM raw GROUP BY time_bucket('1 hour', ts);
"""


def rows_of(hour: int, count: int = ROWS) -> pa.Table:
    """Return the rows of an hour, one a minute."""
    times = [BEGIN + timedelta(hours=hour, minutes=minute) for minute in range(count)]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "v": pa.array(range(count), pa.int64())})


def make(folder: Path, files: int) -> None:
    """Make the source: its data files, commits that add them, and a checkpoint."""
    source = folder / "raw"
    write_deltalake(str(source), rows_of(0).slice(0, 0), configuration={"delta.enableChangeDataFeed": "true"})
    hours = min(files, HOURS)
    for hour in range(hours):
        pq.write_table(rows_of(hour), source / f"{hour}-0.parquet")
    for first in range(0, files, COMMIT):
        version = 1 + first // COMMIT
        with (source / "_delta_log" / f"{version:020d}.json").open("w", encoding="utf-8") as log:
            for number in range(first, min(first + COMMIT, files)):
                print(added(source, number % hours, number // hours), file=log)
    DeltaTable(str(source)).create_checkpoint()


def added(source: Path, hour: int, copy: int) -> str:
    """Return the action that adds a copy of an hour's file, which is there then."""
    name = f"{hour}-{copy}.parquet"
    if copy:
        os.link(source / f"{hour}-0.parquet", source / name)
    low = BEGIN + timedelta(hours=hour)
    stats = {
        "numRecords": ROWS,
        "minValues": {"ts": low.strftime(FORM), "v": 0},
        "maxValues": {"ts": (low + timedelta(minutes=ROWS - 1)).strftime(FORM), "v": ROWS - 1},
        "nullCount": {"ts": 0, "v": 0},
    }
    size = (source / name).stat().st_size
    action = {
        "path": name,
        "partitionValues": {},
        "size": size,
        "modificationTime": 1_709_251_200_000,
        "dataChange": True,
        "stats": json.dumps(stats),
    }
    return json.dumps({"add": action})


def run(folder: Path, *words: str) -> tuple[float, float, float]:
    """Run a command; return its seconds, its processor seconds and its resident megabytes."""
    env = os.environ | {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "MATERIALIZER_EXECUTOR": "auto"}
    env |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    began = perf_counter()
    command = [sys.executable, "-c", MEASURED, *words, "--lake", str(folder)]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, env=env, stdout=told, stderr=told)
        _, status, used = os.wait4(process.pid, 0)
        seconds, process.returncode = perf_counter() - began, os.waitstatus_to_exitcode(status)
        told.seek(0)
        text = told.read().decode()
        if status:
            raise SystemExit(f"{' '.join(words)}: {text[-2000:]}")
    return seconds, used.ru_utime + used.ru_stime, int(text.split()[-1]) / 1_000


def told(what: str, found: Sequence[tuple[float, float, float]]) -> None:
    """Print the medians of some runs."""
    seconds, used, resident = (median(each) for each in zip(*found, strict=True))
    print(f"{what:20} {seconds:6.2f} s, {used:6.2f} s of processors, {resident:6.0f} MB", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each figure."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--files", type=int, default=100_000)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--folder", type=Path)
    given = asked.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        if not (folder / "raw").exists():
            folder.mkdir(exist_ok=True)
            make(folder, given.files)
            (folder / "hourly.sql").write_text(STATEMENT)
            told("apply", [run(folder, "apply", str(folder / "hourly.sql"))])
            told("backfill", [run(folder, "backfill", "hourly")])
        late, idle = [], []
        for number in range(given.rounds + 1):
            write_deltalake(str(folder / "raw"), rows_of(7 + number, 1), mode="append")
            late.append(run(folder, "refresh", "hourly"))
            idle.append(run(folder, "refresh", "hourly"))
        told("one late row", late[1:])
        told("nothing to do", idle[1:])
        for command in ("plan", "status"):
            told(command, [run(folder, command, "hourly") for _ in range(given.rounds)])


if __name__ == "__main__":
    main()
