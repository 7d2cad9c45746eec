"""Benchmark: a backfill of many rows on a standalone cluster of two workers, by a driver of little memory.

    python -m tests.benchmarks.cluster [--rows 100000000] [--memory 1g] [--executor 1g] [--symbols 100] [--folder DIR] [--keep]

One-minute bars over trades in order of time, with the settings of a lake that nobody has tuned. The driver is a command of its own:
Python and a JVM whose heap is ``--memory``; the executors are on two workers with one core each. Told are the seconds, the most
memory that each process of the driver ever had resident (``VmHWM``), commits, runs, and the rows on both sides. At the end the
rows and the volume of the output are compared with those of the source.

With ``--folder`` it can be stopped at any time: the next call makes the part of the source that is missing, and the backfill goes on
where it stopped. The figures of all calls are added up.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from tests.benchmarks.trades import BARS, DAY, START, report, reporting, trades
from tests.servers.standalone import StandaloneCluster, standalone_cluster

A_DAY: Final = 2_000_000
"""Trades of a day, which are one commit of the source."""
MEGABYTE: Final = 1_000_000


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return what all calls in this folder came to."""
    write_missing(folder / "trades", options)
    calls = folder / "calls.jsonl"
    cluster = standalone_cluster(folder / "cluster", memory=options.executor)
    cluster.start()
    try:
        write_settings(folder, cluster, options)
        backfill(folder, calls)
    finally:
        cluster.kill()
    found = [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]
    return {
        "options": {k: str(v) for k, v in vars(options).items()},
        "calls": len(found),
        "seconds": sum(call["seconds"] for call in found),
        "python_peak_mb": max(call["python_peak_mb"] for call in found),
        "jvm_peak_mb": max(call["jvm_peak_mb"] for call in found),
        **checked(folder),
    }


def write_missing(source: Path, options: argparse.Namespace) -> None:
    """Write the trades, a commit for each day that the source does not have yet."""
    days = max(1, options.rows // A_DAY)
    for day in range(DeltaTable(str(source)).version() + 1 if source.exists() else 0, days):
        rng = np.random.default_rng([options.seed, day])
        table = trades(rng, options.rows // days, options.symbols, START + day * DAY, DAY)
        configuration = None if day else {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(source), table, mode="append", configuration=configuration)


def write_settings(folder: Path, cluster: StandaloneCluster, options: argparse.Namespace) -> None:
    """Write what a lake on a cluster needs, and no setting of what the driver holds."""
    (folder / "bars.sql").write_text(BARS, encoding="utf-8")
    (folder / "materializer.toml").write_text(
        f'lake = "lake"\nsources.trades = "trades"\n[spark]\nmaster = "{cluster.url}"\nmemory = "{options.memory}"\n'
        f'[spark.options]\n"spark.executor.memory" = "{options.executor}"\n"spark.driver.host" = "127.0.0.1"\n',
        encoding="utf-8",
    )


def backfill(folder: Path, calls: Path) -> None:
    """Run the commands; append the seconds of the backfill and the most that its processes had resident, stopped or not."""
    command = [sys.executable, "-m", "materializer"]
    subprocess.run([*command, "apply", "bars.sql"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    began = time.monotonic()
    process = subprocess.Popen([*command, "backfill", "bars_1m"], cwd=folder, stdout=subprocess.DEVNULL)
    peaks = {"python_peak_mb": 0.0, "jvm_peak_mb": 0.0}
    try:
        while process.poll() is None:
            jvm = [child for child in _children(process.pid) if _name(child) == "java"]
            for what, pids in (("python_peak_mb", [process.pid]), ("jvm_peak_mb", jvm)):
                peaks[what] = max(peaks[what], *map(_most_resident, pids), 0.0)
            time.sleep(0.2)
    finally:
        process.terminate()
        process.wait()
        with calls.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"seconds": time.monotonic() - began, **peaks}) + "\n")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)


def checked(folder: Path) -> dict[str, Any]:
    """Return what the refreshes of the aggregate tell, and whether its rows add up to those of the source."""
    shown = subprocess.run(
        [sys.executable, "-m", "materializer", "history", "bars_1m", "--limit", "1000", "--json"],
        check=True,
        cwd=folder,
        capture_output=True,
    )
    runs = json.loads(shown.stdout)["refreshes"]
    output = DeltaTable(str(folder / "lake" / "bars_1m" / "output")).to_pyarrow_dataset()
    source = DeltaTable(str(folder / "trades")).to_pyarrow_dataset()
    sums = [pc.sum(table.to_table(columns=["volume"])["volume"]).as_py() for table in (output, source)]
    return {
        "runs": len(runs),
        "runs_of_spark": sum(run["lane"] == "spark" for run in runs),
        "commits": sum(run["commits"] for run in runs),
        "jobs": sum(run["jobs"] for run in runs),
        "rows_in_source": source.count_rows(),
        "rows_in_output": output.count_rows(),
        "adds_up": sums[0] == sums[1],
    }


def _children(pid: int) -> list[int]:
    """Return the processes below a process, of any generation."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return [*found, *(below for child in found for below in _children(child))]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def _most_resident(pid: int) -> float:
    """Return the most that a process had resident so far, in MB; 0 for one that has ended."""
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        return float(status.partition("VmHWM:")[2].split()[0]) * 1024 / MEGABYTE
    return 0.0


def show(found: dict[str, Any]) -> None:
    """Print the figures."""
    print(f"rows of the source                 {found['rows_in_source']:14,}")
    print(f"rows of the output                 {found['rows_in_output']:14,}")
    print(f"seconds, in {found['calls']} call(s)              {found['seconds']:14,.0f}")
    print(f"most memory of Python, MB          {found['python_peak_mb']:14,.0f}")
    print(f"most memory of the JVM, MB         {found['jvm_peak_mb']:14,.0f}")
    print(f"runs, of these in Spark's lane     {found['runs']:14,} {found['runs_of_spark']:5,}")
    print(f"commits                            {found['commits']:14,}")
    print(f"Spark jobs                         {found['jobs']:14,}")
    print(f"the volume adds up                 {found['adds_up']!s:>14}")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--memory", default="1g", help="heap of the driver's JVM")
    parser.add_argument("--executor", default="1g", help="heap of each executor")
    parser.add_argument("--seed", type=int, default=7)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and not before the cluster has ended
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
