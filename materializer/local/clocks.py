"""Rows and the changes of a wall clock that are joined, so that the text of a bucket does not grow with the years."""

# ruff: noqa: PLC0415 - most commands compute nothing

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from materializer.core.compiled.bucket_sql import CLOCK_EDGE, CLOCK_MICROS, CLOCK_SHIFT, Clock
from materializer.local.kinds import BIGINT, Kind

if TYPE_CHECKING:
    from materializer.local.connection import Connection

CLOCK_COLUMNS: Final[dict[str, Kind]] = {CLOCK_MICROS: BIGINT, CLOCK_EDGE: BIGINT, CLOCK_SHIFT: BIGINT}
"""The columns that a text of :attr:`Clock.edge` reads."""
_FROM: Final = "mz_clock_from"
_FIRST: Final = -(2**63)


def with_clock(connection: Connection, name: str, rows: str, clock: Clock, micros: str) -> str:
    """Return SQL of rows with :data:`CLOCK_COLUMNS`, each from the last change that is not after the row's microsecond.

    Args:
        connection: What computes it, which gets a table of the changes.
        name: A name for that table.
        rows: SQL of the rows.
        clock: The changes.
        micros: SQL of the microsecond of a row.
    """
    import pyarrow as pa

    starts, edges, shifts = (pa.array(column, pa.int64()) for column in zip(*clock.changes, strict=True))
    starts = pa.concat_arrays([pa.array([_FIRST], pa.int64()), starts[1:]])
    connection.register(name, pa.table([starts, edges, shifts], [_FROM, CLOCK_EDGE, CLOCK_SHIFT]))
    return (
        f"SELECT found.*, clock.{CLOCK_EDGE}, clock.{CLOCK_SHIFT} FROM (SELECT *, {micros} AS {CLOCK_MICROS} FROM ({rows})) AS found "
        f"ASOF LEFT JOIN {name} AS clock ON found.{CLOCK_MICROS} >= clock.{_FROM}"
    )
