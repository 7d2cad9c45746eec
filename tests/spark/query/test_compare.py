"""Columns of another type, which an equation of their values does not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from materializer.spark.query.compare import other_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ("CAST(1 AS INT)", "CAST(1 AS BIGINT)", ("int", "bigint")),
        ("CAST(1 AS DECIMAL(12, 2))", "CAST(1 AS DECIMAL(12, 4))", ("decimal(12,2)", "decimal(12,4)")),
        ("CAST(1 AS FLOAT)", "CAST(1 AS DOUBLE)", ("float", "double")),
        ("DATE'2024-01-01'", "TIMESTAMP'2024-01-01'", ("date", "timestamp")),
        ("array(1)", "array(1L)", ("array<int>", "array<bigint>")),
        ("named_struct('a', 1)", "named_struct('a', 1L)", ("struct<a:int>", "struct<a:bigint>")),
        ("1", "CAST(NULL AS INT)", None),
        ("array(1)", "array(1, CAST(NULL AS INT))", None),
        ("named_struct('a', 1)", "named_struct('a', CAST(NULL AS INT))", None),
        ("CAST('a' AS VARCHAR(3))", "'a'", None),
    ],
)
def test_types_are_compared(spark: SparkSession, ours: str, theirs: str, found: tuple[str, str] | None) -> None:
    """
    Of numbers by their width, digits and scale, also inside others; whether something may be null is no type.
    """
    published = spark.sql(f"SELECT 1 AS k, {ours} AS V")
    expected = spark.sql(f"SELECT 1 AS k, {theirs} AS v")

    assert (() if found is None else (("v", *found),)) == other_types(published, expected, ["k", "v"])
