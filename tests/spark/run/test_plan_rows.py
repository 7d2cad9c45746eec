"""Plans of many scattered buckets: what Spark is asked, and that the rows are those of a computation of everything."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.budget import Budget
from materializer.config import Config
from materializer.core.compiled.bucket_sql import spans_sql
from materializer.core.compiled.definition import Definition
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Lane, Merge, Plan, Recompute, Retract, Step, TableBase
from materializer.core.time.instants import HOUR
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.extent import Extent
from materializer.lake.file_times import FileStat
from materializer.services.aggregate import Aggregate
from materializer.spark.query.buckets import named_spans
from materializer.spark.run import plan_rows
from materializer.spark.runtime.session import work_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST: Final = 1_704_067_200_000_000
HOURS: Final = 1_000
FILES: Final = 4
EVERY: Final = {"'1 hour', ts": 2, "'1 day', ts, 'Europe/Berlin'": 48}
"""Rows change every so many hours, by the buckets: then every other bucket is dirty, 500 hours or 20 days."""
BUDGETS: Final = {"listed": Budget(), "not listed": Budget(rows=0)}
"""With and without a list of the buckets that are computed."""
FEW: Final = 8
"""Spans that a query may name."""


class Scene(NamedTuple):
    """A source with changes that an aggregate has not yet seen."""

    definition: Definition
    source: SourceIdentity
    partials: str
    dirty: SpanSet

    def plan(self, *steps: Step, lane: Lane) -> Plan:
        """Return a plan of some steps."""
        keys = frozenset({("B",), (None,)})
        taken = tuple(Entry(span, 0, Cause.CHANGE, keys) for span in self.dirty)
        head = TableBase("", DeltaTable(self.partials).version())
        version = DeltaTable(self.source.path).version()
        return Plan("p", 2, version, Span(FIRST, FIRST + HOURS * HOUR), taken, steps, lane, head, head)

    def parts(self, spark: SparkSession, plan: Plan, budget: Budget) -> DataFrame:
        """Return what Spark computes of a plan."""
        found, _ = plan_rows.parts_of(spark, budget, self.definition, self.source, self.partials, plan, None)
        return reduce(lambda a, b: a.unionByName(b), found)


def rows(hours: range, v: int, keys: tuple[str | None, ...] = ("A", "B", None)) -> pa.Table:
    """Return a row an hour of each key."""
    at = [h for h in hours for _ in keys]
    columns = {"k": pa.array([*keys] * len(hours), pa.string()), "v": [v + i for i in range(len(at))], "h": at}
    return pa.table({"ts": pa.array([FIRST + h * HOUR for h in at], pa.timestamp("us", "UTC")), **columns})


CHANGES: Final = [(b, c) for b in EVERY for c in ("insert", "update")]
STRATEGIES: Final = {
    "insert": ("recompute", "recompute-keys", "retract", "merge"),
    "update": ("recompute", "recompute-keys", "retract"),
}
"""Strategies that bring a scene up to date, by what happened to its rows."""


def named(change: tuple[str, str]) -> str:
    """Return what the ids of tests call a change."""
    return f"{change[0].split(',')[0]} {change[1]}"


@pytest.fixture(scope="module")
def scenes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, str]], Scene]:
    """Return scenes, each of which is made when it is first asked for; no test changes one."""
    return cache(lambda change: made(change, spark, tmp_path_factory.mktemp("scene")))


@pytest.fixture(params=CHANGES, ids=named)
def scene(request: pytest.FixtureRequest, scenes: Callable[[tuple[str, str]], Scene]) -> Scene:
    """Return each scene."""
    return scenes(request.param)


def made(change: tuple[str, str], spark: SparkSession, folder: Path) -> Scene:
    """Return a scene in which rows of two keys were inserted or updated in every other bucket."""
    bucket, kind = change
    path, each = str(folder / "t"), HOURS // FILES
    write_deltalake(path, rows(range(each), 1), configuration={"delta.enableChangeDataFeed": "true"})
    for i in range(1, FILES):
        write_deltalake(path, rows(range(i * each, (i + 1) * each), 1), mode="append")
    m = Materializer(config=Config(lake=str(folder / "lake"), sources={"t": path}), spark=spark)
    m.apply(
        f"CREATE MATERIALIZED VIEW it AS SELECT time_bucket({bucket}) AS at, k, sum(v) AS v, count(v) AS n FROM t GROUP BY 1, 2"
    )
    m.refresh("it", executor="spark")
    if kind == "insert":
        write_deltalake(path, rows(range(5, HOURS, EVERY[bucket]), 7, ("B", None)), mode="append")
    else:
        where = f"h % {EVERY[bucket]} = {5 % EVERY[bucket]} AND (k = 'B' OR k IS NULL)"
        DeltaTable(path).update(predicate=where, updates={"v": "v + 7"})
    aggregate = Aggregate.of(m.journal.view().named("it"), m.root)
    dirty = SpanSet.union(aggregate.definition.grid.bucket(FIRST + h * HOUR) for h in range(5, HOURS, EVERY[bucket]))
    source = SourceIdentity(path, str(DeltaTable(path).metadata().id))
    return Scene(aggregate.definition, source, aggregate.paths["partials"], dirty)


def steps(scene: Scene) -> dict[str, Step]:
    """Return the steps that bring a scene up to date, by strategy."""
    found: dict[str, Step] = {
        "recompute": Recompute(scene.dirty, ""),
        "recompute-keys": Recompute(scene.dirty, "", keys=2),
        "retract": Retract(scene.dirty, FILES - 1),
    }
    if DeltaTable(scene.source.path).history(1)[0]["operation"] == "WRITE":
        found["merge"] = Merge(scene.dirty, FILES - 1)
    return found


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("change", "strategy"),
    [pytest.param(c, s, id=f"{named(c)} {s}") for c in CHANGES for s in STRATEGIES[c[1]]],
)
def test_scattered_buckets_are_those_of_a_computation_of_everything(
    spark: SparkSession, scenes: Callable[[tuple[str, str]], Scene], change: tuple[str, str], strategy: str
) -> None:
    """
    By each strategy, whoever reads the rows, and whether the buckets can be listed; what lies between them is copied.
    """
    session, whole = work_session(spark), SpanSet.of(Span(FIRST - 24 * HOUR, FIRST + (HOURS + 24) * HOUR))
    scene = scenes(change)
    everything = scene.parts(session, scene.plan(Recompute(whole, ""), lane=Lane.SPARK), Budget()).persist()
    for lane in Lane:
        plan = scene.plan(steps(scene)[strategy], lane=lane)
        inside = spans_sql("slice", plan.replaced, scene.definition.time_type)
        expected = sorted(map(str, everything.where(inside).collect()))
        for listed, budget in BUDGETS.items():
            found = sorted(map(str, scene.parts(session, plan, budget).collect()))
            assert expected == found, (lane, listed)
    everything.unpersist()


@pytest.mark.parametrize("change", CHANGES, ids=named)
def test_every_strategy_is_compared(scenes: Callable[[tuple[str, str]], Scene], change: tuple[str, str]) -> None:
    """
    What brings a scene up to date is what the test above has a case of.
    """
    assert set(STRATEGIES[change[1]]) == set(steps(scenes(change)))


@pytest.mark.one_of(2)
def test_a_query_names_few_spans_and_joins_by_equality(
    spark: SparkSession, scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Spark's optimiser takes seconds for hundreds of limits, and a join by limits compares each row with each group.
    """
    session = work_session(spark)
    assert len(scene.dirty) > FEW
    for name, step in steps(scene).items():
        for lane in Lane:
            capsys.readouterr()
            scene.parts(session, scene.plan(step, lane=lane), Budget()).explain(mode="extended")
            told = capsys.readouterr().out
            parsed = told[told.index("Analyzed Logical Plan") : told.index("Optimized Logical Plan")]
            limits = [line.count(" < ") for line in parsed.splitlines() if "Filter" in line]
            assert max(limits, default=0) <= FEW, (name, lane)
            joins = [line for line in parsed.splitlines() if "Join" in line]
            assert not [line for line in joins if "<" in line.replace("<=>", "") or ">" in line.replace("<=>", "")], (
                name,
                lane,
            )


