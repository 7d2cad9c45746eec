"""Which types hold every value of another one, as Delta widens columns."""

from __future__ import annotations

import re
from typing import Final

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_DIGITS: Final = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""Digits of the least decimal to which Delta widens a whole number."""


def is_same_type(one: str | None, other: str) -> bool:
    """Return whether a column has the type that it had, whatever the case of the fields of a struct: Spark reads them in any, and 0.1.0 stored small letters.

    Examples:
        >>> is_same_type("struct<land:string>", "struct<Land:string>"), is_same_type(None, "int")
        (True, False)
    """
    return one is not None and one.lower() == other.lower()


def is_wider(now: str, before: str) -> bool:
    """Return whether a column of type *before* may have become one of type *now* without another value.

    Examples:
        >>> is_wider("bigint", "int"), is_wider("int", "bigint"), is_wider("decimal(12,3)", "decimal(10,2)")
        (True, False, True)
        >>> is_wider("double", "float"), is_wider("decimal(12,4)", "decimal(10,1)"), is_wider("string", "int")
        (True, False, False)
    """
    wide, narrow = _decimal(now), _decimal(before)
    if wide and narrow:
        return now != before and wide[1] >= narrow[1] and wide[0] - wide[1] >= narrow[0] - narrow[1]
    if before in _WHOLE:
        if now in _WHOLE:
            return _WHOLE.index(now) > _WHOLE.index(before)
        is_decimal = wide is not None and wide[0] - wide[1] >= _DIGITS[before]
        return is_decimal or (now == "double" and before != "bigint")
    return (before, now) in {("float", "double"), ("date", "timestamp_ntz")}


def _decimal(kind: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None
