"""The time range of a table's rows at one version, from the statistics of its files alone.

Every answer errs on the side of "may contain rows": a file without statistics may contain rows of any time.
"""

# ruff: noqa: PLC0415 - logs alone are read without Arrow

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from deltalake import DeltaTable

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import NOTHING, SourceDamagedError, SourceSchemaChangedError
from materializer.lake.failures import translated
from materializer.lake.hostile import refuse_outside
from materializer.lake.keys import Within, may_hold
from materializer.lake.statistics import DAY, FileRange, TimeColumn, column_bounds, partition_bounds
from materializer.lake.table import DeltaFolder
from materializer.lake.types import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
"""Types of an integer time; all of them are read alike."""


@dataclass(frozen=True, slots=True)
class FileStat:
    """One data file: its rows, its size, and the half-open time range that contains its rows."""

    rows: int
    bytes: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """Files whose statistics give no times; in *rows*, a file without a row count counts as one row."""

    files: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ReadEstimate:
    """The cost of reading some spans.

    Args:
        rows: Number of rows of all files that may contain something: an upper bound.
        bytes: Size of these files.
        files: Number of these files.
        likely_rows: Estimated rows, if each file's rows are spread evenly over its time.
        is_exact: Whether *rows* is exact: no span cuts a file, and the times of every file are known.
    """

    rows: int
    bytes: int
    files: int
    likely_rows: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Extent:
    """The files of one version of a table, by time.

    Args:
        version: The version.
        files: Files whose times are known, sorted by start.
        unknown: The files whose times are unknown.
        null_times: Number of rows without a time; None if unknown for some file.
    """

    version: int
    files: tuple[FileStat, ...]
    unknown: Unknown = Unknown()
    null_times: int | None = 0

    @property
    def hull(self) -> Span | None:
        """The smallest span that contains all files with known times; None if there are none."""
        return Span(self.files[0].start, max(f.end for f in self.files)) if self.files else None

    def newest_before(self, edge: int) -> int | None:
        """Return the newest time before *edge* at which the files are known to have a row; None if no row is known.

        Of a file that extends beyond the edge, only the time of its first row is used.
        """
        known = (f.end - 1 if f.end <= edge else f.start for f in self.files if f.start < edge)
        return max(known, default=None)

    def since(self, start: int) -> Extent:
        """Return the files that may have rows from an instant on, as far as these rows are concerned."""
        later = tuple(replace(f, start=max(f.start, start)) for f in self.files if f.end > start)
        return replace(self, files=tuple(sorted(later, key=lambda f: f.start)))

    def rows_in(self, spans: SpanSet) -> int:
        """Return the estimated rows in *spans*; files without statistics count whole."""
        return self.estimate(spans).likely_rows

    def estimate(self, spans: SpanSet) -> ReadEstimate:
        """Return the cost of reading *spans*."""
        unknown = self.unknown if spans else Unknown()
        rows, size, count, likely = unknown.rows, unknown.bytes, unknown.files, float(unknown.rows)
        is_exact = count == 0
        for file, covered in _overlaps(self.files, spans):
            rows, size, count = rows + file.rows, size + file.bytes, count + 1
            length = file.end - file.start
            likely += file.rows * covered / length
            is_exact = is_exact and covered == length
        return ReadEstimate(rows, size, count, round(likely), is_exact)

    def present(self, spans: SpanSet) -> SpanSet:
        """Return the part of *spans* that may hold rows."""
        if self.unknown.files:
            return spans
        return SpanSet.union(Span(f.start, f.end) for f in _near(self.files, spans)) & spans


def files(path: str, version: int, column: str, time_type: TimeType, within: Within | None = None) -> Extent:
    """Return the time ranges of a table's files at one version.

    Args:
        path: Folder of the table.
        version: The version of the table.
        column: Its time column.
        time_type: Type of that column.
        within: Only files that may have rows with these values.

    Raises:
        SourceDamagedError: If the version can no longer be read.
        SourceSchemaChangedError: If the column has another type than *time_type*.
        TableNotFoundError, NotADeltaTableError, StorageError: As for :func:`~materializer.lake.table.open_table`.
    """
    if within is not None:
        return _files(path, version, column, time_type, within)
    key = ("files", version, column, time_type)
    return DeltaFolder.at(path).fact(key, lambda: _files(path, version, column, time_type, None))


def _files(path: str, version: int, column: str, time_type: TimeType, within: Within | None) -> Extent:
    with DeltaFolder.at(path).reading(version) as table:
        _refuse_other_type(table, column, time_type)
        all_files = list(file_bounds(table, time_column(table, column, time_type), within))
    known: list[FileStat] = []
    unknown, null_times = Unknown(), 0
    are_nulls_known = True
    for _, size, bounds in all_files:
        if bounds.nulls is None and bounds.rows != 0:
            are_nulls_known = False
        null_times += bounds.nulls or 0
        if bounds.span is not None and bounds.rows is not None:
            known.append(FileStat(bounds.rows, size, bounds.span.start, bounds.span.end))
        elif not bounds.is_known or bounds.span is not None:
            rows = 1 if bounds.rows is None else bounds.rows
            unknown = Unknown(unknown.files + 1, unknown.rows + rows, unknown.bytes + size)
    known.sort(key=lambda f: (f.start, f.end))
    return Extent(version, tuple(known), unknown, null_times if are_nulls_known else None)


