"""The kind of a time column: which unit a whole number counts, and how long the shortest event is."""

from __future__ import annotations

from typing import Final

from materializer.core.engines.params import UNITS, ParamReader
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import DAY, MILLISECOND, parse

WHOLE: Final = ("int", "long", "short", "bigint", "smallint")
"""Kinds whose values are plain numbers."""


def read_time_kind(r: ParamReader) -> int:
    """Read ``time_kind``, set the unit in which *r* counts whole numbers, and return the length of a tick.

    A tick is the smallest step of time, in instant ticks: 1 for integer columns, a day for dates, the unit of ``time_kind``
    when it is given, else one microsecond. Without ``time_kind`` a whole number counts milliseconds; for dates it counts days.
    """
    kind = r.choice("time_kind", (*UNITS, *WHOLE), "")
    time_type = r.about.time_type
    if kind == "month":
        r.refuse("'time_kind' month has no fixed length", "use date, or a finer kind", about="time_kind")
    if time_type is not None and time_type.is_integer:
        r.unit = 1
        return 1
    if kind in WHOLE or kind.startswith("nano"):
        if time_type is not None:
            r.refuse(f"'time_kind' {kind} needs an integer time column, the column is a {time_type}", about="time_kind")
        r.unit = 1
        return 1
    if time_type is TimeType.DATE:
        r.unit = DAY
        return DAY
    r.unit = UNITS.get(kind) or MILLISECOND
    return r.unit if kind else 1


def read_instant(r: ParamReader, name: str) -> int | None:
    """Return an instant from ISO text, or from a whole number for an integer time column; None without the parameter."""
    value = r.given(name)
    if value is None:
        return None
    time_type = r.about.time_type or TimeType.TIMESTAMP
    if r.about.time_type is None and str(value).lstrip("-").isdigit():
        return int(str(value))
    try:
        return parse(str(value), time_type, r.about.resolution)
    except ValueError as exc:
        r.refuse(f"'{name}': {exc}", about=name)
        return None
