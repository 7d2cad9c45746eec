"""A lake over a raw table with a change feed and two keys, which new processes open again and again, without a JVM or on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.adapters.memory.store import memory_stores
from materializer.config import Config
from materializer.core.aggregates.decompose import decompose
from materializer.core.compiled.definition import Definition
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import SpanSet
from materializer.journal.journal import Journal
from materializer.lake.computed import apart
from materializer.local.connection import opened
from materializer.local.executor import LocalExecutor
from materializer.local.finals import finalise
from materializer.local.forms import Forms
from materializer.spark.run.executor import Executor
from tests import tables
from tests.histories_of_chains.definitions import Row, Shown
from tests.services.keyed import Keyed, OfKeys
from tests.services.no_spark import Field, Kind, LocalLake, Opened

TIME: Final = pa.timestamp("us", "UTC")
SCHEMA: Final = pa.schema(
    [("ts", TIME), ("device", pa.string()), ("region", pa.string()), ("v", pa.int64()), ("id", pa.int64())]
)
"""The library leaves an updated row out of the change feed that is then equal to another row: an ``id`` keeps all different."""

ORDERED: Final = re.compile(r"'o(\d+)', `(\w+)`")
"""A column that decides the order of rows, in the text of a partial that selects a value."""


class WithMeans(OfKeys):
    """What Spark would say of the definitions here: an average and its sum are doubles, a selected value lies beside its order."""

    @property
    def partial_schema(self) -> list[Field]:
        """A value that is selected by the order of rows is in a struct with the columns that decide."""
        builds = {p.name: p.build for p in decompose(self.spec).partials}
        return [Field(f.name, self._selected(builds[f.name]) or f.dataType) for f in super().partial_schema]

    def _selected(self, build: str) -> Kind | None:
        if order := ORDERED.findall(build):
            return Kind(f"struct<{','.join(f'o{i}:{self.kinds[name]}' for i, name in order)},v:bigint>")
        of_partials = self.kinds.get(build[4:-1], "")  # min(…) or max(…)
        return Kind(of_partials) if of_partials.startswith("struct") else None

    @property
    def output_schema(self) -> list[Field]:
        """An average is a double."""
        return [Field(f.name, Kind("double") if f.name == "mean" else f.dataType) for f in super().output_schema]


class Analyst(Keyed):
    """Stands for Spark, which computes nothing here."""

    def analyse(self, spec: AggregateSpec, schema_json: str) -> OfKeys:
        """See :class:`tests.services.keyed.Keyed`."""
        having = spec.having
        if having is not None:
            calls = tuple(replace(c, types=tuple("bigint" for _ in c.args)) for c in having.calls)
            spec = replace(spec, having=replace(having, calls=calls))
        found = super().analyse(spec, schema_json)
        return WithMeans(found.spec, found.kinds)

    def finalise_committed(
        self, definition: Definition, path: str, version: int, spans: SpanSet, *, fetch: bool
    ) -> pa.Table:
        """Return the output of committed partials, as Spark does when a version begins with those of another."""
        assert fetch
        stored = DeltaTable(path, version=version).to_pyarrow_table()
        inside = [at in spans for at in stored["slice"].cast(pa.int64()).to_pylist()]
        with opened() as connection:
            connection.register("stored", stored.filter(pa.array(inside, pa.bool_())))
            return apart(definition, finalise(connection, definition, Forms.of(definition), "FROM stored", spans))[1]


class Chains(LocalLake):
    """A lake over one raw table with two keys, which a new process may open again.

    Args:
        root: Its folder.
        feed: Whether the raw table has a change feed.
        config: Settings of the lake; by default those by which rows decide.
    """

    def __init__(self, root: Path, *, feed: bool = True, config: Config | None = None) -> None:
        tables.create(root / "events", SCHEMA, feed=feed)
        super().__init__(root, engine=Analyst(), config=config)
        self.stores = memory_stores()
        self.reopened()

    def reopened(self, on_checkpoint: Callable[[str], None] = lambda _: None) -> Opened:
        """Return the lake as a new process opens it."""
        executor = Executor(Config(), None, {}, started=Analyst())  # type: ignore[arg-type]
        journal = Journal(self.root, stores=self.stores, on_checkpoint=on_checkpoint)
        local = LocalExecutor(10**6, 1 << 28)
        self.wired = replace(
            self.wired, journal=journal, local=local, engine=executor.engine, on_checkpoint=on_checkpoint
        )
        self.opened = Opened(self.wired, executor)
        return self.opened

    @property
    def events(self) -> DeltaTable:
        """The raw table."""
        return DeltaTable(str(self.root / "events"))

    def insert(self, rows: Sequence[Row], first: int) -> None:
        """Commit raw rows, with ids from *first* on."""
        values = [*list(zip(*rows, strict=True))[1:4], range(first, first + len(rows))]
        columns = [pa.array(c, f.type) for c, f in zip(values, list(SCHEMA)[1:], strict=True)]
        times = pa.array([row.ts for row in rows], pa.int64()).cast(TIME)
        write_deltalake(str(self.root / "events"), pa.table([times, *columns], schema=SCHEMA), mode="append")

    def published(self, name: str, version: int | None = None) -> list[Shown]:
        """Return the rows of an output."""
        table = DeltaTable(str(self.root / name / "output"), version=version).to_pyarrow_table()
        rows = table.set_column(0, "at", table["at"].cast(pa.int64())).to_pylist()
        return [tuple(row.values()) for row in rows]


class ChainsOnSpark(Chains):
    """The same lake, in which Spark computes everything.

    Args:
        root: Its folder.
        executor: Starts Spark, once for all lakes of a process.
    """

    def __init__(self, root: Path, executor: Executor) -> None:
        self._executor = executor
        super().__init__(root)

    def reopened(self, on_checkpoint: Callable[[str], None] = lambda _: None) -> Opened:
        """Return the lake as a new process opens it."""
        journal = Journal(self.root, stores=self.stores, on_checkpoint=on_checkpoint)
        self.wired = replace(
            self.wired, journal=journal, local=None, engine=self._executor.engine, on_checkpoint=on_checkpoint
        )
        self.opened = Opened(self.wired, self._executor)
        return self.opened
