"""What results above a frozen boundary go on from, by both executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from materializer.core.engines.closing import Closing
from materializer.core.engines.engine_query import EngineQuery
from materializer.core.engines.queries import frozen
from materializer.core.engines.reactive_state import ReactiveState
from materializer.core.engines.session_window import SessionWindow
from materializer.core.query.nodes import Named, Query
from materializer.local import render as local
from materializer.local.connection import opened
from materializer.spark.query.render import rendered
from tests.spark.engines.frames import EXECUTORS, KINDS, query_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SINCE = 100
Rows = Sequence[tuple[Any, ...]]
RAW = Named("raw", (("k_sym", "string"), ("_t", "bigint"), ("_part", "int")))
PARTS = Named("parts", (("_part", "int"), ("_mz_0", "string"), ("_carry_x_s0", "double")))
STATE = ReactiveState((("cumsum", "v", 0), ("prev", "v", 1)), ())
STATES = Named(
    "stored",
    (("k_sym", "string"), ("w_start", "bigint"), ("x_ordinal", "bigint"), ("x_arg1", "double"), ("x_s0", "double")),
)
OF_STATE: Rows = [
    ("a", 10, 1, 0.1, 1.0),
    ("a", 20, 1, 0.2, 2.0),
    ("a", 20, 2, 0.3, 3.0),
    (None, 30, 1, 0.4, 4.0),
]


def found(executor: str, spark: SparkSession, query: Query, rows: Mapping[Named, Rows]) -> list[tuple[Any, ...]]:
    """Return the rows of a query over given ones, in some order."""
    if executor == "spark":
        frames = {
            of.name: spark.createDataFrame(list(mine), ", ".join(map(" ".join, of.columns)))
            for of, mine in rows.items()
        }
        made = [tuple(row) for row in rendered(query, frames).collect()]
    else:
        with opened() as connection:
            for of, mine in rows.items():
                schema = pa.schema([(name, KINDS[kind]) for name, kind in of.columns])
                table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in mine], schema=schema)
                connection.register(of.name, table)
            table = connection.query(connection.prepared(local.rendered(query)))
            made = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(made, key=repr)


def of(params: Any, keys: Sequence[str] = ("k_sym",)) -> EngineQuery:
    """A definition of one measure."""
    return query_of(params, {"m": "sum(v)"}, keys)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_state_goes_on_from_the_last_row_of_its_key(spark: SparkSession, executor: str) -> None:
    """
    Of rows with equal times from the last one; null is a key like others, and one without stored rows begins anew.
    """
    raw: Rows = [("a", 110, 0), (None, 120, 0), ("b", 130, 0)]
    query = frozen.going_on(RAW, STATES, of(STATE), SINCE, ["x_ordinal", "x_s0"])

    assert found(executor, spark, query, {RAW: raw, STATES: OF_STATE}) == [
        ("a", 110, 0, 2, 3.0),
        ("b", 130, 0, None, None),
        (None, 120, 0, 1, 4.0),
    ]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_session_below_the_boundary_owns_the_rows_within_its_gap(spark: SparkSession, executor: str) -> None:
    """
    They are left out; a row at its end is not in it, and a key without a session below has all its rows.
    """
    stored = Named("stored", (("k_sym", "string"), ("w_start", "bigint"), ("w_end", "bigint")))
    sessions: Rows = [("a", 10, 20), ("a", 95, 115)]
    raw: Rows = [("a", 110, 0), ("a", 115, 0), ("b", 100, 0)]
    query = frozen.going_on(RAW, stored, of(SessionWindow(10)), SINCE, [])

    assert found(executor, spark, query, {RAW: raw, stored: sessions}) == [("a", 115, 0), ("b", 100, 0)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_functions_look_back_on_the_last_stored_rows(spark: SparkSession, executor: str) -> None:
    """
    They are beside the raw rows, with the state of their key's last row; of each part with the state that it carries.
    """
    types = {"x_ordinal": "bigint", "x_arg1": "double", "k_sym": "string", "x_s0": "double"}
    carrying = Named("raw", (*RAW.columns, ("_carry_x_s0", "double")))
    raw: Rows = [("a", 110, 0, 3.0)]

    before = frozen.rows_before(STATES, of(STATE), ["x_s0"], None)
    whole = frozen.looking_back(carrying, before, of(STATE), types)
    assert found(executor, spark, whole, {carrying: raw, STATES: OF_STATE}) == [
        ("a", 110, 0, 3.0, None, None),
        ("a", 20, 0, 3.0, 2, 0.3),
        (None, 30, 0, 4.0, 1, 0.4),
    ]

    of_parts = frozen.rows_before(STATES, of(STATE), ["x_s0"], PARTS)
    rows = found(executor, spark, of_parts, {STATES: OF_STATE, PARTS: [(7, "a", 5.0), (8, "b", 6.0)]})
    assert rows == [("a", 7, 20, 2, 0.3, 5.0)]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("has_parts", [False, True])
def test_windows_are_filled_from_the_last_stored_one(spark: SparkSession, executor: str, has_parts: bool) -> None:
    """
    It has the newest time of its key, which a later window without rows does not know; also where nothing is a key.
    """
    columns = (("w_start", "bigint"), ("v_m", "double"), ("n", "bigint"), ("first_t", "bigint"), ("last_t", "bigint"))
    stored = Named("stored", columns)
    windows: Rows = [(10, 1.0, 1, 11, 12), (20, 2.0, 0, None, None)]
    parts = Named("parts", (("_part", "int"),))
    given: Mapping[Named, Rows] = {stored: windows} | ({parts: [(3,), (4,)]} if has_parts else {})
    query = frozen.windows_before(stored, of(Closing(step=10), ()), parts if has_parts else None)

    numbers = (3, 4) if has_parts else (0,)
    assert found(executor, spark, query, given) == [(number, 20, 2.0, 0, None, 12) for number in numbers]
