"""Tables of many shapes, as people have them: names that are keywords, times of every type, values at the ends of their types."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import write_deltalake
from msgspec import Struct

BEGIN: Final = datetime(2024, 3, 1, tzinfo=UTC)
NAMES: Final = (
    *(
        "ts",
        "time",
        "date",
        "order",
        "select",
        "Hour",
        "bucket",
        "n",
        "count",
        "Größe in %",
        "with space",
        "a`b",
        "a.b",
        "it's",
    ),
    *(
        "_hidden",
        "1st",
        "user",
        "x",
        "price",
        "size",
        "sym",
        "id",
        "created_at",
        "window",
        "rollup",
        "back\\slash",
        "ünï",
    ),
)


class Shape(Struct, frozen=True):
    """A table in memory.

    Args:
        rows: Its rows, of which each column has as many.
        columns: Values by name, with their types.
    """

    rows: int
    columns: Mapping[str, tuple[pa.DataType, list[Any]]]

    @property
    def table(self) -> pa.Table:
        """The table."""
        fields = [pa.field(name, kind) for name, (kind, _) in self.columns.items()]
        return pa.table([pa.array(v, k) for k, v in self.columns.values()], schema=pa.schema(fields))

    def write(self, path: Path, *, files: int = 1) -> Path:
        """Write it as a Delta table in some commits."""
        table = self.table
        step = max(1, -(-table.num_rows // files))
        for start in range(0, max(table.num_rows, 1), step):
            write_deltalake(str(path), table.slice(start, step), mode="append")
        return path


def _times(rng: random.Random, rows: int) -> list[datetime]:
    step = rng.choice([1, 40, 3_600, 86_400])
    found = [BEGIN + timedelta(seconds=i * step + rng.randrange(step)) for i in range(rows)]
    if rows > 2 and rng.random() < 0.2:
        found[0] = datetime(1970, 1, 1, tzinfo=UTC)  # a row far from all others
    return found


TIMES: Final[Mapping[str, Callable[[random.Random, int], tuple[pa.DataType, list[Any]]]]] = {
    "timestamp": lambda r, n: (pa.timestamp("us", "UTC"), _times(r, n)),
    "timestamp_ntz": lambda r, n: (pa.timestamp("us"), [t.replace(tzinfo=None) for t in _times(r, n)]),
    "date": lambda _, n: (pa.date32(), [date(2024, 1, 1) + timedelta(days=i // 3) for i in range(n)]),
    "epoch seconds": lambda r, n: (pa.int64(), [int(t.timestamp()) + 10**9 for t in _times(r, n)]),
    "epoch milliseconds": lambda r, n: (pa.int64(), [int(t.timestamp() + 10**9) * 1000 for t in _times(r, n)]),
    "plain": lambda r, n: (pa.int64(), [i * r.choice([1, 7, 1000]) for i in range(n)]),
    "small": lambda _, n: (pa.int16(), [i % 30_000 for i in range(n)]),
}
VALUES: Final[Mapping[str, Callable[[random.Random, int], tuple[pa.DataType, list[Any]]]]] = {
    "symbols": lambda r, n: (pa.string(), [r.choice(["A", "B", "C", None]) for _ in range(n)]),
    "texts": lambda _, n: (pa.string(), [f"text {i}" for i in range(n)]),
    "flags": lambda r, n: (pa.bool_(), [r.random() < 0.5 for _ in range(n)]),
    "amounts": lambda r, n: (pa.int32(), [r.randrange(-50, 50) for _ in range(n)]),
    "huge": lambda r, n: (pa.int64(), [r.choice([2**63 - 1, -(2**63), 0]) for _ in range(n)]),
    "prices": lambda r, n: (pa.float64(), [r.random() * 100 for _ in range(n)]),
    "strange": lambda r, n: (pa.float64(), [r.choice([float("nan"), float("inf"), None, 1.5]) for _ in range(n)]),
    "money": lambda r, n: (pa.decimal128(10, 2), [Decimal(r.randrange(10**9)) / 100 for _ in range(n)]),
    "wide money": lambda r, n: (pa.decimal128(38, 2), [Decimal(r.randrange(10**35)) / 100 for _ in range(n)]),
    "nothing": lambda _, n: (pa.float64(), [None] * n),
    "days": lambda r, n: (pa.date32(), [date(2024, 1, 1 + r.randrange(5)) for _ in range(n)]),
    "bytes": lambda _, n: (pa.binary(), [b"\x00\xff"] * n),
    "lists": lambda _, n: (pa.list_(pa.int32()), [[1, 2]] * n),
    "structs": lambda _, n: (pa.struct([("a", pa.int32())]), [{"a": 1}] * n),
}


def shape(seed: int) -> Shape:
    """Return the table of a seed."""
    rng = random.Random(seed)
    rows = rng.choice([0, 1, 2, 7, 60, 400])
    names = rng.sample(NAMES, k=rng.randrange(2, 8))
    makers = [TIMES[rng.choice(sorted(TIMES))], *(VALUES[rng.choice(sorted(VALUES))] for _ in names[1:])]
    columns = {name: make(rng, rows) for name, make in zip(names, makers, strict=True)}
    # in any letters, columns of a table have different names
    lower: dict[str, str] = {}
    return Shape(rows, {n: c for n, c in columns.items() if lower.setdefault(n.lower(), n) == n})
