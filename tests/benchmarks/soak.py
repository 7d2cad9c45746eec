"""Benchmark: thirty days of a lake in fast motion, in one process that stays: refreshes of mixed sizes by both executors, with maintenance.

    python -m tests.benchmarks.soak [--refreshes 10000] [--minutes M] --folder DIR
    python -m tests.benchmarks.soak --summary

A day has 334 refreshes, in 167 steps. Each step commits rows to a source that has thirty days of them and a change feed, mostly one late row, sometimes hundreds, an
update or a deletion, and refreshes hourly bars and their daily roll-up; in two of fifty steps Spark computes. After each day the owner of the source compacts it,
every table is maintained, and the logs are made a day older. Every hundred refreshes append a line to ``docs/benchmarks/soak.jsonl``: their seconds, and the
resident memory of Python and of the JVM. The next call with the same folder goes on. At the end of a call both outputs are verified by Spark. The
first two hundred refreshes of each process warm it up, and count in no ratio.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest import mock

import numpy as np
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.lake.write import vacuum
from materializer.services.maintenance import maintain
from tests.benchmarks import history
from tests.benchmarks.following import resident
from tests.benchmarks.journal import let_a_day_pass
from tests.benchmarks.trades import DAY, START, timed, trades
from tests.system.campaign import code, keep, kept

FILE: Final = history.ROOT / "docs" / "benchmarks" / "soak.jsonl"
A_DAY: Final = 167
"""Steps of a day."""
EACH: Final = 50
"""Steps of a line, of two refreshes each."""
WARM: Final = 200
"""Refreshes after which a process is warm."""
DAYS: Final = 30
ROWS: Final = 300_000
SYMBOLS: Final = 10
BY_SPARK: Final = (10, 30)
"""The steps of each line whose refreshes Spark computes."""
MANY: Final = {20: 500, 40: 300}
"""Rows of the steps of each line that have many; the others have one."""
CHANGED: Final = 35
"""The step of each line that corrects rows, or deletes some."""
BARS: Final = """
CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS hour, sym, count(*) AS n, sum(volume) AS volume, max(price) AS high
FROM trades GROUP BY time_bucket('1 hour', ts), sym;
CREATE MATERIALIZED VIEW daily AS SELECT time_bucket('1 day', hour) AS day, sym, rollup(n) AS n, rollup(volume) AS volume, rollup(high) AS high
FROM hourly GROUP BY time_bucket('1 day', hour), sym
"""


class Soak:
    """A lake that lives through its days.

    Args:
        folder: Its folder; an empty one is filled.
        memory: The heap of Spark.
    """

    def __init__(self, folder: Path, memory: str) -> None:
        self.source = str(folder / "trades")
        sources = {"trades": self.source}
        self.lake = Materializer(folder / "lake", config=Config(sources=sources, spark=SparkConfig(memory=memory)))
        if not DeltaTable.is_deltatable(self.source):
            rows = trades(np.random.default_rng(7), ROWS, SYMBOLS, START, DAYS * DAY)
            feed = {"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 0 days"}
            write_deltalake(self.source, rows, configuration=feed)
            self.lake.apply(BARS)
            self.refreshed(is_spark=False)

    def step(self, number: int) -> tuple[float, bool]:
        """Commit rows and refresh; return the seconds of the refreshes, and whether Spark computed them."""
        rng, at = np.random.default_rng(number), number % EACH
        first = START + int(rng.integers(DAYS)) * DAY
        if at == CHANGED:
            self._changed(rng, first, is_update=number // EACH % 2 == 0)
        else:
            write_deltalake(self.source, trades(rng, MANY.get(at, 1), SYMBOLS, first, DAY), mode="append")
        return timed(lambda: self.refreshed(is_spark=at in BY_SPARK))[0], at in BY_SPARK

    def refreshed(self, *, is_spark: bool) -> None:
        """Refresh both aggregates."""
        for name in ("hourly", "daily"):
            self.lake.refresh(name, executor="spark" if is_spark else "auto")

    def _changed(self, rng: np.random.Generator, first: int, *, is_update: bool) -> None:
        """Correct or delete the rows of a symbol in some minutes."""
        start = first + int(rng.integers(24)) * DAY // 24
        sym, span = f"S{int(rng.integers(SYMBOLS)):03}", (start, start + DAY // 144)
        times = [f"arrow_cast({us}, 'Timestamp(Microsecond, Some(\"UTC\"))')" for us in span]
        where = f"sym = '{sym}' AND ts >= {times[0]} AND ts < {times[1]}"
        table = DeltaTable(self.source)
        if is_update:
            table.update({"volume": "volume + 1"}, predicate=where)
        else:
            table.delete(where)

    def end_of_day(self) -> float:
        """Let the owner compact the source, and maintain the lake; return the seconds of the maintenance."""
        table = DeltaTable(self.source)
        table.optimize.compact()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        table.cleanup_metadata()
        let_a_day_pass(Path(self.lake.root))
        return timed(self.lake.maintain)[0]


def hundreds(options: argparse.Namespace, done: int) -> Any:
    """Go on after so many refreshes, and yield what each hundred came to."""
    soak, until = Soak(options.folder, options.memory), time.monotonic() + 60 * options.minutes
    begun = done
    with (
        mock.patch.object(maintain, "retention_hours", return_value=0.0),
        mock.patch.object(vacuum, "retention_of", return_value=0.0),
    ):
        while done < options.refreshes and time.monotonic() < until:
            seconds: dict[bool, list[float]] = {False: [], True: []}
            maintained = 0.0
            for number in range(done // 2, done // 2 + EACH):
                taken, is_spark = soak.step(number)
                seconds[is_spark].append(taken)
                if (number + 1) % A_DAY == 0:
                    maintained += soak.end_of_day()
            done += 2 * EACH
            memory = {"python_mb": resident(os.getpid()), "jvm_mb": resident(soak.lake.engine().jvm_pid())}
            yield {
                "done": done,
                "warm": done - begun > WARM,
                "here": round(sum(seconds[False]), 2),
                "spark": round(sum(seconds[True]), 2),
                "here_median": round(median(seconds[False]), 4),
                "spark_median": round(median(seconds[True]), 4),
                "maintain": round(maintained, 2),
            } | {name: round(value, 1) for name, value in memory.items()}
        verified = [soak.lake.verify(name) for name in ("hourly", "daily")]
        if wrong := [report.name for report in verified if report.differing]:
            raise SystemExit(f"the outputs of {wrong} are not what Spark computes from the rows")


def summary(entries: Sequence[dict[str, Any]]) -> str:
    """Return what the newest run on record came to."""
    if not entries:
        return "No run is on record."
    run = [entry for entry in entries if entry["run"] == entries[-1]["run"]]
    warm = [entry for entry in run if entry["warm"]]
    if not warm:
        return f"{run[-1]['done']} refreshes; nothing is warm yet"
    processes = {entry["process"]: [e for e in warm if e["process"] == entry["process"]] for entry in warm}
    longest = max(processes.values(), key=len)
    part = max(len(longest) // 5, 1)

    def grown(of: str) -> float:
        return float(median(e[of] for e in longest[-part:]) / median(e[of] for e in longest[:part]))

    first, last = warm[0], warm[-1]
    ratios = ", ".join(
        f"{what} {last[of] / first[of]:.2f} ({first[of]:.2f} s)"
        for what, of in (("the process", "here"), ("Spark", "spark"))
    )
    return (
        f"At `{run[0]['commit']}`, {run[0]['at'][:10]}: {run[-1]['done']:,} refreshes in {len(processes)} processes; the last hundred to the first: "
        f"{ratios}; memory of the longest process, last fifth to first: Python {grown('python_mb'):.3f} ({longest[-1]['python_mb']:.0f} MB), "
        f"JVM {grown('jvm_mb'):.3f} ({longest[-1]['jvm_mb']:.0f} MB); maintenance {sum(e['maintain'] for e in run):.0f} s in all"
    )


def main() -> None:
    """Read the options, go on, and print what it came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refreshes", type=int, default=10_000, help="refreshes in all")
    parser.add_argument("--minutes", type=float, default=600, help="end before so many are over")
    parser.add_argument("--memory", default="1g", help="the heap of Spark")
    parser.add_argument("--folder", type=Path, help="where the lake is, which the next call goes on with")
    parser.add_argument("--file", type=Path, default=FILE, help="where the hundreds are appended")
    parser.add_argument("--summary", action="store_true", help="print what the newest run on record came to")
    options = parser.parse_args()
    if not options.summary:
        if options.folder is None:
            parser.error("--folder: where is the lake to be?")
        options.folder.mkdir(parents=True, exist_ok=True)
        name = options.folder / "run"
        run = name.read_text() if name.exists() else history.now()
        name.write_text(run)
        done = max((entry["done"] for entry in kept(options.file) if entry["run"] == run), default=0)
        whole = {"run": run, "process": history.now(), "commit": history.commit(), "code": code()}
        whole |= {"on": history.machine()}
        for hundred in hundreds(options, done):
            keep({"at": history.now(), **whole, **hundred}, options.file)
            print(hundred, flush=True)
    print(summary(kept(options.file)))


if __name__ == "__main__":
    main()
