"""Rows with hard values around few instants, and definitions over them."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import write_deltalake

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.services.aggregate import Aggregate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from materializer.core.compiled.definition import Definition

ALL: Final = SpanSet.of(EVERYTHING)
HARD: Final = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.5, -1.5, None]
STARTS: Final = [
    dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 31, 0, 30, tzinfo=dt.UTC),
    dt.datetime(2024, 10, 27, 1, tzinfo=dt.UTC),
]
SCHEMA: Final = pa.schema(
    {
        "ts": pa.timestamp("us", tz="UTC"),
        "k": pa.int32(),
        "x": pa.float64(),
        "n": pa.int64(),
        "f": pa.float32(),
        "d": pa.decimal128(18, 2),
        "b": pa.bool_(),
        "day": pa.date32(),
        "name": pa.string(),
        "i": pa.int32(),
        "wall": pa.timestamp("us"),
    }
)


def drawn(rng: random.Random, count: int, keys: int = 2) -> list[dict[str, Any]]:
    """Return rows of few instants around three moments."""
    found = []
    for _ in range(count):
        at = rng.choice(STARTS) + dt.timedelta(
            seconds=rng.choice([0, 1, 59, 60, 4_000]), microseconds=rng.choice([0, 1])
        )
        x, n = rng.choice(HARD), rng.choice([None, 0, 2**63 - 1, -(2**63), 1])
        d = rng.choice([None, 0, 10**16 - 1, -1])
        found.append(
            {
                "ts": at,
                "k": rng.choice([None, *range(keys)]),
                "x": x,
                "n": n,
                "f": x,
                "d": d,
                "b": rng.choice([True, False, None]),
                "day": at.date(),
                "name": "a",
                "i": rng.randrange(-25, 25),
                "wall": at.replace(tzinfo=None),
            }
        )
    return found


def defined(spark: SparkSession, folder: Path, rows: list[dict[str, Any]], sql: str) -> Definition:
    """Write the rows as a table, and return a definition over it."""
    write_deltalake(str(folder / "t"), pa.Table.from_pylist(rows, schema=SCHEMA))
    m = Materializer(config=Config(lake=str(folder / "lake"), sources={"t": str(folder / "t")}), spark=spark)
    m.apply(f"CREATE MATERIALIZED VIEW a AS {sql}")
    return Aggregate.of(m.journal.view().named("a"), m.root).definition
