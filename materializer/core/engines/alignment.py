"""Where the first window of a time-series engine begins: alignment sizes by time type, step and profile.

For every window size the first window *ends* at ``floor(x / A) * A + step``, where x is the first accepted row and A the
alignment size. So ``floor(x / A) * A`` is an edge of the grid. Applying the rule to this edge again gives the same edge: the
anchor of an anchor is itself.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from msgspec import Struct

from materializer.core.engines.params import UNITS, About, ParamReader
from materializer.core.spec.spec import Resolution, TimeType
from materializer.core.sql.functions import nearest
from materializer.core.time.instants import MILLISECOND, SECOND, TICKS_PER_SECOND

PROFILES: Final = ("en", "cn")

_CLOCK: Final = (2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600)
_MILLIS: Final = (
    *(2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 3000, 5000, 10_000, 15_000, 20_000, 30_000, 60_000),
    *(120_000, 300_000, 600_000, 900_000, 1_200_000, 1_800_000, 3_600_000),
)
_NANOS: Final = (
    *(2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000),
    *(
        10**6,
        10**7,
        10**8,
        10**9,
        2 * 10**9,
        3 * 10**9,
        5 * 10**9,
        10**10,
        15 * 10**9,
        20 * 10**9,
        30 * 10**9,
        60 * 10**9,
    ),
)
_SIZES: Final = {
    "minute": (_CLOCK, 60),
    "second": (_CLOCK, 60),
    "datetime": (_CLOCK, 60),
    "time": (_MILLIS, 60_000),
    "timestamp": (_MILLIS, 60_000),
    "nanotime": (_NANOS, 1000),
    "nanotimestamp": (_NANOS, 1000),
}
"""By time type: the alignment sizes in its unit, and the largest one that is used without ``round_time``."""

_UNADJUSTED: Final = {"month": 12, "date": 1}
"""Alignment of types without a table: a month goes back to January of its year, a date stays."""

_PER_SECOND: Final = {
    "date": Fraction(1, 86_400),
    "minute": Fraction(1, 60),
    "second": Fraction(1),
    "datetime": Fraction(1),
    "time": Fraction(1000),
    "timestamp": Fraction(1000),
    "nanotime": Fraction(10**9),
    "nanotimestamp": Fraction(10**9),
}
_OF_RESOLUTION: Final = {
    Resolution.S: "datetime",
    Resolution.MS: "timestamp",
    Resolution.US: "nanotimestamp",
    Resolution.NS: "nanotimestamp",
}
_OF_DAY: Final = ("time", "second", "minute", "nanotime")


def alignment_size(time_type: str, step: int, *, round_time: bool = True, profile: str = "en") -> int:
    """Return the alignment size of a step, both in units of the type.

    Args:
        time_type: ``minute``, ``datetime``, ``timestamp``, … in lower case.
        step: Distance between windows, at least 1.
        round_time: Whether long steps may use alignments above a minute (above an hour for ``minute``).
        profile: ``en``, or ``cn``, which aligns milliseconds with steps of 2 to 3 minutes to 3 minutes instead of 5.

    Raises:
        KeyError: If the type has no alignment.

    Examples:
        >>> alignment_size("timestamp", 3), alignment_size("timestamp", 60_001, round_time=False)
        (5, 60000)
        >>> alignment_size("timestamp", 150_000), alignment_size("timestamp", 150_000, profile="cn")
        (300000, 180000)
    """
    sizes = alignment_sizes(time_type, round_time=round_time, profile=profile)
    return next((size for size in sizes if size >= step), sizes[-1])


def alignment_sizes(time_type: str, *, round_time: bool = True, profile: str = "en") -> tuple[int, ...]:
    """Return all alignment sizes of a type, in its unit: the smallest that is not below the step is used, or else the last.

    Examples:
        >>> alignment_sizes("date"), alignment_sizes("minute", round_time=False)
        ((1,), (2, 3, 5, 10, 15, 20, 30, 60))
    """
    if time_type in _UNADJUSTED:
        return (_UNADJUSTED[time_type],)
    sizes, most = _SIZES[time_type]
    if profile == "cn" and sizes is _MILLIS:
        sizes = tuple(sorted((*sizes, 180_000)))
    return tuple(size for size in sizes if round_time or size <= most)


def anchor(first: int, alignment: int) -> int:
    """Return the grid edge that the first accepted row determines.

    Args:
        first: Time of the row.
        alignment: Alignment size in the same ticks; 0 for no alignment.
    """
    return first // alignment * alignment if alignment else first


def first_window(first: int, step: int, window_size: int, alignment: int) -> tuple[int, int]:
    """Return the start and the end of the first window, in the ticks of the arguments.

    Examples:
        >>> first_window(1002, 3, 6, 5)
        (997, 1003)
    """
    end = anchor(first, alignment) + step
    return end - window_size, end


class Scale(Struct, frozen=True):
    """The units in which an engine counts time.

    Args:
        time_type: Name of the engine's time type, in lower case; empty for bare numbers.
        unit: How many instant ticks a plain whole number stands for.
        ticks: Instant ticks of one unit of the time type.
        day: Instant ticks of a day where an integer column holds times of day, else 0.
    """

    time_type: str
    unit: int
    ticks: Fraction
    day: int = 0

    def alignment(self, step: int, *, round_time: bool, profile: str) -> int | None:
        """Return the alignment size of a step, both in instant ticks; None when the step is no whole number of units."""
        if not self.time_type:
            return step
        units = step / self.ticks
        if units.denominator != 1:
            return None
        size = alignment_size(self.time_type, units.numerator, round_time=round_time, profile=profile) * self.ticks
        return size.numerator if size.denominator == 1 else None


def scale(reader: ParamReader, *, is_clock: bool = False) -> Scale:
    """Return the units in which an engine counts time, from its parameter ``time_kind`` and its time column.

    Args:
        reader: Reads the parameter and records problems.
        is_clock: Whether windows lie in ingestion time, which counts milliseconds whatever the time column is.
    """
    about, given = reader.about, (reader.text("time_kind") or "").lower()
    if given and given not in UNITS:
        hint = nearest(given, list(UNITS)) or f"write one of {', '.join(UNITS)}"
        reader.refuse(f"'time_kind' {given!r} has no alignment", hint, about="time_kind")
        given = ""
    if is_clock:
        return Scale("timestamp", MILLISECOND, Fraction(MILLISECOND))
    if about.time_type is not None and about.time_type.is_integer:
        return _of_integers(reader, about, given)
    if given == "month" or given.startswith("nano"):
        if about.time_type is not None:
            reader.refuse(
                f"'time_kind' {given} needs an integer time column",
                "dates and timestamps hold microseconds",
                about="time_kind",
            )
        return Scale("", 1, Fraction(1))
    kind = given or ("date" if about.time_type is TimeType.DATE else "timestamp")
    return Scale(kind, UNITS[kind], Fraction(UNITS[kind]))


def finer(about: About, found: Scale, step: int) -> Scale:
    """Return *found*, or the scale of nanoseconds for a timestamp whose step is no whole number of milliseconds."""
    is_default = found.time_type == "timestamp" and (about.time_type is None or not about.time_type.is_integer)
    if is_default and step % MILLISECOND:
        return Scale("nanotimestamp", found.unit, Fraction(1, 1000))
    return found


def _of_integers(reader: ParamReader, about: About, given: str) -> Scale:
    """Return the scale of an integer column; without a time kind and a resolution its ticks are bare numbers."""
    if about.resolution is Resolution.NONE:
        per_day = Fraction(86_400) * _PER_SECOND[given] if given in _OF_DAY else Fraction(0)
        return Scale(given, 1, Fraction(1), int(per_day))
    kind = given or _OF_RESOLUTION[about.resolution]
    if kind == "month":
        reader.refuse(
            "'time_kind' month counts months, but the time column has a resolution",
            "leave one of them out",
            about="time_kind",
        )
        return Scale("", 1, Fraction(1))
    per_second = TICKS_PER_SECOND[about.resolution]
    return Scale(kind, 1, per_second / _PER_SECOND[kind], 86_400 * per_second if kind in _OF_DAY else 0)


def ticks_of_day(about: About, found: Scale) -> int | None:
    """Return the instant ticks of a day; None when the ticks of the column are bare numbers."""
    if about.time_type is None or not about.time_type.is_integer:
        return 86_400 * SECOND
    if found.time_type not in _PER_SECOND:
        return None
    day = found.ticks * _PER_SECOND[found.time_type] * 86_400
    return day.numerator if day.denominator == 1 else None
