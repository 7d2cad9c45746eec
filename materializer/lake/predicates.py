"""Which rows lie in some spans: as the library's SQL, and over Arrow columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from materializer.core.spans import Span, SpanSet
from materializer.core.spec import TimeType
from materializer.lake.statistics import DAY

MAX_SPANS: Final = 64
"""Spans in one predicate: 64 cost about 0.1 s, 1,000 cost 5 s, 3,000 overflow the library's stack."""

_I64_MIN: Final = -(1 << 63)
_I64_MAX: Final = (1 << 63) - 1
_ARROW: Final = {
    TimeType.TIMESTAMP: 'Timestamp(Microsecond, Some("UTC"))',
    TimeType.TIMESTAMP_NTZ: "Timestamp(Microsecond, None)",
    TimeType.DATE: "Date32",
    TimeType.SMALLINT: "Int16",
    TimeType.INT: "Int32",
    TimeType.BIGINT: "Int64",
}
# A literal beyond the calendar of the library (the years -262143 to 262142) cannot be printed into the commit, so such
# an end is left open: nothing lies behind it.
_CALENDAR: Final = 8_200_000_000_000_000_000
_RANGE: Final = {
    TimeType.TIMESTAMP: (-_CALENDAR, _CALENDAR),
    TimeType.TIMESTAMP_NTZ: (-_CALENDAR, _CALENDAR),
    TimeType.DATE: (-_CALENDAR // DAY, _CALENDAR // DAY),
    TimeType.SMALLINT: (-(1 << 15), (1 << 15) - 1),
    TimeType.INT: (-(1 << 31), (1 << 31) - 1),
    TimeType.BIGINT: (_I64_MIN, _I64_MAX),
}


def predicate(column: str, time_type: TimeType, spans: SpanSet, *, is_end: bool = False) -> str | None:
    """Return SQL of the library that holds for the rows of *spans*, None when no value of the type lies in them.

    Args:
        column: A column of *time_type*.
        time_type: Its type.
        spans: At most ``MAX_SPANS`` of them; infinite ends and ends beyond the type leave a side open.
        is_end: Whether the column holds the exclusive end of a bucket, so that a span takes (start, end].
    """
    name = '"' + column.replace('"', '""') + '"'
    clauses = [c for span in spans if (c := _clause(name, time_type, span, is_end=is_end)) is not None]
    if not clauses:
        return None
    return "true" if "true" in clauses else _balanced(clauses)


def _clause(name: str, time_type: TimeType, span: Span, *, is_end: bool) -> str | None:
    # Everything is brought to "value >= low and value <= high" over the raw values of the type first.
    shift = 1 if is_end else 0
    low, high = span.start + shift, span.end - 1 + shift
    if time_type is TimeType.DATE:
        low, high = -(-low // DAY), high // DAY
    least, most = _RANGE[time_type]
    if high < low or high < least or low > most:
        return None
    sides = []
    if low > least:
        sides.append(f"{name} >= {_literal(low, time_type)}")
    if high < most:
        sides.append(f"{name} < {_literal(high + 1, time_type)}")
    return f"({' AND '.join(sides)})" if sides else "true"


def _literal(value: int, time_type: TimeType) -> str:
    return f"arrow_cast({value}, '{_ARROW[time_type]}')"


def _balanced(clauses: list[str]) -> str:
    if len(clauses) == 1:
        return clauses[0]
    half = len(clauses) // 2
    return f"({_balanced(clauses[:half])} OR {_balanced(clauses[half:])})"


def hulls(spans: SpanSet, limit: int = MAX_SPANS) -> SpanSet:
    """Return few spans around *spans*, as a predicate can name them."""
    return spans.at_most(limit)


def inside(instants: Any, spans: SpanSet, *, is_end: bool = False) -> Any:
    """Return which of some instants lie in *spans*, as an array of truth values.

    Args:
        instants: Array of 64-bit instants without nulls.
        spans: The spans.
        is_end: Whether the instants are exclusive ends, so that a span takes (start, end].
    """
    values = np.asarray(instants, dtype=np.int64)
    if not spans:
        return np.zeros(len(values), dtype=bool)
    starts = np.array([min(max(s.start, _I64_MIN), _I64_MAX) for s in spans], dtype=np.int64)
    lasts = np.array([min(max(s.end - 1, _I64_MIN), _I64_MAX) for s in spans], dtype=np.int64)
    probe = values - 1 if is_end else values
    at = np.searchsorted(starts, probe, side="right") - 1
    return (at >= 0) & (probe <= lasts[np.maximum(at, 0)])
