"""Benchmark: how many rows a refresh aggregates for late and corrected rows of few keys, beside the rows of their groups.

    python -m tests.benchmarks.keys [--devices 10000] [--rows 20] [--executor local] [--keep]

Readings of as many devices, each with some rows an hour, are aggregated by the hour, by device and by device and kind. Months later
one row of one device comes late and another one of its rows is corrected; then the same happens to seven devices, each in hours of its
own. Told are the rows that were aggregated, and how many that is of the rows in the groups that changed. Counters need one run.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config
from tests.benchmarks.trades import report, reporting

HOUR: Final = 3_600_000_000
HOURS: Final = 4
START: Final = 1_704_067_200_000_000
MEASURES: Final = "sum(v) AS v, count(*) AS n, max(v) AS most, median(v) AS middle"
VIEWS: Final = {"by_device": "device", "by_kind": "device, kind"}
DEVICES: Final = {"one device": 1, "seven devices": 7}


def readings(devices: int, rows: int, hour: int) -> pa.Table:
    """Return the rows of an hour, in the order of their devices."""
    device = np.repeat(np.arange(devices), rows)
    at = START + hour * HOUR + np.arange(len(device)) % HOUR
    return pa.table(
        {
            "ts": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "device": pa.array([f"device {d:06}" for d in device]),
            "kind": pa.array(np.arange(len(device), dtype=np.int64) % 2),
            "v": pa.array(np.arange(len(device), dtype=np.int64) % 1000),
        }
    )


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the counters of each change and aggregate."""
    source = str(folder / "readings")
    DeltaTable.create(source, readings(1, 1, 0).schema, configuration={"delta.enableChangeDataFeed": "true"})
    for hour in range(HOURS):
        write_deltalake(source, readings(options.devices, options.rows, hour), mode="append")
    config = Config(sources={"readings": source}, local_rows=10**9, local_memory=1 << 42)
    m = Materializer(folder / "lake", config=config)
    for name, keys in VIEWS.items():
        select = f"SELECT time_bucket('1 hour', ts) AS at, {keys}, {MEASURES} FROM readings GROUP BY ALL"
        m.apply(f"CREATE MATERIALIZED VIEW {name} AS {select}")
        m.refresh(name)
    found: dict[str, Any] = {}
    for change, devices in DEVICES.items():
        groups = _change(source, options, devices)
        for name, keys in VIEWS.items():
            [done] = m.refresh(name, executor=options.executor).runs
            changed = _rows_of(source, groups, with_kind="kind" in keys)
            found[f"{change}, {name}"] = {
                "strategy": done.report.strategy,
                "rows_read": done.report.rows_read,
                "rows_of_changed_groups": changed,
                "ratio": done.report.rows_read / changed,
                "seconds": done.report.seconds,
            }
    found["differing"] = sum(not m.verify(name).is_equal for name in VIEWS) if options.verify else None
    return found


def _change(source: str, options: argparse.Namespace, devices: int) -> list[tuple[int, str, int]]:
    """Insert a late row of each device and correct another one of the same group; return hour, device and kind."""
    step = max(1, options.devices // devices)
    groups = [(i % HOURS, f"device {i * step:06}", 0) for i in range(devices)]
    late = [
        {"ts": START + hour * HOUR + 7, "device": device, "kind": kind, "v": 10**6} for hour, device, kind in groups
    ]
    schema = readings(1, 1, 0).schema
    columns = [pa.array([row[n] for row in late]) for n in schema.names]
    write_deltalake(source, pa.table(columns, schema.names).cast(schema), mode="append")
    for hour, device, kind in groups:
        start, end = (datetime.fromtimestamp((START + h * HOUR) / 10**6, UTC).isoformat() for h in (hour, hour + 1))
        first = f"device = '{device}' AND kind = {kind} AND ts >= '{start}' AND ts < '{end}' AND v <> 1000000"
        DeltaTable(source).update(predicate=first, updates={"v": "v + 1"})
    return groups


def _rows_of(source: str, groups: list[tuple[int, str, int]], *, with_kind: bool) -> int:
    """Return how many rows of the source are in some groups."""
    rows = DeltaTable(source).to_pyarrow_table()
    hours = (np.asarray(rows["ts"].cast(pa.int64())) - START) // HOUR
    devices, kinds = np.asarray(rows["device"]), np.asarray(rows["kind"])
    return sum(
        int(((hours == hour) & (devices == device) & ((kinds == kind) | (not with_kind))).sum())
        for hour, device, kind in groups
    )


def show(found: dict[str, Any]) -> None:
    """Print what was counted."""
    for name, of in found.items():
        if isinstance(of, dict):
            print(
                f"{name:28} {of['strategy']}: {of['rows_read']:,} rows aggregated, {of['rows_of_changed_groups']:,} in changed "
                f"groups = {of['ratio']:.2f} x, {of['seconds']:.2f} s"
            )


def main() -> None:
    """Read the options, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=20, help="rows of a device in an hour")
    parser.add_argument("--executor", default="local", choices=["local", "spark"])
    parser.add_argument("--verify", action="store_true", help="compare with plain Spark at the end")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
