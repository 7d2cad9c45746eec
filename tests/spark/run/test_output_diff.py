"""What changed between two sets of rows, told by Spark as the driver tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from materializer.spark.run.output_diff import changed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_a_row_that_is_alone_in_its_place_became_another(spark: SparkSession) -> None:
    """
    Where two went or two came nobody can tell which became which: they are deletes and inserts.
    """
    shape = "k string, v int"
    old = spark.createDataFrame([("alone", 1), ("two went", 1), ("two went", 2), ("two came", 1), ("same", 1)], shape)
    new = spark.createDataFrame([("alone", 2), ("two went", 3), ("two came", 2), ("two came", 3), ("same", 1)], shape)
    found = changed(old, new, ["k"]).collect()

    assert sorted((r.k, r["_change"], r.v) for r in found) == [
        ("alone", "update_postimage", 2),
        ("alone", "update_preimage", 1),
        ("two came", "delete", 1),
        ("two came", "insert", 2),
        ("two came", "insert", 3),
        ("two went", "delete", 1),
        ("two went", "delete", 2),
        ("two went", "insert", 3),
    ]
