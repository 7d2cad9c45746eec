"""The adapter of dbt: that of Spark, whose connections, relations and macros it inherits, and one method that runs a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbt.adapters.base import AdapterPlugin, available
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark import SparkAdapter, SparkConnectionManager, SparkCredentials
from dbt_common.exceptions import DbtRuntimeError

from materializer import config as configuration
from materializer.adapters.dbt.model import Model, run
from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import MaterializerError
from materializer.spark.runtime import session

TYPE = "materializer"
"""The type of a profile that uses this adapter."""


@dataclass
class MaterializerCredentials(SparkCredentials):
    """A profile: what one of dbt-spark has, and the lake.

    Args:
        lake: Root of the lake; without it the configuration says it.
        config: The configuration file; without it ``materializer.toml`` in the folder of the project.
    """

    lake: str | None = None
    config: str | None = None

    @property
    def type(self) -> str:
        """The type of the profile."""
        return TYPE

    def _connection_keys(self) -> tuple[str, ...]:
        """Return what `dbt debug` shows."""
        return (*super()._connection_keys(), "lake", "config")


class MaterializerConnectionManager(SparkConnectionManager):
    """The connections of dbt-spark; with `method: session` the session has Delta and a Hive metastore, as a lake needs them."""

    TYPE = TYPE

    @classmethod
    def open(cls, connection: Any) -> Any:
        """Open a connection."""
        credentials = connection.credentials
        if credentials.method == "session" and not session.is_running():
            try:
                session.start(_with_metastore(_settings(credentials), credentials.server_side_parameters))
            except MaterializerError as exc:
                raise FailedToConnectError(_text(exc)) from exc
        return super().open(connection)


class MaterializerAdapter(SparkAdapter):
    """The adapter of dbt-spark, which also runs models as continuous aggregates."""

    ConnectionManager = MaterializerConnectionManager

    @classmethod
    def type(cls) -> str:
        """Return the type of its profiles."""
        return TYPE

    def parse_columns_from_information(self, relation: Any) -> list[Any]:
        """Return the columns of a table for `dbt docs`: a metastore has none of a Delta table, so they are asked of the table."""
        found: list[Any] = super().parse_columns_from_information(relation)
        return found or [replace(c, table_type=str(relation.type)) for c in self.get_columns_in_relation(relation)]

    @available
    def is_continuous_aggregate(self, identifier: str) -> bool:
        """Whether the lake has an aggregate of that name."""
        return identifier.lower() in {name.lower() for name in self._lake().names()}

    @available
    def run_continuous_aggregate(
        self,
        relation: Any,
        sql: str,
        comment: str,
        properties: dict[str, Any] | None,
        on_change: str,
        is_full_refresh: bool,  # noqa: FBT001 - a macro passes it by position
    ) -> dict[str, Any]:
        """Define, change and refresh the aggregate of a model.

        Returns:
            ``message`` and ``rows``.

        Raises:
            DbtRuntimeError: With code, message and hint of the error.
        """
        table = ".".join(part for part in (relation.database, relation.schema, relation.identifier) if part)
        model = Model(relation.identifier, table, sql, comment, properties, on_change, is_full_refresh)
        try:
            result = run(self._lake(), model)
        except MaterializerError as exc:
            raise DbtRuntimeError(_text(exc)) from exc
        return {"message": result.message, "rows": result.rows}

    def _lake(self) -> Materializer:
        """Return the lake of the profile, with the session of dbt if it has one in this process."""
        credentials = self.config.credentials
        try:
            spark = session.running() if credentials.method == "session" else None
            return Materializer(credentials.lake, spark=spark, config=_settings(credentials))
        except MaterializerError as exc:
            raise DbtRuntimeError(_text(exc)) from exc


def _settings(credentials: MaterializerCredentials) -> Config:
    return configuration.read(Path(credentials.config) if credentials.config else None)


def _with_metastore(settings: Config, given: dict[str, str]) -> Config:
    """Return the settings of a session that finds the tables of the last run again."""
    places = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(Path("spark-warehouse").absolute()),
    }
    options = {**places, **settings.spark.options, **given}
    return replace(settings, spark=replace(settings.spark, options=options))


def _text(exc: MaterializerError) -> str:
    return f"{exc.code}: {exc.message}\n  hint: {exc.hint}\n  {exc.wrote}"


Plugin = AdapterPlugin(
    adapter=MaterializerAdapter,
    credentials=MaterializerCredentials,
    include_path=str(Path(__file__).parent / "include"),
    dependencies=["spark"],
    project_name="dbt_materializer",
)
"""What dbt loads for a profile of this type."""
