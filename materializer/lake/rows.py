"""Published rows, read without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError
from msgspec import Struct

from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import LogGapError, MaterializerError
from materializer.lake import places
from materializer.lake.arrow import mask, plain
from materializer.lake.extent import file_bounds, instants_of, time_column
from materializer.lake.failures import translated
from materializer.lake.hostile import refuse_deep, refuse_irregular, refuse_outside
from materializer.lake.predicates import inside
from materializer.lake.table import DeltaFolder, identity, open_table

if TYPE_CHECKING:
    import pandas as pd

_REGULAR: Final[set[tuple[str, int, places.Identity | None]]] = set()
"""The version of a table whose files were looked at last."""


def row_count(path: str) -> int | None:
    """Return the number of rows of the newest version, from file statistics; None if some file has no row count."""
    return DeltaFolder.at(path).rows()


def size_of(path: str) -> int:
    """Return the bytes of the files of the newest version."""
    table = DeltaFolder.at(path).opened()
    with translated(path, "reading"):
        sizes = pa.RecordBatchReader.from_stream(table.get_add_actions()).read_all()["size_bytes"]
    return pc.sum(sizes).as_py() or 0


def lost_file(path: str) -> str | None:
    """Return a data file of the newest version that does not exist; None if all exist."""
    table = open_table(path)
    with translated(path, "reading"):
        names = pa.RecordBatchReader.from_stream(table.get_add_actions()).read_all()["path"].to_pylist()
    return next(places.missing_of(path, map(unquote, names)), None)


def folders_elsewhere(path: str) -> list[str]:
    """Return the folders of those files of the newest version that lie outside of the table: those of a shallow clone, and behind links."""
    table, own = DeltaFolder.at(path).opened(), f"{places.absolute(path)}/"
    with translated(path, "reading"):
        names = pa.RecordBatchReader.from_stream(table.get_add_actions()).read_all()["path"]
    is_absolute = pc.match_substring_regex(names, r"^(/|\w[\w+.-]*:/)")
    found = [places.normalised(unquote(name)) for name in names.filter(is_absolute).to_pylist()]
    if places.is_local(path):
        root = places.resolved(path)
        real = (places.resolved(own + unquote(name)) for name in names.filter(pc.invert(is_absolute)).to_pylist())
        found += (place for place in real if not place.startswith(f"{root}/"))
    return sorted({places.parent(name) for name in found if not name.startswith(own)})


def refuse_unfit_files(path: str, version: int) -> None:
    """Refuse a table on a path of which a file is no regular one, or lies outside of it, before Spark waits for it; once for each version.

    Raises:
        SourceDamagedError: If there is one, among the files of its log, too.
    """
    known = (path, version, identity(path, version)) if places.is_local(path) else None
    if known is None or known in _REGULAR:
        return
    refuse_deep(path, version)
    try:
        with DeltaFolder.at(path).reading(version) as table:
            names = pa.RecordBatchReader.from_stream(table.get_add_actions()).read_all()["path"].to_pylist()
    except (MaterializerError, DeltaError):
        return  # what the library cannot open is for Spark to open
    refuse_outside(path, names)
    refuse_irregular(path, map(unquote, names))
    _REGULAR.clear()
    _REGULAR.add(known)


def refuse_unfit_changes(path: str, after: int, upto: int) -> None:
    """Refuse commits of a table on a path that name a file which is no regular one, before Spark reads their rows; raises as above."""
    try:
        commits = DeltaFolder.at(path).commits(after, upto) if places.is_local(path) else []
    except LogGapError:
        return  # which Spark says of its feed
    names = [f.path for c in commits for f in c.adds] + [f.path for c in commits for f in c.change_files]
    refuse_irregular(path, map(unquote, names))


def to_pandas(path: str, order: Sequence[str]) -> pd.DataFrame:
    """Return all rows of a table of ours as a pandas frame.

    Args:
        path: The table.
        order: The columns by which the rows are sorted.
    """
    table = open_table(path)
    with translated(path, "reading"):
        rows = table.to_pyarrow_table()
    return sorted_frame(rows, order)


def sorted_frame(rows: pa.Table, order: Sequence[str]) -> pd.DataFrame:
    """Return rows as a pandas frame; instants are in UTC, whichever executor computed them.

    Args:
        rows: The rows.
        order: The columns by which they are sorted, those of them that have an order.
    """
    rows = plain(rows)
    for at, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            kind = pa.timestamp("us", None if column.type.tz is None else "UTC")
            rows = rows.set_column(at, column.name, rows.column(at).cast(kind))
    by = [(name, "ascending") for name in order if name in rows.column_names and _is_orderable(rows[name].type)]
    frame: pd.DataFrame = (rows.sort_by(by) if by else rows).to_pandas()
    return frame


class StoredRows(Struct, frozen=True):
    """The rows of some buckets of one version of a table of ours.

    Args:
        version: The version.
        shape: The columns.
        files: The files that may have such rows, with the span of each.
    """

    version: int
    shape: pa.Schema
    files: tuple[tuple[Span, str], ...]
    _path: str
    _column: SliceColumn
    _wanted: SpanSet

    @classmethod
    def of(cls, path: str, column: SliceColumn, spans: SpanSet) -> StoredRows:
        """Return the rows of the newest version.

        Args:
            path: A table of ours.
            column: The column with the bucket of a row.
            spans: The buckets.
        """
        opened = open_table(path)
        shape = plain(pa.schema(opened.schema().to_arrow()).empty_table()).schema
        wanted = column.values_in(spans)
        bounds = file_bounds(opened, time_column(opened, column.name, column.type))
        files = tuple((b.span, name) for name, _, b in bounds if b.span and SpanSet.of(b.span) & wanted)
        return cls(opened.version(), shape, files, path, column, wanted)

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file; one batch at a time is in memory."""
        with translated(self._path, "reading"), pq.ParquetFile(places.opened(f"{self._path}/{name}")) as file:
            for batch in file.iter_batches():
                rows = pa.Table.from_batches([batch]).select(self.shape.names).cast(self.shape)
                values = instants_of(rows[self._column.name], self._column.type).to_numpy()
                yield from rows.filter(mask(inside(values, self._wanted))).to_batches()


