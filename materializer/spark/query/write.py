"""Files that Spark writes for a commit of the driver; see :mod:`materializer.lake.write.new_files`.

Both tables of an aggregate are laid out by time: rows are range-partitioned by bucket and sorted. So a file holds a few
neighbouring buckets, and replacing a bucket later rewrites little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from materializer.core.spec.table_names import quoted
from materializer.spark.runtime.failures import spoken

ROWS_PER_FILE: Final = 100_000
_OUTSIDE: Final = "a row to be written lies outside the spans that are replaced"


def lay_out(frame: DataFrame, folder: str, *, order: Sequence[str] = (), files: int = 0, by_keys: bool = False) -> None:
    """Append *frame* to the table at *folder*, cut by time into about *files* files.

    Args:
        frame: Rows with the table's columns.
        folder: A table that has no readers yet.
        order: Columns to sort by, the bucket first; if empty, the rows are written as they are.
        files: Approximate number of files, if they are sorted.
        by_keys: Whether a large bucket is cut, too: into files of neighbouring keys.

    Raises:
        StorageError: If the disk is full or refuses the write.
    """
    if order:
        by = [sf.col(quoted(name)) for name in (order if by_keys else order[:1])]
        frame = frame.repartitionByRange(files, *by) if files > 1 else frame.coalesce(1)
        frame = frame.sortWithinPartitions(*order)
    with spoken("writing files", table=folder):
        frame.write.format("delta").mode("append").save(folder)


def rows_of_files(spark: SparkSession, path: str, names: Sequence[str], like: DataFrame) -> DataFrame:
    """Return the rows of some files of a table of ours, with the columns of *like*."""
    return spark.read.schema(like.schema).parquet(*(f"{path}/{name}" for name in names))


def replacing(frame: DataFrame, others: DataFrame | None, predicate: str, column: str) -> DataFrame:
    """Return new rows, each checked to lie inside *predicate*, with those of *others* that do not.

    Args:
        frame: The new rows; Spark fails where one does not satisfy *predicate*.
        others: Rows of replaced files; None without them.
        predicate: Spark SQL over the columns.
        column: The column that says to which bucket a row belongs.
    """
    inside = sf.expr(predicate)
    kind = frame.schema[column].dataType
    checked = sf.when(inside, sf.col(column)).otherwise(sf.raise_error(sf.lit(_OUTSIDE)).cast(kind))
    rows = frame.withColumn(column, checked)
    return rows if others is None else rows.unionByName(others.where(~sf.coalesce(inside, sf.lit(False))))
