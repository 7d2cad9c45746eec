"""Benchmark: whether a refresh, and the memory of a backfill, grow with the history behind them.

    python -m tests.benchmarks.growth [--days 1 3 10 30] [--rows-a-day 100000] [--rounds 5] [--keep]

One-minute bars over a source that grows from the first number of days to the last. At each length the same changes are made
*rounds* times: 2,000 late rows in ten hours of any one day, then one late row. Between the two, the 2,000 are spread over up to
seven days, as in ``trades``: not the same change in a history that has fewer, because each day has files of its own. Told are the
medians of the seconds, the source rows that were aggregated, Spark jobs and commits, the bytes that the plan wanted to read, and the
files and bytes that were read, written and taken out (``tests.benchmarks.files`` says how they are counted); seconds and bytes read
as multiples of those in the shortest history, too.

Then a new aggregate is backfilled over each of the lengths, in runs of about two days, twice:

* here, and told is the most memory at the end of a run: what the JVM still holds after a collection, which is what would pile up,
  and the resident memory of Python;
* in a process of its own that nobody looks into before its end, and told is the most that it ever had resident (``VmHWM``), for
  Python and for the JVM: what a machine must have. The heap in it is at most ``--memory``, however little of that is held.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from tests.benchmarks.trades import (
    BARS,
    DAY,
    START,
    files_in_words,
    late_rows,
    refreshed,
    report,
    reporting,
    timed,
    trades,
)

MEGABYTE = 1_000_000
LATE = 2_000
CHANGES = {
    "late": f"{LATE:,} late rows in ten hours of a day",
    "spread": f"{LATE:,} late rows in ten hours of up to seven days",
    "one": "one late row",
}
COUNTED = (
    "rows_read",
    "jobs",
    "commits",
    "files_read",
    "bytes_read",
    "files_written",
    "bytes_written",
    "files_removed",
    "bytes_removed",
)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return what was measured at each length."""
    rng = np.random.default_rng(options.seed)
    source = folder / "trades"
    m = Materializer(config=_config(options, folder))
    refreshes: dict[str, Any] = {}
    has_days = 0
    for days in options.days:
        for day in range(has_days, days):
            table = trades(rng, options.rows_a_day, options.symbols, START + day * DAY, DAY)
            configuration = None if day else {"delta.enableChangeDataFeed": "true"}
            write_deltalake(str(source), table, mode="append", configuration=configuration)
        if not has_days:
            m.apply(BARS)
        has_days = days
        m.refresh("bars_1m")
        rows = {kind: partial(_changed, rng, days, options.symbols, kind) for kind in CHANGES}
        if not refreshes:  # nobody is measured cold
            _rounds(m, source, rows["late"], options.rounds)
        refreshes[str(days)] = {kind: _rounds(m, source, rows[kind], options.rounds) for kind in CHANGES}
    memory = {str(days): _backfilled(m, days) | _apart(options, folder, days) for days in options.days}
    verdict = m.verify("bars_1m")
    found = {k: str(v) for k, v in vars(options).items()}
    return {"options": found, "refreshes": refreshes, "memory": memory, "differing": verdict.differing}


def _changed(rng: np.random.Generator, days: int, symbols: int, kind: str) -> pa.Table:
    if kind == "spread":
        return late_rows(rng, LATE, days, symbols)
    day = int(rng.integers(days))
    if kind == "late":
        return late_rows(rng, LATE, 1, symbols, since=day)
    return trades(rng, 1, symbols, START + day * DAY, DAY)


def _config(options: argparse.Namespace, folder: Path) -> Config:
    return Config(
        lake=str(folder / "lake"),
        sources={"trades": str(folder / "trades")},
        executor="spark",
        spark=SparkConfig(profile="long", memory=options.memory),
        run_rows=2 * options.rows_a_day,
    )


