"""Small lakes for the system tests: a source written without a JVM, definitions over it, and an independent check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from materializer.services.refresh.reports import RefreshReport
from tests import drawn, tables
from tests.system import verifying
from tests.system.lake import literal
from tests.system.plain import plain_sql
from tests.system.twins import TwinLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.services.commit.lake import OutputHandler

DAY: Final = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA: Final = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("price", pa.int64()), ("note", pa.string())]
)
HOURLY: Final = """
SELECT window(ts, '1 hour').start AS bucket, sym, count(*) AS n, sum(price) AS total, max(price) AS top
FROM {source} WHERE ts IS NOT NULL GROUP BY 1, 2
"""
MEASURES: Final = {"n": "count(*)", "total": "sum(price)", "top": "max(price)"}
LANES: Final = [pytest.param(200_000, id="driver"), pytest.param(0, id="spark", marks=pytest.mark.slow)]
"""Rows that the driver commits itself, for tests of which the second lane is a slow one."""
spark_is_slow = pytest.mark.parametrize("site", LANES, indirect=True)
in_both_lanes = pytest.mark.parametrize("site", [200_000, 0], ids=["driver", "spark"], indirect=True)

Trade = tuple[str | datetime | None, str | None, int | None]


def at(clock: str | datetime | None) -> datetime | None:
    """Return a time of day of the first day, such as ``01:20``; anything else is a time already."""
    if not isinstance(clock, str):
        return clock
    hours, minutes = clock.split(":")
    return DAY + timedelta(hours=int(hours), minutes=int(minutes))


class Table:
    """A Delta table that a test changes as it likes.

    Args:
        path: Where it lies.
        schema: Its columns.
        feed: Whether it keeps a change feed.
        partition_by: Partition columns.
        properties: More table properties, as Delta writes them.
    """

    def __init__(
        self,
        path: Path,
        schema: pa.Schema = SCHEMA,
        *,
        feed: bool = True,
        partition_by: list[str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.schema = schema
        tables.create(path, schema, feed=feed, partition_by=partition_by, properties=properties)

    def opened(self) -> DeltaTable:
        """Return the table, opened anew."""
        return DeltaTable(str(self.path))

    @property
    def version(self) -> int:
        """Its newest version."""
        return self.opened().version()

    @property
    def sql(self) -> str:
        """What stands for it in Spark SQL."""
        return f"delta.`{self.path}`"

    def plain_sql(self, spark: SparkSession) -> str:
        """What stands for its newest version in Spark SQL, cheap for Spark to read; see :func:`tests.system.plain.plain_sql`."""
        return plain_sql(spark, self.path)

    def trade(self, *trades: Trade, mode: str = "append", **options: Any) -> None:
        """Write (time, symbol, price) in one commit; a time is ``01:20``, a datetime or None."""
        columns = zip(*[(at(when), sym, price, "") for when, sym, price in trades], strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        self.write(pa.table(arrays, schema=SCHEMA), mode=mode, **options)

    def write(self, rows: pa.Table | list[dict[str, Any]], *, mode: str = "append", **options: Any) -> None:
        """Write rows in one commit."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=self.schema)
        tables.append(self.path, table, mode=mode, **options)

    def delete(self, predicate: str | None = None) -> None:
        """Delete rows in one commit."""
        self.opened().delete(predicate)

    def update(self, predicate: str, **columns: Any) -> None:
        """Set columns of some rows in one commit; a datetime or a clock moves them."""
        self.opened().update(predicate=predicate, updates={name: literal(value) for name, value in columns.items()})

    def set(self, **properties: str) -> None:
        """Set table properties, named without ``delta.``."""
        self.opened().alter.set_table_properties({f"delta.{name}": value for name, value in properties.items()})

    def log(self, version: int) -> Path:
        """Return the commit file of a version."""
        return self.path / "_delta_log" / f"{version:020d}.json"


