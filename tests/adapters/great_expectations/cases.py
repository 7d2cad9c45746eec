"""Every expectation that Great Expectations offers on Spark, with arguments that a good frame meets and a bad one does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from materializer.core.quality.compiled import compiled, plain
from materializer.core.quality.suite import Expectation, Suite, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "bucket timestamp, id bigint, x double, s string, g string, t timestamp, d date, m decimal(10,2), k int, y boolean,"
    " a double, n string, w string"
)
GOOD = """
(timestamp'2024-01-01T00:00:00Z', 1L, 1.5D, 'a', 'x', timestamp'2024-01-01T00:10:00Z', date'2024-01-01', 1.10BD, 5, true, 1D, '1', '2024-01-01'),
(timestamp'2024-01-01T00:00:00Z', 2L, 2.5D, 'b', 'y', timestamp'2024-01-01T00:20:00Z', date'2024-01-02', 2.20BD, 6, true, 2D, '2', '2024-01-02'),
(timestamp'2024-01-01T01:00:00Z', 3L, 3.5D, 'c', 'x', timestamp'2024-01-01T01:10:00Z', date'2024-01-03', 3.30BD, 7, true, 3D, '3', '2024-01-03'),
(timestamp'2024-01-01T02:00:00Z', 4L, null, null, 'y', null, null, null, 8, null, null, null, null)
"""
BAD = """
(timestamp'2024-01-01T00:00:00Z', 1L, -7.5D, 'a', 'x', timestamp'2024-01-09T00:10:00Z', date'2024-02-01', 91.10BD, 5, true, 0.5D, 'x', 'nonsense'),
(timestamp'2024-01-01T00:00:00Z', 1L, 2.5D, 'zzz', 'x', timestamp'2023-01-01T00:20:00Z', date'2023-01-02', -2.20BD, 66, true, 9D, 'x', '2024-01-02'),
(timestamp'2024-01-01T01:00:00Z', null, 99.5D, '', 'x', timestamp'2024-01-01T01:10:00Z', date'2024-01-03', 3.30BD, 7, true, 99.5D, '3', '2024-01-03'),
(timestamp'2024-01-01T02:00:00Z', 4L, double('NaN'), 'q', 'z', null, null, null, 1, false, null, 'q', null),
(timestamp'2024-01-01T02:00:00Z', 4L, 99.5D, 'a', 'q', null, null, null, 1, false, null, null, null)
"""
HOUR = {"min_value": "2024-01-01T00:00:00", "max_value": "2024-01-01T02:00:00Z"}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("expect_column_values_to_not_be_null", {"column": "id"}),
    ("expect_column_values_to_not_be_null", {"column": "id", "mostly": 0.95}),
    ("expect_column_values_to_be_null", {"column": "x", "mostly": 0.25}),
    ("expect_column_values_to_be_unique", {"column": "s"}),
    ("expect_column_values_to_be_unique", {"column": "id", "mostly": 0.9}),
    ("expect_column_values_to_be_unique", {"column": "x"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["bucket", "id"]}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["t", "d"], "ignore_row_if": "never"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["n", "y"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_column_values_to_be_between", {"column": "x", "min_value": 1.5, "max_value": 3.5}),
    ("expect_column_values_to_be_between", {"column": "x", "min_value": 1.4, "strict_min": True}),
    ("expect_column_values_to_be_between", {"column": "x", "max_value": 3.6, "strict_max": True, "mostly": 0.8}),
    ("expect_column_values_to_be_between", {"column": "k", "min_value": 5, "max_value": 8}),
    ("expect_column_values_to_be_between", {"column": "m", "min_value": 1.1, "max_value": 3.3}),
    ("expect_column_values_to_be_between", {"column": "t", **HOUR}),
    ("expect_column_values_to_be_between", {"column": "t", "min_value": "2024-01-01", "max_value": "2024-01-02"}),
    ("expect_column_values_to_be_between", {"column": "d", "min_value": "2024-01-01", "max_value": "2024-01-03"}),
    ("expect_column_values_to_be_between", {"column": "d", "min_value": "2024-01-01T00:00:00"}),
    ("expect_column_values_to_be_between", {"column": "x", "min_value": "1"}),
    ("expect_column_values_to_be_in_set", {"column": "s", "value_set": ["a", "b", "c"]}),
    ("expect_column_values_to_be_in_set", {"column": "k", "value_set": [5, 6, 7, 8.0]}),
    ("expect_column_values_to_be_in_set", {"column": "y", "value_set": [True]}),
    ("expect_column_values_to_be_in_set", {"column": "d", "value_set": ["2024-01-01", "2024-01-02", "2024-01-03"]}),
    ("expect_column_values_to_not_be_in_set", {"column": "s", "value_set": ["zzz", "it's"]}),
    ("expect_column_values_to_match_regex", {"column": "n", "regex": r"^\d$"}),
    ("expect_column_values_to_not_match_regex", {"column": "n", "regex": "[^0-9]"}),
    ("expect_column_values_to_match_regex_list", {"column": "n", "regex_list": [r"^\d$", "^[a-b]$"]}),
    ("expect_column_values_to_not_match_regex_list", {"column": "n", "regex_list": ["x", "q"]}),
    ("expect_column_values_to_match_strftime_format", {"column": "w", "strftime_format": "%Y-%m-%d"}),
    ("expect_column_value_lengths_to_be_between", {"column": "s", "min_value": 1, "max_value": 2}),
    ("expect_column_value_lengths_to_be_between", {"column": "s", "max_value": 3, "strict_max": True}),
    ("expect_column_value_lengths_to_equal", {"column": "s", "value": 1}),
    ("expect_column_value_z_scores_to_be_less_than", {"column": "k", "threshold": 1.7, "double_sided": True}),
    ("expect_column_values_to_not_be_outliers", {"column": "m", "method": "iqr", "multiplier": 0.6}),
    ("expect_column_values_to_be_of_type", {"column": "x", "type_": "DoubleType"}),
    ("expect_column_values_to_be_in_type_list", {"column": "x", "type_list": ["DoubleType", "FloatType"]}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "k", "column_B": "id"}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "a", "column_B": "id",
        "ignore_row_if": "either_value_is_missing"}),
    ("expect_column_pair_values_to_be_in_set", {"column_A": "s", "column_B": "g", "value_pairs_set": [
        ["a", "x"], ["b", "y"], ["c", "x"], [None, "y"]]}),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["x", "a"], "sum_total": 4.5, "mostly": 0.2,
        "ignore_row_if": "any_value_is_missing"}),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["a", "id"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["x", "a"],
        "ignore_row_if": "any_value_is_missing"}),
    ("expect_column_min_to_be_between", {"column": "x", "min_value": 1, "max_value": 2}),
    ("expect_column_min_to_be_between", {"column": "d", "min_value": "2024-01-01", "max_value": "2024-01-02"}),
    ("expect_column_min_to_be_between", {"column": "m", "min_value": 1.1, "strict_min": False}),
    ("expect_column_max_to_be_between", {"column": "t", **HOUR}),
    ("expect_column_max_to_be_between", {"column": "t", "min_value": "2024-01-01", "max_value": "2024-01-02"}),
    ("expect_column_max_to_be_between", {"column": "k", "max_value": 9, "strict_max": True}),
    ("expect_column_max_to_be_between", {"column": "k", "max_value": 8}),
    ("expect_column_mean_to_be_between", {"column": "x", "min_value": 2.5, "max_value": 2.5}),
    ("expect_column_mean_to_be_between", {"column": "m", "min_value": 2.2, "max_value": 2.2}),
    ("expect_column_median_to_be_between", {"column": "k", "min_value": 6.5, "max_value": 6.5}),
    ("expect_column_sum_to_be_between", {"column": "k", "min_value": 26, "max_value": 26}),
    ("expect_column_sum_to_be_between", {"column": "m", "max_value": 6.6}),
    ("expect_column_stdev_to_be_between", {"column": "x", "min_value": 0.9, "max_value": 1.1}),
    ("expect_column_unique_value_count_to_be_between", {"column": "g", "min_value": 2, "max_value": 2}),
    ("expect_column_unique_value_count_to_be_between", {"column": "id", "min_value": 3, "strict_min": True}),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "s", "min_value": 1}),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "g", "min_value": 0.5, "max_value": 0.5}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "id", "min_value": 1.0}),
    ("expect_column_distinct_values_to_be_in_set", {"column": "s", "value_set": ["a", "b", "c"]}),
    ("expect_column_distinct_values_to_contain_set", {"column": "g", "value_set": ["x", "y"]}),
    ("expect_column_distinct_values_to_equal_set", {"column": "g", "value_set": ["x", "y"]}),
    ("expect_column_kl_divergence_to_be_less_than", {"column": "g", "threshold": 0.01,
        "partition_object": {"values": ["x", "y"], "weights": [0.5, 0.5]}, "tail_weight_holdout": 0.01}),
    ("expect_column_most_common_value_to_be_in_set", {"column": "k", "value_set": [5, 6, 7, 8], "ties_okay": True}),
    ("expect_column_quantile_values_to_be_between", {"column": "k",
        "quantile_ranges": {"quantiles": [0.1, 0.9], "value_ranges": [[5, 5], [8, 8]]}}),
    ("expect_table_row_count_to_equal", {"value": 4}),
    ("expect_table_row_count_to_be_between", {"min_value": 4, "max_value": 4}),
    ("expect_table_row_count_to_be_between", {"max_value": 5, "strict_max": True}),
    ("expect_column_to_exist", {"column": "x"}),
    ("expect_column_type_to_be", {"column": "x", "type_": "DoubleType"}),
    ("expect_table_column_count_to_equal", {"value": 13}),
    ("expect_table_column_count_to_be_between", {"min_value": 13, "max_value": 14}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": [c.split()[0] for c in COLUMNS.replace("(10,2)", "").split(",")]}),
    ("expect_table_columns_to_match_set", {"column_set": ["x", "id"], "exact_match": False}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT * FROM {batch} WHERE x > 50"}),
    ("expect_column_values_to_be_between", {"column": "x", "min_value": 0, "row_condition": "id < 4",
        "condition_parser": "spark"}),
]  # fmt: skip
"""(type, arguments)."""


def suite() -> Suite:
    """All cases as one suite."""
    expectations = [{"type": name, "kwargs": kwargs} for name, kwargs in CASES]
    return read(json.dumps({"name": "all", "expectations": expectations}), file="cases.py")


def asked_both_ways() -> list[Expectation]:
    """Those of the cases that are compiled, and so are answered by Spark and by Great Expectations."""
    columns = dict(column.split() for column in COLUMNS.split(", "))
    return [e for e in suite().expectations if compiled(plain(e, columns), columns) is not None]


def frame(spark: SparkSession, rows: str) -> DataFrame:
    """The rows with the columns' own types, or none of them."""
    names = [c.split()[0] for c in COLUMNS.replace("(10,2)", "").split(",")]
    kinds = [c.split()[1] for c in COLUMNS.split(", ")]
    columns = ", ".join(f"CAST({n} AS {k}) AS {n}" for n, k in zip(names, kinds, strict=True))
    return spark.sql(
        f"SELECT {columns} FROM VALUES {rows or GOOD} AS t({', '.join(names)})" + ("" if rows else " WHERE false")
    )