def test_copied_rows_are_those_of_clean_buckets_between(scene: Scene) -> None:
    """
    A commit replaces few spans, so a query reads the stored rows between them, too; it is as large as they are many.
    """
    whole = scene.dirty.at_most(1)
    scattered, together = (scene.plan(Recompute(s, ""), lane=Lane.DRIVER) for s in (scene.dirty, whole))
    copied = plan_rows.copied_rows(scene.definition, scene.partials, scattered)
    stored = 3 * sum(scene.definition.grid.count(s) for s in scattered.replaced - scattered.spans)

    assert 0 == plan_rows.copied_rows(scene.definition, scene.partials, together)
    assert stored - 3 * FILES <= copied <= stored + 3 * FILES


def test_files_between_the_spans_are_not_opened_for_fewer_spans() -> None:
    """
    Of a table of many files more spans are named, as long as fewer spans open more rows.
    """
    files = tuple(FileStat(1_000, 10, 10 * i, 10 * i + 10) for i in range(1_000))
    spans = SpanSet.of(*(Span(100 * i, 100 * i + 5) for i in range(60)))

    assert spans == named_spans(spans, Extent(1, files))
    assert 1 == len(named_spans(spans, Extent(1, files[::10])))
    assert FEW == len(named_spans(spans, None))
