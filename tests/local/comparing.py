"""Compare the local form of an expression with Spark, value by value, over values that are hard for both."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from materializer.local.connection import Connection, connected
from materializer.local.expressions import compiled
from materializer.local.kinds import kind_of
from materializer.local.scope import Scope
from materializer.spark.query.compute import to_arrow
from materializer.spark.runtime.session import work_session
from tests.local.saying import same_sketch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAN, INF = float("nan"), float("inf")
AT = "row_at"
DOUBLES = [
    None,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    2.5,
    -2.5,
    1e15 + 0.5,
    1e300,
    -1e300,
    5e-324,
    INF,
    -INF,
    NAN,
    9.3e18,
    0.49999999999999994,
]
TEXTS = [None, "", "a", "A", "ab", "abc", "aé", "ß", "İ", "日本", "𝄞x", "a%b", "x_y", " a ", "Z", "é"]
INSTANTS = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1582, 10, 4, 12, tzinfo=UTC),
    datetime(2024, 2, 29, 1, 30, tzinfo=UTC),
    datetime(2025, 3, 30, 0, 59, 59, tzinfo=UTC),
    datetime(2025, 3, 30, 1, tzinfo=UTC),
    datetime(2025, 10, 26, 0, 30, tzinfo=UTC),
    datetime(2025, 10, 26, 1, 30, tzinfo=UTC),
]
ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def values_of(kind: str, choose: random.Random) -> list[Any]:
    """Return values of a type: null, both ends, zero, and some at random."""
    if kind in ("tinyint", "smallint", "int", "bigint"):
        end = 2 ** ({"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[kind] - 1)
        return [None, 0, 1, -1, 2, 7, end - 1, -end, *(choose.randrange(-end, end) for _ in range(6))]
    if kind.startswith("decimal"):
        precision, scale = map(int, kind[8:-1].split(","))
        end = 10**precision - 1
        whole = [0, 1, -1, 5, -5, 10**scale, end, -end, *(choose.randrange(-end, end + 1) for _ in range(6))]
        return [None, *(Decimal(f"{w}E-{scale}") for w in whole if abs(w) <= end)]
    match kind:
        case "double":
            return [*DOUBLES, *(choose.uniform(-1e6, 1e6) for _ in range(4))]
        case "float":
            return [None, 0.0, -0.0, 1.5, -2.25, 3.0e38, INF, -INF, NAN, 16777217.0]
        case "boolean":
            return [None, True, False]
        case "string":
            return TEXTS
        case "binary":
            return [None, b"", b"\x00", b"\xff\x00", b"abc"]
        case "date":
            return [None, *(t.date() for t in INSTANTS)]
        case "timestamp":
            return [
                None,
                *INSTANTS,
                *(EPOCH + timedelta(microseconds=choose.randrange(-(10**16), 10**16)) for _ in range(6)),
            ]
        case "timestamp_ntz":
            return [None, *(t.replace(tzinfo=None) for t in INSTANTS)]
    raise ValueError(kind)


def arrow_of(kind: str) -> pa.DataType:
    """Return the Arrow type of a plain Spark type."""
    if kind.startswith("decimal"):
        return pa.decimal128(*map(int, kind[8:-1].split(",")))
    return ARROW[kind]


def rows_of(columns: Mapping[str, str], count: int, seed: int) -> pa.Table:
    """Return rows of hard values in columns of some types; each value of a column stands in at least one row."""
    choose = random.Random(seed)
    found = {}
    for name, kind in columns.items():
        pool = (
            [0.5, -0.0, NAN, None, 3.0, 1e6, -7.25] if name == "h" else values_of(kind, choose)
        )  # of sizes that add up
        values = [*pool, *(choose.choice(pool) for _ in range(max(0, count - len(pool))))][:count]
        choose.shuffle(values)
        found[name] = pa.array(values, arrow_of(kind))
    return pa.table(found)


def same(a: Any, b: Any) -> bool:
    """Return whether two values are equal; doubles within the law, NaN with NaN, of lists and structs each part, of sketches what they say."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-300)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bytes) and isinstance(b, bytes) and a != b:
        return same_sketch(a, b)
    return type(a) is type(b) and a == b


