"""Reads the parameters of an engine and reports all problems at once, each with the name of its parameter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.sql.functions import nearest
from materializer.core.time.instants import DAY, MILLISECOND, MINUTE, SECOND
from materializer.core.time.widths import parse_width

UNITS: Final = {
    "date": DAY,
    "datetime": SECOND,
    "timestamp": MILLISECOND,
    "nanotimestamp": 0,
    "time": MILLISECOND,
    "nanotime": 0,
    "second": SECOND,
    "minute": MINUTE,
    "month": 0,
}
"""Microseconds of the unit in which each kind of time counts whole numbers; 0 for a unit without a fixed number of them."""


class Trouble(Struct, frozen=True):
    """One thing that is wrong with an engine's parameters.

    Args:
        code: Stable code, such as ``definition.engine-parameter``.
        message: What was found and what was expected.
        hint: What to do.
        about: The parameter that is wrong, "" where it is none or several.
    """

    code: str
    message: str
    hint: str = ""
    about: str = ""


class About(Struct, frozen=True):
    """The parts of a definition that affect how its engine parameters are read.

    Args:
        time_type: Type of the time column; None before it is known.
        resolution: Meaning of a tick of an integer time column.
        keys: Names of the keys.
        measures: (name, text) of the measures, in order.
        lateness: ``recompute``, ``strict`` or ``delay``.
        engine: Name of the engine, for a module that holds several.
    """

    time_type: TimeType | None
    resolution: Resolution = Resolution.NONE
    keys: tuple[str, ...] = ()
    measures: tuple[tuple[str, str], ...] = ()
    lateness: str = "recompute"
    engine: str = ""


_PER_SECOND: Final = {Resolution.S: 1, Resolution.MS: 1_000, Resolution.US: 1_000_000, Resolution.NS: 1_000_000_000}


OURS: Final = ("slice", "label")
"""Parameters that every engine accepts: the length of a slice, and the name of the output's time column."""


class ParamReader(Struct):
    """Reads parameters one by one and collects the problems.

    Args:
        values: Parameters as the user gave them, by name in snake case.
        about: The definition around them.
        unit: How many instant ticks a plain whole number stands for; 1 for integer time columns.
    """

    values: Mapping[str, object]
    about: About
    unit: int = 1
    troubles: list[Trouble] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)

    def refuse(
        self, message: str, hint: str = "", code: str = "definition.engine-parameter", *, about: str = ""
    ) -> None:
        """Record one problem, with the parameter that it is about."""
        self.troubles.append(Trouble(code, message, hint, about))

    def given(self, name: str) -> object | None:
        """Return a parameter as the user gave it, or None without one, and mark its name as known."""
        self._asked.add(name)
        return self.values.get(name)

    def duration(self, name: str, default: int | None = None, *, least: int | None = None) -> int | None:
        """Return a length of time in instant ticks.

        A plain whole number counts the engine's unit. A text such as ``'6 ms'`` carries its own unit; with an integer time
        column it needs ``time.resolution``.
        """
        return self._checked(name, self.ticks(name, self.given(name), default), least)

    def durations(self, name: str) -> tuple[int, ...] | None:
        """Return one or several lengths of time, in instant ticks; None without the parameter, or with an unreadable one."""
        value = self.given(name)
        if value is None:
            return None
        parts = value if isinstance(value, (list, tuple)) else str(value).split(",") if "," in str(value) else [value]
        found = [self.ticks(name, part, None) for part in parts]
        return None if None in found else tuple(f for f in found if f is not None)

    def ticks(self, name: str, value: object | None, default: int | None) -> int | None:
        """Return *value* in instant ticks; *default* when it is None, or unreadable, which is a problem."""
        if value is None:
            return default
        if isinstance(value, bool):
            self.refuse(f"'{name}' must be a length of time, got {value!r}", about=name)
            return default
        if isinstance(value, int):
            return value * self.unit
        if isinstance(value, float):
            return self._fraction(name, value, default)
        text = str(value).strip()
        if re.fullmatch(r"[+-]?\d+\.\d+", text, re.ASCII):
            return self._fraction(name, float(text), default)
        try:
            width = parse_width(text)
        except ValueError as exc:
            self.refuse(f"'{name}': {exc}", about=name)
            return default
        if width.months:
            self.refuse(f"'{name}' must be a fixed length of time, got '{text}'", about=name)
            return default
        if width.ticks is not None:
            return width.ticks * self.unit
        return self._in_ticks(name, width.days * DAY + width.micros, default)

    def integer(self, name: str, default: int | None = None, *, least: int | None = None) -> int | None:
        """Return a whole number; *default* without the parameter, or when its value is no whole number."""
        value = self.given(name)
        if value is None:
            return default
        if isinstance(value, bool) or not str(value).lstrip("-").isdigit():
            self.refuse(f"'{name}' must be a whole number, got {value!r}", about=name)
            return default
        return self._checked(name, int(str(value)), least)

    def boolean(self, name: str, *, default: bool = False) -> bool:
        """Return True or False; *default* without the parameter, or when its value is neither."""
        value = self.given(name)
        if value is None:
            return default
        if str(value).lower() not in ("true", "false"):
            self.refuse(f"'{name}' must be true or false, got {value!r}", about=name)
            return default
        return str(value).lower() == "true"

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return one of *choices*, in lower case; *default* without the parameter, or when its value is no choice."""
        value = self.given(name)
        if value is None:
            return default
        if str(value).lower() not in choices:
            self.refuse(
                f"'{name}' must be one of {', '.join(choices)}, got {value!r}",
                nearest(str(value), list(choices)),
                about=name,
            )
            return default
        return str(value).lower()

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return the parameter as text; *default* without the parameter."""
        value = self.given(name)
        return default if value is None else str(value)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return a list of texts, None without the parameter; a single text is split at its commas."""
        value = self.given(name)
        if value is None:
            return None
        parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
        return tuple(str(p).strip() for p in parts)

    def refuse_unknown(self, known: Collection[str] = ()) -> None:
        """Record a problem for each given parameter that is neither read so far nor in *known*."""
        names = sorted(self._asked | {*known, *OURS})
        for name in self.values:
            if name not in names:
                self.refuse(
                    f"there is no parameter '{name}'",
                    nearest(name, names) or f"the parameters are {', '.join(names)}",
                    "definition.unknown-property",
                )

    def _checked(self, name: str, value: int | None, least: int | None) -> int | None:
        if value is not None and least is not None and value < least:
            self.refuse(f"'{name}' must be at least {least}, got {value}", about=name)
        return value

    def _fraction(self, name: str, seconds: float, default: int | None) -> int | None:
        """Return the ticks of a fraction, which counts seconds as in IBM's annotation."""
        return self._in_ticks(name, round(seconds * SECOND), default)

    def _in_ticks(self, name: str, micros: int, default: int | None) -> int | None:
        time_type, resolution = self.about.time_type, self.about.resolution
        if time_type is None or not time_type.is_integer:
            return micros
        if resolution is Resolution.NONE:
            self.refuse(
                f"'{name}' is a length of time, but the time column is a bare number",
                "set time.resolution (s, ms, us or ns), or write a whole number",
                about=name,
            )
            return default
        ticks, rest = divmod(micros * _PER_SECOND[resolution], SECOND)
        if rest:
            self.refuse(f"'{name}' is no whole number of ticks of the time column", about=name)
            return default
        return ticks
