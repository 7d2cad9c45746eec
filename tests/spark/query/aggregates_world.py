"""A definition that uses every aggregate, and random rows that are unkind to all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import col, expr

from materializer.core.spec.spec import AggregateSpec, Call, Formula, GridSpec, Key, Measure, TimeType, Width

COLUMNS = {
    "ts": "timestamp",
    "sym": "string",
    "x": "double",
    "y": "double",
    "f": "float",
    "i": "int",
    "b": "bigint",
    "d": "decimal(10,2)",
    "w": "decimal(38,10)",
    "v": "decimal(38,18)",
    "s": "string",
    "dt": "date",
    "ok": "boolean",
    "bin": "binary",
    "arr": "array<int>",
}
DDL = ", ".join(f"{name} {of}" for name, of in COLUMNS.items())

T0 = datetime(2024, 3, 1, tzinfo=UTC)
_INF = float("inf")
_ODD = (float("nan"), _INF, -_INF, 0.0, -0.0)

_NUMERIC = ("x", "f", "i", "b", "d", "w", "v")
_ANY = ("x", "f", "i", "b", "d", "s", "dt", "ts", "ok", "bin", "arr")
_VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_COMOMENTS = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_count")
_COMOMENTS += ("regr_sxx", "regr_sxy", "regr_syy", "regr_avgx", "regr_avgy")


def call(
    function: str, *args: str, where: str | None = None, distinct: bool = False, order_by: str | None = None
) -> Call:
    """Return an aggregate call; argument types are left to the analysis."""
    return Call(function, args, where=where, distinct=distinct, order_by=order_by)


def spec_of(*calls: Call, keys: tuple[Key, ...] = (Key("sym", "sym"),), **changes: object) -> AggregateSpec:
    """Return a definition with one measure, ``m0``, ``m1`` …, for each call."""
    measures = tuple(Measure(f"m{i}", Formula((0,), (c,))) for i, c in enumerate(calls))
    fields: dict[str, object] = {
        "name": "every",
        "source": "rows",
        "time_column": "ts",
        "grid": GridSpec(Width(micros=3_600_000_000)),
        "bucket_start": "bucket",
        "bucket_end": None,
        "keys": keys,
        "measures": measures,
        "columns": ("bucket", *(k.name for k in keys), *(m.name for m in measures)),
        "time_type": TimeType.TIMESTAMP,
        "reads": tuple(sorted(COLUMNS)),
        "read_types": tuple(sorted(COLUMNS.items())),
    }
    return AggregateSpec(**(fields | changes))  # type: ignore[arg-type]


def mergeable_calls() -> list[Call]:
    """Return every mergeable aggregate over every kind of argument it takes."""
    found = [call("count", "*"), call("count", "x"), call("count", "x", "s"), call("count_if", "ok")]
    found += [call(f, c) for f in ("sum", "avg") for c in _NUMERIC if c != "b"]
    small = "b between -1000 and 1000"  # plain sums of the others overflow, plain averages and quantiles lose digits
    found += [call("sum", "b", where=small), call("avg", "b", where=small), call("avg", "b", where=f"{small} and ok")]
    found += [call("approx_percentile", "b", "0.5", where=small)]
    found += [call(f, c) for f in ("min", "max") for c in _ANY]
    found += [call(f, "x") for f in _VARIANCES] + [call("var_pop", "i"), call("stddev_samp", "d")]
    found += [call(f, "x", "y") for f in _COMOMENTS] + [call("regr_slope", "y", "x"), call("corr", "i", "d")]
    found += [call(f, c) for f in ("first", "last") for c in _ANY]
    found += [call("first", "x", "true"), call("last", "s", "true"), call("any_value", "d"), call("last", "x * 2")]
    found += [call("first", "sym"), call("last", "s", "false", where="ok")]
    found += [
        call("min_by", "x", "i"),
        call("max_by", "s", "x"),
        call("max_by", "ts", "i * 2"),
        call("min_by", "i", "i"),
    ]
    found += [call(f, "ok") for f in ("bool_and", "bool_or")]
    found += [call(f, c) for f in ("bit_and", "bit_or", "bit_xor") for c in ("i", "b")]
    found += [call("approx_count_distinct", c) for c in _ANY] + [call("approx_count_distinct", "i", "0.2")]
    found += [call("approx_percentile", c, "0.5") for c in ("x", "f", "i", "d", "w", "dt", "ts")]
    found += [
        call("approx_percentile", "x", "array(0.0, 0.25, 0.99)", "200"),
        call("approx_percentile", "d", "array(0.5)"),
    ]
    found += [call("max", "i", distinct=True)]
    filtered = ("count", "sum", "avg", "min", "first", "var_samp", "approx_count_distinct", "bool_or")
    found += [call(f, "ok" if f == "bool_or" else "i", where="x > 0 or s is null -- mind") for f in filtered]
    found += [call("corr", "x", "y", where="i > 0"), call("approx_percentile", "x", "0.9", where="i > 10")]
    return found


def recompute_calls() -> list[Call]:
    """Return every aggregate whose value is stored as it is."""
    found = [call("count", "x", distinct=True), call("count", "i", "s", distinct=True)]
    found += [
        call("sum", "i", distinct=True, where="ok"),
        call("avg", "d", distinct=True),
        call("bit_xor", "i", distinct=True),
    ]
    found += [call("stddev_pop", "i", distinct=True), call("median", "x"), call("percentile", "i", "0.3")]
    found += [call("percentile", "x", "array(0.1, 0.9)"), call("percentile_cont", "0.5", order_by="x desc")]
    found += [
        call("percentile_disc", "0.5", order_by="i", where="ok"),
        call("mode", "s"),
        call("mode", order_by="i desc"),
    ]
    found += [call("collect_set", "s"), call("collect_list", "x"), call("collect_list", "s", distinct=True)]
    found += [
        call("collect_list", "i", where="ok"),
        call("listagg", "s", "','"),
    ]
    found += [call("listagg", "s")]
    found += [call("listagg", "s", "'|'", distinct=True), call("listagg", "s", "'|'", where="ok")]
    return found


def rows(rng: random.Random, count: int) -> list[tuple[object, ...]]:
    """Return *count* rows with nulls, NaN, infinities, ties in time, and groups of one kind each.

    Symbols: ``odd`` has NaN and infinities, ``same`` holds constants, ``none`` only nulls, ``one`` a single row.
    """
    found = [_row(rng, rng.choice(("a", "a", "b", "odd", "same", "none", None))) for _ in range(count)]
    return [*found, _row(rng, "one")]


def _row(rng: random.Random, sym: str | None) -> tuple[object, ...]:
    ts = T0 + timedelta(minutes=20 * rng.randrange(18))
    if sym == "none":
        return (ts, sym, *[None] * (len(COLUMNS) - 2))
    odd = sym == "odd" and rng.random() < 0.1
    x = 0.1 if sym == "same" else rng.choice(_ODD) if odd else rng.uniform(-100, 100)
    cents = rng.randrange(-(10**6), 10**6)
    found = (
        x,
        0.3 if sym == "same" else rng.gauss(0, 50) + (x if abs(x) <= 100 else 0),
        rng.choice(_ODD) if odd else rng.randrange(1000) / 8,
        rng.randrange(-50, 50),
        rng.choice((rng.randrange(-1000, 1000), 2**63 - 1 - rng.randrange(9), -(2**63) + rng.randrange(9))),
        Decimal(cents).scaleb(-2),
        Decimal(cents * 10**12 + rng.randrange(10**12)).scaleb(-10),
        Decimal(cents * 10**12 + rng.randrange(10**12)).scaleb(-18),
        rng.choice(("", "a", "b", "it's", "Ünï")),
        date(2024, 1, 1) + timedelta(days=rng.randrange(60)),
        rng.random() < 0.5,
        rng.randbytes(rng.randrange(3)),
        [rng.randrange(3) for _ in range(rng.randrange(3))],
    )
    return (ts, sym, *(None if rng.random() < 0.1 and sym != "same" else value for value in found))


def aggregated(frame: DataFrame, keys: Sequence[str], texts: Iterable[tuple[str, str]]) -> DataFrame:
    return frame.groupBy(*[col(k) for k in keys]).agg(*[expr(text).alias(name) for name, text in texts])


def is_equal(left: Any, right: Any, tolerance: str) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(is_equal(a, b, tolerance) for a, b in zip(left, right, strict=True))
    if isinstance(left, Row) and isinstance(right, Row):
        return is_equal(list(left), list(right), tolerance)
    if not isinstance(left, float) or not isinstance(right, float):
        return bool(left == right)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or (tolerance == "float" and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9))
