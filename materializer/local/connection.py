"""A DuckDB that computes as Spark does: instants in UTC, a bounded memory, nothing read but what it is given."""

from __future__ import annotations

from typing import Final

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
    connection = duckdb.connect(database, config={"memory_limit": memory, "threads": "2"})
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    return connection
