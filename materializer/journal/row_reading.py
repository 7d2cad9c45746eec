"""Reading the rows of the journal table: all by one query of the Delta library, or those of one file."""

# ruff: noqa: PLC0415 - a command with nothing to do reads the journal without pyarrow, whose import would take most of its time

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from materializer.errors import NOTHING, JournalError
from materializer.journal.codec import COLUMNS, Row
from materializer.lake import places
from materializer.lake.failures import first_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

Numbered: TypeAlias = tuple[int, int, Row]
"""A row with the version of its commit and its position in it."""
BACKUP: Final = (
    "restore a backup with 'materializer restore FOLDER', or start over with 'materializer repair --definitions FILE'"
)


def queried(table: DeltaTable) -> list[Numbered] | None:
    """Return all rows of an open table; None if the library cannot read one of its files, or if they are not the journal's."""
    from deltalake import QueryBuilder

    try:
        found = QueryBuilder().register("journal", table).execute("SELECT * FROM journal").read_all()
    except Exception:  # noqa: BLE001 - a query has no errors of its own
        return None
    if tuple(found.column_names) != COLUMNS or any(column.null_count for column in found.columns):
        return None
    return _numbered(found.column(name).to_pylist() for name in COLUMNS)


def rows_of_file(path: str, name: str) -> list[Numbered]:
    """Return the rows of one file of the journal at *path*.

    Raises:
        JournalError: If the file cannot be read; its cause is an OSError or an error of Arrow. Or if it has other columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(places.opened(f"{path}/{name}")).read()
    except (OSError, pa.ArrowException) as exc:
        raise JournalError(
            f"file {name} of the journal at '{path}' cannot be read: {first_line(exc)}", hint=BACKUP, wrote=NOTHING
        ) from exc
    if tuple(table.column_names) != COLUMNS or any(column.null_count for column in table.columns):
        message = f"file {name} of the journal at '{path}' has columns {table.column_names}, expected {[*COLUMNS]} without nulls"
        raise JournalError(
            message,
            hint="use the materializer version that wrote it, or restore the folder from a backup",
            wrote=NOTHING,
        )
    return _numbered(table[c].to_pylist() for c in COLUMNS)


def _numbered(columns: Iterable[Any]) -> list[Numbered]:
    return [(v, p, Row(a, k, t, payload, f)) for v, p, f, a, k, t, payload in zip(*columns, strict=True)]
