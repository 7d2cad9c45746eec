"""Inserted rows of a run of source versions, read by the driver when they are few."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from materializer.lake.far import far_times
from materializer.lake.log import LogGapError, commits
from materializer.lake.types import columns_of


def read_small_inserts(path: str, after: int, upto: int, columns: Sequence[str], *, max_rows: int) -> pa.Table | None:
    """Return the rows inserted in (after, upto], or None when Spark has to read them.

    Spark has to when they are more than *max_rows*, when the table uses deletion vectors or column mapping (the
    library is silently wrong there), or when files are missing.

    Args:
        path: The source.
        after: Version already reflected, excluded.
        upto: Last version to read, included.
        columns: Columns to return.
        max_rows: Bound by the statistics of the added files.
    """
    try:
        found = commits(path, after, upto)
        adds = [a for commit in found for a in commit.adds if a.data_change]
        if any(a.rows is None or a.has_deletion_vector for a in adds) or sum(a.rows or 0 for a in adds) > max_rows:
            return None
        table = DeltaTable(path, version=upto)
        protocol = table.protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        if {"deletionVectors", "columnMapping"} & features:
            return None
        if far_times(path, after, found, columns_of(table.schema().to_json()), columns):
            return None
        reader = table.load_cdf(starting_version=after + 1, ending_version=upto, columns=[*columns, "_change_type"])
        rows = _plain(pa.table(reader))
    except (DeltaError, LogGapError, OSError):
        return None
    return rows.filter(pc.equal(rows["_change_type"], "insert")).select(list(columns))


def _plain(rows: pa.Table) -> pa.Table:
    """Return *rows* with views as plain strings and bytes, which Spark takes."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    fields = [pa.field(f.name, plain.get(f.type, f.type)) for f in rows.schema]
    return rows.cast(pa.schema(fields))