class Site:
    """A lake in a folder, the tables it reads, and what must hold of it.

    Args:
        root: A folder of the test's own; the lake is in it.
        spark: The session of the run.
        is_compared: Whether Spark does again in a copy what this process computes; see :class:`TwinLake`.
        local_runs: Gets the name of the aggregate of each run that this process computed, where it is compared.
        settings: Of the configuration. Spark computes, unless they say otherwise.
    """

    def __init__(
        self,
        root: Path,
        spark: SparkSession,
        *,
        is_compared: bool = False,
        local_runs: list[str] | None = None,
        **settings: Any,
    ) -> None:
        self.root = root
        self.spark = spark
        self.is_compared = is_compared
        self.config = Config(**{"executor": "spark", "price_tie_ms": 60_000, **settings})
        self.local_runs: list[str] = [] if local_runs is None else local_runs
        self.lake = self._lake()
        self.tables: dict[str, Table] = {}
        self._verified: set[str] = set()

    def table(self, name: str = "trades", schema: pa.Schema = SCHEMA, **options: Any) -> Table:
        """Make an empty source table inside the lake."""
        self.tables[name] = Table(self.lake.root / name, schema, **options)
        return self.tables[name]

    def hourly(self, name: str = "hourly", source: str = "trades", **parts: Any) -> str:
        """Define an hourly aggregate by symbol and return its name."""
        given = {"time": "ts", "width": "1 hour", "keys": ["sym"], "measures": MEASURES} | parts
        self.lake.define(name, source, **given)
        return name

    def opened(self, **settings: Any) -> Materializer:
        """Return the same lake, opened anew without a session."""
        return Materializer(
            self.lake.root, config=Config(**{"executor": self.config.executor, "price_tie_ms": 60_000, **settings})
        )

    def opened_with(self, on_checkpoint: Callable[[str], None]) -> Materializer:
        """Return the same lake with the run's session, which tells its steps."""
        return self._lake(on_checkpoint)

    def beside(self, root: Path, **settings: Any) -> Site:
        """Return a lake with other settings, in any folder, which is computed and compared as this one."""
        given = {"executor": self.config.executor, **settings}
        return Site(root, self.spark, is_compared=self.is_compared, local_runs=self.local_runs, **given)

    def opened_for(self, **handlers: OutputHandler) -> Materializer:
        """Return the same lake with the run's session and output handlers."""
        return self._lake(output_handlers=handlers)

    def _lake(self, on_checkpoint: Callable[[str], None] = lambda _: None, **options: Any) -> Materializer:
        root = self.root / "lake"
        if self.is_compared:
            return TwinLake(root, self.spark, self.config, self.local_runs, on_checkpoint, **options)
        return Materializer(root, spark=self.spark, config=self.config, on_checkpoint=on_checkpoint, **options)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what plain Spark says, sorted; instants are naive and UTC."""
        return _sorted(self.spark.sql(query).collect())

    def published(self, name: str) -> list[tuple[Any, ...]]:
        """Return the rows of an aggregate as any reader of Delta sees them, sorted likewise."""
        return self.sorted(DeltaTable(str(self.lake.root / name / "output")).to_pyarrow_table())

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of an aggregate likewise, each by the names of its columns."""
        rows = DeltaTable(str(self.lake.root / name / "output")).to_pyarrow_table().to_pylist()
        return [{column: _naive(value) for column, value in row.items()} for row in rows]

    def as_told(self, statement: str) -> None:
        """Do what a printed DELETE says, as the owner of a source does: in the shards by Spark, else without it, which is quicker."""
        if drawn.is_all():
            self.spark.sql(statement)
        else:
            tables.delete_as_told(statement)

    def fresh(self, name: str, *window: str) -> list[tuple[Any, ...]]:
        """Return the rows of an always-fresh read, sorted likewise."""
        return self.sorted(self.lake.fresh(name, *window).frame.toArrow())

    def sorted(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Return the rows of a table, sorted; instants are naive and UTC."""
        return _sorted([tuple(_naive(v) for v in row.values()) for row in rows.to_pylist()])

    def expect_true(self, name: str = "hourly", query: str = HOURLY, source: Table | None = None) -> None:
        """Assert that an aggregate is what plain Spark says by *query*, and if that is drawn, by `verify`, once for each name."""
        table = source or next(iter(self.tables.values()))
        assert self.rows(query.format(source=table.plain_sql(self.spark))) == self.published(name)
        if name not in self._verified:
            verifying.expect_equal(self.lake, name)
            self._verified.add(name)

    def expect_refresh(self, name: str = "hourly", *, strategy: str | None = None, **options: Any) -> RefreshReport:
        """Refresh, assert that something was done and with which strategy, and that a second refresh finds nothing."""
        report = self.lake.refresh(name, **options)
        assert "refreshed" == report.outcome
        if strategy is not None:
            assert [strategy] == [run.report.strategy.removesuffix("+settle") for run in report.runs]
        assert "up-to-date" == self.lake.refresh(name, **(options | {"force": False})).outcome
        return report

    def files(self) -> dict[str, tuple[int, int]]:
        """Return every file of the site with its size and the time it was changed."""
        return {
            str(p.relative_to(self.root)): (p.stat().st_size, p.stat().st_mtime_ns)
            for p in self.root.rglob("*")
            if p.is_file()
        }


def _naive(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    found = [tuple(sorted(v) if isinstance(v, list) else v for v in row) for row in rows]
    return sorted(found, key=lambda row: [(v is None, str(v) if isinstance(v, (date, str)) else v or 0) for v in row])


def some_slow(names, kept):
    """Return all *names* as parameters; every run takes the *kept* ones, the others are slow."""
    return [pytest.param(name, marks=() if name in kept else pytest.mark.slow) for name in names]
