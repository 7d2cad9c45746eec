"""Law 1 for aggregates: built in pieces, merged and finalised, every one of them equals its plain form on real Spark."""

from __future__ import annotations

import math
import random
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, expr

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import POS_INF, Span, SpanSet
from materializer.lake.local_read import read_small_rows
from materializer.lake.span_rows import rows_of_spans
from materializer.spark.describe.analyse import Analysed, analyse
from materializer.spark.query import compute as c
from tests.spark.query import aggregates_world as world
from tests.spark.query.aggregates_world import aggregated, is_equal

KEYS = ("bucket", "sym")
BUCKET = "date_trunc('HOUR', ts) AS bucket"


def source(spark: SparkSession, seed: int, count: int = 400) -> DataFrame:
    """Return rows with their bucket, cut at random into five commits (``part``)."""
    rng = random.Random(seed)
    rows = [(*row, rng.randrange(5)) for row in world.rows(rng, count)]
    return spark.createDataFrame(rows, f"{world.DDL}, part int").selectExpr("*", BUCKET).repartition(3)


def built(frame: DataFrame, analysed: Analysed, *more: str) -> DataFrame:
    return aggregated(frame, (*KEYS, *more), [(p.name, p.build) for p in analysed.layout.partials])


def merged(frame: DataFrame, analysed: Analysed) -> DataFrame:
    return aggregated(frame, KEYS, [(p.name, p.merge) for p in analysed.layout.partials if p.merge is not None])


def by_key(frame: DataFrame) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[k] for k in KEYS): row for row in frame.collect()}


def is_between(value: Any, low: Any, high: Any) -> bool:
    if isinstance(value, list):
        return all(is_between(*three) for three in zip(value, low, high, strict=True))
    if value is None or low is None or high is None:
        return value is None and low is None and high is None
    if isinstance(value, float):  # Spark's own approx_percentile never answers NaN, but the greatest number beside it
        value, low, high = (math.inf if math.isnan(v) else v for v in (value, low, high))
    return bool(low <= value <= high)


def differences(analysed: Analysed, got: DataFrame, frame: DataFrame) -> list[str]:
    """Return one line for each value that is not what its plain form gives."""
    layout = analysed.layout
    brackets = [
        (f"{n}_{end}", text) for n, *ends in layout.brackets for end, text in zip(("lo", "hi"), ends, strict=True)
    ]
    expected = by_key(aggregated(frame, KEYS, [*layout.reference, *brackets]))
    finals = by_key(got.selectExpr(*KEYS, *[f"{text} AS {name}" for name, text in layout.finals]))
    assert finals.keys() == expected.keys()
    calls = {m.name: m.formula.calls[0] for m in analysed.spec.measures}
    found = []
    for key, row in finals.items():
        for name, tolerance in layout.tolerances:
            plain = expected[key]
            if tolerance == "rank":
                right = is_between(row[name], plain[f"{name}_lo"], plain[f"{name}_hi"])
            else:
                right = is_equal(row[name], plain[name], tolerance)
            if not right:
                found.append(f"{key} {calls[name]}: {row[name]!r}, plain {plain[name]!r}")
    return found


def analysed_of(spark: SparkSession, frame: DataFrame, *calls: Any) -> Analysed:
    schema = frame.select(*world.COLUMNS).schema
    return analyse(spark, world.spec_of(*calls), schema)


def test_merging_pieces_gives_what_plain_spark_gives(spark: SparkSession, seed: int) -> None:
    """
    Every mergeable aggregate, built over five random commits apart and merged, equals its plain form over all rows:
    nulls, NaN, infinities, empty filters, ties in time, decimals and bigints near their limits included.
    """
    frame = source(spark, seed).cache()
    analysed = analysed_of(spark, frame, *world.mergeable_calls())

    assert analysed.layout.is_mergeable
    assert "" == "\n".join(differences(analysed, merged(built(frame, analysed, "part"), analysed), frame))


def test_merging_one_partial_changes_nothing(spark: SparkSession, seed: int) -> None:
    """
    The merge of a single partial row is that row, to the last bit, so a bucket nobody touched stays as it was.
    """
    frame = source(spark, seed + 1, 60).cache()
    calls = [c for c in world.mergeable_calls() if c.function not in ("approx_percentile", "approx_count_distinct")]
    analysed = analysed_of(spark, frame, *calls)
    before = built(frame, analysed).localCheckpoint()
    after = by_key(merged(before, analysed))
    names = [p.name for p in analysed.layout.partials]

    rows = by_key(before)
    assert [] == [n for key, row in rows.items() for n in names if repr(row[n]) != repr(after[key][n])]


