"""A DuckDB that computes as Spark does: instants in UTC, a bounded memory, nothing read but what it is given."""

# ruff: noqa: PLC0415 - DuckDB is imported when something is computed

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

MEMORY = "256MB"
"""What DuckDB may hold; beyond it a computation is left to Spark."""

_SETTINGS: Final = (
    "TimeZone = 'UTC'",
    "temp_directory = ''",  # what does not fit is for Spark
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)


def connected(database: str = ":memory:", *, memory: str = MEMORY) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database of its own.

    Args:
        database: The database; by default one of its own in memory.
        memory: What it may hold.
    """
    import duckdb

    connection = duckdb.connect(database, config={"memory_limit": memory, "threads": "2"})
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    return connection


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections that were opened and are free; opening one takes longer than computing a late row.

    A connection is used by one computation at a time, and only in the process that opened it: in a child that was forked, the threads
    of its database are missing.
    """

    _free: dict[int, list[duckdb.DuckDBPyConnection]] = field(default_factory=dict)

    @contextmanager
    def one(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection with nothing registered; after an error it is closed, which frees its memory."""
        free = self._free.setdefault(os.getpid(), [])
        try:
            connection = free.pop()
        except IndexError:
            connection = connected()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        free.append(connection)
