"""Small Delta tables of trades, written without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests import tables

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("price", pa.int64())])

Rows = Iterable[tuple[int | None, str, int]]


class Trades:
    """A table of (ts, sym, price) whose times are given in microseconds."""

    def __init__(self, path: Path, *, feed: bool, **properties: str) -> None:
        self.path = str(path)
        tables.create(self.path, SCHEMA, feed=feed, properties=properties)

    @property
    def table(self) -> DeltaTable:
        """The table, opened anew."""
        return DeltaTable(self.path)

    @property
    def version(self) -> int:
        """Its newest version."""
        return self.table.version()

    @property
    def id(self) -> str:
        """Its Delta id."""
        return str(self.table.metadata().id)

    def rows(self, rows: Rows) -> pa.Table:
        """Rows of this table's columns."""
        return rows_of(rows)

    def append(self, *rows: tuple[int | None, str, int]) -> int:
        """Append rows in one commit and return the new version."""
        tables.append(self.path, rows_of(rows))
        return self.version

    def feed(self, *, on: bool) -> int:
        """Switch the change feed and return the new version."""
        self.table.alter.set_table_properties({"delta.enableChangeDataFeed": str(on).lower()})
        return self.version

    def commit_file(self, version: int) -> Path:
        """The log's file of a version."""
        return Path(self.path) / "_delta_log" / f"{version:020d}.json"

    def forget(self, version: int, *names: str) -> None:
        """Take these statistics, or all, out of the files that a version added."""
        forget(self.path, version, *names)

    def data_files(self) -> list[Path]:
        """All data files, referenced or not."""
        return sorted(Path(self.path).glob("*.parquet"))


def forget(path: str, version: int, *names: str) -> None:
    """Take these statistics, or all, out of the files that a version of a table added."""
    log = Path(path) / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for add in (a["add"] for a in actions if "add" in a):
        told = json.loads(add.pop("stats"))
        if names:
            add["stats"] = json.dumps({name: value for name, value in told.items() if name not in names})
    log.write_text("".join(json.dumps(a) + "\n" for a in actions))


def rows_of(rows: Rows) -> pa.Table:
    """Return Arrow rows; a time is microseconds since the epoch or None."""
    times, syms, prices = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        [
            pa.array(times, pa.int64()).cast(SCHEMA.field("ts").type),
            pa.array(syms, pa.string()),
            pa.array(prices, pa.int64()),
        ],
        schema=SCHEMA,
    )


def times_of(path: str) -> list[int | None]:
    """Return the times of all rows of a table, sorted, null last."""
    values: list[Any] = DeltaTable(path).to_pyarrow_table()["ts"].cast(pa.int64()).to_pylist()
    return sorted(values, key=lambda v: (v is None, v))


def at(text: str) -> int:
    """Return the instant of an ISO text, UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
