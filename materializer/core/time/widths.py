"""Lengths of time as text: ``1 minute``, ``2 hours 30 minutes``, ``INTERVAL '1' MONTH``, ``3``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from materializer.core.spec.spec import Width
from materializer.core.time.instants import HOUR, MILLISECOND, MINUTE, SECOND

_MONTHS: Final = {"month": 1, "mon": 1, "quarter": 3, "year": 12, "yr": 12, "y": 12}
_DAYS: Final = {"day": 1, "d": 1, "week": 7, "w": 7}
_MICROS: Final = {
    "microsecond": 1,
    "us": 1,
    "millisecond": MILLISECOND,
    "msec": MILLISECOND,
    "ms": MILLISECOND,
    "second": SECOND,
    "sec": SECOND,
    "s": SECOND,
    "minute": MINUTE,
    "min": MINUTE,
    "hour": HOUR,
    "hr": HOUR,
    "h": HOUR,
}
_TERM: Final = re.compile(r"([+-]?)\s*(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
_EXAMPLES: Final = "such as '1 minute', '2 hours 30 minutes' or '1 month'"


@lru_cache(maxsize=256)  # a folder of definitions repeats the same few lengths
def parse_width(text: str) -> Width:
    """Return the length that *text* names; its sign and size are not checked here.

    Args:
        text: Terms of a number and a unit, singular or plural, from microseconds to years, optionally with the word INTERVAL
            and quotes, as in Spark SQL. A bare integer is ticks of an integer time column.

    Raises:
        ValueError: If the text cannot be read, or a term is no whole number of months, days or microseconds.

    Examples:
        >>> parse_width("2 hours 30 minutes")
        Width(months=0, days=0, micros=9000000000, ticks=None)
        >>> parse_width("INTERVAL '1' YEAR"), parse_width("3")
        (Width(months=12, days=0, micros=0, ticks=None), Width(months=0, days=0, micros=0, ticks=3))
    """
    plain = re.sub(r"^\s*interval\b|['\",]|\band\b", " ", text.lower()).strip()
    if re.fullmatch(r"[+-]?\d+", plain, re.ASCII):
        return Width(ticks=int(plain))
    if not plain or _TERM.sub("", plain).strip():
        msg = f"expected a length of time {_EXAMPLES}, got {text!r}"
        raise ValueError(msg)
    from fractions import Fraction  # noqa: PLC0415 - a command without work reads no length of time

    totals = {"months": 0, "days": 0, "micros": 0}
    for sign, number, unit in _TERM.findall(plain):
        part, size = _unit(unit, text)
        amount = Fraction(number) * size
        if amount.denominator != 1:
            msg = f"{number} {unit} is no whole number of {'microseconds' if part == 'micros' else part}, got {text!r}"
            raise ValueError(msg)
        totals[part] += -int(amount) if sign == "-" else int(amount)
    return Width(**totals)


def describe_width(width: Width) -> str:
    """Return *width* as the shortest text that :func:`parse_width` reads back.

    Examples:
        >>> describe_width(Width(micros=5_400_000_000)), describe_width(Width(days=7)), describe_width(Width(ticks=10))
        ('1 h 30 min', '1 week', '10')
        >>> describe_width(Width(months=1, days=-2))
        '1 month -2 days'
    """
    if width.ticks is not None:
        return str(width.ticks)
    months, days = width.months, width.days
    terms = [_plural(months // 12, "year") if months % 12 == 0 else _plural(months, "month")] if months else []
    if days:
        terms.append(_plural(days // 7, "week") if days % 7 == 0 else _plural(days, "day"))
    sign, rest = (-1 if width.micros < 0 else 1), abs(width.micros)
    for unit, size in (("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", MILLISECOND), ("us", 1)):
        count, rest = divmod(rest, size)
        terms += [f"{sign * count} {unit}"] if count else []
    return " ".join(terms) or "0 s"


def _plural(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _unit(unit: str, text: str) -> tuple[str, int]:
    for name in (unit, unit.removesuffix("s")):
        for part, units in (("months", _MONTHS), ("days", _DAYS), ("micros", _MICROS)):
            if name in units:
                return part, units[name]
    hint = "; write min or month" if unit == "m" else ""
    msg = f"unknown unit {unit!r} in the length of time {text!r}{hint}; expected one {_EXAMPLES}"
    raise ValueError(msg)
