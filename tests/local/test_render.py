"""Each kind of node gives what Spark gives, over hard values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from materializer.core.engines.queries.reactive_state import Ema
from materializer.core.query.nodes import Folded, Named, Query, Union
from materializer.local.connection import opened
from materializer.local.kinds import NotLocal, kind_of
from materializer.local.render import rendered as here
from materializer.spark.query.compute import frame_of, to_arrow
from materializer.spark.query.render import rendered as by_spark
from tests.local.comparing import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {"g": "int", "k": "double", "x": "string", "l": "bigint", "b": "boolean", "ts": "timestamp", "u": "date"}
COLUMNS |= {"d": "decimal(10,2)", "f": "float"}
RAW = Named("raw", tuple(COLUMNS.items()))
OTHER = RAW.where("l > 0").select(("h", "g"), ("j", "k"), ("m", "l"))
ORDERED = ["g", "l", "ts", "x"]
SHARED = RAW.where("b").only("x", "g")
PLACED = RAW.over(["b"], [*ORDERED, "k"], at="row_number()").where("at > 3")
QUERIES: dict[str, Query] = {
    "columns that are replaced": RAW.add(g="l", m="g").without("x"),
    "keys with both zeros, null and NaN": RAW.group(["k"], [("n", "count(1)"), ("most", "max(l)")]),
    "keys that are made": RAW.group(
        [("k", "coalesce(k, CAST(0 AS DOUBLE))"), ("h", "pmod(g, 3)")], [("n", "count(k)"), ("l", "max(l)")]
    ),
    "distinct keys that are made": RAW.group([("h", "pmod(g, 3)"), "b"]),
    "rows with a match": RAW.matched(OTHER, [("k", "j"), ("g", "h")]),
    "rows with a match by their own names": RAW.matched(RAW.where("l > 0"), [("k", "k"), ("x", "x")], is_small=True),
    "rows without a match": RAW.unmatched(RAW.where("l > 0"), [("k", "k"), ("x", "x")]),
    "distinct keys": RAW.only("k", "x").group(["x", "k"]),
    "numbers of rows": RAW.over(["k"], ORDERED, at="row_number()").over(["k"], ["g"], rank="dense_rank()"),
    "rows before and after": RAW.over(["b"], ORDERED, before="lag(l)", second="lag(x, 2)", after="lead(ts)"),
    "all rows of a key": RAW.over(["k"], most="max(l)", least="min(ts)", any="max(b)", n="count(l)", m="count(*)"),
    "so far, by value": RAW.over(["b"], ["g"], ("most", "max(l)"), ("first", "min(u)"), frame=("range", None, 0)),
    "extremes of three rows": RAW.over(
        ["b"],
        ORDERED,
        most="max(k)",
        least="min(k)",
        last="max(x)",
        cost="min(d)",
        weight="max(f)",
        frame=("rows", -2, 0),
    ),
    "sums of exact numbers": RAW.where("l BETWEEN -1000000 AND 1000000").over(
        ["b"], ORDERED, n="sum(l)", m="sum(g % 9)", cost="sum(d)", frame=("rows", None, 0)
    ),
    "sums of fractions": RAW.over(
        ["x"], ORDERED, total="sum(k)", n="count(k)", other="sum(f)", frame=("rows", None, 0)
    ),
    "moments of four rows": RAW.where("abs(k) < 1000000000").over(
        ["b"],
        [*ORDERED, "k"],
        total="sum(k)",
        mean="avg(k)",
        size="avg(g)",
        spread="stddev_samp(k)",
        frame=("rows", -3, 0),
    ),
    "moments of any size": RAW.over(
        ["b"], [*ORDERED, "k"], mean="avg(k)", spread="stddev_samp(d)", frame=("rows", -3, 0)
    ),
    "a pass": PLACED.fold(
        ["b"], "at", [Folded(Ema(3), ("k", "b"), (("value", "double"), ("n", "bigint"), ("shown", "double")))]
    ),
    "three rows": RAW.over([], ORDERED, ("most", "max(l)"), ("n", "count(x)"), frame=("rows", -1, 1)),
    "elements": RAW.explode("at", "CASE WHEN g > 0 THEN sequence(pmod(g, 3), 4) END"),
    "elements, outer": RAW.explode("at", "CASE WHEN g > 0 THEN array(l, 7L) END", outer=True),
    "equal keys": RAW.same(OTHER, [("k", "j"), ("g", "h")]),
    "equal keys, or none": RAW.same(OTHER, [("k", "j"), ("g", "h")], outer=True),
    "equal keys of few rows": RAW.same(OTHER, [("k", "j")], is_small=True),
    "ranges": RAW.join(OTHER, [("k", "<=>", "j"), ("l", "<", "m"), ("g", ">=", "h")], is_small=True),
    "a union": Union((RAW, RAW.only("x", "k").where("x > 'a'"))),
    "shared rows": Union((SHARED, SHARED.group(["x"], [("g", "max(g)")]))),
}
NOT_HERE: dict[str, Query] = {
    r"SUM\(k\) over such a window": RAW.over(["k"], total="sum(k)"),
    r"AVG\(k\) over such a window": RAW.over(["k"], ORDERED, mean="avg(k)", frame=("rows", None, 0)),
    r"avg of decimal\(10,2\) over a window": RAW.over(["k"], ORDERED, mean="avg(d)", frame=("rows", -1, 0)),
    r"sum of decimal\(30,2\) over a window": RAW.add(d="CAST(d AS DECIMAL(30,2))").over(["k"], ORDERED, n="sum(d)"),
    r"VARIANCE.* over a window|VAR.* over a window": RAW.over(["k"], ORDERED, n="var_samp(k)", frame=("rows", -1, 0)),
    "a join of .*int and bigint": RAW.join(RAW.select(m="l"), [("g", "=", "m")]),
    "a column g of int and of bigint": Union((RAW.only("g"), RAW.select(g="l"))),
    "explode of bigint": RAW.explode("at", "l"),
    "which only a session of Spark knows": RAW.group(["g"], [("v", "sum(l)")], frozenset({"sum(l)"})),
    "a condition of type bigint": RAW.where("l"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_both_executors_give_the_same_rows(spark: SparkSession, name: str) -> None:
    """
    The same columns of the same types, and the same rows as often.
    """
    rows = rows_of(COLUMNS, 60, seed=3)
    statement = here(QUERIES[name])
    with opened() as connection:
        connection.register("raw", rows)
        local = connection.query(connection.prepared(statement))

    theirs = by_spark(QUERIES[name], {"raw": frame_of(spark, rows, COLUMNS)})

    assert local.column_names == theirs.columns == list(QUERIES[name].names)
    assert [kind_of(field.dataType.simpleString()) for field in theirs.schema] == list(statement.kinds.values())
    assert _rows(local) == _rows(to_arrow(theirs))


@pytest.mark.parametrize("why", NOT_HERE)
def test_what_has_no_local_form_is_refused(why: str) -> None:
    """
    With the part that has none.
    """
    with pytest.raises(NotLocal, match=why):
        here(NOT_HERE[why])


def _rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Return rows that can be counted: instants as numbers, NaN as a text, and one zero."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())  # noqa: PLW2901 - Python's instants begin with year 1
        values = column.to_pylist()
        columns.append(["nan" if v != v else v + 0.0 if isinstance(v, float) else v for v in values])  # noqa: PLR0124
    return Counter(zip(*columns, strict=True))
