"""Instants as text, and the calendar as integers.

An instant is microseconds since 1970-01-01T00:00:00Z (of the wall clock, for dates and timestamps without zone), or the
raw value of an integer time column. The calendar is the proleptic Gregorian one for every year, including years before 1
and after 9999, which ``datetime`` cannot represent; year 0 is 1 BC.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any, Final, SupportsIndex, TypeAlias

from msgspec import Struct

from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.time.spans import NEG_INF, POS_INF, Span
from materializer.errors import RefreshWindowError

Instant = str | int | date | None
"""An end of a window: ISO text, a ``date`` or a ``datetime``, a raw integer for integer time columns, or None for an open end."""

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

TICKS_PER_SECOND: Final = {
    Resolution.S: 1,
    Resolution.MS: 1_000,
    Resolution.US: 1_000_000,
    Resolution.NS: 1_000_000_000,
}
"""Number of ticks of an integer time column in one second."""

_NANO: Final = 1_000_000_000
_DAYS_IN_400_YEARS: Final = 146_097
_MOST_OFFSET: Final = 18 * 3600
"""Largest distance of an offset from UTC in Java, and so in Spark, in seconds."""
_DAYS_0000_03_01: Final = 719_468
"""Days from 0000-03-01 to 1970-01-01."""

_INFINITE: Final = {
    "-inf": NEG_INF,
    "-infinity": NEG_INF,
    "inf": POS_INF,
    "+inf": POS_INF,
    "infinity": POS_INF,
    "+infinity": POS_INF,
}
_ISO: Final = re.compile(
    r"""(?P<year>[+-]?\d{4,6})-(?P<month>\d{2})-(?P<day>\d{2})
        (?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?
           \s?(?P<zone>Z|z|UTC|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?)?)?
        (?P<bc>\sBC)?""",
    re.VERBOSE | re.ASCII,
)


def days_of(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date.

    Examples:
        >>> days_of(1970, 1, 1), days_of(2000, 2, 29), days_of(0, 12, 31)
        (0, 11016, -719163)
    """
    # years begin in March here, so that the leap day is the last day of its year
    if month < 3:
        year, month = year - 1, month + 12
    return (
        365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1 - _DAYS_0000_03_01
    )


