"""Benchmark: what a refresh of each engine reads and writes after a change, counted; and six window sizes beside one.

    python -m tests.benchmarks.engines [--rows 2000000] [--keys 2000] [--days 10] [--keep]

The source is written in hourly commits. After the first refresh of each aggregate come 0.1 % new rows at the end, then one
row in the middle of the history, then another. Each line counts the rows that were aggregated, the rows of the files that
were opened for them (by the plan), the files that were read (``tests.benchmarks.files`` says how), the rows written, the files
written and those they replaced, Spark jobs and commits. At the end every aggregate is compared with its whole computation over
the source.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from tests.benchmarks.trades import START, given, refreshed, report, reporting

HOUR: Final = 3_600_000_000
SIZES: Final = tuple(f"{n}0 minutes" for n in range(1, 7))
TEN: Final = {"engine": "time_series", "step": "10 minutes"}
WINDOWS: Final[Mapping[str, Mapping[str, Any]]] = {
    "time series, one size": TEN | {"window_size": SIZES[0], "measures": {"total": "sum(v)", "top": "max(v)"}},
    "time series, six sizes": TEN
    | {
        "window_size": SIZES,
        "measures": [{f"total{i}": "sum(v)", f"top{i}": "max(v)"} for i in range(len(SIZES))],
    },
    "session windows": {"engine": "session_window", "session_gap": "5 minutes", "measures": {"total": "sum(v)"}},
    "reactive state": {"engine": "reactive_state", "measures": {"mean": "mavg(v, 10)", "sum": "cumsum(v)"}},
    "daily time series": {
        "engine": "daily_time_series",
        "window_size": "30 minutes",
        "session_begin": ["09:30:00", "13:00:00"],
        "session_end": ["11:30:00", "15:00:00"],
        "measures": {"total": "sum(v)"},
    },
    "event time": {"engine": "event_time_window", "interval_duration": "10 minutes", "measures": {"total": "sum(v)"}},
    "hopping windows": {
        "engine": "hopping_window",
        "end": "until",
        "duration": "20 minutes",
        "period": "10 minutes",
        "measures": {"total": "sum(v)"},
    },
    "snapshot windows": {"engine": "snapshot_window", "end": "until", "measures": {"n": "count(*)"}},
}


def rows(rng: np.random.Generator, first: int, count: int, keys: int, start: int, length: int) -> pa.Table:
    """Return *count* rows in [start, start + length), in order of time, each an event of at most ten minutes."""
    ts = np.sort(rng.integers(start, start + length, count))
    until = ts + rng.integers(1_000_000, 600_000_000, count)
    kind = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "ts": pa.array(ts, kind),
            "until": pa.array(until, kind),
            "k": rng.integers(0, keys, count),
            "v": rng.integers(1, 1_000, count),
        }
    )


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Do every measurement; return a line for each refresh."""
    rng = np.random.default_rng(options.seed)
    source, hours = str(folder / "source"), options.days * 24
    each = options.rows // hours
    for hour in range(hours):
        feed = {"delta.enableChangeDataFeed": "true"} if hour == 0 else None
        table = rows(rng, hour * each, each, options.keys, START + hour * HOUR, HOUR)
        write_deltalake(source, table, mode="append", configuration=feed)
    spark = SparkConfig(profile="long", memory=options.memory)
    m = Materializer(config=Config(lake=str(folder / "lake"), spark=spark))
    m.engine().spark.range(1000).selectExpr("sum(id)").collect()
    wanted = {n: d for n, d in WINDOWS.items() if not options.only or options.only in n}
    names = {name: name.replace(" ", "_").replace(",", "") for name in wanted}
    for name, definition in wanted.items():
        m.define(names[name], source, time="ts", keys=["k"], sequence="id", **definition)
    lines: list[dict[str, Any]] = []

    def refresh(what: str) -> None:
        for name, called in names.items():
            seconds, told = refreshed(m, called)
            opened = told["rows_to_read"]
            lines.append({"engine": name, "after": what, "seconds": round(seconds, 2), "opened": opened} | told)
            print(f"{name} after {what}: {seconds:.1f} s", file=sys.stderr, flush=True)

    refresh("everything")
    total = each * hours
    new = max(1, total // 1_000)
    write_deltalake(source, rows(rng, total, new, options.keys, START + hours * HOUR, HOUR // 10), mode="append")
    refresh("0.1 % new rows")
    middle = START + hours // 2 * HOUR
    write_deltalake(source, rows(rng, total + new, 1, options.keys, middle, HOUR), mode="append")
    refresh("one late row")
    write_deltalake(source, rows(rng, total + new + 1, 1, options.keys, middle, HOUR), mode="append")
    refresh("one more")
    for name, called in names.items() if not options.unverified else ():
        verdict = m.verify(called)
        print(
            f"{name}: {verdict.rows} rows compared with the whole computation, {verdict.differing} differ", flush=True
        )
        if not verdict.is_equal:
            raise SystemExit(1)
    told = [line | {"source": total + new + 2} for line in lines]
    return {"options": given(options), "lines": told} | summary(told)


def summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is asked of the lines: the share of the source after new rows, and six window sizes beside one."""
    shares = {line["engine"]: line["rows_read"] / line["source"] for line in lines if line["after"] == "0.1 % new rows"}
    first = {line["engine"]: line for line in lines if line["after"] == "everything"}
    if not {"time series, one size", "time series, six sizes"} <= first.keys():
        return {"shares": shares}
    six, one = (first[f"time series, {n}"] for n in ("six sizes", "one size"))
    return {
        "shares": shares,
        "six": {
            "rows": six["rows_read"],
            "rows_of_one": one["rows_read"],
            "seconds": six["seconds"],
            "seconds_of_one": one["seconds"],
        },
    }


def show(found: dict[str, Any]) -> None:
    """Print the lines as a table, and what is asked of them."""
    lines = found["lines"]
    print(
        f"{'engine':24}{'after':16}{'aggregated':>11}{'of source':>10}{'opened':>10}{'written':>9}{'jobs':>6}{'commits':>8}{'s':>8}"
        f"{'files read':>12}{'MB':>8}{'written':>9}{'MB':>8}{'replaced':>10}{'MB':>8}"
    )
    for line in lines:
        share = f"{100 * line['rows_read'] / line['source']:.3f} %"
        print(
            f"{line['engine']:24}{line['after']:16}{line['rows_read']:11,}{share:>10}{line['opened']:10,}"
            f"{line['rows_written']:9,}{line['jobs']:6}{line['commits']:8}{line['seconds']:8.2f}"
            f"{line.get('files_read', '?'):>12}{line.get('bytes_read', 0) / 1_000_000:8.2f}"
            f"{line['files_written']:9}{line['bytes_written'] / 1_000_000:8.2f}"
            f"{line['files_removed']:10}{line['bytes_removed'] / 1_000_000:8.2f}"
        )
    if six := found.get("six"):
        print(
            f"six window sizes over one: {six['rows'] / six['rows_of_one']:.2f} x rows aggregated, "
            f"{six['seconds'] / six['seconds_of_one']:.2f} x seconds (asked <= 1.5)"
        )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--only", default="", help="engines whose title holds this text")
    parser.add_argument("--unverified", action="store_true", help="skip the comparison with the whole computation")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
