"""Benchmark: what a refresh costs beside the first materialization of its span, in every shape of change.

    python -m tests.benchmarks.scattered [--rows 300000] [--days 360] [--keys 40] [--only TEXT…] [--budget SECONDS]
                                         [--executor local|spark|auto]

Each cell is one aggregate and one change of a new lake: the first materialization, the change, one refresh, and then the first
materialization of a second lake over the changed source (*anew*). The law: a refresh takes at most 1.2 times as long as the longer of
the two first ones, plus half a second. Told are the three times, rows read and written, and what was planned. Finished cells are in
FOLDER/cells.jsonl; a call goes on with the others, so it can be stopped at any time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config
from tests.benchmarks.trades import report, reporting

START: Final = 1_704_067_200_000_000
HOUR: Final = 3_600_000_000
DAY: Final = 24 * HOUR
FILES: Final = 12
"""Commits of which the source is made."""
LAW: Final = (1.2, 0.5)
"""The factor and the seconds of the law."""
SCATTERED: Final = (10, 300, 1_500, 5_000, 50_000)

KEYED: Final = "sums by key"
BY_KEY: Final = "time_bucket('1 hour', ts) AS at, k"
AGGREGATES: Final[Mapping[str, str]] = {
    KEYED: f"{BY_KEY}, sum(v) AS v, count(*) AS n",
    "bars": "time_bucket('15 minutes', ts) AS at, first(x) AS open, max(x) AS high, last(x) AS close, count(*) AS n",
    "where": "time_bucket('1 hour', ts) AS at, sum(v) AS v, count(*) AS n",
    "median": f"{BY_KEY}, median(v) AS middle, count(*) AS n",
    "sketch": "time_bucket('1 hour', ts) AS at, approx_percentile(v, 0.9) AS high, approx_count_distinct(k) AS keys",
    "distinct": "time_bucket('1 hour', ts) AS at, count(DISTINCT k) AS keys, avg(x) AS mean",
    "time zone": "time_bucket('1 day', ts, 'Europe/Berlin') AS at, k, sum(v) AS v, max(x) AS high",
}
BARS: Final = "minute bars"
OTHERS: Final[Mapping[str, str]] = {
    BARS: "time_bucket('1 minute', ts) AS at, k, first(x) AS open, max(x) AS high, min(x) AS low, last(x) AS close, sum(v) AS volume"
}
"""Aggregates of single shapes."""
ENGINES: Final[Mapping[str, Mapping[str, Any]]] = {
    "sessions": {"engine": "session_window", "session_gap": "5 minutes", "measures": {"total": "sum(v)"}},
    "time series": {
        "engine": "time_series", "step": "10 minutes", "window_size": "10 minutes", "measures": {"total": "sum(v)"},
    },
    "reactive state": {"engine": "reactive_state", "measures": {"mean": "mavg(v, 10)", "sum": "cumsum(v)"}},
    "daily": {
        "engine": "daily_time_series", "window_size": "30 minutes", "session_begin": ["09:30:00"], "session_end": ["16:00:00"],
        "measures": {"total": "sum(v)"},
    },
    "event time": {"engine": "event_time_window", "interval_duration": "10 minutes", "measures": {"total": "sum(v)"}},
    "hopping": {
        "engine": "hopping_window", "end": "until", "duration": "20 minutes", "period": "10 minutes",
        "measures": {"total": "sum(v)"},
    },
    "snapshot": {"engine": "snapshot_window", "end": "until", "measures": {"n": "count(*)"}},
}  # fmt: skip

BUSY: Final = "long sessions"
OTHER_ENGINES: Final[Mapping[str, Mapping[str, Any]]] = {
    BUSY: {
        "engine": "session_window", "session_gap": "30 minutes", "measures": {"total": "sum(v)", "n": "count(*)"},
    },
}  # fmt: skip
"""Engines of single shapes."""


def rows(
    rng: np.random.Generator, options: argparse.Namespace, count: int, start: int, length: int, first: int
) -> pa.Table:
    """Return *count* rows with times in [start, start + length), in order of time."""
    ts = np.sort(rng.integers(start, start + length, count))
    stamp = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + count)),
            "ts": pa.array(ts).cast(stamp),
            "until": pa.array(ts + rng.integers(1_000_000, 600_000_000, count)).cast(stamp),
            "k": pa.array(rng.integers(0, options.keys, count)),
            "v": pa.array(rng.integers(1, 1_000, count)),
            "x": pa.array(rng.integers(1, 4_000, count) / 4),
        }
    )


class Cell:
    """One aggregate and one change.

    Args:
        options: The options of the benchmark.
        folder: Where the tables lie.
        aggregate: Name of the aggregate.
    """

    def __init__(self, options: argparse.Namespace, folder: Path, aggregate: str) -> None:
        self.options, self.folder, self.aggregate = options, folder, aggregate
        self.rng = np.random.default_rng(options.seed)
        self.source = str(folder / "source")
        self.length = options.days * DAY
        self.feed = True

    def fill(self) -> None:
        """Write the source."""
        each, length = self.options.rows // FILES, self.length // FILES
        configuration = {"delta.enableChangeDataFeed": str(self.feed).lower()}
        for i in range(FILES):
            table = rows(self.rng, self.options, each, START + i * length, length, i * each)
            write_deltalake(self.source, table, mode="append", configuration=configuration if i == 0 else None)

    def insert(self, count: int) -> None:
        """Insert rows that lie anywhere."""
        self.append(rows(self.rng, self.options, count, START, self.length, self.options.rows))

    def append(self, table: pa.Table) -> None:
        """Append rows."""
        write_deltalake(self.source, table, mode="append")

    def lake(self, name: str = "lake") -> Materializer:
        """Return a lake with the aggregate, which nothing has computed yet."""
        m = Materializer(config=Config(lake=str(self.folder / name), sources={"source": self.source}))
        if engine := (ENGINES | OTHER_ENGINES).get(self.aggregate):
            m.define("it", self.source, time="ts", keys=["k"], sequence="id", **engine)
            return m
        if self.aggregate == "roll-up":
            m.apply(f"CREATE MATERIALIZED VIEW finer AS SELECT {AGGREGATES[KEYED]} FROM source GROUP BY 1, 2")
            m.refresh("finer")
            m.apply(
                "CREATE MATERIALIZED VIEW it AS SELECT time_bucket('1 day', at) AS day, k, rollup(v) AS v, rollup(n) AS n "
                "FROM finer GROUP BY 1, 2"
            )
            return m
        where = "WHERE v > 50" if self.aggregate == "where" else ""
        measures = (AGGREGATES | OTHERS)[self.aggregate]
        keys = "1, 2" if ", k," in measures else "1"
        m.apply(f"CREATE MATERIALIZED VIEW it AS SELECT {measures} FROM source {where} GROUP BY {keys}")
        return m


def _insert(count: int) -> Callable[[Cell], None]:
    return lambda cell: cell.insert(count)


def _update(count: int) -> Callable[[Cell], None]:
    def change(cell: Cell) -> None:
        step = max(cell.options.rows // count, 1)
        DeltaTable(cell.source).update(predicate=f"id % {step} = 0", updates={"v": "v + 1"})

    return change


def _delete(count: int) -> Callable[[Cell], None]:
    def change(cell: Cell) -> None:
        step = max(cell.options.rows // count, 1)
        DeltaTable(cell.source).delete(f"id % {step} = 0")

    return change


def _move(cell: Cell) -> None:
    DeltaTable(cell.source).update(predicate="id % 100 = 0", updates={"k": f"(k + 1) % {cell.options.keys}"})


def _one_of_each_file(cell: Cell) -> None:
    each = cell.options.rows // FILES
    DeltaTable(cell.source).update(predicate=f"id % {each} = {each // 2}", updates={"v": "v + 1"})


def _commits(count: int) -> Callable[[Cell], None]:
    def change(cell: Cell) -> None:
        table = rows(cell.rng, cell.options, count, START, cell.length, cell.options.rows)
        order = cell.rng.permutation(count)
        for i in order:
            cell.append(table.slice(int(i), 1))

    return change


CHANGES: Final[Mapping[str, Callable[[Cell], None]]] = {
    **{f"{n:,} inserts": _insert(n) for n in SCATTERED},
    **{f"{n:,} updates": _update(n) for n in SCATTERED},
    **{f"{n:,} deletes": _delete(n) for n in SCATTERED},
    "half deleted": lambda cell: DeltaTable(cell.source).delete("id % 2 = 0") and None,
    "1 % of the keys moved": _move,
    "a row of each file": _one_of_each_file,
    "3,000 commits": _commits(3_000),
    "3,000 commits, no feed": _commits(3_000),
}


def _partitions(cell: Cell) -> None:
    """Write a source of 3,000 partitions, each a file."""
    table = rows(cell.rng, cell.options, cell.options.rows, START, cell.length, 0)
    parts = table.append_column("part", pa.array(np.arange(len(table)) * 3_000 // len(table)))
    configuration = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(cell.source, parts, mode="append", partition_by=["part"], configuration=configuration)


def _wide(columns: int, text: int) -> Callable[[Cell], None]:
    """Return what writes a source with more columns, and a text in each row."""

    def fill(cell: Cell) -> None:
        each, length = cell.options.rows // FILES, cell.length // FILES
        for i in range(FILES):
            table = rows(cell.rng, cell.options, each, START + i * length, length, i * each)
            for c in range(columns):
                table = table.append_column(f"c{c}", table["v"])
            if text:
                table = table.append_column("text", pa.array([f"{n:x}" * (text // len(f"{n:x}")) for n in range(each)]))
            write_deltalake(
                cell.source,
                table,
                mode="append",
                configuration={"delta.enableChangeDataFeed": "true"} if i == 0 else None,
            )

    return fill


def _like_source(cell: Cell, count: int) -> None:
    """Insert rows with all columns of the source, copied from its own."""
    there = DeltaTable(cell.source).to_pyarrow_table()
    cell.append(there.take(pa.array(cell.rng.integers(0, there.num_rows, count))))


def _million_keys(cell: Cell) -> None:
    """Write a source whose rows lie in one day, each with a key of its own."""
    cell.length = DAY
    table = rows(cell.rng, cell.options, cell.options.rows, START, HOUR - 1, 0)
    table = table.set_column(table.column_names.index("k"), "k", table["id"])
    write_deltalake(cell.source, table, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def _trades(cell: Cell) -> None:
    """Write a source of 30 days with 100 keys, as many rows an hour as another."""
    cell.length, cell.options.keys = 30 * DAY, 100
    for i in range(30):
        each = cell.options.rows // 30
        table = rows(cell.rng, cell.options, each, START + i * DAY, DAY, i * each)
        write_deltalake(
            cell.source, table, mode="append", configuration={"delta.enableChangeDataFeed": "true"} if i == 0 else None
        )


def _visits(cell: Cell, count: int, first: int) -> pa.Table:
    """Return events of users of whom a few have most of them."""
    table = rows(cell.rng, cell.options, count, START, cell.length, first)
    users = np.minimum(cell.rng.zipf(1.3, count), 200_000)
    return table.set_column(table.column_names.index("k"), "k", pa.array(users))


def _busy_users(cell: Cell) -> None:
    """Write a source of 60 days in which sessions of the busiest users last for weeks."""
    cell.length = 60 * DAY
    table = _visits(cell, cell.options.rows, 0)
    each = cell.options.rows // FILES
    for i in range(FILES):
        configuration = {"delta.enableChangeDataFeed": "true"} if i == 0 else None
        write_deltalake(cell.source, table.slice(i * each, each), mode="append", configuration=configuration)


def _history(refreshes: int) -> Callable[[Cell], None]:
    """Return what refreshes a lake many times, and then inserts scattered rows."""

    def change(cell: Cell) -> None:
        m = Materializer(config=Config(lake=str(cell.folder / "lake"), sources={"source": cell.source}))
        for _ in range(refreshes):
            cell.insert(1)
            m.refresh("it")
        cell.insert(300)

    return change


SHAPES: Final[Mapping[str, tuple[str, int, Callable[[Cell], None], Callable[[Cell], None]]]] = {
    "3,000 partitions, 300 inserts": (KEYED, 0, _partitions, lambda cell: _like_source(cell, 300)),
    "400 columns, 300 inserts": (KEYED, 12_000, _wide(400, 0), lambda cell: _like_source(cell, 300)),
    "texts of 1 MB, 12 inserts": (KEYED, 240, _wide(0, 1_000_000), lambda cell: _like_source(cell, 12)),
    "a million keys, 300 updates": (KEYED, 1_000_000, _million_keys, _update(300)),
    "20 M rows, 20,000 inserts": (BARS, 20_000_000, _trades, _insert(20_000)),
    "2 M events of busy users, 3,500 inserts": (
        BUSY,
        2_000_000,
        _busy_users,
        lambda cell: cell.append(_visits(cell, 3_500, 2_000_000)),
    ),
    "3,000 refreshes, 300 inserts": (KEYED, 0, Cell.fill, _history(3_000)),
}
"""The aggregate, rows (0 as asked), how the source is written, and the change."""


def measured(options: argparse.Namespace, folder: Path, aggregate: str, change: str) -> dict[str, Any]:
    """Return what one cell comes to."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _, count, fill, act = SHAPES.get(change) or ("", 0, Cell.fill, CHANGES[change])
    options = argparse.Namespace(**(vars(options) | {"rows": count or options.rows}))
    cell = Cell(options, folder, aggregate)
    cell.feed = "no feed" not in change
    fill(cell)
    m = cell.lake()
    first, made = _timed(lambda: m.refresh("it", executor=options.executor))
    act(cell)
    if aggregate == "roll-up":
        m.refresh("finer")
    again, done = _timed(lambda: m.refresh("it", executor=options.executor))
    found = {"aggregate": aggregate, "change": change, "first": first, "refresh": again}
    found |= {"first_" + k: v for k, v in _counted(made).items()} | _counted(done)
    if options.verify:
        found["equal"] = m.verify("it").is_equal
    other = cell.lake("anew")
    found["anew"], _ = _timed(lambda: other.refresh("it"))
    found["within"] = again <= LAW[0] * max(first, found["anew"]) + LAW[1]
    return found


