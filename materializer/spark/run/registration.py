"""Names of outputs in the catalogs of a session.

A name is an external table over the folder of the output, so the catalog never removes a file, and the name can go and come
back. What is known of the table (columns, comments, properties) is in its Delta log, and every catalog reads it there.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from materializer.core.spec.table_names import dotted, in_sql, parts_of
from materializer.errors import NOTHING, CatalogRefusedError, NameTakenError, NotADeltaTableError
from materializer.journal.events import SourceIdentity
from materializer.spark.query.catalogs import UNKNOWN, CatalogTable, described, local_path, refusal, table_named
from materializer.spark.runtime.failures import conditions
from materializer.spark.runtime.jvm import watched


@watched
class Catalogs:
    """Names in the catalogs of a session.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def table_named(self, name: str) -> SourceIdentity:
        """Return the Delta table with a name; see :func:`materializer.spark.query.catalogs.table_named`."""
        return table_named(self._spark, name)

    def refuse_taken(self, name: str, path: str) -> None:
        """Refuse a name that the output at *path* cannot get.

        Raises:
            NameTakenError: If the name belongs to another table or view.
            CatalogRefusedError: If the catalog has no such schema.
            CatalogUnreachableError: If the catalog does not answer.
        """
        if _is_registered(self._spark, name, path):
            return
        schema = dotted(parts_of(name)[:-1])
        try:
            exists = self._spark.catalog.databaseExists(".".join(f"`{part}`" for part in parts_of(name)[:-1]))
        except PySparkException as exc:
            if not UNKNOWN & set(conditions(exc)):
                raise refusal(exc, name) from exc
            exists = False
        if not exists:
            raise CatalogRefusedError(
                f"'{name}' cannot be registered: there is no schema '{schema}'", hint="create it first", wrote=NOTHING
            )

    def register(self, name: str, path: str, comment: str) -> None:
        """Give a name to the table at *path*: an external table, whose files the catalog never removes.

        Raises:
            NameTakenError: If the name belongs to another table or view.
            CatalogRefusedError: If the catalog refuses it.
            CatalogUnreachableError: If the catalog does not answer.
        """
        if _is_registered(self._spark, name, path):
            return
        about = f" COMMENT {_literal(comment)}" if comment else ""
        _run(self._spark, f"CREATE TABLE {in_sql(name)} USING delta{about} LOCATION {_literal(path)}", name)

    def unregister(self, name: str, path: str) -> None:
        """Take a name from the table at *path*; a name that is gone or belongs to another table is left alone.

        Raises:
            CatalogRefusedError: If the catalog refuses it, or the table is not external, so that its rows would go with its name.
            CatalogUnreachableError: If the catalog does not answer.
        """
        found = _own(self._spark, name, path)
        if found is None:
            return
        if not found.is_external:
            raise CatalogRefusedError(
                f"'{name}' is not an external table: its name cannot go without its rows", wrote=NOTHING
            )
        _run(self._spark, f"DROP TABLE {in_sql(name)}", name)


def _own(spark: SparkSession, name: str, path: str) -> CatalogTable | None:
    """Return what the catalog says of the table at *path*, None if that does not have the name."""
    try:
        found = described(spark, name)
    except NotADeltaTableError:
        return None
    return found if found is not None and found.path == local_path(path) else None


def _is_registered(spark: SparkSession, name: str, path: str) -> bool:
    """Whether the table at *path* has a name; raises NameTakenError if another table has it."""
    try:
        found = described(spark, name)
    except NotADeltaTableError as exc:
        raise NameTakenError(f"'{name}' cannot be registered: {exc.message}") from exc
    if found is None or found.path == local_path(path):
        return found is not None
    raise NameTakenError(f"'{name}' cannot be registered: it is the table at {found.path}", found=found.path)


def _run(spark: SparkSession, statement: str, name: str) -> None:
    try:
        spark.sql(statement)
    except PySparkException as exc:
        raise refusal(exc, name) from exc


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