@pytest.mark.parametrize("writer", ["spark", "driver"])
def test_partials_that_the_driver_reads_are_those_that_spark_reads(
    spark: SparkSession, seed: int, tmp_path: Path, writer: str
) -> None:
    """
    To the last bit, whoever wrote them: every kind of partial, with nulls, NaN and infinities, of a part of time.
    """
    frame = source(spark, seed + 3, 200).cache()
    analysed = analysed_of(spark, frame, *world.mergeable_calls())
    made = built(frame, analysed)
    path, names = str(tmp_path / writer), [*KEYS, *[p.name for p in analysed.layout.partials]]
    if writer == "spark":
        made.write.format("delta").save(path)
    else:
        write_deltalake(path, c.to_arrow(made))
    starts = sorted({row["bucket"] for row in made.select("bucket").collect()})
    after = int(starts[len(starts) // 2].replace(tzinfo=UTC).timestamp()) * 1_000_000
    later = SpanSet.of(Span(after, POS_INF))

    read = read_small_rows(
        path, 0, names, later, time="bucket", time_type=TimeType.TIMESTAMP, max_rows=10_000, max_bytes=1 << 28
    )
    assert read is not None
    types = dict(made.dtypes)
    got = by_key(c.frame_of(spark, rows_of_spans(read, later, "bucket", TimeType.TIMESTAMP), types))
    expected = by_key(spark.read.format("delta").load(path).where(col("bucket") >= starts[len(starts) // 2]))

    assert got.keys() == expected.keys()
    assert [] == [n for key, row in expected.items() for n in names if repr(row[n]) != repr(got[key][n])]
    assert types == dict(c.frame_of(spark, read, types).dtypes)


def test_recomputed_values_do_not_depend_on_the_order_of_rows(spark: SparkSession, seed: int) -> None:
    """
    What cannot be merged is stored as its final value, and two shuffles of the same rows give the same value.
    """
    frame = source(spark, seed + 2, 150).cache()
    analysed = analysed_of(spark, frame, *world.recompute_calls())
    turned = frame.orderBy(col("s").desc(), col("x"))

    assert not analysed.layout.is_mergeable
    assert [p.name for p in analysed.layout.partials if p.merge] == [analysed.layout.row_count]
    assert "" == "\n".join(differences(analysed, built(frame, analysed), turned))


def test_a_list_within_group_breaks_ties_by_the_value(spark: SparkSession, seed: int) -> None:
    """
    An order the user gives may leave ties; they are broken by the value, so a shuffle cannot change the text.
    """
    frame = source(spark, seed + 3, 150).cache()
    analysed = analysed_of(
        spark, frame, world.call("listagg", "s", "'-'", order_by="dt desc"), world.call("listagg", "bin", where="ok")
    )

    assert "" == "\n".join(differences(analysed, built(frame, analysed), frame.orderBy("s", "x")))


def _pieces(spark: SparkSession, of: str, values: list[str], function: str) -> tuple[Analysed, DataFrame, DataFrame]:
    """Return the analysis of one call over column ``a``, the rows, and the merge of partials built for each row alone."""
    rows = [(i, value) for i, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "part int, text string")
    frame = frame.selectExpr(f"CAST(text AS {of}) AS a", "timestamp_micros(0) AS ts", "part")
    reads = (("a", of), ("ts", "timestamp"))
    spec = world.spec_of(world.call(function, "a"), keys=(), reads=("a", "ts"), read_types=reads)
    analysed = analyse(spark, spec, frame.schema)
    pieces = frame.groupBy("part").agg(*[expr(p.build).alias(p.name) for p in analysed.layout.partials])
    merge = pieces.agg(*[expr(p.merge or "").alias(p.name) for p in analysed.layout.partials])
    return analysed, frame, merge.selectExpr(*[f"{text} AS {name}" for name, text in analysed.layout.finals])


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("of", "value"), [("bigint", "9223372036854775807"), ("decimal(38,0)", "9" * 38), ("decimal(38,18)", "9" * 20)]
)
def test_a_sum_that_does_not_fit_raises_when_it_is_merged(spark: SparkSession, of: str, value: str) -> None:
    """
    A sum that overflows only because of the merge raises; it never wraps and never turns null.
    """
    _, _, total = _pieces(spark, of, [value, value], "sum")

    with pytest.raises(ArithmeticException):
        total.collect()


def test_averages_of_bigints_do_not_overflow(spark: SparkSession) -> None:
    """
    Plain Spark averages bigints whose sum does not fit a bigint, and so do we, with the digits that cancel kept.
    """
    _, _, near_limit = _pieces(
        spark, "bigint", ["9223372036854775807"] * 3 + ["-9223372036854775807"] * 3 + ["7"], "avg"
    )
    _, _, above = _pieces(spark, "bigint", ["9223372036854775807"] * 4, "avg")

    assert [1.0] == [row[0] for row in near_limit.collect()]
    assert [float(2**63)] == [row[0] for row in above.collect()]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("of", ["decimal(10,2)", "decimal(18,4)", "decimal(38,0)", "decimal(37,10)", "decimal(38,24)"])
def test_averages_of_decimals_are_rounded_once(spark: SparkSession, of: str, seed: int) -> None:
    """
    Value and type of a decimal average are Spark's, digit by digit, for narrow and for wide types.
    """
    precision, scale = (int(n) for n in of[8:-1].split(","))
    rng = random.Random(seed)
    sizes = (3, precision // 2, precision - 8)
    values = [str(Decimal(rng.randrange(-(10**k), 10**k)).scaleb(-scale)) for k in sizes for _ in range(7)]
    _, rows, average = _pieces(spark, of, values, "avg")

    assert rows.selectExpr("avg(a) AS m0").collect() == average.collect()


def test_variance_survives_a_large_mean(spark: SparkSession) -> None:
    """
    Values of 1e9 ± 1 keep their variance through a merge; sums of squares would lose every digit of it.
    """
    values = [repr(1e9 + i * 7919 % 3 - 1) for i in range(60)]
    _, rows, merged_variance = _pieces(spark, "double", values, "var_pop")
    (total,), (plain,) = merged_variance.collect(), rows.selectExpr("var_pop(a) AS m0").collect()

    assert math.isclose(total["m0"], plain["m0"], rel_tol=1e-6)
