"""Histories of many keys as rows of both executors: all rows at once, and the rows of the planned parts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import Row as SparkRow

from materializer.core.aggregates.layout import Layout, PartialColumn
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import EngineQuery
from materializer.core.engines.ranges import Range
from materializer.core.query.nodes import Named
from materializer.local import render as local
from materializer.local.connection import opened
from materializer.spark.query.render import named, rendered
from tests.core.engines.histories import OPEN, History, Kind, Naive, Planner, Result, Row, overlaps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Key = str | None
IDS = "array_join(sort_array(collect_list(CAST(id AS STRING))), ',')"
FIELDS = "k_sym string, id int, v double, _t bigint, _part int, _known_max bigint"


def merged_of(e: EngineQuery) -> EngineQuery:
    """The same definition, of which the measure ``ids`` is made of partials that merge."""
    listed = "array_join(sort_array({}), ',')"
    ids = PartialColumn(
        "p_ids", listed.format("collect_list(CAST(id AS STRING))"), listed.format("collect_list(p_ids)")
    )
    return replace(e, layout=replace(e.layout, partials=(ids,), finals=(("ids", "p_ids"),), not_mergeable=()))


def query_of(params: Any, measures: Mapping[str, str], keys: Sequence[str] = ("k_sym",)) -> EngineQuery:
    """A definition over rows of histories, whose measures do not merge."""
    layout = Layout((), (), None, tuple(measures.items()), None, ("they are not split",), (), ())
    types = dict.fromkeys(measures, "string")
    return EngineQuery(params, tuple(keys), layout, ("_t", "id"), tuple(measures), types=types)


def drawn(rng: random.Random, kind: Kind) -> dict[Key, History]:
    """Return histories of many keys, null among them, under one clock."""
    ids = iter(range(10_000))
    rows: dict[Key, list[tuple[Row, str]]] = {
        key: [(kind.row(rng, next(ids)), rng.choice("====-+")) for _ in range(rng.choice([0, 1, 2, 8, 20]))]
        for key in [None, *(f"key {i}" for i in range(24))]
    }
    newest = [max(row.t for mine in rows.values() for row, fate in mine if fate != gone) for gone in "+-"]
    clocks = kind.clocks(rng, newest)
    return {
        key: History(
            tuple(row for row, fate in mine if fate != "+"),
            tuple(row for row, fate in mine if fate != "-"),
            *clocks,
        )
        for key, mine in rows.items()
    }


def bounds(history: History) -> ClosingClock:
    """What closes windows after the change."""
    return ClosingClock(as_of=history.now.as_of, global_max=history.now.global_max)


KINDS = {"string": pa.string(), "int": pa.int32(), "double": pa.float64(), "bigint": pa.int64()}


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], *, lasting: bool, more: str = "") -> DataFrame:
    """Return a frame of raw rows, with columns *more* at the end."""
    return spark.createDataFrame(list(rows), FIELDS + (", _end bigint" if lasting else "") + more)


def cells(key: Key, row: Row, part: int, known_max: int | None, *, lasting: bool) -> tuple[Any, ...]:
    """Return a raw row."""
    value = None if row.v is None else row.v / 10
    end = (None if row.end == OPEN else row.end,) if lasting else ()
    return (key, row.id, value, row.t, part, known_max, *end)


def all_rows(histories: Mapping[Key, History], *, lasting: bool, before: bool = False) -> list[tuple[Any, ...]]:
    """Return the raw rows of all keys."""
    return [
        cells(key, row, 0, None, lasting=lasting)
        for key, history in histories.items()
        for row in (history.before if before else history.after)
    ]


Plans = dict[Key, list[tuple[int, Range]]]


def planned(histories: Mapping[Key, History], kept: Mapping[Key, Sequence[Result]], planner: Planner) -> Plans:
    """Return the ranges of each key, numbered."""
    plans: Plans = {}
    number = 0
    for key, history in histories.items():
        plan = planner(history.spans(), [k.kept for k in kept[key]], is_complete=True)
        assert plan is not None
        plans[key] = [(number := number + 1, r) for r in plan]
    return plans


def part_rows(
    histories: Mapping[Key, History],
    kept: Mapping[Key, Sequence[Result]],
    plans: Plans,
    *,
    lasting: bool,
    carry: Callable[[Key, Range], tuple[Any, ...]] = lambda _key, _range: (),
) -> list[tuple[Any, ...]]:
    """Return the raw rows of all parts; what is known of the newest time is what was kept outside of them."""
    found = []
    for key, history in histories.items():
        ranges = [r for _, r in plans[key]]
        apart = [k.last_t for k in kept[key] if not is_inside(k.w_start, ranges)]
        outside = max((t for t in apart if t is not None), default=None)
        for number, r in plans[key]:
            more = carry(key, r)
            found += [
                (*cells(key, row, number, outside, lasting=lasting), *more) for row in history.after if overlaps(row, r)
            ]
    return found


def is_inside(w_start: int, ranges: Sequence[Range]) -> bool:
    """Whether a result is computed anew."""
    return any(r.start <= w_start < r.end for r in ranges)


def as_results(rows: Sequence[Any]) -> dict[Key, list[Result]]:
    """Return result rows, whose measures all list the ids of rows, as naive engines give them."""
    found: dict[Key, list[Result]] = {}
    for r in rows:
        ids = tuple(_ids(value) for name, value in r.asDict().items() if name.startswith("v_"))
        result = Result(r.w_start, r.w_end, r.first_t, r.last_t, r.n, r.is_final, ids)
        found.setdefault(r.k_sym, []).append(result)
    return {key: sorted(mine, key=lambda x: x.w_start) for key, mine in found.items()}


def _ids(listed: str | None) -> tuple[int, ...] | None:
    return None if listed is None else tuple(sorted(int(i) for i in listed.split(",")))


EXECUTORS = ("spark", "local")
Compute = Callable[[Sequence[tuple[Any, ...]], bool], list[Any]]
"""Returns the results of raw rows, which may have an end."""


def computing(
    executor: str, spark: SparkSession, query: Any, e: EngineQuery, at: ClosingClock, more: str = ""
) -> Compute:
    """Return what computes the results of a query by an executor, over rows with columns *more* at the end."""

    def by_spark(rows: Sequence[tuple[Any, ...]], lasting: bool) -> list[Any]:
        raw = frame(spark, rows, lasting=lasting, more=more)
        return rendered(query.rows(named("raw", raw), e, at), {"raw": raw}).collect()

    def here(rows: Sequence[tuple[Any, ...]], lasting: bool) -> list[Any]:
        fields = [tuple(f.split(" ")) for f in (FIELDS + (", _end bigint" if lasting else "") + more).split(", ")]
        schema = pa.schema([(name, KINDS[kind]) for name, kind in fields])
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
        statement = local.rendered(query.rows(Named("raw", tuple(fields)), e, at))
        with opened() as connection:
            connection.register("raw", table)
            found = connection.query(connection.prepared(statement))
        assert found.column_names == list(statement.kinds)
        return [SparkRow(**row) for row in found.to_pylist()]

    return by_spark if executor == "spark" else here


def check(compute: Compute, histories: Mapping[Key, History], e: EngineQuery, naive: Naive) -> list[Any]:
    """Compare a query with its naive engine: over all rows, and over the parts of a plan with the kept rows.

    Returns:
        The result rows of the changed sources.
    """
    lasting = any(row.end is not None for h in histories.values() for row in h.after)
    wanted = {key: mine for key, h in histories.items() if (mine := naive(h.after, None, h.now))}

    full = compute(all_rows(histories, lasting=lasting), lasting)
    assert as_results(full) == wanted

    kept = {key: naive(h.before, None, h.then) for key, h in histories.items()}
    plans = planned(histories, kept, e.params.ranges)
    cuts = {number: r for mine in plans.values() for number, r in mine}
    found_rows = compute(part_rows(histories, kept, plans, lasting=lasting), lasting)
    found = as_results([r for r in found_rows if is_inside(r.w_start, [cuts[r["_part"]]])])
    for key, rows in kept.items():
        mine = found.get(key, []) + [k for k in rows if not is_inside(k.w_start, [r for _, r in plans[key]])]
        assert sorted(mine, key=lambda x: x.w_start) == wanted.get(key, [])
    return full
