"""Converts values of a suite's JSON to SQL literals and Python values, by the type of the column they are compared with.

Each function returns None for a value that does not fit the type; Great Expectations has its own rules for such values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
TIMES: Final = ("timestamp", "timestamp_ntz")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_numeric(kind: str) -> bool:
    """Whether a Spark type is numeric."""
    return kind in INTEGERS or kind in ("float", "double") or kind.startswith("decimal")


def is_nested(kind: str) -> bool:
    """Whether a Spark type has parts, or is binary: SQL and Great Expectations may compare its values differently."""
    return kind.startswith(("array", "map", "struct")) or kind in ("variant", "binary")


def is_integer(value: Any) -> bool:
    """Whether a JSON value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def bound_sql(value: Any, kind: str) -> str | None:
    """Return a bound in the form in which Great Expectations passes it to Spark: a double, a date or a timestamp."""
    if is_numeric(kind):
        number = as_number(value)
        return None if number is None else number_sql(number)
    if kind == "date":
        day = as_date(value)
        return None if day is None else f"DATE'{day.isoformat()}'"
    if kind in TIMES:
        instant = as_instant(value)
        return None if instant is None else f"TIMESTAMP'{instant.isoformat()}Z'"
    return None


def number_sql(value: float) -> str:
    """Return a number as a double literal."""
    return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"


def member_sql(value: Any, kind: str) -> str | None:
    """Return a member of a set as a literal."""
    if kind == "string":
        return text_sql(value) if isinstance(value, str) else None
    if kind == "boolean":
        return str(value).lower() if isinstance(value, bool) else None
    if not is_numeric(kind):
        return None
    if is_integer(value):
        return f"{value}" if abs(value) < 2**31 else f"{value}L" if abs(value) < 2**63 else None
    number = as_number(value)
    return None if number is None else number_sql(number)


def text_sql(value: str) -> str:
    r"""Return a text as a string literal.

    Examples:
        >>> print(text_sql(r"it's a \d"))
        'it\'s a \\d'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def as_number(value: Any) -> float | None:
    """Return a JSON number as a double, as Great Expectations treats every bound; None for NaN too."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return None if math.isnan(value) else float(value)


def as_whole(value: Any) -> int | None:
    """Return a JSON integer."""
    return value if is_integer(value) else None


def as_date(value: Any) -> date | None:
    """Return a date that is written as YYYY-MM-DD."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) and len(value) == len("YYYY-MM-DD") else None
    except ValueError:
        return None


def as_instant(value: Any) -> datetime | None:
    """Return an instant in ISO form, converted to UTC and without a zone; a date means its midnight."""
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return instant.astimezone(UTC).replace(tzinfo=None) if instant is not None and instant.tzinfo else instant


READERS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"number": as_number, "integer": as_whole, "date": as_date, "timestamp": as_instant}
)
"""The reader of bounds by the kind of the compared value."""


def number_of(found: Any) -> float | int | None:
    """Return a fetched number in the form in which Great Expectations compares it: decimals as doubles, NaN as missing."""
    if isinstance(found, Decimal):
        return float(found)
    return None if found is None or (isinstance(found, float) and math.isnan(found)) else found


def instant_of(micros: int | None) -> datetime | None:
    """Return fetched microseconds since the epoch as an instant in UTC, without a zone."""
    return None if micros is None else (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None)


def share_of(part: int, whole: int) -> float:
    """Return *part* / *whole*; 0 when *whole* is 0."""
    return part / whole if whole else 0
