"""Benchmark: ``policy run --due`` over many aggregates with one late row each, by one command and without Spark.

    python -m tests.benchmarks.due [--aggregates 200] [--sources 20] [--rows 20000] [--late 1] [--rounds 3] [--executor local] [--airflow] [--keep]

Each source has as many trades and the same number of aggregates, of one minute and more. Before each round one late row (``--late`` says how many) is inserted
in each source, so that one bucket of every aggregate is dirty. Told are the seconds from the command to its exit (the median), its
largest resident memory, how many refreshes were computed in the process, and how many data files of the sources the command opened, how
often, and their bytes (each time with the whole size of the file). With ``--airflow`` the same is then done by as many
tasks of an Airflow with an API server, a scheduler and a pool of its own; told are the seconds from the start of the first task to the
end of the last one, and the median of a task.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from deltalake import write_deltalake

from tests.adapters.airflow.running import Airflow
from tests.benchmarks import history
from tests.benchmarks.files import Opened, opened
from tests.benchmarks.process import bytecode
from tests.benchmarks.trades import BARS, DAY, START, report, reporting, timed, trades, write_source

MINUTES: Final = (1, 2, 3, 5, 10, 15, 20, 30, 60, 120)
"""Lengths of buckets, one after the other."""
SCHEDULED: Final = "TBLPROPERTIES ('refresh.start_offset' = 'none', 'refresh.schedule' = '@hourly')\nAS SELECT"
_PEAK: Final = (
    "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)"
)


def definition(number: int, sources: int) -> str:
    """Return the definition of an aggregate."""
    width = MINUTES[number // sources % len(MINUTES)]
    text = BARS.replace("bars_1m", f"bars_{number}").replace("AS SELECT", SCHEDULED, 1)
    return text.replace("FROM trades", f"FROM trades_{number % sources}").replace("'1 minute'", f"'{width} minutes'")


def call(folder: Path, *arguments: str, executor: str = "local") -> tuple[float, dict[str, Any]]:
    """Run a command; return its largest resident memory in MB, and what it printed."""
    config = str(folder / "materializer.toml")
    command = [sys.executable, "-m", "materializer", *arguments, "--config", config, "--json"]
    ours = os.environ | {"MATERIALIZER_EXECUTOR": executor} | bytecode(folder)
    if executor == "local":
        ours |= {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    asked = [sys.executable, "-c", _PEAK, *command]
    done = subprocess.run(asked, check=True, capture_output=True, text=True, cwd=folder, env=ours)
    return int(done.stderr.split()[-1]) / 1024, json.loads(done.stdout)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return seconds, megabytes and counters."""
    rng = np.random.default_rng(options.seed)
    sources = {f"trades_{i}": folder / f"trades_{i}" for i in range(options.sources)}
    for path in sources.values():
        write_source(path, options.rows, options.days, options.symbols, rng)
    lines = "\n".join(f'{name} = "{path}"' for name, path in sources.items())
    (folder / "materializer.toml").write_text(f'lake = "{folder / "lake"}"\n[sources]\n{lines}\n', encoding="utf-8")
    definitions = ";\n".join(definition(i, options.sources) for i in range(options.aggregates))
    (folder / "bars.sql").write_text(definitions, encoding="utf-8")
    now = datetime(2024, 3, 1, tzinfo=UTC)
    call(folder, "setup", executor="auto")
    call(folder, "apply", "bars.sql", executor="auto")
    first, _ = timed(
        lambda: call(folder, "policy", "run", "--due", "--now", now.isoformat(), executor=options.executor)
    )
    seconds, peaks, told, read = [], [], {}, Opened()
    for i in range(options.rounds):
        insert_late(options, folder, rng)
        at = (now + timedelta(hours=i + 1)).isoformat()
        with opened(sources.values()) as files:
            due = ("policy", "run", "--due", "--now", at)
            taken, (peak, told) = timed(lambda due=due: call(folder, *due, executor=options.executor))
        seconds.append(taken)
        peaks.append(peak)
        read = files
    by_airflow = in_airflow(options, folder, rng) if options.airflow else {}
    found = by_airflow | {"first": first, "due": median(seconds), "due_all": seconds, "peak_mb": max(peaks)}
    return {"options": {k: str(v) for k, v in vars(options).items()}} | found | counted(told) | files_of(read)


def insert_late(options: argparse.Namespace, folder: Path, rng: np.random.Generator) -> None:
    """Insert one late row in each source."""
    for i in range(options.sources):
        day = START + int(rng.integers(options.days)) * DAY
        write_deltalake(
            str(folder / f"trades_{i}"), trades(rng, options.late, options.symbols, day, DAY), mode="append"
        )


def in_airflow(options: argparse.Namespace, folder: Path, rng: np.random.Generator) -> dict[str, float]:
    """Return the seconds of all tasks, and of one, after one more late row in each source."""
    insert_late(options, folder, rng)
    home = folder / "airflow"
    (home / "dags").mkdir(parents=True)
    shutil.copy(history.ROOT / "dags" / "materializer_lake.py", home / "dags")
    airflow = Airflow(home, folder / "lake")
    asked = "SELECT start_date, end_date FROM task_instance WHERE dag_id LIKE 'bars_%' AND state = 'success'"

    def ended() -> list[tuple[Any, ...]]:
        found = airflow.rows(asked)
        return found if len(found) >= options.aggregates else []

    try:
        airflow.start()
        times = airflow.until("the end of all tasks", ended, patience=60 + 15 * options.aggregates)
    finally:
        airflow.stop()
    starts, ends = ([datetime.fromisoformat(at).timestamp() for at in column] for column in zip(*times, strict=True))
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    return {"airflow": max(ends) - min(starts), "airflow_task": median(lengths)}


def counted(told: dict[str, Any]) -> dict[str, int]:
    """Return how many refreshes a command did, how many of them in its process, and the rows that they aggregated."""
    reports = [run for one in told["refreshes"] for run in one["runs"]]
    local = sum(report["executor"] == "local" for report in reports)
    return {"refreshes": len(reports), "local": local, "rows_read": sum(report["rows_read"] for report in reports)}


def files_of(read: Opened) -> dict[str, int]:
    """Return how many files were opened, how often, and their bytes each time; nothing where the kernel does not tell."""
    if not read.is_known:
        return {}
    size = sum(path.stat().st_size * times for path, times in read.openings.items())
    return {"files_read": len(read.files), "openings": read.openings.total(), "bytes_opened": size}


def show(found: dict[str, Any]) -> None:
    """Print what was found."""
    print(f"first materialization of all           {found['first']:7.2f} s")
    print(f"late rows in each, policy run --due    {found['due']:7.2f} s, {found['peak_mb']:.0f} MB")
    if "airflow" in found:
        print(f"the same by tasks of Airflow           {found['airflow']:7.2f} s, one {found['airflow_task']:.2f} s")
    if "openings" in found:
        what = f"{found['files_read']} files of the sources, opened {found['openings']} times, {found['bytes_opened']:,} bytes"
        print(f"read by the last command               {what}")
    print(f"refreshes {found['refreshes']}, in the process {found['local']}, rows aggregated {found['rows_read']:,}")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {
        "aggregates": 200,
        "sources": 20,
        "rows": 20_000,
        "days": 5,
        "symbols": 20,
        "late": 1,
        "rounds": 3,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--executor", choices=["local", "spark"], default="local", help="what computes")
    parser.add_argument("--airflow", action="store_true", help="do the same with tasks of Airflow, too")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
