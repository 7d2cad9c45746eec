"""Cases of continuous aggregates: scenarios, and engine cases with operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import product
from typing import Any

from tests.cases import comparing
from tests.cases.metrics import to_sql
from tests.cases.reading import Case, Outcome, micros
from tests.cases.world import How, World, condition

_BUCKET_PARTS = ("width", "timezone", "origin", "offset")
_OPERATIONS = ("insert", "update", "delete", "truncate", "refresh")


# -- scenarios -----------------------------------------------------------------------------------------------------------


def run_scenario(case: Case, how: How) -> Outcome:
    """Do a scenario's operations; rows and what became of each refresh bind."""
    world = World(how, case["id"])
    for table, about in case["setup"]["tables"].items():
        inserted = [
            row for op in case["ops"] if op["op"] == "insert" for row in _rows(case, op) if op["table"] == table
        ]
        time = about.get("time_column", "time")
        kind = {"time": time, "time_type": about.get("time", case["time_type"]), "columns": about["columns"]}
        world.create(table, **kind, rows=[*inserted, *_updates(case["ops"])])
    for name, about in case["setup"]["caggs"].items():
        _define(world, name, about)
    for number, op in enumerate(case["ops"]):
        wrong = _expect(world, case, op) if op["op"] == "expect" else _operate(world, case, op)
        if wrong:
            return Outcome(case["id"], passed=False, expected=wrong[0], found=f"operation {number}: {wrong[1]}")
    wrong_names = world.verify()
    return Outcome(case["id"], not wrong_names, "equal to plain Spark", f"differs from plain Spark: {wrong_names}")


def _define(world: World, name: str, about: Mapping[str, Any]) -> None:
    bucket = about.get("bucket") or {"width": about["bucket_width"]}
    time = world.times[about["source"]][0]
    world.materializer.define(
        name,
        world.path(about["source"]),
        time=time,
        **{part: bucket[part] for part in _BUCKET_PARTS if bucket.get(part) is not None},
        keys=[key for key in about.get("group_by", []) if key != "bucket"],
        measures=about["aggregates"],
        where=about.get("where"),
    )


def _operate(world: World, case: Case, op: Mapping[str, Any]) -> tuple[Any, Any] | None:
    if op["op"] not in _OPERATIONS:
        return "an operation known here", f"the operation {op['op']!r}"
    if op["op"] == "insert":
        world.insert(op["table"], _rows(case, op))
    elif op["op"] != "refresh":
        world.change(op["table"], op)
    else:
        size = op.get("options", {}).get("buckets_per_batch", 0)
        window = (op["start"], op["end"])
        found = world.refresh(op["cagg"], *window, buckets_per_run=size, force=op.get("force", False))
        expected = op.get("expect_result", found)
        if expected.partition(":")[0] != found.partition(":")[0]:
            return expected, f"refresh {op['cagg']} [{op['start']}, {op['end']}): {found}"
    return None


def _expect(world: World, case: Case, op: Mapping[str, Any]) -> tuple[Any, Any] | None:
    for name, about in op.get("cagg_rows", {}).items():
        is_fresh = case["setup"]["caggs"][name].get("materialized_only") is False
        columns = about["columns"]
        found = [tuple(row[c] for c in columns) for row in world.rows(name, fresh=is_fresh)]
        expected = [tuple(map(_instant, columns, row)) for row in about["rows"]]
        if not comparing.is_same(expected, found, is_complete=about.get("complete", True), tolerance=1e-9):
            return expected, sorted(found, key=repr)
    return None


def _instant(column: str, value: Any) -> Any:
    return micros(value) if column == "bucket" and isinstance(value, str) else value


def _rows(case: Case, op: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of an insert, listed or generated: every time with every tuple of the other columns."""
    columns: Sequence[str] = op.get("columns") or case["setup"]["tables"][op["table"]]["columns"]
    for row in op.get("rows", []):
        yield row if isinstance(row, dict) else dict(zip(columns, row, strict=True))
    if "rows_generator" in op:
        made = op["rows_generator"]
        first, step = made["first"], made.get("step_micros", made.get("step", 1))
        start = first if isinstance(first, int) else micros(first)
        others = made.get("times_cross_other_columns", [[]])
        for i, rest in product(range(made["count"]), others):
            at = start + i * step
            yield dict(zip(columns, (at if isinstance(first, int) else _text(at), *rest), strict=True))


def _text(at: int) -> str:
    return (comparing.EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _updates(ops: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(op["set"]) for op in ops if op["op"] == "update"]


# -- engine cases --------------------------------------------------------------------------------------------------------


def run_engine_case(case: Case, how: How) -> Outcome:
    """Do the operations of an engine case ``continuousAggregate`` and compare the rows left in the aggregate."""
    params, ops = case["params"], case["input_rows"]
    world = World(how, case["id"])
    time = params.get("timeColumn", "t")
    rows = [row for op in ops if op["op"] == "insert" for row in op["rows"]]
    columns = list(dict.fromkeys([time, *(c for row in rows for c in row)]))
    time_type = {"TIMESTAMP": "timestamp", "DATE": "date"}.get(params.get("timeType"), "bigint")
    world.create("source", time=time, time_type=time_type, columns=columns, rows=[*rows, *_updates(ops)])
    keys = params.get("keyColumn") or []
    keys = [keys] if isinstance(keys, str) else keys
    where = " AND ".join(condition(w, lambda column: f"`{column}`") for w in params.get("where", []))
    world.materializer.define(
        "aggregate",
        world.path("source"),
        time=time,
        width=params["bucket"],
        keys=keys,
        measures={m["name"]: to_sql(m["expr"]) for m in params["metrics"]},
        where=where or None,
    )
    for op in ops:
        if op["op"] == "insert":
            world.insert("source", op["rows"])
        elif op["op"] == "refresh":
            world.refresh("aggregate", op.get("start"), op.get("end"))  # one that holds no whole bucket does nothing
        else:
            world.change("source", op)
    expected, found = case["expected_rows"], world.rows("aggregate")
    if not comparing.is_same_rows(expected, found):
        return Outcome(case["id"], passed=False, expected=expected, found=found)
    wrong_names = world.verify()
    return Outcome(case["id"], not wrong_names, "equal to plain Spark", f"differs from plain Spark: {wrong_names}")