def _refuse_other_type(table: DeltaTable, name: str, time_type: TimeType) -> None:
    """Refuse a table whose column of the time has another type than the definition that reads it; one that is gone tells nothing."""
    kinds = dict(columns_of(table.schema().to_json()))
    kind = kinds.get(name, str(time_type))
    if kind != time_type and not (time_type.is_integer and kind in _INTEGERS):
        raise SourceSchemaChangedError(
            f"column '{name}' of the table at '{table.table_uri}' is {kind} now, and is read as {time_type}",
            hint="apply a definition that fits the source",
            column=name,
            found=kind,
            expected=str(time_type),
        )


def time_column(table: DeltaTable, name: str, time_type: TimeType) -> TimeColumn:
    """Return the time column of *table* with its name in statistics (physical on column-mapped tables)."""
    physical = name
    for field in json.loads(table.schema().to_json())["fields"]:
        if field["name"] == name:
            physical = field.get("metadata", {}).get("delta.columnMapping.physicalName", name)
    return TimeColumn(name, time_type, physical, is_partition=name in table.metadata().partition_columns)


def file_bounds(
    table: DeltaTable, column: TimeColumn, within: Within | None = None
) -> Iterator[tuple[str, int, FileRange]]:
    """Yield path (decoded), bytes and bounds of each file of an open table, or of those that may have rows *within*."""
    import pyarrow as pa

    from materializer.lake.features import features_of

    with translated(str(table.table_uri), "reading"):
        # pa.table() of a foreign object would import pandas
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    if within and not features_of(table).has_column_mapping:  # else statistics may name another column
        actions = actions.filter(pa.array(may_hold(actions, within, table.metadata().partition_columns), pa.bool_()))
    paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
    if min(sizes, default=0) < 0:
        path = table.table_uri
        raise SourceDamagedError(f"the log of '{path}' gives a file the size {min(sizes):,}", wrote=NOTHING)
    rows = actions["num_records"].to_pylist()
    if column.is_partition:
        values = _values(actions, f"partition.{column.name}")
        ranges = [_of_partition(r, v, column.time_type) for r, v in zip(rows, values, strict=True)]
    else:
        nulls = _values(actions, f"null_count.{column.physical}")
        lowest = _instants(actions, "min", column)
        highest = _instants(actions, "max", column)
        zipped = zip(rows, nulls, lowest, highest, strict=True)
        ranges = [column_bounds(r, n, low, high, column.time_type) for r, n, low, high in zipped]
    refuse_outside(str(table.table_uri), paths)
    for path, size, bounds in zip(paths, sizes, ranges, strict=True):
        yield unquote(path) if "%" in path else path, size, bounds


def _of_partition(rows: int | None, value: Any, time_type: TimeType) -> FileRange:
    if value is not None and time_type is TimeType.TIMESTAMP and getattr(value, "tzinfo", None) is None:
        return FileRange(rows, 0)
    return partition_bounds(rows, None if value is None else str(value), time_type)


def _values(actions: pa.Table, name: str) -> list[Any]:
    """Return a value of each file; the library names partitions as the schema does, and statistics as the files do."""
    return list(actions[name].to_pylist()) if name in actions.column_names else [None] * actions.num_rows


def _instants(actions: pa.Table, which: str, column: TimeColumn) -> list[int | None]:
    name = f"{which}.{column.physical}"
    if name not in actions.column_names:
        return [None] * actions.num_rows
    return list(instants_of(actions[name], column.time_type).to_pylist())


def instants_of(values: Any, time_type: TimeType) -> Any:
    """Return an Arrow column of the time type as 64-bit instants; nulls stay null.

    Raises:
        TypeError: If the column has another type than *time_type* says.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if time_type.is_integer:
        if not pa.types.is_integer(kind):
            raise TypeError(f"expected {time_type}, got {kind}")
        return values.cast(pa.int64())
    if time_type is TimeType.DATE:
        if not pa.types.is_date(kind):
            raise TypeError(f"expected date, got {kind}")
        return pc.multiply_checked(values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), DAY)
    if not pa.types.is_timestamp(kind) or (kind.tz is None) != (time_type is TimeType.TIMESTAMP_NTZ):
        raise TypeError(f"expected {time_type}, got {kind}")
    return values.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())


def _near(sorted_files: tuple[FileStat, ...], spans: SpanSet) -> list[FileStat]:
    """Return the files that meet the hull of *spans*: few of many files if *spans* is one late row."""
    hull = spans.hull
    if hull is None:
        return []
    upto = bisect_left(sorted_files, hull.end, key=attrgetter("start"))
    return [file for file in sorted_files[:upto] if file.end > hull.start]


def _overlaps(sorted_files: tuple[FileStat, ...], spans: SpanSet) -> Iterator[tuple[FileStat, int]]:
    """Yield each file that meets *spans*, with the length of its time range inside them."""
    starts = [s.start for s in spans]
    for file in _near(sorted_files, spans):
        first = max(bisect_right(starts, file.start) - 1, 0)
        last = bisect_left(starts, file.end)
        covered = sum(max(0, min(s.end, file.end) - max(s.start, file.start)) for s in spans.spans[first:last])
        if covered:
            yield file, covered
