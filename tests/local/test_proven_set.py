"""Each entry of the local executor's proven set gives what Spark gives, over hard values; where Spark raises, it gives nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.comparing import compare_aggregates, compare_scalars, rows_of

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "t": "tinyint", "s": "smallint", "i": "int", "j": "int", "l": "bigint", "m": "bigint", "f": "float", "d": "double", "e": "double",
    "p": "decimal(10,2)", "q": "decimal(5,3)", "w": "decimal(38,10)", "b": "boolean", "c": "boolean", "x": "string", "y": "string",
    "z": "binary", "h": "double", "u": "date", "ts": "timestamp", "us": "timestamp", "n": "timestamp_ntz",
}  # fmt: skip
SCALARS = {
    "integers": [
        "t + t", "s - s", "i * j", "l + m", "l - m", "l * m", "i + l", "t + 1", "l + 1L", "i / j", "l / m", "i div j", "l div m", "i % j", "l % m",
        "-i", "-l", "abs(l)", "abs(t)", "pmod(l, 7L)", "pmod(i, 60)", "~l", "l & 4294967295L", "l & m", "l | m", "shiftright(l, 32)",
        "try_divide(i, j)", "try_divide(l, m)", "greatest(i, j)", "least(l, m)", "round(l)", "floor(l)", "ceil(l)",
    ],
    "doubles": [
        "d + e", "d - e", "d * e", "d / e", "d % e", "-d", "abs(d)", "d + l", "d * i", "f + f", "f * d", "d / 2", "try_divide(d, e)", "sqrt(d)",
        "isnan(d)", "isnan(f)", "floor(d)", "ceil(d)", "round(d)", "greatest(d, e)", "least(d, e)", "d * 2D",
    ],
    "decimals": [
        "p + q", "p - q", "p * q", "p / q", "q / p", "p + 1", "p * 2", "p - i", "-p", "abs(p)", "round(p, 1)", "round(p)", "floor(p)", "ceil(p)",
        "p * 1.5", "p + d", "p / 3", "CAST(p / CAST(nullif(l, 0) AS DECIMAL(12,0)) AS DECIMAL(14,6))", "CAST(w AS DECIMAL(30,2))",
    ],
    "casts": [
        "CAST(l AS INT)", "CAST(l AS SMALLINT)", "CAST(i AS TINYINT)", "CAST(i AS BIGINT)", "CAST(d AS BIGINT)", "CAST(d AS INT)", "CAST(p AS INT)",
        "CAST(p AS DOUBLE)", "CAST(q AS DECIMAL(4,1))", "CAST(p AS DECIMAL(12,4))", "CAST(i AS DECIMAL(12,2))", "CAST(l AS DECIMAL(10,0))",
        "CAST(l AS STRING)", "CAST(b AS INT)", "CAST(i AS BOOLEAN)", "CAST(l AS DOUBLE)", "CAST(f AS DOUBLE)", "bigint(i)", "double(l)",
        "CAST(ts AS DATE)", "CAST(u AS TIMESTAMP)", "CAST(ts AS TIMESTAMP_NTZ)", "CAST(n AS TIMESTAMP)", "CAST(w AS BIGINT)", "CAST(w AS DOUBLE)", "CAST(CAST(w AS DECIMAL(38,0)) AS DOUBLE)",
    ],
    "comparisons": [
        "i = j", "i < l", "l >= m", "d = e", "d < e", "d >= e", "d <> e", "i < d", "p = q", "p < i", "p > 1.25", "p >= 2", "q < d", "x = y", "x < y",
        "x >= 'a'", "x <=> y", "i <=> j", "d <=> e", "b = c", "z = z", "z < z", "ts < us", "ts >= TIMESTAMP_LTZ '2024-01-01 00:00:00Z'",
        "u >= DATE '2024-01-01'", "n < TIMESTAMP_NTZ '2024-01-01 00:00:00'", "u < ts", "i BETWEEN 0 AND 10", "i IN (1, 2, 7)", "x IN ('a', 'b', '')",
        "d IN (1, 2.5D)", "i NOT IN (1, NULL)", "d >= 1e+16D", "d > 0.30000000000000004D", "d = 5e-324D", "p <= 10.0D", "w > 0.1D",
        "ts >= TIMESTAMP'2024-02-29T01:30:00Z'", "ts < TIMESTAMP'2025-03-30T00:59:59.500000Z'",
    ],
    "logic": [
        "b AND c", "b OR c", "NOT b", "b IS NULL", "i IS NOT NULL", "b IS TRUE", "if(b, i, l)", "if(i > 0, 'x', y)",
        "CASE WHEN i < 0 THEN -1 WHEN i = 0 THEN 0 ELSE 1 END", "CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", "coalesce(i, l, 0)", "coalesce(x, 'none')",
        "nullif(i, 0)", "nullif(x, '')", "CASE WHEN j <> 0 THEN i / j END", "coalesce(d, 0)",
    ],
    "texts": [
        "concat(x, y)", "x || '-' || y", "upper(x)", "lower(x)", "length(x)", "substr(x, 1, 2)", "substring(x, 2)", "x LIKE 'a%'", "x LIKE '_b%'",
        "x LIKE 'x_y'", "x NOT LIKE '%'", "x LIKE ''", "x LIKE '__'", "x RLIKE '^[a-z]{1,2}$'", "x NOT RLIKE ''", "x REGEXP 'a.|^$'", "regexp_like(x, '[^a-z]')",
    ],
    "bytes": [
        "substring(CAST('ab.Z9_' AS BINARY), pmod(i, 9) + 1, 1)", "substring(CAST('abc' AS BINARY), 2, 2)", "z = X'61'", "X'00fF'", "z < X'c3a9'",
        "CASE substring(CAST('ab' AS BINARY), pmod(j, 3) + 1, 1) WHEN X'61' THEN 1L WHEN X'62' THEN 2L ELSE 0L END",
    ],
    "times": [
        "date_trunc('HOUR', ts)", "date_trunc('day', ts)", "date_trunc('WEEK', ts)", "date_trunc('MONTH', ts)", "date_trunc('QUARTER', ts)",
        "date_trunc('YEAR', ts)", "date_trunc('minute', ts)", "date_trunc('second', ts)", "date_trunc('DAY', u)", "trunc(u, 'MONTH')", "year(ts)",
        "month(ts)", "day(ts)", "hour(ts)", "minute(ts)", "year(u)", "month(u)", "quarter(u)", "unix_date(u)", "unix_micros(ts)",
        "timestamp_micros(unix_micros(ts))", "date_from_unix_date(unix_date(u))", "date_sub(u, 1)", "date_add(u, 1)", "date_sub(u, pmod(unix_date(u) - 3, 7))",
        "hour(n)", "date_trunc('HOUR', n)", "unix_micros(CAST(n AS TIMESTAMP_LTZ))", "add_months(trunc(u, 'MONTH'), 1)",
    ],
    "structs": [
        "named_struct('a', i, 'b', x).a", "transform(array(i, j), v -> v + 1L)", "get(array(1L, 2L, 3L), CAST(pmod(i, 5) AS INT))",
        "transform(array(l), u -> if(u > 0, u, 0L))[0]", "sort_array(array(i, j))", "sort_array(array(d, e))", "sort_array(array(x, y))",
        "sort_array(array(named_struct('a', d, 'b', x), named_struct('a', e, 'b', y)))", "sequence(pmod(i, 5), pmod(j, 5))", "sequence(pmod(l, 9L), 12L, 2L)",
        "sequence(pmod(l, 9L), pmod(m, 9L), 3L)", "CASE WHEN i = 1 THEN CAST(raise_error('no') AS INT) ELSE i END",
        "aggregate(array(named_struct('n', 1L), named_struct('n', 2L)), named_struct('n', 0L), (a, b) -> named_struct('n', a.n + b.n), a -> a.n * 2L)",
    ],
    "hashes": [
        *(f"xxhash64({name})" for name in "tsilpfdbxzu"), "xxhash64(ts)", "xxhash64(n)", "xxhash64(concat(x, y, x, 'abcdefghijklmnopqrstuvwxyz0123456789'))",
        "if((i) IS NULL, NULL, xxhash64((i)))",
    ],
    "lists": [
        "CAST(array(i, j) AS array<double>)", "CAST((array(0.1, 0.9)) AS array<double>)", "zip_with(array(i, j), array(l, m), (v, r) -> if(r > 1 - i / 7, v, 0))",
        "zip_with(array(d), array(e, 0.5D), (v, r) -> if(i > 0 AND r > 1 - i / l, double('NaN'), v))", "transform(zip_with(array(i), array(j), (a, b) -> a < b), v -> NOT v)",
    ],
}  # fmt: skip
AGGREGATES = [
    "count(*)", "count(i)", "count(i, x)", "count_if(i > 0)", "count(DISTINCT i)", "count(DISTINCT d)", "count(DISTINCT x)", "sum(i)", "sum(l)", "sum(t)",
    "sum(h)", "sum(f)", "sum(p)", "sum(q)", "sum(i) FILTER (WHERE b)", "count(*) FILTER (WHERE x = 'a' OR c)", "avg(h)", "avg(CAST(i AS DOUBLE))", "avg(i)", "avg(s)", "avg(t) FILTER (WHERE b)",
    "count_if(`x` IS NOT NULL AND NOT (`i` < 2.0D))", "unix_micros(CAST(min(n) AS TIMESTAMP))",
    "min(i)", "max(l)", "min(d)", "max(d)", "min(f)", "max(x)", "min(x)", "min(p)", "max(ts)", "min(n)", "max(u)", "min(b)", "max(z)",
    "bool_and(b)", "bool_or(c)", "bit_and(l)", "bit_or(i)", "bit_xor(l)", "var_pop(i)", "var_pop(h)", "covar_pop(i, l)", "covar_pop(h, i)",
    "min(named_struct('o0', ts, 'o1', i, 'v', x))", "max(named_struct('o0', ts, 'o1', d, 'v', x))", "max(named_struct('o0', u, 'v', d)).v",
    "min(named_struct('y', d, 'o0', ts, 'v', p)).v", "max(named_struct('o0', ts, 'v', b)) FILTER (WHERE i > 0)",
    "min(named_struct('o0', ts, 'v', d))", "max(named_struct('o0', ts, 'v', d))", "min(named_struct('o0', ts, 'v', f)).v", "max(named_struct('o0', l, 'v', i))",
    "min(named_struct('o0', i, 'v', l)) FILTER (WHERE b)", "max(named_struct('o0', n, 'v', u))", "min(named_struct('o0', u, 'v', ts))", "max(named_struct('o0', b, 'v', n))",
    "min(named_struct('o0', d, 'v', i))", "max(named_struct('o0', t, 'v', c))",
    "min_by(x, named_struct('o0', ts, 'o1', i))", "max_by(i, named_struct('o0', ts, 'o1', x))", "sort_array(collect_list(i))", "sort_array(collect_list(d))",
    "sort_array(collect_set(x))", "sort_array(collect_set(i))", "sort_array(collect_set(d))", "sort_array(collect_set(f))", "sort_array(collect_list(named_struct('o0', ts, 'v', x))).v", "percentile(i, 0.5)",
    "percentile(d, 0.25)", "median(i)", "median(d)", "percentile(p, 0.9)", "mode(i, true)", "mode(x, true)", "mode(u, true)",
    "array_join(sort_array(collect_list(x)), ',')", "sum(shiftright(l, 32))", "sum(l & 4294967295L)",
    "if(count(i) = 0, NULL, named_struct('n', count(i), 'mean', if(min(i) = max(i), CAST(min(i) AS DOUBLE), avg(CAST(i AS DOUBLE))), 'm2', var_pop(i) * count(i)))",
]  # fmt: skip

_RANKS = ("0D", "0.07D", "0.5D", "CAST((0.25) AS double)", "0.99D", "1D")
SKETCHES = [
    *(f"hll_sketch_agg(xxhash64({name}), {k})" for name, k in (("l", 12), ("x", 4), ("d", 21), ("p", 7), ("ts", 9))), "hll_sketch_agg(l, 12) FILTER (WHERE b)",
    *(f"hll_sketch_estimate(hll_union(hll_sketch_agg(xxhash64({v}), {k}), hll_sketch_agg(xxhash64({v}), {k})))" for v, k in (("x", 12), ("l", 4), ("u", 8))),
    "hll_sketch_estimate(hll_sketch_agg(l, 12))", "kll_sketch_agg_bigint(l, 200)", "kll_sketch_agg_bigint(CAST(i AS BIGINT), 8)", "kll_sketch_agg_float(f, 200)",
    "kll_sketch_agg_double(d, 200)", "kll_sketch_agg_double(if(isnan(d), double('Infinity'), d), 16)", "kll_sketch_agg_bigint(unix_micros(ts), 200) FILTER (WHERE b)",
    *(f"kll_sketch_get_n_{kind}(kll_sketch_agg_{kind}({name}, 200))" for name, kind in (("l", "bigint"), ("f", "float"), ("d", "double"))),
    *(f"kll_sketch_get_quantile_{kind}(kll_sketch_agg_{kind}({name}, 400), {rank})" for name, kind in (("l", "bigint"), ("f", "float"), ("h", "double")) for rank in _RANKS),
    "kll_sketch_get_quantile_double(kll_sketch_agg_double(d, 400), array(0.07D, 0.57D, 0.29D, 0.9D))",
    "kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(l, 400), CAST((array(0.1, 0.9)) AS array<double>))",
    *(f"approx_percentile({name}, 0.5)" for name in ("t", "s", "i", "f", "d", "u", "ts")), "approx_percentile(h, array(0.0, 0.28, 0.9, 1.0))",
    "approx_percentile(pmod(l, 1000L), 0.25) FILTER (WHERE b)", "approx_percentile(i, 0.070000000D, 100000)", "approx_percentile(t, array(0.473000000D, 0.527000000D), 60)",
]  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("first", range(2), ids=["even", "odd"])
def test_sketches(spark: SparkSession, first: int) -> None:
    """
    A sketch says what Spark's says; both give any value only while they drop none.
    """
    import pyarrow as pa

    rows = rows_of(COLUMNS, 400, seed=3)
    groups = [min(i % 40, (i * 7) % 23) if i % 3 else 99 for i in range(rows.num_rows)]
    rows = rows.append_column("g", pa.array(groups, pa.int64()))
    found = compare_aggregates(spark, COLUMNS, rows, SKETCHES[first::2])

    assert [] == found.wrong
    assert [] == [sql for sql, count in found.answered.items() if not count]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("family", SCALARS)
def test_scalars(spark: SparkSession, family: str) -> None:
    """
    Each scalar of the set answers for some of the hard values, and what it answers is Spark's value of Spark's type.
    """
    found = compare_scalars(spark, COLUMNS, rows_of(COLUMNS, 60, seed=1), SCALARS[family])

    assert [] == found.wrong
    assert [] == [sql for sql, count in found.answered.items() if not count]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("first", range(2), ids=["even", "odd"])
def test_aggregates(spark: SparkSession, first: int) -> None:
    """
    Each aggregate of the set answers for some groups of hard values, and what it answers is Spark's value of Spark's type.
    """
    import pyarrow as pa

    rows = rows_of(COLUMNS, 240, seed=2)
    # groups of very different sizes: some have few hard values, some all of them
    groups = [min(i % 40, (i * 7) % 23) for i in range(rows.num_rows)]
    rows = rows.append_column("g", pa.array(groups, pa.int64()))
    found = compare_aggregates(spark, COLUMNS, rows, AGGREGATES[first::2])

    assert [] == found.wrong
    assert [] == [sql for sql, count in found.answered.items() if not count]