def _counted(done: Any) -> dict[str, Any]:
    reports = [r.report for r in done.runs if r.report is not None]
    return {
        "runs": len(reports),
        "strategy": " ".join(dict.fromkeys(r.strategy for r in reports)),
        "executor": " ".join(dict.fromkeys(r.executor or "spark" for r in reports)),
        "read": sum(r.rows_read for r in reports),
        "written": sum(r.rows_written + r.partials_written for r in reports),
    }


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    done = action()
    return time.perf_counter() - start, done


def cells(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the cells that are asked for."""
    for change in CHANGES:
        for aggregate in (*AGGREGATES, "roll-up", *ENGINES):
            if all(text in f"{aggregate}/{change}" for text in options.only or ()):
                yield aggregate, change
    for change, (aggregate, *_) in SHAPES.items():
        if all(text in f"{aggregate}/{change}" for text in options.only or ()):
            yield aggregate, change


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure the cells that are not yet measured; return all."""
    folder.mkdir(parents=True, exist_ok=True)
    file, until = folder / "cells.jsonl", time.monotonic() + options.budget
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(c["aggregate"], c["change"]) for c in known}
    if options.executor == "spark":
        small = argparse.Namespace(**{**vars(options), "rows": 10_000, "verify": False})
        for change in ("300 inserts", "10 deletes"):
            measured(small, folder / "warm", "sums by key", change)
    for aggregate, change in cells(options):
        if (aggregate, change) in done or time.monotonic() > until:
            continue
        found = measured(options, folder / "cell", aggregate, change)
        known.append(found)
        with file.open("a") as out:
            out.write(json.dumps(found) + "\n")
        print(_line(found), file=sys.stderr, flush=True)
    return {"cells": known}


