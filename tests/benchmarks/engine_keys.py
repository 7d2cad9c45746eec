"""Benchmark: what a refresh of an engine reads, computes and writes for one late row of one of many keys.

    python -m tests.benchmarks.engine_keys [--keys 100000] [--rows 2] [--hours 4] [--only sessions] [--executor auto] [--verify]

Each key has some rows in each hour. After the first refresh one row of one key comes late, then another row of this key is
corrected, then one moves to another key. Printed are the rows that were aggregated, the result rows that a refresh made, the rows
of the files that it wrote and of all files of the output, and the seconds. Counters need one run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.lake.log import latest_version, read_commit
from materializer.lake.rows import row_count
from materializer.services.aggregate import Aggregate
from tests.benchmarks.files import touched
from tests.benchmarks.trades import counters, report, reporting

HOUR: Final = 3_600_000_000
START: Final = 1_704_067_200_000_000
ENGINES: Final[Mapping[str, Mapping[str, Any]]] = {
    "sessions": {
        "engine": "session_window",
        "session_gap": "5 minutes",
        "measures": {"total": "sum(v)", "n": "count(*)"},
    },
    "state": {"engine": "reactive_state", "measures": {"mean": "mavg(v, 3)", "sum": "cumsum(v)"}},
    "series": {
        "engine": "time_series",
        "window_size": "10 minutes",
        "step": "10 minutes",
        "origin": "2024-01-01",
        "measures": {"total": "sum(v)"},
    },
}


def readings(keys: int, rows: int, hour: int) -> pa.Table:
    """Return the rows of an hour, in the order of time."""
    key = np.tile(np.arange(keys), rows)
    at = START + hour * HOUR + np.arange(len(key)) * HOUR // len(key)
    return pa.table(
        {
            "id": pa.array(np.arange(len(key)) + hour * len(key)),
            "ts": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "k": pa.array([f"key {k:08}" for k in key]),
            "v": pa.array(np.arange(len(key), dtype=np.int64) % 1000),
        }
    )


def _late(source: str, key: str) -> None:
    first = readings(1, 1, 0)
    row = {"id": [-1], "ts": [START + HOUR // 3], "k": [key], "v": [1_000_000]}
    write_deltalake(source, pa.table(row).cast(first.schema), mode="append")


def _corrected(source: str, key: str) -> None:
    DeltaTable(source).update(predicate=f"k = '{key}' AND id = -1", updates={"v": "v + 1"})


def _moved(source: str, key: str) -> None:
    other = key[:-1] + ("1" if key[-1] != "1" else "2")
    DeltaTable(source).update(predicate=f"k = '{key}' AND id = -1", updates={"k": f"'{other}'"})


CHANGES: Final[Mapping[str, Callable[[str, str], None]]] = {
    "one late row": _late,
    "one corrected row": _corrected,
    "one row of another key": _moved,
}


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Do every measurement; return a line for each refresh."""
    source = str(folder / "source")
    DeltaTable.create(source, readings(1, 1, 0).schema, configuration={"delta.enableChangeDataFeed": "true"})
    for hour in range(options.hours):
        write_deltalake(source, readings(options.keys, options.rows, hour), mode="append")
    spark = SparkConfig(profile="long", memory=options.memory)
    m = Materializer(config=Config(lake=str(folder / "lake"), spark=spark, executor=options.executor))
    names = [name for name in ENGINES if not options.only or name in options.only.split(",")]
    lines: list[dict[str, Any]] = []
    for name in names:
        m.define(name, source, time="ts", keys=["k"], sequence="id", **ENGINES[name])
        started = time.perf_counter()
        m.refresh(name)
        print(f"{name} after everything: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    if options.executor != "local":
        m.engine().spark.range(1000).selectExpr("sum(id)").collect()
    for change, make in CHANGES.items():
        make(source, f"key {options.keys // 2:08}")
        for name in names:
            lines.append({"engine": name, "after": change} | _refreshed(m, name))
            print(f"{name} after {change}: {lines[-1]['seconds']:.1f} s", file=sys.stderr, flush=True)
    differing = [name for name in names if options.verify and not m.verify(name).is_equal]
    if differing:
        raise SystemExit(f"{', '.join(differing)} differ from plain Spark")
    return {"lines": lines}


def _refreshed(m: Materializer, name: str) -> dict[str, Any]:
    """Refresh an aggregate and return what that took."""
    aggregate = Aggregate.of(m.journal.view().named(name), m.root)
    tables = [aggregate.paths[which] for which in ("partials", "output")]
    before = [latest_version(path) for path in tables]
    started = time.perf_counter()
    with touched(m, name) as files:
        done = m.refresh(name)
    seconds = time.perf_counter() - started
    written = 0
    for path, version in zip(tables, before, strict=True):
        commits = [read_commit(path, v) for v in range(version + 1, latest_version(path) + 1)]
        written += sum(f.rows or 0 for c in commits for f in c.adds)
    [run_] = done.runs
    return (
        counters(done)
        | files
        | {
            "seconds": round(seconds, 2),
            "strategy": run_.report.strategy,
            "executor": run_.report.executor or "spark",
            "results": run_.report.partials_written,
            "rows_of_files": written,
            "rows_of_tables": sum(row_count(path) or 0 for path in tables),
        }
    )


def show(found: dict[str, Any]) -> None:
    """Print the lines as a table."""
    print(
        f"{'engine':10}{'after':24}{'strategy':16}{'by':6}{'aggregated':>11}{'results':>10}{'rows of files':>14}"
        f"{'of tables':>12}{'jobs':>5}{'read MB':>9}{'s':>8}"
    )
    for line in found["lines"]:
        print(
            f"{line['engine']:10}{line['after']:24}{line['strategy']:16}{line['executor']:6}{line['rows_read']:11,}"
            f"{line['results']:10,}{line['rows_of_files']:14,}{line['rows_of_tables']:12,}{line['jobs']:5}"
            f"{line.get('bytes_read', 0) / 1_000_000:9.2f}{line['seconds']:8.2f}"
        )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=2, help="rows of a key in an hour")
    parser.add_argument("--hours", type=int, default=4)
    parser.add_argument("--only", default="", help="engines, separated by commas")
    parser.add_argument("--executor", default="auto", choices=["auto", "local", "spark"])
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--verify", action="store_true", help="compare with plain Spark at the end")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
