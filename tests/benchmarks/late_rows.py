"""Benchmark: one late row of each engine, and of sketches, from command to exit, computed in the process and by Spark.

    python -m tests.benchmarks.late_rows [--rows 2000000] [--keys 2000] [--days 10] [--rounds 3] [--only TITLE]

The sources and definitions are those of ``tests.benchmarks.engines``. Before each call one row is inserted in the middle of the
history. Told are medians of the commands in the process, which must not leave anything to Spark, and one command by Spark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from deltalake import write_deltalake

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


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return a line for each engine."""
    rng, source, hours = np.random.default_rng(options.seed), str(folder / "source"), options.days * 24
    each = options.rows // hours
    for hour in range(hours):
        feed = {"delta.enableChangeDataFeed": "true"} if hour == 0 else None
        table = rows(rng, hour * each, each, options.keys, START + hour * HOUR, HOUR)
        write_deltalake(source, table, mode="append", configuration=feed)
    (folder / "materializer.toml").write_text(f'lake = "{folder / "lake"}"\n', encoding="utf-8")
    wanted: dict[str, Any] = {
        n: d for n, d in (WINDOWS | STRICT | FROZEN | {SKETCHES: {}}).items() if (options.only or n) in n
    }
    m = Materializer(config=Config(lake=str(folder / "lake")))
    for i, (title, definition) in enumerate(wanted.items()):
        if title == SKETCHES:
            m.apply(_SKETCHES.format(name=f"made_{i}", source=source))
        else:
            m.define(f"made_{i}", source, time="ts", keys=["k"], sequence="id", **definition)
        m.refresh(f"made_{i}")
    m.engine().spark.stop()
    count = each * hours

    def late(name: str, executor: str, hour: int) -> float:
        nonlocal count
        count += 1
        write_deltalake(source, rows(rng, count, 1, options.keys, START + hour * HOUR, HOUR), mode="append")
        return timed(lambda: call(folder, "refresh", name, MATERIALIZER_EXECUTOR=executor))[0]

    lines: list[dict[str, Any]] = []
    for i, title in enumerate(wanted):
        hour = hours - 12 if title in FROZEN else hours // 2
        here = [late(f"made_{i}", "local", hour) for _ in range(options.rounds)]
        by_spark = late(f"made_{i}", "spark", hour)
        line = {"engine": title, "rows": each * hours, "process": median(here), "spark": by_spark}
        print(f"{title}: {line['process']:.2f} s, {line['spark']:.1f} s", file=sys.stderr, flush=True)
        lines.append(line)
    return {"options": given(options), "lines": lines}


def show(found: Mapping[str, Any]) -> None:
    """Print the lines as a table."""
    lines: Sequence[Mapping[str, Any]] = found["lines"]
    print(f"{'engine':26}{'rows':>12}{'in the process':>16}{'with Spark':>12}")
    for line in lines:
        print(f"{line['engine']:26}{line['rows']:12,}{line['process']:14.2f} s{line['spark']:10.1f} s")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"rows": 2_000_000, "keys": 2_000, "days": 10, "rounds": 3, "seed": 7}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="", help="engines whose title holds this text")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
