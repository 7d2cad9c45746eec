"""Times of case files as integer ticks of their type, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Any, Final

PER_SECOND: Final[Mapping[str, int | Fraction]] = {
    "TIMESTAMP": 1_000,
    "DATETIME": 1,
    "NANOTIMESTAMP": 1_000_000_000,
    "TIME": 1_000,
    "SECOND": 1,
    "NANOTIME": 1_000_000_000,
    "MINUTE": Fraction(1, 60),
    "DATE": Fraction(1, 86_400),
}
"""Ticks of one second; MONTH and the integer types have none."""

INTEGERS: Final = ("INT", "LONG", "SHORT", "BIGINT")
_DIGITS: Final = {1_000: 3, 1: 0, 1_000_000_000: 9}
_DAY: Final = re.compile(r"(\d{4})[-.](\d\d)[-.](\d\d)")
_CLOCK: Final = re.compile(r"(\d\d):(\d\d)m?(?::(\d\d)(?:\.(\d+))?)?Z?$")
_EPOCH: Final = date(1970, 1, 1)


def parse(value: Any, time_type: str) -> int | None:
    """Return a time as ticks: text by its type; a number is ticks already.

    Raises:
        ValueError: If it is no such text.

    Examples:
        >>> parse("1969-12-31T23:59:59.999", "TIMESTAMP"), parse("09:31", "MINUTE"), parse("2018-05", "MONTH")
        (-1, 571, 580)
    """
    if value is None or isinstance(value, int):
        return value
    if time_type in INTEGERS:
        return int(value)
    if time_type == "MONTH":
        year, month = re.split(r"[-.]", str(value).rstrip("M"))[:2]
        return (int(year) - 1970) * 12 + int(month) - 1
    return int(seconds_of(str(value)) * PER_SECOND[time_type] // 1)


def joined(row: Mapping[str, Any], column: str | Sequence[str], time_type: str) -> int | None:
    """Return the time of a row: one column, or a pair of a date and a time of day.

    Examples:
        >>> joined({"date": "1970-01-02", "second": "00:00:01"}, ["date", "second"], "DATETIME")
        86401
    """
    if isinstance(column, str):
        return parse(row[column], time_type)
    parts = [row[name] for name in column]
    return None if None in parts else parse("T".join(parts), time_type)


def shown(tick: int, time_type: str) -> str | int:
    """Return ticks as the text that a case file has.

    Examples:
        >>> shown(-1, "TIMESTAMP"), shown(0, "DATETIME"), shown(571, "MINUTE"), shown(580, "MONTH")
        ('1969-12-31T23:59:59.999', '1970-01-01T00:00:00', '09:31', '2018-05')
    """
    if time_type in INTEGERS:
        return tick
    if time_type == "MONTH":
        return f"{1970 + tick // 12:04}-{tick % 12 + 1:02}"
    seconds = Fraction(tick) / PER_SECOND[time_type]
    days, rest = divmod(seconds, 86_400)
    day = date.fromordinal(_EPOCH.toordinal() + int(days)).isoformat()
    if time_type == "DATE":
        return day
    whole, fraction = divmod(rest, 1)
    clock = f"{int(whole) // 3600:02}:{int(whole) // 60 % 60:02}"
    if time_type == "MINUTE":
        return clock
    digits = _DIGITS[int(PER_SECOND[time_type])]
    clock += f":{int(whole) % 60:02}" + (f".{int(fraction * 10**digits):0{digits}}" if digits else "")
    return clock if time_type in ("TIME", "SECOND", "NANOTIME") else f"{day}T{clock}"


def seconds_of(text: str) -> Fraction:
    """Return seconds since 1970 of a text with a date, or seconds since midnight of a time of day alone."""
    day, clock = _DAY.match(text), _CLOCK.search(text)
    if day is None and clock is None:
        message = f"{text!r} is no time of a case file"
        raise ValueError(message)
    seconds = Fraction(0)
    if day is not None:
        seconds += (date(*map(int, day.groups())) - _EPOCH).days * 86_400
    if clock is not None:
        hour, minute, second, fraction = clock.groups()
        seconds += int(hour) * 3600 + int(minute) * 60 + int(second or 0)
        seconds += Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0
    return seconds
