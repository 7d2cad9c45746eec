"""A lake whose session has a Hive metastore as its catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.errors import DefinitionError, MaterializerError
from materializer.spark.runtime import session
from tests.servers import named_catalog
from tests.servers.hive import Metastore
from tests.system.builders import Site

OTHER: Final = {
    "spark.sql.catalog.other": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "spark.sql.catalog.other.url": "jdbc:derby:memory:other;create=true",
    "spark.sql.catalog.other.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
}
"""A second catalog, which has no Delta tables."""


def spark(metastore: Metastore) -> SparkSession:
    """Return the session of this process."""
    options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", **metastore.options, **OTHER}
    if not named_catalog.why_not():
        options |= named_catalog.options(metastore.folder)
    return session.start(Config(spark=SparkConfig(options=options)))


def site(catalog: tuple[Metastore, Path]) -> Site:
    """Return a lake with an empty source ``trades`` that is known as ``lake.trades``, in a catalog with nothing else."""
    metastore, root = catalog
    running = spark(metastore)
    running.sql("DROP DATABASE IF EXISTS lake CASCADE")
    running.sql("CREATE DATABASE lake")
    for name in ("lake", "there"):
        running.sql(f"CREATE NAMESPACE IF NOT EXISTS other.{name}")
        for table in running.sql(f"SHOW TABLES IN other.{name}").collect():
            running.sql(f"DROP TABLE other.{name}.{table['tableName']}")
    made = Site(root, running)
    made.table()
    running.sql(f"CREATE TABLE lake.trades USING delta LOCATION '{made.tables['trades'].path}'")
    return made


def code_of(lake: Materializer, name: str, source: str, **parts: Any) -> str:
    """Return the code of the error of a definition, and the whole error as text; nothing may be written by it."""
    given = {"time": "ts", "width": "1 hour", "measures": {"n": "count(*)"}} | parts
    before = sorted(path.name for path in lake.root.iterdir())
    try:
        lake.define(name, source, **given)
    except DefinitionError as exc:
        found = f"{exc.problems[0].code}: {exc}"
    except MaterializerError as exc:
        found = f"{exc.code}: {exc.message} {exc.hint}"
    else:
        return "nothing was wrong"
    assert sorted(path.name for path in lake.root.iterdir()) == before, "something was written"
    return found


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table, sorted."""
    return sorted(tuple(row.values()) for row in table.to_pylist())
