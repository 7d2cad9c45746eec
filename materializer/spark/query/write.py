"""Spark's lane: large results committed with ``replaceWhere`` and a transaction number.

Both tables are laid out in time: rows are range-partitioned by the bucket and sorted, so that a file holds few,
neighbouring buckets and replacing one later rewrites little.
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
    """Append *frame* in one Delta commit; one that the table already carries under *n* is skipped without a word.

    Raises:
        StorageError: If the disk is full or refuses; the table is as before.
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

    Spark skips the write without a word when the table already carries *n* or more under *app_id*; the caller looks
    for the note afterwards.

    Args:
        frame: The new rows; each satisfies *predicate*, or the write fails.
        path: The table.
        predicate: Spark SQL over the table's columns.
        order: Columns to sort by, the bucket first.
        rows: How many rows there are, about; decides the number of files.
        app_id: Transaction identifier.
        n: Refresh number.
        note: Written as ``userMetadata``.

    Raises:
        StorageError: If the disk is full or refuses; the table is as before.
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
    """Append *frame* to the table at *folder*, cut by time into about so many files.

    Args:
        frame: Rows with the table's columns.
        folder: A table that nobody reads yet.
        order: Columns to sort by, the bucket first.
        files: How many files.

    Raises:
        StorageError: If the disk is full or refuses.
    """
    laid_out = frame.repartitionByRange(files, sf.col(order[0])) if files > 1 else frame.coalesce(1)
    with spoken("writing files again", table=folder):
        laid_out.sortWithinPartitions(*order).write.format("delta").mode("append").save(folder)
