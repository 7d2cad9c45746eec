"""Benchmark: one late row of each engine, and of sketches, from command to exit, computed in the process and by Spark.

    python -m tests.benchmarks.late_rows [--rows 2000000] [--keys 2000] [--days 10] [--rounds 3] [--only TITLE] [--alone]
        [--folder DIR]

The sources and definitions are those of ``tests.benchmarks.engines``. Each aggregate is first materialized when its turn comes, in
this process, with limits that let it; Spark is asked for the types of its definition only. Before each call one row is inserted in the middle of the history. Told are
medians of the commands in the process, which must not leave anything to Spark, their seconds of processors, and one command by
Spark; ``--alone`` leaves that out. With ``--folder`` tables and figures are kept, and a later call goes on where this one ends.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config
from tests.benchmarks.engines import HOUR, WINDOWS, rows
from tests.benchmarks.process import call
from tests.benchmarks.trades import START, given, report, reporting, timed

STRICT: Final = {
    f"{title}, strict": WINDOWS[title] | {"lateness": "strict"}
    for title in ("session windows", "time series, one size", "daily time series", "reactive state", "event time")
}
FROZEN: Final = {
    f"{title}, frozen": definition | {"properties": {"source.retention": "1 day"}}
    for title, definition in {
        "session windows": WINDOWS["session windows"],
        "reactive state": WINDOWS["reactive state"],
        "filled time series": WINDOWS["time series, one size"] | {"fill": "ffill"},
    }.items()
}
"""Definitions of which all but the last day is frozen; their late row comes in that day."""
SKETCHES: Final = "sketches of hours"
_SKETCHES: Final = """CREATE MATERIALIZED VIEW {name} AS SELECT time_bucket('1 hour', ts) AS hour, k % 10 AS part, count(*) AS n,
approx_count_distinct(k) AS keys, approx_percentile(v, array(0.5, 0.99)) AS ranks
FROM delta.`{source}` GROUP BY time_bucket('1 hour', ts), k % 10"""


SIZES: Final = ("rows", "keys", "days", "seed")
"""The options that say what the source holds."""


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return a line for each engine."""
    bench = Bench(options, folder)
    titles = [title for title in (*WINDOWS, *STRICT, *FROZEN, SKETCHES) if (options.only or title) in title]
    bench.define(titles)
    lines = []
    for title in titles:
        line = bench.line(title)
        by_spark = f", {line['spark']:.1f} s" if "spark" in line else ""
        print(
            f"{title}: {line['process']:.2f} s, processors {line['cpu']:.2f} s{by_spark}", file=sys.stderr, flush=True
        )
        lines.append(line)
    return {"options": given(options), "lines": lines}


class Bench:
    """The tables and the figures of a folder."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        """Make the source, if the folder does not have it yet."""
        self.options, self.folder, self.source = options, folder, str(folder / "source")
        self.kept, self.hours = folder / "figures.json", options.days * 24
        self.each = options.rows // self.hours
        sizes = {name: getattr(options, name) for name in SIZES}
        known = json.loads(self.kept.read_text("utf-8")) if self.kept.exists() else {}
        if known and known["sizes"] != sizes:
            raise SystemExit(f"{folder} has a source of {known['sizes']}")
        self.lines: dict[str, dict[str, Any]] = known.get("lines", {})
        if not known:
            self._write_source()
            self.lake.mkdir(exist_ok=True)
            self._keep()
        (folder / "materializer.toml").write_text(f'lake = "{self.lake}"\n', encoding="utf-8")

    @property
    def lake(self) -> Path:
        """The folder of the aggregates."""
        return self.folder / "lake"

    def line(self, title: str) -> dict[str, Any]:
        """Return the figures of an engine; what is known is not measured again."""
        name, line = _name(title), self.lines.setdefault(title, {"engine": title, "rows": self.each * self.hours})
        if "first" not in line:
            line["first"] = timed(lambda: Materializer(config=self._config).refresh(name))[0]
            self._keep()
        if "process" not in line:
            here = [self._late(name, title, "local") for _ in range(self.options.rounds)]
            line["process"], line["cpu"] = (median(of_all) for of_all in zip(*here, strict=True))
            self._keep()
        if not self.options.alone and "spark" not in line:
            line["spark"] = self._late(name, title, "spark")[0]
            self._keep()
        return line

    def _write_source(self) -> None:
        shutil.rmtree(self.source, ignore_errors=True)  # a call that was stopped left a part of it
        rng = np.random.default_rng(self.options.seed)
        for hour in range(self.hours):
            feed = {"delta.enableChangeDataFeed": "true"} if hour == 0 else None
            table = rows(rng, hour * self.each, self.each, self.options.keys, START + hour * HOUR, HOUR)
            write_deltalake(self.source, table, mode="append", configuration=feed)

    def define(self, titles: Sequence[str]) -> None:
        """Define the aggregates that a call before this one has not defined; Spark says which types their columns have."""
        if coming := [title for title in titles if not (self.lake / _name(title)).exists()]:
            m = Materializer(config=self._config)
            for title in coming:
                if title == SKETCHES:
                    m.apply(_SKETCHES.format(name=_name(title), source=self.source))
                else:
                    definition = (WINDOWS | STRICT | FROZEN)[title]
                    m.define(_name(title), self.source, time="ts", keys=["k"], sequence="id", **definition)
            m.engine().spark.stop()

    @property
    def _config(self) -> Config:
        """Settings with which this process computes all of the source; a command has the usual ones."""
        few = {"local_rows": 10 * self.options.rows, "driver_lane_rows": 10 * self.options.rows}
        return Config(lake=str(self.lake), executor="local", local_memory=16 << 30, driver_bytes=4 << 30, **few)

    def _late(self, name: str, title: str, executor: str) -> tuple[float, float]:
        """Insert a late row; return the seconds of the command that refreshes an aggregate, and those of the processors."""
        hour, version = self.hours - 12 if title in FROZEN else self.hours // 2, DeltaTable(self.source).version()
        rng = np.random.default_rng([self.options.seed, version])
        late = rows(rng, self.each * self.hours + version, 1, self.options.keys, START + hour * HOUR, HOUR)
        write_deltalake(self.source, late, mode="append")
        before = _processors()
        seconds, _ = timed(lambda: call(self.folder, "refresh", name, MATERIALIZER_EXECUTOR=executor))
        return seconds, _processors() - before

    def _keep(self) -> None:
        sizes = {name: getattr(self.options, name) for name in SIZES}
        self.kept.write_text(json.dumps({"sizes": sizes, "lines": self.lines}, indent=1), encoding="utf-8")


def _name(title: str) -> str:
    return re.sub(r"[ ,]+", "_", title)


def _processors() -> float:
    """Return the seconds of processors of all processes that were begun and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(found: Mapping[str, Any]) -> None:
    """Print the lines as a table."""
    lines: Sequence[Mapping[str, Any]] = found["lines"]
    print(f"{'engine':26}{'rows':>12}{'in the process':>16}{'processors':>12}{'with Spark':>12}")
    for line in lines:
        by_spark = f"{line['spark']:10.1f} s" if "spark" in line else f"{'-':>12}"
        print(f"{line['engine']:26}{line['rows']:12,}{line['process']:14.2f} s{line['cpu']:10.2f} s{by_spark}")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"rows": 2_000_000, "keys": 2_000, "days": 10, "rounds": 3, "seed": 7}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="", help="engines whose title holds this text")
    parser.add_argument("--alone", action="store_true", help="measure the process alone, without Spark")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
