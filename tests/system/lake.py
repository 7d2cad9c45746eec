"""What the stateful test drives: a source that remembers all its versions, two aggregates over it, and their oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct, field

from materializer.api import Materializer
from materializer.journal.events import Lease
from materializer.services import processes
from materializer.services.protocol import refresh_steps
from tests import tables
from tests.oracle import naive
from tests.oracle.naive import Row

SCHEMA: Final = pa.schema(
    [("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64()), ("ok", pa.bool_())]
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)


def micros(at: datetime) -> int:
    """Return an instant as the core counts it."""
    return (at - _EPOCH) // _MICRO


# -- the aggregates ------------------------------------------------------------------------------------------------------


class Defined(Struct, frozen=True):
    """An aggregate, said twice: to the product and to the oracle.

    Args:
        name: Its name.
        parts: What :meth:`Materializer.define` is given besides the name and the source.
        bucket: The oracle's grid.
        measures: The oracle's measures, in the same order.
        where: The oracle's row filter.
        longest: No bucket is longer.
        most: A measure and the value above which its suite lets no row through.
    """

    name: str
    parts: Mapping[str, Any]
    bucket: naive.Bucket
    measures: tuple[naive.Measure, ...]
    where: naive.Test
    longest: timedelta
    most: tuple[str, int]

    @property
    def columns(self) -> list[str]:
        """The output's columns, bucket first."""
        return ["bucket", *self.parts["keys"], *self.parts["measures"]]

    @property
    def known_by(self) -> int:
        """How many of the columns identify a row."""
        return 1 + len(self.parts["keys"])

    def expected(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        """Return the aggregate of *rows*."""
        keys = self.parts["keys"]
        return naive.aggregate(rows, time="ts", bucket=self.bucket, keys=keys, measures=self.measures, where=self.where)

    def edge(self, at: datetime) -> datetime:
        """Return the first edge that is not before *at*."""
        edge = self.bucket(at)
        return edge if edge == at else self.bucket(edge + self.longest)

    @property
    def suite(self) -> dict[str, Any]:
        """Its suite, as Great Expectations keeps it."""
        column, most = self.most
        kwargs = {"column": column, "max_value": most}
        return {
            "name": self.name,
            "expectations": [{"type": "expect_column_values_to_be_between", "kwargs": kwargs}],
        }

    def is_refused(self, row: tuple[Any, ...]) -> bool:
        """Whether its suite lets a row of the output not through."""
        column, most = self.most
        return (row[self.columns.index(column)] or 0) > most

    def refused(self, rows: Iterable[Row]) -> set[datetime]:
        """Return the buckets of the aggregate of *rows* that its suite does not let through."""
        return {row[0] for row in self.expected(rows) if self.is_refused(row)}


BAD: Final = 1_000_000
"""A value that no suite lets through, however many others there are."""
_ORDER: Final = ("ts", "k", "ok", "v")
"""Time, then the columns that the definition reads, by name."""

HOURLY: Final = Defined(
    "hourly",
    {
        "time": "ts",
        "width": "1 hour",
        "keys": ["k"],
        "where": "v IS NULL OR v <> 13",
        "measures": {
            "n": "count(*)",
            "s": "sum(v)",
            "a": "avg(v)",
            "lo": "min(v)",
            "hi": "max(v)",
            "f": "first(v)",
            "l": "last(v)",
            "spread": "var_samp(v)",
            "all_ok": "bool_and(ok)",
            "any_ok": "bool_or(ok)",
            "big": "count(*) FILTER (WHERE v > 5)",
        },
        "properties": {"quality.on_failure": "buckets", "output.change_feed": "true"},
    },
    naive.every(timedelta(hours=1)),
    (
        naive.count(),
        naive.of("v", sum),
        naive.of("v", naive.mean),
        naive.of("v", min),
        naive.of("v", max),
        naive.first("v", _ORDER),
        naive.last("v", _ORDER),
        naive.of("v", lambda values: naive.variance(values, 1), least=2),
        naive.of("ok", all),
        naive.of("ok", any),
        naive.only(lambda row: row["v"] is not None and row["v"] > 5, naive.count(), 0),
    ),
    lambda row: row["v"] is None or row["v"] != 13,
    timedelta(hours=1),
    ("hi", BAD - 1),
)

DAILY: Final = Defined(
    "daily",
    {
        "time": "ts",
        "width": "1 day",
        "timezone": "America/New_York",
        "keys": [],
        "measures": {"n": "count(*)", "middle": "median(v)", "kinds": "count(DISTINCT k)", "s": "sum(v)"},
        "properties": {"quality.on_failure": "refresh"},
    },
    naive.days_in("America/New_York"),
    (naive.count(), naive.of("v", naive.median), naive.of("k", naive.distinct, least=0), naive.of("v", sum)),
    lambda _: True,
    timedelta(hours=25),
    ("s", BAD // 2),
)

AGGREGATES: Final = {a.name: a for a in (HOURLY, DAILY)}


# -- the source ----------------------------------------------------------------------------------------------------------


class Source(Struct):
    """A Delta table written without a JVM, and its rows at every version.

    Args:
        path: Where it lies.
        has_feed: Whether it keeps a change feed.
    """

    path: str
    has_feed: bool
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: list[dict[int, dict[str, Any]]] = field(default_factory=list)
    next_id: int = 0

    def __post_init__(self) -> None:
        tables.create(self.path, SCHEMA, feed=self.has_feed)
        self._note()

    @property
    def newest(self) -> int:
        """The newest version."""
        return len(self.versions) - 1

    def at(self, version: int) -> list[dict[str, Any]]:
        """Return the rows of a version."""
        return list(self.versions[version].values())

    def insert(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows in one commit."""
        new = {self.next_id + i: {"id": self.next_id + i, **row} for i, row in enumerate(rows)}
        self.next_id += len(new)
        self.rows |= new
        tables.append(self.path, pa.Table.from_pylist(list(new.values()), schema=SCHEMA))
        self._note()

    def update(self, ids: Iterable[int], column: str, value: Any) -> None:
        """Set one column of some rows in one commit; a new time moves them."""
        wanted = list(ids)
        DeltaTable(self.path).update(predicate=_among(wanted), updates={column: literal(value)})
        for i in wanted:
            self.rows[i] = self.rows[i] | {column: value}
        self._note()

    def delete(self, ids: Iterable[int]) -> None:
        """Delete some rows in one commit."""
        wanted = list(ids)
        DeltaTable(self.path).delete(_among(wanted))
        self.rows = {i: row for i, row in self.rows.items() if i not in wanted}
        self._note()

    def overwrite(self, ids: Iterable[int]) -> None:
        """Write the table anew with only these of its rows."""
        self.rows = {i: self.rows[i] for i in ids}
        tables.append(self.path, pa.Table.from_pylist(list(self.rows.values()), schema=SCHEMA), mode="overwrite")
        self._note()

    def compact(self) -> None:
        """Write the same rows in fewer files."""
        DeltaTable(self.path).optimize.compact()
        self._note()

    def _note(self) -> None:
        version = DeltaTable(self.path).version()
        self.versions += [dict(self.rows)] * (version - self.newest)


def _among(ids: Iterable[int]) -> str:
    return f"id IN ({', '.join(map(str, ids))})"


def literal(value: Any) -> str:
    """Return a value as predicates and updates of the library without a JVM have it."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def published(lake: str, aggregate: Defined) -> list[tuple[Any, ...]]:
    """Return the output's rows as any reader of Delta sees them."""
    path = f"{lake}/{aggregate.name}/output"
    found = DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []
    return [tuple(row[c] for c in aggregate.columns) for row in found]


def replayed(lake: str, name: str) -> Counter[tuple[Any, ...]]:
    """Return what the change feed of an aggregate leads to, by the output's columns: rows, each as often as it is there."""
    columns = [field.name for field in DeltaTable(f"{lake}/{name}/output").schema().fields]
    found: Counter[tuple[Any, ...]] = Counter()
    path = f"{lake}/{name}/changes"
    for row in DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else ():
        came = row["_change"] in ("insert", "update_postimage")
        found[tuple(row[c] for c in columns)] += 1 if came else -1
    return Counter({row: n for row, n in found.items() if n})


# -- dying ---------------------------------------------------------------------------------------------------------------


class Died(BaseException):
    """A process is gone; nothing of the product may catch this and go on."""


class Death(Struct, frozen=True):
    """Where a command dies.

    Args:
        checkpoint: At the start of which step.
        time: The how many-th time it is reached.
        is_kill: Without any clean-up, so that its lease stays; else as by Ctrl-C.
    """

    checkpoint: str
    time: int
    is_kill: bool


CHECKPOINTS: Final = (
    *(
        "lease",
        "recover",
        "plan",
        "compute",
        "audit",
        "write",
        "wrote_partials",
        "wrote_output",
        "done",
        "end",
    ),
    *("fence", "abort", "aborted", "finish", "finished", "changes", "wrote_changes"),
    *("fold_history", "fold_journal"),
)


MAINTENANCE: Final = (
    "maintain_vacuum",
    "maintain_rewrite",
    "maintain_written",
    "maintain_committed",
    "maintain_log",
    "maintain_done",
    "maintain_journal",
)
"""Steps of a maintenance."""


@contextmanager
def dying(death: Death) -> Iterator[Callable[[str], None]]:
    """Give the ``on_checkpoint`` that dies as told; while the block runs a kill keeps the lease from being given back."""
    reached: list[str] = []
    release = refresh_steps.release

    def on_checkpoint(name: str) -> None:
        reached.append(name)
        if reached.count(death.checkpoint) >= death.time:
            if death.is_kill:
                refresh_steps.release = lambda *_: None
            raise Died(death.checkpoint)

    try:
        yield on_checkpoint
    finally:
        refresh_steps.release = release


@contextmanager
def the_dead() -> Iterator[set[str]]:
    """Give the set of lease owners that count as dead inside the block, whatever their process does."""
    dead: set[str] = set()
    is_dead = processes.is_dead

    def is_dead_or_declared(lease: Lease, now: float) -> bool:
        return lease.owner in dead or is_dead(lease, now)

    processes.is_dead = is_dead_or_declared
    try:
        yield dead
    finally:
        processes.is_dead = is_dead


def leave_behind(materializer: Materializer, dead: set[str]) -> None:
    """Declare dead whoever holds a lease in the lake."""
    held = (state.lease for state in materializer.journal.view().all.values())
    dead |= {lease.owner for lease in held if lease is not None}
