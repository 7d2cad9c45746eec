"""A Delta table of trading sessions: one row for each session, with the date of its trading day."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from materializer.lake.failures import translated
from materializer.lake.table import open_table

COLUMNS: Final = {
    "date": ("date",),
    "session_begin": ("timestamp", "timestamp_ntz"),
    "session_end": ("timestamp", "timestamp_ntz"),
}
"""The name of each column, and the types that it may have."""


def trading_sessions(path: str) -> list[tuple[date, datetime, datetime]]:
    """Return (date, begin, end) of each session; instants have a zone, wall-clock times have none.

    Raises:
        ValueError: If a column is missing or has another type, or if a session lacks a value.
    """
    table = open_table(path)
    types = {field.name: getattr(field.type, "type", "") for field in table.schema().fields}
    for name, allowed in COLUMNS.items():
        if types.get(name) not in allowed:
            problem = f"has type {types[name] or 'of many values'}" if name in types else "is missing"
            raise ValueError(f"{path}: the column '{name}' {problem}; it must be {' or '.join(allowed)}")
    with translated(path, "reading"):
        rows = table.to_pyarrow_table(columns=list(COLUMNS)).to_pylist()
    sessions = [(row["date"], row["session_begin"], row["session_end"]) for row in rows]
    if any(value is None for row in sessions for value in row):
        raise ValueError(f"{path}: a session lacks its date, its begin or its end")
    return sessions