def date_of(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) of a day counted from 1970-01-01, the inverse of :func:`days_of`.

    Examples:
        >>> date_of(11016), date_of(-1)
        ((2000, 2, 29), (1969, 12, 31))
    """
    cycle, day = divmod(days + _DAYS_0000_03_01, _DAYS_IN_400_YEARS)
    # the last day of 4, 100 and 400 years is the leap day, which a division into equal years must not split off
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    return 400 * cycle + year + (month < 3), month, day + 1


def year_of(instant: int) -> int:
    """Return the UTC year of an instant in microseconds."""
    return date_of(instant // DAY)[0]


def written(given: Any) -> str:
    """Return an instant that a caller gave as the text that it stands for.

    Args:
        given: Text, a whole number, a ``datetime`` with or without a zone, or a ``date``, which is its midnight.

    Raises:
        ValueError: If it is none of these.

    Examples:
        >>> from datetime import UTC, datetime
        >>> written(datetime(2024, 3, 1, 6, tzinfo=UTC)), written(date(2024, 3, 1)), written(5)
        ('2024-03-01T06:00:00+00:00', '2024-03-01', '5')
    """
    match given:
        case str():
            return given.strip()
        case date():  # a datetime is one, too
            return given.isoformat()
        case SupportsIndex() if not isinstance(given, bool):
            return str(given.__index__())
        case _:
            what = "a text such as 2024-03-01T00:00:00Z, a datetime, a date or, for integer time, a whole number"
            raise ValueError(f"expected {what}, got {type(given).__name__} {given!r:.60}")


def parse(text: Any, time_type: TimeType, resolution: Resolution = Resolution.NONE) -> int:
    """Return the instant that *text* names.

    Args:
        text: ``-inf``, ``inf``; an integer for integer columns; else ISO 8601 (``2024-03-01``,
            ``2024-03-01T00:00:00.5Z``, ``+02:00``; a trailing ``BC`` is read), or what :func:`written` takes for such a
            text. Without a zone it is UTC.
        time_type: Type of the time column.
        resolution: Meaning of a tick of an integer column; with a resolution, integer columns also accept ISO text.

    Raises:
        ValueError: If the text cannot be read, or names no value of the type (a zone for a wall clock, a time for a date).

    Examples:
        >>> parse("1970-01-01T02:00:00+02:00", TimeType.TIMESTAMP)
        0
        >>> parse("1970-01-02", TimeType.BIGINT, Resolution.MS)
        86400000
    """
    text = written(text)
    if text.lower() in _INFINITE:
        return _INFINITE[text.lower()]
    if time_type.is_integer and re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text)
    if time_type.is_integer and resolution is Resolution.NONE:
        msg = f"expected an integer for a {time_type} time column without a resolution, got {text!r}"
        raise ValueError(msg)
    match = _ISO.fullmatch(text)
    if not match:
        msg = f"expected a time such as 2024-03-01 or 2024-03-01T00:00:00Z, got {text!r}"
        raise ValueError(msg)
    if match["zone"] and time_type in (TimeType.DATE, TimeType.TIMESTAMP_NTZ):
        msg = f"a {time_type} time column has no time zone, but {text!r} names one"
        raise ValueError(msg)
    per_second = TICKS_PER_SECOND[resolution] if time_type.is_integer else SECOND
    ticks, rest = divmod(_nanos(match, text) * per_second, _NANO)
    if rest or (time_type is TimeType.DATE and ticks % DAY):
        kind = f"{time_type} in {resolution}" if time_type.is_integer else time_type
        msg = f"{text!r} is finer than a {kind} time column can hold"
        raise ValueError(msg)
    return ticks


def parse_window(
    start: Instant,
    end: Instant,
    time_type: TimeType,
    resolution: Resolution = Resolution.NONE,
) -> Span:
    """Return the window ``[start, end)`` that two texts name; None is an open end.

    Raises:
        RefreshWindowError: If an end cannot be read, or the window is empty or reversed.
    """
    try:
        first = NEG_INF if start is None else parse(start, time_type, resolution)
        last = POS_INF if end is None else parse(end, time_type, resolution)
    except ValueError as error:
        raise RefreshWindowError(str(error), hint="give times like 2024-03-01T00:00:00Z, or integers") from None
    if last <= first:
        first_text, last_text = (render(end, shown_as(time_type, resolution)) for end in (first, last))
        what = f"[{first_text}, {last_text})"
        raise RefreshWindowError(f"window {what} ends before it starts", hint="swap --start and --end")
    return Span(first, last)


class Epoch(Struct, frozen=True):
    """An integer time column whose ticks are parts of a second, as people are shown its instants: as times, not as numbers.

    Args:
        time_type: Type of the column.
        resolution: What a tick is.
    """

    time_type: TimeType
    resolution: Resolution

    @property
    def is_integer(self) -> bool:
        """Its instants are integers."""
        return True

    @property
    def value(self) -> str:
        """The name of its type."""
        return self.time_type.value


Shown: TypeAlias = TimeType | Epoch
"""How people are shown instants."""


def shown_as(time_type: TimeType, resolution: Resolution) -> Shown:
    """Return how people are shown the instants of a time column.

    Args:
        time_type: Type of the column.
        resolution: What a tick of an integer column is.
    """
    is_epoch = time_type.is_integer and resolution is not Resolution.NONE
    return Epoch(time_type, resolution) if is_epoch else time_type


def render(instant: int, time_type: Shown) -> str:
    """Return *instant* as text that :func:`parse` reads back.

    Examples:
        >>> render(1_795_132_800_000, Epoch(TimeType.BIGINT, Resolution.MS)), render(1, Epoch(TimeType.BIGINT, Resolution.NS))
        ('2026-11-20T00:00:00Z', '1')
        >>> render(0, TimeType.TIMESTAMP), render(1500, TimeType.TIMESTAMP_NTZ), render(-1, TimeType.INT)
        ('1970-01-01T00:00:00Z', '1970-01-01T00:00:00.001500', '-1')
        >>> render(POS_INF, TimeType.DATE)
        'inf'
    """
    if instant in (NEG_INF, POS_INF):
        return "-inf" if instant == NEG_INF else "inf"
    if isinstance(time_type, Epoch):
        micros, rest = divmod(instant * SECOND, TICKS_PER_SECOND[time_type.resolution])
        return str(instant) if rest else render(micros, TimeType.TIMESTAMP)
    if time_type.is_integer:
        return str(instant)
    if time_type is TimeType.DATE:
        return date_text(instant // DAY)
    return f"{date_text(instant // DAY)}T{clock_text(instant % DAY)}{'Z' if time_type is TimeType.TIMESTAMP else ''}"


def date_text(days: int) -> str:
    """Return the ISO date of a day counted from 1970-01-01; years outside 0000 to 9999 carry a sign."""
    year, month, day = date_of(days)
    years = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{years}-{month:02}-{day:02}"


def clock_text(micros: int) -> str:
    """Return a time of day as text, with six decimals unless they are zero."""
    seconds, fraction = divmod(micros, SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text


def _nanos(match: re.Match[str], text: str) -> int:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if match["bc"]:
        year = 1 - year
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    is_date = 1 <= month <= 12 and 1 <= day <= 31 and date_of(days_of(year, month, day)) == (year, month, day)
    if not is_date or hour > 23 or minute > 59 or second > 59:
        msg = f"there is no such time as {text!r}"
        raise ValueError(msg)
    zone = _zone_seconds(match["zone"])
    if zone is None:
        msg = f"there is no such time zone as '{match['zone']}' in {text!r}: offsets reach from -18:00 to +18:00"
        raise ValueError(msg)
    seconds = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone
    return seconds * _NANO + int((match["fraction"] or "0").ljust(9, "0"))


def _zone_seconds(zone: str | None) -> int | None:
    """Return the offset of a zone in seconds, or None for an offset that Spark refuses too."""
    if not zone or zone in ("Z", "z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if minutes > 59 or seconds > 59:
        return None
    seconds += hours * 3600 + minutes * 60
    if seconds > _MOST_OFFSET:
        return None
    return -seconds if zone[0] == "-" else seconds
