"""A lake without a JVM: its journal is in memory, and definitions are analysed by a stand-in that believes every expression."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec import Struct
from msgspec.structs import replace

from materializer.adapters.great_expectations import auditor
from materializer.adapters.memory.store import MemoryStore, memory_stores
from materializer.api import Materializer
from materializer.config import Config
from materializer.core.aggregates.decompose import decompose
from materializer.core.codec import as_json
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.compile import check_params, measure_names
from materializer.core.engines.engine_query import EngineQuery
from materializer.core.engines.queries import reactive_state
from materializer.core.query.nodes import Named
from materializer.core.spec.spec import AggregateSpec, Formula
from materializer.errors import DefinitionError
from materializer.journal.events import Captured, Repaired, Snapshot
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.local.executor import LocalExecutor
from materializer.services.activity import Listeners
from materializer.services.commit import lake as commit
from materializer.services.definitions.changes import DefinitionChange
from materializer.spark.run.executor import Executor
from tests.appending import append

_OF_RESULTS = {"is_final": "boolean", "is_shown": "boolean", "revision": "int"}
BY_ROWS = Config(price_tie_ms=60_000)
"""Settings by which rows decide: a lake of a test is too small for prices."""
RAW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])


def _of_state(spec: AggregateSpec) -> list[str]:
    """Return the columns that results of running state have beside others."""
    if spec.engine != "reactive_state":
        return []
    e = EngineQuery(check_params(spec), (), decompose(spec), ("_t",), measure_names(spec))
    return sorted(n for n in reactive_state.rows(Named("raw", ()), e, ClosingClock()).names if n.startswith("x_"))


class Kind(Struct, frozen=True):
    """A type as Spark names it."""

    text: str

    def simpleString(self) -> str:  # noqa: N802 (as Spark's)
        """Return its text."""
        return self.text


class Field(Struct, frozen=True):
    """A column as Spark has it."""

    name: str
    dataType: Kind  # noqa: N815 (as Spark's)


class Analysed(Struct, frozen=True):
    """What Spark would say of a definition whose measures are all whole numbers."""

    spec: AggregateSpec

    @property
    def key_types(self) -> list[tuple[str, str]]:
        """All keys are times here."""
        return [(k.name, "timestamp") for k in self.spec.keys]

    @property
    def partial_schema(self) -> list[Field]:
        """As the layout names them, or the results of an engine."""
        if self.spec.is_engine:
            measures = [f"v_{name}" for name in measure_names(self.spec)]
            names = [
                "w_start",
                "w_end",
                "label",
                *measures,
                "n",
                "first_t",
                "last_t",
                *_of_state(self.spec),
                *_OF_RESULTS,
            ]
            return [Field(name, Kind(_OF_RESULTS.get(name, "bigint"))) for name in names]
        return [Field(p.name, Kind("bigint")) for p in decompose(self.spec).partials]

    @property
    def output_schema(self) -> list[Field]:
        """Keys and the bucket are times."""
        times = {self.spec.bucket_start, self.spec.bucket_end, *(k.name for k in self.spec.keys)}
        if self.spec.is_engine:
            times |= {"slice", "time", "window_start", "window_end"}
        kinds = dict.fromkeys(times, "timestamp") | _OF_RESULTS
        return [Field(name, Kind(kinds.get(name, "bigint"))) for name in self.spec.columns]


class NoSpark:
    """Stands for the engine: it believes every expression."""

    def death(self) -> None:
        """It never dies."""

    def analyse(self, spec: AggregateSpec, schema_json: str) -> Analysed:
        """See :class:`materializer.spark.run.spark.Spark`."""
        assert all(f'"{name}"' in schema_json for name in spec.reads)

        def typed(formula: Formula) -> Formula:
            calls = tuple(replace(c, types=tuple("bigint" for _ in c.args)) for c in formula.calls)
            return replace(formula, calls=calls)

        return Analysed(replace(spec, measures=tuple(replace(m, formula=typed(m.formula)) for m in spec.measures)))


class Opened(Materializer):
    """The façade over a lake that was wired by hand."""

    def __init__(self, lake: commit.Lake, executor: Executor) -> None:
        super(Materializer, self).__init__(lake, executor)


class Lake:
    """A lake over one raw table, without a JVM.

    Args:
        root: Its folder.
        engine: What stands for Spark.
        stores: Returns the stores of its journal, which are in memory by default.
        config: Its settings.
    """

    def __init__(
        self,
        root: Path,
        engine: NoSpark | None = None,
        stores: Callable[[str], MemoryStore] | None = None,
        config: Config = BY_ROWS,
    ) -> None:
        self.root = root
        DeltaTable.create(str(root / "raw"), RAW, configuration={"delta.enableChangeDataFeed": "true"})
        executor = Executor(Config(), None, {}, started=engine or NoSpark())  # type: ignore[arg-type]
        journal = Journal(root, stores=stores or memory_stores())
        self.at: dict[str, Callable[[], object]] = {}  # what happens once before a step, by its name
        self.wired = commit.Lake(
            str(root), journal, config, executor.engine, lambda: auditor, lambda step: self.at.pop(step, lambda: None)()
        )
        self.opened = Opened(self.wired, executor)

    def add(self, *rows: tuple[int, int]) -> None:
        """Commit rows (instant in microseconds, value) to the raw table."""
        times, values = zip(*rows, strict=True)
        columns = pa.array(times, pa.int64()).cast(RAW.field("ts").type), pa.array(values, pa.int64())
        write_deltalake(str(self.root / "raw"), pa.table(columns, schema=RAW), mode="append")

    def apply(self, *sql: str, **options: Any) -> list[DefinitionChange]:
        """Apply definitions in one text."""
        return self.opened.apply("\n".join(sql), **options)

    def refused(self, *sql: str) -> list[tuple[str, str]]:
        """Return code and message of every problem."""
        with pytest.raises(DefinitionError) as caught:
            self.apply(*sql)
        return [(p.code, p.message) for p in caught.value.problems]

    def state(self, name: str) -> AggregateState:
        """Return an aggregate as the journal knows it."""
        return self.opened.journal.view().named(name)

    def put(self, state: AggregateState) -> None:
        """Let the journal know an aggregate as it is given, as a history might have left it."""
        append(self.opened.journal, (state.id, Snapshot(as_json(state))))

    def materialise(self, *names: str) -> None:
        """Tell the journal that something of an aggregate was published."""
        for name in names:
            state = self.state(name)
            told = Repaired(1, state.data_version, state.tables, "a test", is_everything_dirty=True, threshold=10**15)
            append(self.opened.journal, (state.id, told))

    def filled(self, name: str, end: int) -> None:
        """Tell the journal where the bucket of the source's newest row ends."""
        state = self.state(name)
        append(self.opened.journal, (state.id, Captured(state.cursor, (), extent_end=end)))

    @property
    def names(self) -> list[str]:
        """The aggregates that the journal knows."""
        return sorted(s.name for s in self.opened.journal.view().states.values())