def _rounds(m: Materializer, source: Path, rows: Callable[[], pa.Table], rounds: int) -> dict[str, float]:
    told: list[dict[str, float]] = []
    for _ in range(rounds):
        write_deltalake(str(source), rows(), mode="append")
        seconds, counted = refreshed(m, "bars_1m")
        told.append(
            {
                "seconds": seconds,
                "bytes_asked": counted["bytes_to_read"],
                **{n: counted[n] for n in COUNTED if n in counted},
            }
        )
    return {name: float(median(each[name] for each in told)) for name in told[0]}


def _backfilled(m: Materializer, days: int) -> dict[str, float]:
    name = f"backfilled_{days}"
    m.apply(BARS.replace("bars_1m", name))
    jvm: Any = m.engine().spark.sparkContext._jvm
    heap, python = [], []

    def look(_: Any) -> None:
        jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        heap.append((runtime.totalMemory() - runtime.freeMemory()) / MEGABYTE)
        python.append(_resident("VmRSS"))

    took, done = timed(lambda: m.backfill(name, *_window(days), on_run=look))
    m.drop(name)
    return {"runs": len(done.runs), "heap_mb": max(heap), "python_mb": max(python), "seconds": took}


def _apart(options: argparse.Namespace, folder: Path, days: int) -> dict[str, float]:
    """Backfill in a process of its own, which ends with its JVM; return what it had resident at most."""
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        return processes.submit(_peaks, options, folder, days).result()


def _peaks(options: argparse.Namespace, folder: Path, days: int) -> dict[str, float]:
    m = Materializer(config=_config(options, folder))
    name = f"apart_{days}"
    m.apply(BARS.replace("bars_1m", name))
    m.backfill(name, *_window(days))
    peaks = {"python_peak_mb": _resident("VmHWM"), "jvm_peak_mb": _resident("VmHWM", m.engine().jvm_pid())}
    m.drop(name)
    return peaks


def _window(days: int) -> tuple[str, str]:
    start, end = (np.datetime64(START + d * DAY, "us").item().isoformat() + "Z" for d in (0, days))
    return start, end


def _resident(what: str, process: int | str = "self") -> float:
    """Return the resident memory of a process, now (``VmRSS``) or at most so far (``VmHWM``), in MB; see proc(5)."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return float(status.partition(f"{what}:")[2].split()[0]) * 1024 / MEGABYTE


def show(found: dict[str, Any]) -> None:
    """Print the measurements as tables, growth against the shortest history."""
    for kind, title in CHANGES.items():
        first = next(iter(found["refreshes"].values()))[kind]
        print(f"{title}: median of the rounds")
        for days, of in found["refreshes"].items():
            told = of[kind]
            print(
                f"  {days:>3} days  {told['seconds']:6.2f} s = {_grown('seconds', told, first)}  {told['rows_read']:>8,.0f} rows"
                f"  {told['jobs']:,.0f} Spark jobs  {told['commits']:,.0f} commits"
                f"  {told['bytes_asked'] / MEGABYTE:8.2f} MB to read = {_grown('bytes_asked', told, first)}"
                f"  bytes read = {_grown('bytes_read', told, first)}  {files_in_words(told)}"
            )
    print("backfill: the most at the end of a run; the most ever, in a process of its own")
    for days, told in found["memory"].items():
        print(
            f"  {days:>3} days  {told['runs']:3} runs  JVM holds {told['heap_mb']:6.0f} MB"
            f"  Python {told['python_mb']:6.0f} MB  {told['seconds']:7.1f} s;"
            f"  ever: JVM {told['jvm_peak_mb']:6.0f} MB  Python {told['python_peak_mb']:6.0f} MB resident"
        )
    print(f"verified: {found['differing']} rows differ from plain Spark")


def _grown(what: str, told: Mapping[str, float], first: Mapping[str, float]) -> str:
    """Return how many times the shortest history's a figure is, where both were counted and that is not nothing."""
    return f"{told[what] / first[what]:4.2f} x" if what in told and first.get(what) else "unknown"


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 3, 10, 30])
    parser.add_argument("--rows-a-day", type=int, default=100_000)
    parser.add_argument("--symbols", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--memory", default="2g")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
