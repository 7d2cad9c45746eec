"""Tables in the catalogs of a session: what a name stands for, and names that are given to outputs.

A catalog is asked by SQL and the public catalog API only, so that any catalog of the session answers: the Hive metastore,
Unity Catalog, and over Spark Connect those of the server.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from materializer.core.spec.table_names import dotted, in_sql, parts_of
from materializer.errors import (
    NOTHING,
    AmbiguousNameError,
    CatalogManagedError,
    CatalogRefusedError,
    CatalogUnreachableError,
    MaterializerError,
    NotADeltaTableError,
    SourceMovedError,
    TableNotFoundError,
)
from materializer.journal.events import SourceIdentity
from materializer.lake.table import DeltaFolder
from materializer.spark.runtime.failures import conditions, spoken

_CATALOG: Final = re.compile(r"spark\.sql\.catalog\.([^.]+)")
_UNREACHABLE: Final = re.compile(
    r"Could not connect to meta store|Unable to instantiate|TTransportException|ConnectException|Connection refused"
    r"|UnknownHostException|SocketTimeoutException|timed out",
    re.IGNORECASE,
)
_ABOUT: Final = "# Detailed Table Information"
_COORDINATED: Final = "commit coordinator"
UNKNOWN: Final = {
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    "REQUIRES_SINGLE_PART_NAMESPACE",
}
"""Conditions of a name that no table has; the last one is that of a catalog that the session does not know."""
_HINT: Final = "name it as the session's catalog does, or give its path"


class CatalogTable(Struct, frozen=True):
    """A table, as its catalog describes it.

    Args:
        path: Where it lies, a local path if it is on this machine.
        format: Its format; "" if the catalog does not say.
        is_external: Whether its files stay when it is dropped.
    """

    path: str
    format: str
    is_external: bool


def table_named(spark: SparkSession, name: str) -> SourceIdentity:
    """Return the Delta table with a name of two or three parts.

    Raises:
        TableNotFoundError: If no catalog has it.
        NotADeltaTableError: If it is a view, or a table of another format.
        CatalogManagedError: If its commits go through the catalog.
        AmbiguousNameError: If a name without a catalog stands for tables in several catalogs.
        CatalogUnreachableError: If a catalog does not answer.
    """
    found = described(spark, name)
    others = _others(spark, name, found)
    if found is None:
        hint = f"name it with its catalog: {' or '.join(others)}" if others else _HINT
        raise TableNotFoundError(f"the catalog has no table '{name}'", hint=hint)
    if others:
        msg = f"'{name}' is a table of {spark.catalog.currentCatalog()} and another one of {' and of '.join(others)}"
        raise AmbiguousNameError(msg)
    if found.format != "delta":
        raise NotADeltaTableError(f"'{name}' is no Delta table, but {found.format or 'of another format'}", hint=_HINT)
    try:
        return SourceIdentity(found.path, DeltaFolder.at(found.path).head().table_id, name)
    except (TableNotFoundError, NotADeltaTableError, CatalogManagedError) as exc:
        raise type(exc)(f"'{name}': {exc.message}", hint=exc.hint) from exc


def refuse_moved(spark: SparkSession, source: SourceIdentity) -> None:
    """Refuse a source whose name stands for another table than when the definition was applied.

    Raises:
        SourceMovedError: If the table was renamed or dropped, or its name belongs to another table now.
        CatalogUnreachableError: If the catalog does not answer.
    """
    found = described(spark, source.name)
    if found is not None and found.path == local_path(source.path):
        return  # whether the table there is the same one is read from its log, before anything is planned
    now = "the catalog has no such table now" if found is None else f"it is the table at {found.path} now"
    msg = f"the source '{source.name}' was the table at {source.path} when the definition was applied; {now}"
    raise SourceMovedError(msg, name=source.name, expected=source.path, found="" if found is None else found.path)


def described(spark: SparkSession, name: str) -> CatalogTable | None:
    """Return the table with a name, None if there is none; raises the errors of :func:`table_named` for what is no plain table.

    This reads no more of a table than its schema: `DESCRIBE DETAIL`, which also gives the table id, lists all its files.
    """
    with spoken("asking the catalog", table=name):
        try:
            rows = spark.sql(f"DESCRIBE TABLE EXTENDED {in_sql(name)}").collect()
        except PySparkException as exc:
            if UNKNOWN & set(conditions(exc)):
                return None
            if gone := _gone(exc):
                return CatalogTable(local_path(gone), "delta", is_external=True)
            raise _no_table(exc, name) from exc
        except Exception as exc:
            if _COORDINATED not in str(exc):
                raise
            raise _no_table(exc, name) from exc
    about: dict[str, str] = {}
    for row in rows:  # a column may have any name, but columns come first
        about = {} if row["col_name"] == _ABOUT else about | {row["col_name"]: row["data_type"] or ""}
    if about.get("Type") == "VIEW":
        raise _view(name)
    location = local_path(about.get("Location", ""))
    return CatalogTable(location, about.get("Provider", ""), is_external=about.get("Type") == "EXTERNAL")


def _gone(exc: PySparkException) -> str:
    """Return the location of a table whose folder is gone; "" if an error says something else."""
    if "DELTA_PATH_DOES_NOT_EXIST" not in conditions(exc):
        return ""
    return (exc.getMessageParameters() or {}).get("path", "")


def _view(name: str) -> NotADeltaTableError:
    return NotADeltaTableError(f"'{name}' is a view, and no Delta table", hint=_HINT)


def _no_table(exc: Exception, name: str) -> MaterializerError:
    if _COORDINATED in str(exc):  # Spark has no condition for it
        msg = f"'{name}' is managed by its catalog (table feature catalogManaged or catalogOwned-preview), and that is not its catalog here"
        return CatalogManagedError(msg)
    if _UNREACHABLE.search(str(exc)):
        return refusal(exc, name)
    return NotADeltaTableError(f"the catalog does not open '{name}' as a Delta table: {reason_of(exc)}", hint=_HINT)


def _others(spark: SparkSession, name: str, found: CatalogTable | None) -> list[str]:
    """Return the full names of other tables that a name without a catalog may mean."""
    parts = parts_of(name)
    if len(parts) != 2:
        return []
    catalogs = {m[1] for key in spark.conf.getAll if (m := _CATALOG.fullmatch(key))}
    others = []
    for catalog in sorted(catalogs - {spark.catalog.currentCatalog()}):
        full = dotted((catalog, *parts))
        try:
            exists = spark.catalog.tableExists(in_sql(full))
        except PySparkException as exc:
            exists = bool(_gone(exc))  # the catalog has the name, and only its folder is gone
            if not exists:
                raise _unclear(spark, catalog, name, exc) from exc
        if exists and (found is None or _path_of(spark, full) != found.path):
            others.append(full)
    return others


def _unclear(spark: SparkSession, catalog: str, name: str, exc: PySparkException) -> CatalogUnreachableError:
    whole = dotted((spark.catalog.currentCatalog(), *parts_of(name)))
    msg = f"the catalog '{catalog}' does not say whether it has '{name}', too: {reason_of(exc)}"
    return CatalogUnreachableError(msg, hint=f"write the name with its catalog, such as {whole}", wrote=NOTHING)


def _path_of(spark: SparkSession, name: str) -> str | None:
    try:
        found = described(spark, name)
    except NotADeltaTableError:
        return None
    return None if found is None else found.path


def refusal(exc: Exception, name: str) -> CatalogRefusedError | CatalogUnreachableError:
    """Return the error of ours for what a catalog said about a name."""
    if _UNREACHABLE.search(str(exc)):
        return CatalogUnreachableError(f"the catalog of '{name}' does not answer: {reason_of(exc)}", wrote=NOTHING)
    return CatalogRefusedError(f"the catalog refuses '{name}': {reason_of(exc)}", wrote=NOTHING)


def reason_of(exc: Exception) -> str:
    """Return the first sentence of what Spark says, at most 200 characters of it."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return (lines[0] if lines else type(exc).__name__)[:200]


def local_path(location: str) -> str:
    """Return where a table lies, as :class:`SourceIdentity` has it."""
    path = re.sub(r"^file:/+", "/", location.rstrip("/"))
    return str(Path(path).resolve()) if path.startswith("/") else path