class LocalLake(Lake):
    """A lake whose refreshes are computed in the process; an engine that is asked to compute fails."""

    def __init__(
        self,
        root: Path,
        *,
        rows: int = 1_000,
        size: int = 1 << 20,
        config: Config | None = None,
        engine: NoSpark | None = None,
        stores: Callable[[str], MemoryStore] | None = None,
    ) -> None:
        super().__init__(root, engine, stores)
        local = LocalExecutor(rows, size)
        self.wired = replace(self.wired, config=config or self.wired.config, local=local)
        self.opened = Opened(self.wired, Executor(Config(), None, {}, started=engine or NoSpark()))  # type: ignore[arg-type]

    def listen(self, listeners: Listeners) -> None:
        """Tell listeners of what is done from now on."""
        self.wired = replace(self.wired, listeners=listeners)
        self.opened = Opened(self.wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]

    def rows_of(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of an output in the order of their buckets."""
        return sorted(
            DeltaTable(str(self.root / name / "output")).to_pyarrow_table().to_pylist(), key=lambda r: r["at"]
        )


def view(name: str, bucket: str, source: str = "raw", measure: str = "sum(v) AS v", *, column: str = "at") -> str:
    """Return a definition that divides the time of its source by a call, written with `{}` for the time column."""
    time = "ts" if source == "raw" else "at"
    return (
        f"CREATE MATERIALIZED VIEW {name}\nAS SELECT {bucket.format(time)} AS {column}, {measure}\n"
        f"   FROM {source}\n   GROUP BY {bucket.format(time)};"
    )


def each(width: str, zone: str = "") -> str:
    """Return a bucket."""
    return f"time_bucket('{width}', {{}}" + (f", '{zone}')" if zone else ")")
