"""The metrics that Spark does not have: built in pieces, merged and finalised, they are what plain Python says."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from materializer.core.compiled.resolve import resolve
from materializer.core.language.define import define
from materializer.spark.describe.analyse import Analysed, analyse
from tests.oracle.engines.metrics import evaluate
from tests.spark.query.aggregates_world import aggregated, is_equal

MERGED = {
    "prod(x)": "prod(x)",
    "prod(i)": "prod(i)",
    "sem(x)": "sem(x)",
    "wsum(i, x)": "wsum(i, x)",
    "wavg(x, w)": "wavg(x, w)",
    "beta(y, x)": "beta(y, x)",
    "skew(x)": "skew(x)",
    "skew(x, false)": "skew(x, false)",
    "kurtosis(x)": "kurtosis(x)",
    "kurtosis(i, false)": "Kurtosis(i, FALSE)",
    "sum2(x)": "sum2(x)",
    "sum3(x)": "sum3(x)",
    "sum4(i)": "sum4(i)",
    "firstNot(x)": "firstNot(x)",
    "firstNot(i, 1)": "firstNot(i, 1)",
    "lastNot(x)": "LASTNOT(x)",
    "lastNot(i, 2)": "lastNot(i, 2)",
    "atImax(x, y)": "atImax(x, y)",
    "atImin(x, y)": "atImin(x, y)",
    "atImax(i, x)": "atImax(i, x)",
    "atImax(d, x)": "atImax(CAST(d AS decimal(9,2)), x)",
    "atImax(n, x)": "atImax(timestamp_micros(n), x)",
    "atImax(0 - n, x)": "atImax(timestamp_micros(- n), x)",
    "atImax(w, x)": "atImax(date_from_unix_date(w), x)",
    "var(x)": "var(x)",
    "varp(x)": "varp(x)",
    "std(x)": "std(x)",
    "stdp(x)": "stdp(x)",
    "covar(x, y)": "covar(x, y)",
    "covarp(x, y)": "covarp(x, y)",
}
"""Metric of the oracle: text in a definition."""

RECOMPUTED = {
    "ifirstNot(x)": "ifirstNot(x)",
    "ilastNot(x)": "ilastNot(x)",
    "imax(x)": "imax(x)",
    "imin(i)": "iMin(i)",
    "med(x)": "med(x)",
    "quantile(x, 0.3)": "quantile(x, 0.3)",
    "quantile(i, 0.3, 'linear')": "quantile(i, 0.3, 'linear')",
    "quantile(x, 0.07, 'lower')": "quantile(x, 0.07, 'lower')",
    "quantile(i, 0.07, 'higher')": "quantile(i, 7e-2, 'Higher')",
    "quantile(i, 0.5, 'nearest')": "quantile(i, 0.5, 'nearest')",
    "quantile(i, 0.9, 'nearest')": 'quantile(i, 0.9, "nearest")',
    "quantile(i, 0.5, 'midpoint')": "quantile(i, 0.5BD, 'midpoint')",
    "quantile(x, 1, 'higher')": "quantile(x, 1, 'higher')",
    "quantile(x, 0, 'nearest')": "quantile(x, 0.0, 'nearest')",
    "searchK(x, 1)": "searchK(x, 1)",
    "searchK(i, 3)": "searchK(i, 3)",
    "searchK(i, 0)": "searchK(i, 0)",
    "nunique(i)": "nunique(i)",
    "nunique(i, true)": "nunique(i, true)",
    "atImax(s, x)": "atImax(s, x)",
    "mode(i)": "mode(i)",
}

COLUMNS = "sym string, part int, n bigint, x double, y double, i int, w int, d double, s string, ts timestamp"
T0 = datetime(2024, 3, 1, tzinfo=UTC)
Rows = list[tuple[Any, ...]]


def rows_of(rng: random.Random) -> Rows:
    """Return rows of groups with ties, nulls, constants, one row, and nothing but nulls, each row in one of four parts.

    Numbers are multiples of 1/8, so that sums that are zero are exactly zero on both sides.
    """
    sizes = {"many": 60, "few": 5, "three": 3, "two": 2, "one": 1, "same": 7, "nulls": 4, "balanced": 6}
    return [_row(rng, sym, n) for sym, size in sizes.items() for n in range(size)]


def _row(rng: random.Random, sym: str, n: int) -> tuple[Any, ...]:
    def some(value: object) -> object:
        return None if sym == "nulls" or (sym in ("many", "few") and rng.random() < 0.2) else value

    x = 0.1 if sym == "same" else rng.randrange(-20, 20) / 8
    w = 1 - 2 * (n % 2) if sym == "balanced" else rng.randrange(1, 5)
    y = rng.randrange(-9, 9) + x * 2
    at = T0 + timedelta(seconds=n // 3)  # ties, which n decides
    return (
        sym,
        rng.randrange(4),
        n,
        some(x),
        some(y),
        some(rng.randrange(4)),
        some(w),
        some(x),
        some(rng.choice("abc")),
        at,
    )


@pytest.fixture(scope="module")
def rows() -> Rows:
    return rows_of(random.Random(20130310))


@pytest.fixture(scope="module")
def frame(spark: SparkSession, rows: Rows) -> Iterator[DataFrame]:
    found = spark.createDataFrame(rows, COLUMNS).repartition(3).cache()
    yield found
    found.unpersist()


def analysed_of(spark: SparkSession, frame: DataFrame, texts: Mapping[str, str]) -> Analysed:
    """Return a definition with one measure for each text, the rows ordered by time and *n*."""
    measures = {f"m{i}": text for i, text in enumerate(texts.values())}
    spec = define("all", "rows", time="ts", width="1 day", keys=["sym"], measures=measures, sequence="n")
    columns = [(f.name, f.dataType.simpleString()) for f in frame.schema]
    return analyse(spark, resolve(spec, columns), frame.schema)


def merged(frame: DataFrame, analysed: Analysed) -> DataFrame:
    """Return partials built for each part alone and then merged."""
    partials = analysed.layout.partials
    pieces = aggregated(frame, ("sym", "part"), [(p.name, p.build) for p in partials])
    return aggregated(pieces, ("sym",), [(p.name, p.merge or "") for p in partials])


def values(frame: DataFrame) -> dict[str, dict[str, Any]]:
    return {row["sym"]: row.asDict() for row in frame.collect()}


def differences(rows: Rows, texts: Mapping[str, str], found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one line for each value that is not the oracle's."""
    names = [field.split()[0] for field in COLUMNS.split(", ")]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda r: (r[-1], r[2])):
        groups.setdefault(row[0], []).append(dict(zip(names, row, strict=True)))
    assert groups.keys() == found.keys()
    lines = []
    for sym, members in groups.items():
        for i, metric in enumerate(texts):
            expected, got = evaluate(metric, members), found[sym][f"m{i}"]
            same = (
                expected is None
                if got is None
                else expected is not None and math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9)
            )
            if not same:
                lines.append(f"{sym} {metric}: {got!r}, oracle {expected!r}")
    return lines