def between(start: int | None, end: int | None) -> SpanSet:
    """Return the span of two instants, of which None is an open end; nothing if they are the wrong way round."""
    first, last = NEG_INF if start is None else start, POS_INF if end is None else end
    return SpanSet.of(Span(first, last)) if first < last else SpanSet()


def newest_rows(
    path: str,
    column: SliceColumn,
    *,
    limit: int,
    start: int | None = None,
    end: int | None = None,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return column names and up to *limit* rows of some buckets, newest first; opens only the files it needs.

    Args:
        path: A table of ours.
        column: The column with the bucket of a row.
        limit: Maximum number of rows.
        start: First instant, or None.
        end: First instant after the rows, or None.
    """
    stored = StoredRows.of(path, column, between(start, end))
    shape = stored.shape
    tables: list[pa.Table] = []
    count, oldest = 0, POS_INF
    for span, name in sorted(stored.files, key=lambda f: f[0].end, reverse=True):
        if count >= limit and span.end <= oldest:
            break
        tables.append(pa.Table.from_batches(stored.batches(name), shape))
        count += tables[-1].num_rows
        oldest = min(oldest, span.start)
    if not tables:
        return shape.names, []
    others = [
        (n, "ascending") for n, t in zip(shape.names, shape.types, strict=True) if n != column.name and _is_orderable(t)
    ]
    rows = pa.concat_tables(tables).sort_by([(column.name, "descending"), *others]).slice(0, limit)
    return rows.column_names, list(zip(*(c.to_pylist() for c in rows.columns), strict=True))


def _is_orderable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
