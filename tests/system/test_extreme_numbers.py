"""Numbers at the ends of their types: both executors publish the same, and `verify` agrees with it."""

from __future__ import annotations

from datetime import timedelta

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