def test_merged_pieces_are_what_plain_python_says(spark: SparkSession, frame: DataFrame, rows: Rows) -> None:
    """
    Every mergeable metric, built over four parts apart and merged, agrees with the oracle over all rows; so does its
    plain form, and so do partials that were never merged.
    """
    analysed = analysed_of(spark, frame, MERGED)
    layout = analysed.layout
    finals = [f"{text} AS {name}" for name, text in layout.finals]
    pieces = merged(frame, analysed).selectExpr("sym", *finals)
    whole = aggregated(frame, ("sym",), [(p.name, p.build) for p in layout.partials]).selectExpr("sym", *finals)

    assert layout.is_mergeable
    assert "" == "\n".join(differences(rows, MERGED, values(pieces)))
    assert "" == "\n".join(differences(rows, MERGED, values(whole)))
    assert "" == "\n".join(differences(rows, MERGED, values(aggregated(frame, ("sym",), layout.reference))))


def test_recomputed_metrics_are_what_plain_python_says(spark: SparkSession, frame: DataFrame, rows: Rows) -> None:
    """
    Positions, ranks and counts of distinct values agree with the oracle, and none of them claims to merge.
    """
    analysed = analysed_of(spark, frame, RECOMPUTED)
    found = aggregated(frame, ("sym",), analysed.layout.reference)

    assert [p.name for p in analysed.layout.partials if p.merge] == [analysed.layout.row_count]
    assert "" == "\n".join(differences(rows, RECOMPUTED, values(found)))


