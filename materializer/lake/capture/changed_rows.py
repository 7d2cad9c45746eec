"""Rows of a change feed, read once: capture looks at their times, and a merge then aggregates their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from materializer.lake.arrow import plain

CACHED_ROWS: Final = 50_000
"""Maximum number of rows that stay in memory between the two readings."""
_cache: dict[tuple[str, int, int], pa.Table] = {}


def changed_rows(table: DeltaTable, first: int, last: int, columns: Sequence[str]) -> pa.Table:
    """Return the changed rows of versions *first* to *last*, both included, from memory if they were read just before.

    Args:
        table: The source, opened at version *last*.
        first: The first version.
        last: The last version.
        columns: Columns of the source, ``_change_type`` and ``_commit_version``.

    Raises:
        DeltaError: If the library cannot read the feed.
        OSError: If a file cannot be read.
        ArrowInvalid: If the rows do not fit the schema.
    """
    key = (str(table.metadata().id), first, last)
    rows = _cache.get(key)
    if rows is None or not set(columns) <= set(rows.column_names):
        feed = table.load_cdf(starting_version=first, ending_version=last, columns=list(columns))
        rows = plain(pa.RecordBatchReader.from_stream(feed).read_all())  # pa.table() would import pandas
        _cache.clear()
        if rows.num_rows <= CACHED_ROWS:
            _cache[key] = rows
    return rows.select(list(columns))


def with_images(rows: pa.Table, images: Sequence[str]) -> pa.Table:
    """Return the changed rows of some images."""
    return rows.filter(pc.is_in(rows["_change_type"], pa.array(images)))
