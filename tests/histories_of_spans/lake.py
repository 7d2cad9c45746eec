"""The raw table of a lake and a copy of its rows as columns: each commit changes both."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.histories_of_chains.lake import SCHEMA, TIME
from tests.histories_of_spans.definitions import DAY, NOTHING, Numbers, Rows, text_of

SECOND: Final = 1_000_000
"""Microseconds; a time is a whole second and the row's id in microseconds, so no two rows have the same."""
BEGINNINGS: Final = (-200 * DAY, 19_000 * DAY)
"""When the first rows lie: before 1970, and in 2022."""


class Events:
    """The raw table.

    Args:
        path: Where it lies; it is there and empty.
        seed: Seed of its rows.
        devices: How many values the first key has.
        days: Days over which the rows lie.
    """

    def __init__(self, path: Path, seed: int, devices: int, days: int) -> None:
        self.path, self.table = path, DeltaTable(str(path))
        self.rng = np.random.default_rng(seed)
        self.devices, self.days = devices, days
        self.start = random.Random(seed).choice(BEGINNINGS)
        nothing = np.empty(0, np.int64)
        self.rows = Rows(nothing, nothing, nothing, nothing, nothing)
        self.versions: dict[int, Rows] = {}
        self.next_id = 0
        self.changed = 0
        """Rows that were inserted, updated or deleted up to now; one that was updated counts twice."""

    @property
    def version(self) -> int:
        """The newest version."""
        return self.table.version()

    def drawn(self, count: int, start: int = 0, length: int | None = None) -> Rows:
        """Return new rows with times in a stretch of the table's time, which is all of it by default.

        Some devices have most of the rows.
        """
        rng, length = self.rng, self.days * DAY if length is None else length
        ids = np.arange(self.next_id, self.next_id + count)
        self.next_id += count
        ts = self.start + (start + rng.integers(0, length, count)) // SECOND * SECOND + ids
        hot = np.minimum(rng.zipf(1.6, count), self.devices) - 2  # the most frequent one is null, then d0
        value = rng.integers(0, 100, count)
        value[rng.random(count) < 0.05] = NOTHING
        return Rows(ids, ts, hot, rng.integers(0, 3, count), value)

    def insert(self, rows: Rows) -> None:
        """Commit rows."""
        write_deltalake(self.table, _table_of(rows), mode="append")
        joined = Rows(*(np.concatenate(pair) for pair in zip(self.rows, rows, strict=True)))
        self._committed(joined, len(rows.id))

    def delete(self, each: int, rest: int) -> None:
        """Delete the rows whose id has a remainder."""
        is_meant = self.rows.id % each == rest
        self.table.delete(f"id % {each} = {rest}")
        self._committed(self.rows.where(~is_meant), int(is_meant.sum()))

    def update(self, each: int, rest: int, column: str, sql: str, change: Callable[[Numbers], Numbers]) -> None:
        """Update a column of the rows whose id has a remainder, by SQL and by a function that does the same."""
        self._update(f"id % {each} = {rest}", self.rows.id % each == rest, column, sql, change)

    def correct(self, device: int) -> None:
        """Add one to every value of a device."""
        self._update(f"device = 'd{device}'", self.rows.device == device, "v", "v + 1", add_one)

    def _update(
        self,
        predicate: str,
        is_meant: npt.NDArray[np.bool_],
        column: str,
        sql: str,
        change: Callable[[Numbers], Numbers],
    ) -> None:
        self.table.update(predicate=predicate, updates={column: sql})
        before = getattr(self.rows, column)
        self._committed(
            self.rows._replace(**{column: np.where(is_meant, change(before), before)}), 2 * int(is_meant.sum())
        )

    def optimize(self) -> None:
        """Let the table have fewer files."""
        self.table.optimize.compact()
        self._committed(self.rows, 0)

    def _committed(self, rows: Rows, changed: int) -> None:
        self.rows = rows
        self.changed += changed
        self.versions[self.version] = rows


def add_one(values: Numbers) -> Numbers:
    """Return values plus one; null stays null."""
    return np.where(values == NOTHING, NOTHING, values + 1)


def _table_of(rows: Rows) -> pa.Table:
    keys = ([text_of(n, key) for n in getattr(rows, key).tolist()] for key in ("device", "region"))
    value = pa.array(rows.v, mask=rows.v == NOTHING)
    columns = [pa.array(rows.ts).cast(TIME), *(pa.array(key, pa.string()) for key in keys), value, pa.array(rows.id)]
    return pa.table(columns, schema=SCHEMA)
