"""The time range of a data file, from the statistics in its ``add`` action.

Statistics of timestamps are truncated to milliseconds, so the exclusive end is the maximum plus one millisecond. Other types
are exact, and their exclusive end is the maximum plus one unit. An uncertain value is unknown (None), never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span

DAY: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FRACTION: Final = re.compile(r"\.(\d{6})\d+")


class TimeColumn(Struct, frozen=True):
    """A time column as the log describes it.

    Args:
        name: The name of the column.
        time_type: The type of the column.
        physical: Its name in statistics and partition values, which differs on column-mapped tables.
        is_partition: Whether the table is partitioned by the column.
    """

    name: str
    time_type: TimeType
    physical: str
    is_partition: bool = False


class FileRange(Struct, frozen=True):
    """The statistics of one file.

    Args:
        rows: Number of rows, deleted ones included; None if unknown.
        nulls: Number of rows whose time is null; None if unknown.
        span: Time range of the rows, end excluded; None if unknown or if the file holds no times.
        is_known: Whether *span* is reliable; a known file without a span holds no times.
    """

    rows: int | None = None
    nulls: int | None = None
    span: Span | None = None
    is_known: bool = False


def unit(time_type: TimeType, *, is_cut: bool = True) -> int:
    """Return the distance from a maximum to the exclusive end.

    Args:
        time_type: Type of the column.
        is_cut: Whether timestamps are truncated to milliseconds, as in statistics (partition values are not).
    """
    if time_type is TimeType.DATE:
        return DAY
    return 1 if time_type.is_integer or not is_cut else 1000


def instant(value: Any, time_type: TimeType) -> int | None:
    """Return the instant of a statistic or a partition value; None if it cannot be determined.

    A timestamp without a zone has an unknown zone, so its instant is None; years outside 1 to 9999 are None as well.

    Examples:
        >>> instant("1970-01-01T01:00:00.001+01:00", TimeType.TIMESTAMP)
        1000
        >>> instant("1970-01-01 00:00:00.5", TimeType.TIMESTAMP_NTZ)
        500000
        >>> instant("1970-01-02", TimeType.DATE)
        86400000000
    """
    try:
        if time_type.is_integer:
            return int(value)
        moment = _moment(str(value))
    except (ValueError, TypeError):
        return None
    if time_type is TimeType.TIMESTAMP:
        return None if moment.tzinfo is None else (moment - _EPOCH) // _MICROSECOND
    return (moment.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=65_536)  # the statistics of a file are read for its times, and for what the library misreads
def _moment(text: str) -> datetime:
    return datetime.fromisoformat(_FRACTION.sub(r".\1", text))


def _count(value: Any) -> int | None:
    """Return a number of rows; ValueError for what counts no rows."""
    if value is not None and (type(value) is not int or not 0 <= value < 1 << 63):
        raise ValueError(f"a number of rows is {str(value)[:50]!r}")
    return value


def bounds(stats: Mapping[str, Any], partition: Mapping[str, str | None], column: TimeColumn | None) -> FileRange:
    """Return the bounds of *column* from the statistics and partition values of an ``add``.

    Args:
        stats: The parsed ``stats`` text; empty if there was none.
        partition: The partition values.
        column: The time column; None returns only the number of rows.
    """
    rows = _count(stats.get("numRecords"))
    if column is None:
        return FileRange(rows)
    if column.is_partition:
        if column.physical not in partition:  # a remove may omit its partition values
            return FileRange(rows)
        return partition_bounds(rows, partition.get(column.physical), column.time_type)
    nulls = _count((stats.get("nullCount") or {}).get(column.physical))
    lowest = (stats.get("minValues") or {}).get(column.physical)
    highest = (stats.get("maxValues") or {}).get(column.physical)
    return column_bounds(
        rows, nulls, instant(lowest, column.time_type), instant(highest, column.time_type), column.time_type
    )


def partition_bounds(rows: int | None, value: str | None, time_type: TimeType) -> FileRange:
    """Return the bounds of a file whose rows all have the partition value *value* as their time."""
    if value is None or value == "":
        return FileRange(rows, rows, None, is_known=True)
    start = instant(value, time_type)
    return (
        FileRange(rows, 0)
        if start is None
        else FileRange(rows, 0, Span(start, start + unit(time_type, is_cut=False)), is_known=True)
    )


@lru_cache(maxsize=65_536)  # most files of a table are the same as at the last refresh
def column_bounds(
    rows: int | None, nulls: int | None, lowest: int | None, highest: int | None, time_type: TimeType
) -> FileRange:
    """Return the bounds of a file from its column statistics, each as an instant or None."""
    if lowest is None or highest is None or highest < lowest:
        is_empty = rows == 0 or (rows is not None and nulls == rows)
        return FileRange(rows, nulls, None, is_known=is_empty)
    return FileRange(rows, nulls, Span(lowest, highest + unit(time_type)), is_known=True)
