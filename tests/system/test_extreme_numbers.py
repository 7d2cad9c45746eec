"""Numbers at the ends of their types: both executors publish the same, and `verify` agrees with it."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from tests.local.comparing import same
from tests.system.builders import DAY, Site

DOUBLES = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
GROUPS = {
    "one": [1e200],
    "two": [1e200, 2e200],
    "equal": [1e200] * 3,
    "opposite": [-1e200, 1e200],
    "mixed": [1.0, 1e200, -1e200, 3.0],
    "squares that fit": [0.0, 1e100, 3e100],
    "a square that nearly fits": [0.0, 1.5e154],
    "squares of which the sum does not fit": [1e154, -1e154],
    "a sum that does not fit": [1e308, 1e308, 1e308],
    "a sum that leaves the range on its way": [1e308, 1e308, -1e308, -1e308],
    "tiny": [1e-200, 3e-200, 4e-200],
    "squares with few digits": [1e-160, 3e-160, 4e-160],
    "tiny and huge": [1e-200, 1e200],
    "far from zero": [1e15 + 1, 1e15 + 2, 1e15 + 3],
    "zero": [0.0, -0.0],
}
SINGLE = "var_pop var_samp stddev_pop stddev_samp sem avg sum2"
PAIRS = "covar_pop covar_samp corr regr_slope regr_intercept wavg"
DEFINED = {"squares that fit", "far from zero", "zero"}
"""Groups of which each executor computes what the other does, whatever the order of the rows."""
LOST = {"one", "two", "equal"}
"""Groups of which Spark says NaN, also of equal values, however the rows lie in partitions."""


@pytest.fixture(params=["spark", "auto"])
def site(request, tmp_path, spark) -> Site:
    """An empty lake for which Spark or the process computes."""
    return Site(tmp_path, spark, executor=request.param)


def test_squares_that_are_no_doubles(site: Site) -> None:
    """
    Centred sums of huge, tiny and mixed values are what plain Spark says, rows that come later included, and `verify` agrees.
    """
    rows = [
        {"ts": DAY + timedelta(minutes=i), "k": k, "x": x, "y": x * (0.5 if i % 2 else 1.0)}
        for k, xs in GROUPS.items()
        for i, x in enumerate(xs)
    ]
    calls = [*(f"{name}(x)" for name in SINGLE.split()), *(f"{name}(x, y)" for name in PAIRS.split())]
    measures = ", ".join(f"{call} AS m{at}" for at, call in enumerate(calls))
    table = site.table(schema=DOUBLES)
    table.write(rows[::2])
    site.lake.apply(
        f"CREATE MATERIALIZED VIEW v AS SELECT date_trunc('day', ts) AS at, k, {measures} FROM trades GROUP BY 1, 2"
    )
    for more in (rows[1::2], [row | {"ts": row["ts"] + timedelta(seconds=9)} for row in rows if row["k"] in DEFINED]):
        site.lake.refresh("v")
        report = site.lake.verify("v")
        assert report.is_equal, report.examples
        table.write(more)
    site.lake.refresh("v")
    report = site.lake.verify("v")
    assert report.is_equal, report.examples

    shown = ["var_pop(x)", "var_samp(x)", "stddev_pop(x)", "covar_pop(x, y)"]
    places = [calls.index(call) for call in shown]
    plain = {k: values for k, *values in site.rows(f"SELECT k, {', '.join(shown)} FROM {table.sql} GROUP BY k")}
    found = {k: [values[at] for at in places] for _, k, *values in site.published("v")}
    assert [] == [(k, found[k], plain[k]) for k in LOST | DEFINED if not same(found[k], plain[k])]


DECIMALS = {"a": (38, 18), "b": (38, 0), "c": (38, 1), "d": (38, 25), "e": (37, 37), "f": (30, 2), "g": (16, 0)}


def _decimals(precision: int, scale: int, choose: random.Random) -> dict[str, list[int]]:
    """Return groups of unscaled numbers of a type, of which the sum and the mean have a place in Spark's types for them."""
    most = 10 ** min(precision, 38 - min(38, scale + 4) + scale)
    found = {"largest": [most - 1], "largest two": [most - 1, most - 2], "thirds": [-(most // 3), 1 - most // 3, 7]}
    found["one of many"] = [most // 10 + 4, -(most // 10), *[0] * 19]
    for at in range(30):
        count = choose.randrange(2, 36)  # of a quotient whose 38 digits are followed by 4…9, Spark rounds twice
        found[f"many {at}"] = [
            choose.choice([1, -1]) * min(choose.randrange(most // 10, most) * count, 10**precision - 1)
        ]
        found[f"many {at}"] += [0] * (count - 1)
        found[f"small {at}"] = [choose.randrange(-50, 50) for _ in range(count)]
    return found


def test_averages_of_wide_decimals(site: Site) -> None:
    """
    The average of decimals of up to 38 digits is plain Spark's in each digit, wherever the mean has a place in its type.
    """
    choose = random.Random(7)
    rows = [
        {"ts": DAY + timedelta(minutes=i), "k": f"{name} {k}", name: Decimal(value).scaleb(-scale, Context(prec=60))}
        for name, (precision, scale) in DECIMALS.items()
        for k, values in _decimals(precision, scale, choose).items()
        for i, value in enumerate(values)
    ]
    columns = [(name, pa.decimal128(*kind)) for name, kind in DECIMALS.items()]
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), *columns])
    table = site.table(schema=schema)
    measures = ", ".join(f"avg({name}) AS {name}" for name in DECIMALS)
    site.lake.apply(
        f"CREATE MATERIALIZED VIEW v AS SELECT date_trunc('day', ts) AS at, k, {measures} FROM trades GROUP BY 1, 2"
    )
    for at in range(2):
        table.write(
            pa.Table.from_pylist([row for row in rows if row["k"].endswith(str(at)) == bool(at)], schema=schema)
        )
        site.lake.refresh("v")

    assert site.rows(f"SELECT date_trunc('day', ts), k, {measures} FROM {table.sql} GROUP BY 1, 2") == site.published(
        "v"
    )
    report = site.lake.verify("v")
    assert report.is_equal, report.examples