def _plainly(column: pa.ChunkedArray) -> list[Any]:
    """Return values for Python; days and instants as numbers, because Python's begin with year 1."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found: list[Any] = column.to_pylist()
    return found


class Compared:
    """What a comparison found.

    Args:
        answered: How many values the local form gave, by expression.
        wrong: What is not equal, in words.
    """

    def __init__(self) -> None:
        self.answered: dict[str, int] = {}
        self.wrong: list[str] = []


def compare_scalars(
    spark: SparkSession, columns: Mapping[str, str], rows: pa.Table, expressions: Sequence[str]
) -> Compared:
    """Compare expressions over each row."""
    scope = Scope({n: kind_of(k) for n, k in columns.items()})
    forms = [compiled(e, scope) for e in expressions]
    con = Connection(connected(":memory:"))
    answers: list[dict[int, Any]] = [{} for _ in forms]
    for i in range(rows.num_rows):
        con.register("row", rows.slice(i, 1))
        for form, answer in zip(forms, answers, strict=True):
            try:
                found = con.query(f"SELECT CAST({form.sql} AS {form.kind.duck}) AS v FROM row")
            except duckdb.Error:
                continue  # Spark would be asked
            answer[i] = _plainly(found["v"])[0]
    return _against(spark, columns, rows, expressions, [f.kind.text for f in forms], answers, AT)


def compare_aggregates(
    spark: SparkSession, columns: Mapping[str, str], rows: pa.Table, expressions: Sequence[str]
) -> Compared:
    """Compare aggregates over groups of rows; column ``g`` says the group."""
    scope = Scope({n: kind_of(k) for n, k in columns.items()}, are_rows=True)
    forms = [compiled(e, scope) for e in expressions]
    con = Connection(connected(":memory:"))
    answers: list[dict[int, Any]] = [{} for _ in forms]
    for g in sorted(set(rows["g"].to_pylist())):
        con.register("part", rows.filter(pc.equal(rows["g"], g)))
        for form, answer in zip(forms, answers, strict=True):
            try:
                found = con.query(f"SELECT CAST({form.sql} AS {form.kind.duck}) AS v FROM part")
            except duckdb.Error:
                continue
            answer[g] = _plainly(found["v"])[0]
    return _against(spark, columns, rows, expressions, [f.kind.text for f in forms], answers, "g")


def _against(
    spark: SparkSession,
    columns: Mapping[str, str],
    rows: pa.Table,
    expressions: Sequence[str],
    kinds: Sequence[str],
    answers: Sequence[Mapping[int, Any]],
    by: str,
) -> Compared:
    found = Compared()
    if by == AT:
        rows = rows.append_column(AT, pa.array(range(rows.num_rows), pa.int64()))
    with tempfile.TemporaryDirectory() as folder:  # as files, because Spark rounds what it is handed over by Python
        pq.write_table(rows, f"{folder}/rows.parquet")
        frame = work_session(spark).read.parquet(folder).cache()
        frame.count()
    for sql, kind, answer in zip(expressions, kinds, answers, strict=True):
        found.answered[sql] = len(answer)
        if not answer:
            continue
        inside = frame.where(sf.col(by).isin(list(answer)))
        asked = (
            inside.select(by, sf.expr(sql).alias("v")) if by == AT else inside.groupBy(by).agg(sf.expr(sql).alias("v"))
        )
        try:
            theirs = asked.schema["v"].dataType.simpleString()
            if theirs != kind:
                found.wrong.append(f"{sql}: {kind}, in Spark {theirs}")
                continue
            table = to_arrow(asked)
        except Exception as exc:  # noqa: BLE001 - where Spark raises, the local form has to raise
            found.wrong.append(f"{sql}: Spark raises {str(exc).splitlines()[0][:150]}")
            continue
        values = dict(zip(table[by].to_pylist(), _plainly(table["v"]), strict=True))
        for at, value in answer.items():
            if not same(value, values[at]):
                of = rows.filter(pc.equal(rows[by], at)).to_pylist()
                found.wrong.append(f"{sql}: {value!r}, in Spark {values[at]!r}, of {of[:3]}")
                break
    return found
