"""Values as the page has them: instants as numbers that JavaScript can draw, and columns as lists."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from materializer.core.time.instants import MILLISECOND, Shown
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet


def instant(value: int, kind: Shown) -> float | int | None:
    """Return an instant as milliseconds since 1970, as a plain number for integer time, and as None for an end that does not exist.

    Examples:
        >>> instant(1_500, Shown.TIMESTAMP), instant(1_500, Shown.BIGINT), instant(NEG_INF, Shown.DATE)
        (1.5, 1500, None)
    """
    if value in {NEG_INF, POS_INF}:
        return None
    return value if kind.is_integer else value / MILLISECOND


def span(value: Span, kind: Shown) -> list[float | int | None]:
    """Return both ends of a span."""
    return [instant(value.start, kind), instant(value.end, kind)]


def spans(values: SpanSet, kind: Shown) -> list[list[float | int | None]]:
    """Return the spans of a set."""
    return [span(each, kind) for each in values]


def moment(text: str) -> float | None:
    """Return an ISO text of the journal as milliseconds since 1970; None if there is none.

    Examples:
        >>> moment("1970-01-01T00:00:01+00:00"), moment("")
        (1000.0, None)
    """
    if not text:
        return None
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000


def number(value: Any) -> float | int | None:
    """Return a value of a measure as a number that can be drawn; None for anything else, also for NaN and infinity.

    Examples:
        >>> number(Decimal("1.5")), number(float("nan")), number(True), number("7")
        (1.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    found = float(value) if isinstance(value, Decimal) else value
    return found if math.isfinite(found) else None


def text(value: Any) -> str:
    """Return any value of a row as text for people.

    Examples:
        >>> text(None), text(b"ab"), text(datetime(2024, 1, 2, tzinfo=UTC))
        ('null', '6162', '2024-01-02T00:00:00+00:00')
    """
    match value:
        case None:
            return "null"
        case bytes():
            return value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return str(value)


def time_of(value: Any) -> float | int | None:
    """Return the value of a bucket's column as the page has instants; None if it is no time."""
    match value:
        case bool():
            return None
        case int():
            return value
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp() * 1000
        case _:
            return None