def _line(c: Mapping[str, Any]) -> str:
    mark = "" if c["within"] else "  BEYOND"
    return (
        f"{c['aggregate']:15} {c['change']:22} first {c['first']:6.2f} s  anew {c['anew']:6.2f} s  refresh {c['refresh']:6.2f} s  x {c['refresh'] / max(c['first'], c['anew']):5.2f}"
        f"  read {c['read']:8,} written {c['written']:8,}  {c['runs']} {c['executor']} {c['strategy']} {c.get('equal', '')}{mark}"
    )


def show(found: dict[str, Any]) -> None:
    """Print a line for each cell, then the table of ``docs/measurements.md``: ratios to the first materialization."""
    for cell in found["cells"]:
        print(_line(cell))
    names = list(dict.fromkeys(c["aggregate"] for c in found["cells"]))
    told = {(c["change"], c["aggregate"]): _told(c) for c in found["cells"]}
    print("| change | " + " | ".join(names) + " |\n|" + " --- |" * (len(names) + 1))
    for change in dict.fromkeys(c["change"] for c in found["cells"]):
        print(f"| {change} | " + " | ".join(told.get((change, name), "") for name in names) + " |")


def _told(c: Mapping[str, Any]) -> str:
    """Return first, refresh and ratio of a cell, with a mark where it is beyond the law."""
    first = max(c["first"], c["anew"])
    return f"{c['refresh']:.2f} s of {first:.2f}: {c['refresh'] / first:.1f}{'' if c['within'] else ' **beyond**'}"


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--days", type=int, default=360)
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", nargs="+", help="cells whose 'aggregate/change' has each of these texts")
    parser.add_argument("--budget", type=float, default=1e9, help="begin no cell after so many seconds")
    parser.add_argument(
        "--executor", choices=("local", "spark", "auto"), help="what computes; by default as configured"
    )
    parser.add_argument("--verify", action="store_true", help="compare each with plain Spark")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
