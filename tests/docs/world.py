"""The small world of the pages about engines: trades and orders of one morning, and what every engine makes of them.

Two commits. After each every engine is refreshed, so that the pages show what a late row changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from msgspec import Struct

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.engines.guides import GUIDES
from tests import tables
from tests.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY: Final = datetime(2024, 3, 4, tzinfo=UTC)
SQL: Final = ROOT / "sql" / "engines"

TRADES: Final = (
    (1, 1, "09:30:20", "AA", 100.0, 10),
    (1, 2, "09:31:10", "AA", 102.0, 5),
    (1, 3, "09:31:50", "BB", 50.0, 20),
    (1, 4, "09:33:40", "AA", 101.0, 8),
    (1, 5, "09:34:30", "BB", 51.0, 10),
    (1, 6, "09:35:00", "BB", 52.0, 15),
    (1, 7, "09:36:30", "AA", 104.0, 12),
    (1, 8, "09:38:00", "AA", 103.0, 6),
    (1, 9, "09:41:30", "BB", 50.0, 30),
    (1, 10, "09:44:10", "AA", 105.0, 9),
    (1, 11, "09:45:00", "BB", 49.0, 25),
    (1, 12, "09:46:30", "AA", 106.0, 7),
    (2, 13, "09:32:30", "AA", 99.0, 4),
    (2, 14, "09:47:40", "BB", 53.0, 10),
)
"""(commit, trade_id, ts, sym, price, volume); trade 13 comes late."""

ORDERS: Final = (
    (1, 1, "09:30:00", "09:36:00", "AA", 10),
    (1, 2, "09:32:00", "09:34:00", "AA", 5),
    (1, 3, "09:38:00", None, "AA", 20),
    (1, 4, "09:31:00", "09:39:00", "BB", 8),
    (1, 5, "09:35:00", "09:35:00", "BB", 3),
    (2, 6, "09:36:00", "09:41:00", "BB", 4),
)
"""(commit, order_id, placed, done, sym, size); order 3 is still open, order 5 was done at once, order 6 comes late."""

_TIME: Final = pa.timestamp("us", "UTC")
_SCHEMAS: Final = {
    "trades": pa.schema(
        [("trade_id", pa.int64()), ("ts", _TIME), ("sym", pa.string()), ("price", pa.float64()), ("volume", pa.int64())]
    ),
    "orders": pa.schema(
        [("order_id", pa.int64()), ("placed", _TIME), ("done", _TIME), ("sym", pa.string()), ("size", pa.int64())]
    ),
}

Row = Mapping[str, Any]


class Result(Struct, frozen=True):
    """What one engine made of the world.

    Args:
        name: The engine.
        columns: Output columns, in order.
        before: Rows after the first commit, by key and time.
        rows: Rows after both.
    """

    name: str
    columns: tuple[str, ...]
    before: tuple[Row, ...]
    rows: tuple[Row, ...]


def at(clock: str) -> datetime:
    """Return a time of day of the one day."""
    hour, minute, second = map(int, clock.split(":"))
    return DAY + timedelta(hours=hour, minutes=minute, seconds=second)


def source_of(name: str) -> str:
    """Return the table that the example of an engine reads."""
    return "orders" if " orders\n" in GUIDES[name].sql else "trades"


def run(spark: SparkSession, folder: Path) -> dict[str, Result]:
    """Return what every engine makes of the world, from the statements in ``sql/engines``.

    Args:
        spark: The session.
        folder: An empty folder.
    """
    sources = {name: str(folder / name) for name in _SCHEMAS}
    _commit(sources, 1)
    lake = Materializer(folder / "lake", spark=spark, config=Config(sources=sources))
    lake.apply(SQL)
    before = {name: _refreshed(lake, name) for name in GUIDES}
    _commit(sources, 2)
    after = {name: _refreshed(lake, name) for name in GUIDES}
    return {name: Result(name, after[name][0], before[name][1], after[name][1]) for name in GUIDES}


def _commit(sources: Mapping[str, str], commit: int) -> None:
    trades = [(n, at(t), *rest) for c, n, t, *rest in TRADES if c == commit]
    orders = [(n, at(a), b and at(b), *rest) for c, n, a, b, *rest in ORDERS if c == commit]
    for name, rows in (("trades", trades), ("orders", orders)):
        schema = _SCHEMAS[name]
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
        tables.append(sources[name], table)


def _refreshed(lake: Materializer, engine: str) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    name = aggregate_of(engine)
    lake.refresh(name)
    columns, rows = lake.show(name, limit=1_000)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    label = columns[0] if "is_final" not in columns else columns[1]
    return tuple(columns), tuple(sorted(found, key=lambda row: (row["sym"], row[label])))


def aggregate_of(engine: str) -> str:
    """Return the name that the example of an engine gives its aggregate."""
    return GUIDES[engine].sql.split(maxsplit=4)[3]
