"""Spark's lane: commit large results with ``replaceWhere`` and a transaction number.

Both tables are laid out by time: rows are range-partitioned by bucket and sorted. So a file holds a few neighbouring buckets,
and replacing a bucket later rewrites little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from materializer.spark.runtime.failures import spoken

ROWS_PER_FILE: Final = 100_000


def append(frame: DataFrame, path: str, *, app_id: str, n: int, note: Mapping[str, Any]) -> None:
    """Append *frame* in one Delta commit; Spark silently skips it if the table already has a commit with *n*.

    Raises:
        StorageError: If the disk is full or refuses the write; the table is unchanged.
    """
    writer = frame.write.format("delta").mode("append").option("txnAppId", app_id).option("txnVersion", n)
    with spoken("committing the result", table=path):
        writer.option("userMetadata", json.dumps(dict(note), separators=(",", ":"))).save(path)


def replace_spans(
    frame: DataFrame,
    path: str,
    *,
    predicate: str,
    order: list[str],
    rows: int,
    app_id: str,
    n: int,
    note: Mapping[str, Any],
) -> None:
    """Replace the rows of *predicate* by *frame* in one Delta commit.

    Spark silently skips the write if the table already carries *n* or more under *app_id*; the caller checks for the note
    afterwards.

    Args:
        frame: The new rows; each satisfies *predicate*, or the write fails.
        path: The table.
        predicate: Spark SQL over the table's columns.
        order: Columns to sort by, the bucket first.
        rows: Approximate number of rows; it determines the number of files.
        app_id: Transaction identifier.
        n: Refresh number.
        note: Written as ``userMetadata``.

    Raises:
        StorageError: If the disk is full or refuses the write; the table is unchanged.
    """
    files = max(1, round(rows / ROWS_PER_FILE))
    laid_out = frame.repartitionByRange(files, sf.col(order[0])) if files > 1 else frame.coalesce(1)
    writer = (
        laid_out.sortWithinPartitions(*order)
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", predicate)
        .option("txnAppId", app_id)
        .option("txnVersion", n)
        .option("userMetadata", json.dumps(dict(note), separators=(",", ":")))
    )
    with spoken("committing the result", table=path):
        writer.save(path)


def lay_out(frame: DataFrame, folder: str, *, order: list[str], files: int) -> None:
    """Append *frame* to the table at *folder*, cut by time into about *files* files.

    Args:
        frame: Rows with the table's columns.
        folder: A table that has no readers yet.
        order: Columns to sort by, the bucket first.
        files: Approximate number of files.

    Raises:
        StorageError: If the disk is full or refuses the write.
    """
    laid_out = frame.repartitionByRange(files, sf.col(order[0])) if files > 1 else frame.coalesce(1)
    with spoken("writing files again", table=folder):
        laid_out.sortWithinPartitions(*order).write.format("delta").mode("append").save(folder)