def over(spark: SparkSession, groups: Mapping[str, Sequence[float | None]], *texts: str) -> tuple[Any, Any]:
    """Return, by group, measures over doubles built one row at a time and merged, and their plain forms."""
    rows = [(sym, i, T0, x, float(i)) for sym, numbers in groups.items() for i, x in enumerate(numbers)]
    frame = spark.createDataFrame(rows, "sym string, part int, ts timestamp, x double, y double")
    analysed = analysed_of(spark, frame.withColumn("n", frame.part), dict(zip(texts, texts, strict=True)))
    finals = [f"{text} AS {name}" for name, text in analysed.layout.finals]
    found = values(merged(frame.withColumn("n", frame.part), analysed).selectExpr("sym", *finals))
    return found, values(aggregated(frame.withColumn("n", frame.part), ("sym",), analysed.layout.reference))


PRODUCTS: dict[str, tuple[list[float | None], float]] = {
    "large before small": ([1e300, 1e300, 1e-300, -1e-300], -1.0),
    "subnormal": ([1e-320, 1e300, 1e20], 1e-320 * 1e300 * 1e20),
    "overflow": ([1e300, 1e300], math.inf),
    "underflow": ([-1e-200, 1e-200], 0.0),
    "zero": ([0.0, 1e308, 1e308], 0.0),
    "infinity among small": ([-math.inf, 1e-300, 1e-300, 1e-300, 1e-300], -math.inf),
    "infinity and zero": ([math.inf, 0.0], math.nan),
    "limits": ([1.7976931348623157e308, 2.0**-1074, 2.0**51], 2.0),
    "null": ([8.0, None, 4.0], 32.0),
}


def test_a_product_does_not_overflow_on_the_way(spark: SparkSession) -> None:
    """
    Whatever is multiplied first, only a product that no double holds is infinite or zero.
    """
    got, plain = over(spark, {name: numbers for name, (numbers, _) in PRODUCTS.items()}, "prod(x)")

    for name, (_, expected) in PRODUCTS.items():
        assert is_equal(got[name]["m0"], expected, "float"), name
        assert is_equal(plain[name]["m0"], expected, "float"), name


def test_shape_survives_a_large_mean(spark: SparkSession, seed: int) -> None:
    """
    Values near 1e6 keep their skewness and kurtosis through merges, which power sums would lose.
    """
    rng = random.Random(seed)
    numbers = [1e6 + rng.choice((0.0, 0.25, 3.0)) for _ in range(40)]
    metrics = ("skew(x)", "kurtosis(x)", "kurtosis(x, false)")
    got, _ = over(spark, {"a": numbers}, *metrics)
    centred = [{"x": x - 1e6} for x in numbers]

    for i, metric in enumerate(metrics):
        assert math.isclose(got["a"][f"m{i}"], evaluate(metric, centred), rel_tol=1e-6)


def test_nan_is_the_greatest_location(spark: SparkSession) -> None:
    """
    Extremes take NaN as Spark's ``max`` does, greater than infinity; ties go to the first row.
    """
    numbers = [-math.inf, math.nan, math.inf, -math.inf, math.nan]
    got, plain = over(spark, {"a": numbers}, "atImax(x, y)", "atImin(x, y)")

    assert {"a": {"sym": "a", "m0": 1.0, "m1": 0.0}} == got == plain
