"""Benchmark: what a thousand small refreshes leave behind, with maintenance after every so many and without.

    python -m tests.benchmarks.decay [--refreshes 1000] [--maintain-every 50] [--keep]

One row is inserted and refreshed, again and again, each a bucket later, so that every refresh adds a small file to both
tables and commits to the journal. Told of both ways: the median time of the first and the last ten refreshes; and of the last fifty,
done in turn with the first ten of each of five new lakes, so that neither a warmer JVM nor another hour of the machine is taken for
age; files and bytes on disk, what a newcomer pays to open and fold the journal, and to read the output; and what maintenance took.
Nothing is kept for readers of older versions, and after every 288, a day of them, the journal is made a day older, so that what
is left does not depend on how long the benchmark takes.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.journal.journal import Journal
from materializer.lake.write import vacuum
from materializer.services.maintenance import maintain
from tests.benchmarks.journal import A_DAY, let_a_day_pass
from tests.benchmarks.trades import report, reporting, timed

START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("price", pa.float64())])
FEW = 10
NEW_LAKES = 5


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return what was measured without and with maintenance."""
    config = Config(executor="spark", spark=SparkConfig(memory=options.memory))
    warm = Materializer(folder / "warm", config=config)
    spark = warm.engine().spark
    warm.engine().spark.range(1000).selectExpr("sum(id)").collect()
    with (
        mock.patch.object(maintain, "retention_hours", return_value=0.0),
        mock.patch.object(vacuum, "retention_of", return_value=0.0),
    ):
        options_given = {"options": {k: str(v) for k, v in vars(options).items()}}

        turns = max(1, min(NEW_LAKES, options.refreshes // (2 * FEW)))

        def lake(name: str) -> Materializer:
            return Materializer(folder / name, spark=spark, config=config)

        return options_given | {
            kind: _one(lake(kind), [lake(f"{kind} {i}") for i in range(turns)], options.refreshes, every)
            for kind, every in (("without", 0), ("with", options.maintain_every))
        }


def _one(m: Materializer, beside: list[Materializer], refreshes: int, every: int) -> dict[str, Any]:
    _begun(m)
    seconds, new, maintained = [], [], []
    beside_since = refreshes - FEW * len(beside)
    for i in range(1, refreshes):
        seconds.append(_refreshed(m, i))
        if i >= beside_since:
            at, since = divmod(i - beside_since, FEW)
            if since == 0:
                _begun(beside[at])
            new.append(_refreshed(beside[at], i))
        if i % A_DAY == 0:
            let_a_day_pass(m.root)
        if every and i % every == 0:
            took, _ = timed(lambda: m.maintain("bars"))
            maintained.append(took)
    times = {"first": seconds[:FEW], "last": seconds[-FEW:], "old": seconds[-len(new) :], "new": new}
    return {name: round(median(of), 4) for name, of in times.items()} | _left(m) | _told(maintained)


def _begun(m: Materializer) -> None:
    source = str(m.root / "trades")
    DeltaTable.create(source, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    _insert(source, 0)
    measures = {"n": "count(*)", "high": "max(price)", "total": "sum(price)"}
    m.define("bars", source, time="ts", width="1 minute", keys=["sym"], measures=measures)
    assert m.refresh("bars").runs


def _refreshed(m: Materializer, i: int) -> float:
    _insert(str(m.root / "trades"), i)
    return timed(lambda: m.refresh("bars"))[0]


def _told(maintained: list[float]) -> dict[str, Any]:
    if not maintained:
        return {"maintenances": 0, "maintain_seconds": 0.0}
    return {"maintenances": len(maintained), "maintain_seconds": round(median(maintained), 3)}


def _insert(source: str, i: int) -> None:
    rows = [{"ts": START + timedelta(minutes=i), "sym": "A", "price": float(i % 17)}]
    write_deltalake(source, pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")


def _left(m: Materializer) -> dict[str, Any]:
    tables = {"output": [m.root / "bars" / "output"], "partials": list((m.root / "bars" / "partials").iterdir())}
    found: dict[str, Any] = {}
    for name, (path,) in tables.items():
        found[f"{name}_files"] = len(DeltaTable(str(path)).file_uris())
        found[f"{name}_on_disk"] = len(list(path.glob("*.parquet")))
    files = [p for p in (m.root / "bars").rglob("*") if p.is_file()]
    found["table_bytes"] = sum(p.stat().st_size for p in files)
    journal = [p for p in (m.root / "_materializer").rglob("*") if p.is_file()]
    found["journal_files"], found["journal_bytes"] = len(journal), sum(p.stat().st_size for p in journal)
    found["journal_seconds"] = round(min(timed(lambda: Journal(m.root).view())[0] for _ in range(3)), 4)
    read, _ = timed(lambda: DeltaTable(str(m.root / "bars" / "output")).to_pyarrow_table())
    found["read_seconds"] = round(read, 4)
    return found


def show(found: dict[str, Any]) -> None:
    """Print the measurements as a table."""
    for key in found["with"]:
        print(f"{key:18} without {found['without'][key]:>12,}   with {found['with'][key]:>12,}")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refreshes", type=int, default=1000)
    parser.add_argument("--maintain-every", type=int, default=50)
    parser.add_argument("--memory", default="2g")
    options = reporting(parser)
    if options.refreshes < 2 * FEW:
        parser.error(f"--refreshes: at least {2 * FEW}, the first {FEW} and the last")
    report(options, run, show)


if __name__ == "__main__":
    main()
