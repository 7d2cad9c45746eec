"""The time range of a table's rows at one version, from the statistics of its files alone.

Every answer errs on the side of "may contain rows": a file without statistics may contain rows of any time.
"""

# ruff: noqa: PLC0415 - logs alone are read without Arrow

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from deltalake import DeltaTable
from msgspec import Struct
from msgspec.structs import replace

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import NOTHING, SourceDamagedError, SourceSchemaChangedError
from materializer.lake.failures import translated
from materializer.lake.file_times import FileStat, FileTimes, column_of
from materializer.lake.hostile import TWO_DOTS, refuse_outside
from materializer.lake.keys import Within, may_hold
from materializer.lake.statistics import DAY, FileRange, TimeColumn, column_bounds, partition_bounds, unit
from materializer.lake.table import DeltaFolder
from materializer.lake.types import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
"""Types of an integer time; all of them are read alike."""


class Unknown(Struct, frozen=True):
    """Files whose statistics give no times; in *rows*, a file without a row count counts as one row."""

    files: int = 0
    rows: int = 0
    bytes: int = 0


class ReadEstimate(Struct, frozen=True):
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


class Extent(Struct, frozen=True):
    """The files of one version of a table, by time.

    Args:
        version: The version.
        files: Files whose times are known, sorted by start.
        unknown: The files whose times are unknown.
        null_times: Number of rows without a time; None if unknown for some file.
    """

    version: int
    files: Sequence[FileStat]
    unknown: Unknown = Unknown()
    null_times: int | None = 0

    @property
    def _times(self) -> FileTimes:
        return FileTimes.of(self.files)

    @property
    def hull(self) -> Span | None:
        """The smallest span that contains all files with known times; None if there are none."""
        return self._times.hull

    @property
    def rows(self) -> int:
        """The rows of all files with known times."""
        return self._times.rows

    @property
    def bytes(self) -> int:
        """The bytes of all files with known times."""
        return self._times.bytes

    def newest_before(self, edge: int) -> int | None:
        """Return the newest time before *edge* at which the files are known to have a row; None if no row is known.

        Of a file that extends beyond the edge, only the time of its first row is used.
        """
        return self._times.newest_before(edge)

    def since(self, start: int) -> Extent:
        """Return the files that may have rows from an instant on, as far as these rows are concerned."""
        return replace(self, files=self._times.since(start))

    def rows_in(self, spans: SpanSet) -> int:
        """Return the estimated rows in *spans*; files without statistics count whole."""
        return self.estimate(spans).likely_rows

    def estimate(self, spans: SpanSet) -> ReadEstimate:
        """Return the cost of reading *spans*."""
        unknown = self.unknown if spans else Unknown()
        met, likely, is_whole = self._times.inside(spans)
        return ReadEstimate(
            unknown.rows + met.rows,
            unknown.bytes + met.bytes,
            unknown.files + len(met),
            round(unknown.rows + likely),
            is_whole and unknown.files == 0,
        )

    def present(self, spans: SpanSet) -> SpanSet:
        """Return the part of *spans* that may hold rows."""
        if self.unknown.files:
            return spans
        return self._times.near(spans).spans & spans


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
        time = time_column(table, column, time_type)
        actions = _listed(table, within)
        _refuse(table, actions)
        if time.is_partition or not _is_whole(actions, time):
            return _one_by_one(version, _bounds(actions, time))
        return _together(version, actions, time)


def _one_by_one(version: int, found: Iterator[tuple[str, int, FileRange]]) -> Extent:
    known: list[FileStat] = []
    unknown, null_times = Unknown(), 0
    are_nulls_known = True
    for _, size, bounds in found:
        if bounds.nulls is None and bounds.rows != 0:
            are_nulls_known = False
        null_times += bounds.nulls or 0
        if bounds.span is not None and bounds.rows is not None:
            known.append(FileStat(bounds.rows, size, bounds.span.start, bounds.span.end))
        elif not bounds.is_known or bounds.span is not None:
            rows = 1 if bounds.rows is None else bounds.rows
            unknown = Unknown(unknown.files + 1, unknown.rows + rows, unknown.bytes + size)
    known.sort(key=lambda f: (f.start, f.end))
    return Extent(version, FileTimes.of(known), unknown, null_times if are_nulls_known else None)


def _is_whole(actions: pa.Table, column: TimeColumn) -> bool:
    """Return whether every file has a number of rows, and times, that are no larger than what 64 bits can add."""
    import pyarrow.compute as pc

    names = [f"{which}.{column.physical}" for which in ("null_count", "min", "max")]
    if not actions.num_rows or any(name not in actions.column_names for name in names):
        return False
    nulls, low, high = (actions[name] for name in names)
    if any(each.null_count for each in (actions["num_records"], nulls, low, high)):
        return False
    instants = instants_of(high, column.time_type)
    return bool(pc.max(instants).as_py() < 1 << 62 and pc.all(pc.less_equal(low, high)).as_py())


def _together(version: int, actions: pa.Table, column: TimeColumn) -> Extent:
    """Return the same as :func:`_one_by_one` of files that are whole, without a value for each."""
    import numpy as np
    import pyarrow.compute as pc

    rows, sizes, nulls = (actions[n] for n in ("num_records", "size_bytes", f"null_count.{column.physical}"))
    starts, highest = (instants_of(actions[f"{n}.{column.physical}"], column.time_type) for n in ("min", "max"))
    ends = highest.to_numpy() + unit(column.time_type)
    starts = starts.to_numpy()
    order = np.lexsort((ends, starts))
    cells = (rows.to_numpy()[order], sizes.to_numpy()[order], starts[order], ends[order])
    return Extent(version, FileTimes(*map(column_of, cells)), null_times=pc.sum(nulls).as_py())


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
    actions = _listed(table, within)
    _refuse(table, actions)
    yield from _bounds(actions, column)


def _listed(table: DeltaTable, within: Within | None) -> pa.Table:
    """Return the files of an open table with their statistics, or those that may have rows *within*."""
    import pyarrow as pa

    from materializer.lake.features import features_of

    with translated(str(table.table_uri), "reading"):
        # pa.table() of a foreign object would import pandas
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    if within and not features_of(table).has_column_mapping:  # else statistics may name another column
        actions = actions.filter(pa.array(may_hold(actions, within, table.metadata().partition_columns), pa.bool_()))
    return actions


def _refuse(table: DeltaTable, actions: pa.Table) -> None:
    """Refuse files that lie outside of their table, and sizes that no file has."""
    import pyarrow.compute as pc

    smallest = pc.min(actions["size_bytes"]).as_py() or 0
    if smallest < 0:
        path = table.table_uri
        raise SourceDamagedError(f"the log of '{path}' gives a file the size {smallest:,}", wrote=NOTHING)
    doubtful = actions["path"].filter(pc.match_substring_regex(actions["path"], TWO_DOTS))
    refuse_outside(str(table.table_uri), doubtful.to_pylist())


def _bounds(actions: pa.Table, column: TimeColumn) -> Iterator[tuple[str, int, FileRange]]:
    paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
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
