"""A lake without a JVM with an engine's aggregate over readings by keys, and sessions by a loop over all rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests import tables
from tests.services.keyed import TIME, Keyed
from tests.services.no_spark import LocalLake

MINUTE = 60_000_000
GAP = 10
SESSIONS: dict[str, Any] = {"engine": "session_window", "session_gap": f"{GAP} minutes"}
MEASURES = {"v": "sum(v)", "n": "count(*)", "most": "max(v)"}
MANY: dict[str, Any] = {"rows": 1_000_000, "size": 1 << 28}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Made(LocalLake):
    """A lake with an engine's aggregate over readings by keys."""

    def __init__(
        self, root: Path, source: Path, keys: dict[str, pa.DataType], definition: dict[str, Any], **more: Any
    ) -> None:
        root.mkdir()
        super().__init__(root, engine=Keyed(), **MANY)
        self.source = str(source)
        parts = {"keys": list(keys), "measures": MEASURES, **definition, **more}
        self.opened.define("made", self.source, time="ts", **parts)

    def refresh(self, **options: Any) -> Any:
        """Refresh in one run, and return it."""
        [run] = self.opened.refresh("made", **options).runs
        return run

    def rows(self, table: str = "output") -> list[str]:
        """Return the rows of a table in some order, as text."""
        return sorted(map(repr, self.values(table)))

    def values(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        folder = self.root / "made" / table
        path = folder if table == "output" else next(folder.iterdir())
        found: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        return found

    def results(self) -> list[tuple[Any, ...]]:
        """Return the first minute, the key, the sum and the count of each published result."""
        rows = DeltaTable(str(self.root / "made" / "output")).to_pyarrow_table().to_pylist()
        start = [round(row["window_start"].timestamp() / 60) for row in rows]
        return sorted([(at, row["text"], row["v"], row["n"]) for at, row in zip(start, rows, strict=True)], key=repr)


class Readings:
    """The source of some lakes."""

    def __init__(self, path: Path, keys: dict[str, pa.DataType]) -> None:
        self.path = path
        self.schema = pa.schema([("ts", TIME), *keys.items(), ("v", pa.int64()), ("id", pa.int64())])
        self.count = 0
        tables.create(path, self.schema)

    @property
    def table(self) -> DeltaTable:
        """The newest version."""
        return DeltaTable(str(self.path))

    def add(self, *rows: tuple[Any, ...]) -> None:
        """Commit rows (minute, keys, value)."""
        every = [(at * MINUTE, *rest, self.count + i) for i, (at, *rest) in enumerate(rows)]
        self.count += len(rows)
        columns = list(zip(*every, strict=True))
        times = pa.array(columns[0], pa.int64()).cast(TIME)
        others = [pa.array(c, f.type) for c, f in zip(columns[1:], list(self.schema)[1:], strict=True)]
        write_deltalake(str(self.path), pa.table([times, *others], schema=self.schema), mode="append")


def sessions(source: Readings) -> list[tuple[Any, ...]]:
    """Return the closed sessions of the key ``text``, by a loop over all rows."""
    by_key: dict[Any, list[tuple[int, int | None]]] = defaultdict(list)
    for row in source.table.to_pyarrow_table().to_pylist():
        by_key[row["text"]].append((round(row["ts"].timestamp() / 60), row["v"]))
    found = []
    for key, rows in by_key.items():
        groups: list[list[tuple[int, int | None]]] = []
        for at, v in sorted(rows, key=lambda row: row[0]):
            if groups and at - groups[-1][-1][0] < GAP:
                groups[-1].append((at, v))
            else:
                groups.append([(at, v)])
        values = [[v for _, v in g if v is not None] for g in groups]
        found += [(g[0][0], key, sum(v) if v else None, len(g)) for g, v in zip(groups[:-1], values[:-1], strict=True)]
    return sorted(found, key=repr)


def of_text(root: Path, keys: int = 1_500, definition: dict[str, Any] = SESSIONS, **more: Any) -> tuple[Readings, Made]:
    """Return a source with a session of each key in each of ten hours, and a lake over it, refreshed."""
    source = Readings(root / "readings", {"text": pa.string()})
    source.add(*((60 * h + i % 50, f"k{i:04}", i + h) for h in range(10) for i in range(keys)))
    lake = Made(root / "lake", source.path, {"text": pa.string()}, definition, **more)
    lake.refresh()
    return source, lake
