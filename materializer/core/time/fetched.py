"""Times of rows as Spark's driver fetches them: a timestamp comes without its zone, in that of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any


def zoned(values: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """Return a row in which each timestamp has its zone, UTC; a ``timestamp_ntz`` has none.

    Args:
        values: The row. A value may be such a row again: the row that was expected, or the one that was found.
        types: Spark type of each column.
    """
    return {
        name: zoned(value, types) if isinstance(value, Mapping) else _zoned(value, types.get(name, ""))
        for name, value in values.items()
    }


def fetched_text(value: Any, kind: str) -> str:
    """Return a value of a column as text, as Python has it; times in ISO form, instants in UTC.

    Examples:
        >>> fetched_text(datetime(2024, 1, 2), "timestamp_ntz"), fetched_text(datetime(2024, 1, 2, tzinfo=UTC), "timestamp")
        ('2024-01-02T00:00:00', '2024-01-02T00:00:00Z')
        >>> fetched_text(7, "bigint"), fetched_text(None, "timestamp")
        ('7', 'None')
    """
    return plain_text(_zoned(value, kind))


def plain_text(value: Any) -> str:
    """Return a value as text, as Python has it; times in ISO form."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, date) else str(value)


def _zoned(value: Any, kind: str) -> Any:
    if not isinstance(value, datetime) or kind != "timestamp":
        return value
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):  # in the first or last hours of the years that Python has
        return value.replace(tzinfo=UTC)
