"""Time zones as runs of constant offset, from Python's zone data.

The ``tzdata`` package is read before the system's files, so that a division of time does not depend on the machine. Unlike
those of ``zoneinfo``, the transitions of these zones can be listed. The rule at the end of a zone file applies until the end
of 2199, and the offset at that moment applies from then on: summer times that far ahead are unknown, and a row of the
year 9999, which usually means "never", must not cost 16,000 transitions. All instants and offsets are microseconds;
local time is instant + offset.
"""

# ruff: noqa: PLC0415 - few commands read the file of a zone

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from materializer.core.time.instants import DAY, SECOND, days_of, year_of
from materializer.core.time.spans import NEG_INF, POS_INF, Span

ABBREVIATIONS: Final = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "WEST": 60, "BST": 60, "CET": 60, "CEST": 120, "EET": 120, "EEST": 180,
    "MSK": 180, "JST": 540, "KST": 540, "AWST": 480, "ACST": 570, "ACDT": 630, "AEST": 600, "AEDT": 660, "NZST": 720,
    "NZDT": 780, "NST": -210, "NDT": -150, "AST": -240, "ADT": -180, "EST": -300, "EDT": -240, "CST": -360,
    "CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420, "AKST": -540, "AKDT": -480, "HST": -600,
}  # fmt: skip
"""Abbreviations with a fixed offset, in minutes east; as in PostgreSQL they take precedence over zone names."""

RULES_END: Final = days_of(2200, 1, 1) * DAY
"""From this instant on, zones keep their offset."""

_OFFSET: Final = re.compile(r"([+-])(\d{2}):(\d{2})")
_NAME: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_POSIX: Final = re.compile(r"(?:<[^>]+>|[A-Za-z]+)([-+0-9:]+)(?:(?:<[^>]+>|[A-Za-z]+)([-+0-9:]*),([^,]+),([^,]+))?")


class Regime(Struct, frozen=True):
    """A run of time in which a zone has one offset.

    Args:
        start: First instant, or ``NEG_INF``.
        end: First instant after it, or ``POS_INF``.
        offset: Local time minus UTC.
        before: The offset before *start*; *offset* itself when *start* is ``NEG_INF``.
    """

    start: int
    end: int
    offset: int
    before: int


class Rule(Struct, frozen=True):
    """The two yearly changes of a zone after its last listed transition.

    Args:
        standard: Offset before the first change (*into*).
        daylight: Offset after the first change.
        into: POSIX date and time of the first change, in standard time, such as ``M3.2.0/2``.
        back: POSIX date and time of the change back, in daylight time.
    """

    standard: int
    daylight: int
    into: str
    back: str

    def year(self, year: int) -> tuple[tuple[int, int], ...]:
        """Return the (instant, new offset) pairs of one local year, in order."""
        return _rule_year(self, year)


class Zone(Struct, frozen=True, eq=False):
    """A time zone; :func:`load` gives one object for each name, so identity is equality.

    Args:
        name: The name that was loaded.
        first: Offset before the first transition.
        starts: Instants at which the offset changes, ascending.
        offsets: The offset from each of these instants on.
        rule: The rule after the last listed transition, or None when the offset stays.
        settled: Instant from which *rule* applies: the last listed transition, even one that did not change the offset.
    """

    name: str
    first: int
    starts: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    rule: Rule | None = None
    settled: int = NEG_INF

    def regime_at(self, instant: int) -> Regime:
        """Return the run of constant offset that contains *instant*."""
        starts, offsets = self.starts, self.offsets
        if self.rule and (not starts or instant >= starts[-1]):
            starts, offsets = self._around(year_of(min(instant, RULES_END)), self.rule)
        at = bisect_right(starts, instant) - 1
        end = starts[at + 1] if at + 1 < len(starts) else POS_INF
        if at < 0:
            return Regime(NEG_INF, end, self.first, self.first)
        return Regime(starts[at], end, offsets[at], offsets[at - 1] if at else self.first)

    def regimes(self, span: Span) -> Iterator[Regime]:
        """Yield the regimes that *span* overlaps, in order, not cut at its ends."""
        at = span.start
        while at < span.end:
            regime = self.regime_at(at)
            yield regime
            at = regime.end

    def _around(self, year: int, rule: Rule) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the last listed transitions and the rule's changes near *year*, enough for its regimes and neighbours."""
        events = [*zip(self.starts[-2:], self.offsets[-2:], strict=True)]
        # between the last change of offset and the last listed transition, the rule's first change can be years away
        settled = year_of(self.settled) if self.settled != NEG_INF else year
        for y in range(max(year - 2, settled - 1), max(year, settled) + 3):
            events += [change for change in rule.year(y) if self.settled < change[0] < RULES_END]
        changes = events[:1] + [after for before, after in pairwise(events) if before[1] != after[1]]
        return tuple(t for t, _ in changes), tuple(o for _, o in changes)


UTC: Final = Zone("UTC", 0)


@lru_cache(maxsize=256)
def load(name: str) -> Zone:
    """Return the zone with that name.

    Args:
        name: An IANA name (``Europe/Berlin``), an abbreviation of a fixed offset (``PST``) or an offset (``+05:30``,
            positive to the east).

    Raises:
        ValueError: If there is no such zone.
    """
    if name in ABBREVIATIONS:
        return Zone(name, ABBREVIATIONS[name] * 60 * SECOND) if ABBREVIATIONS[name] else UTC
    if fixed := _OFFSET.fullmatch(name):
        sign, hours, minutes = fixed.groups()
        return Zone(name, (-1 if sign == "-" else 1) * (int(hours) * 60 + int(minutes)) * 60 * SECOND)
    data = _zone_file(name) if _NAME.fullmatch(name) else None
    if data is None or data[:4] != b"TZif":
        msg = f"there is no time zone {name!r}"
        raise ValueError(msg)
    return _parse(name, data)


def names() -> list[str]:
    """Return the IANA names that :func:`load` knows from the ``tzdata`` package, for hints."""
    from importlib import resources

    try:
        return resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    except (ModuleNotFoundError, OSError):
        return []


def _zone_file(name: str) -> bytes | None:
    from importlib import resources
    from zoneinfo import TZPATH

    try:
        return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    except (ModuleNotFoundError, OSError):
        pass
    for folder in TZPATH:
        try:
            return Path(folder, name).read_bytes()
        except OSError:
            continue
    return None


def _parse(name: str, data: bytes) -> Zone:
    """Read a TZif file (RFC 8536): the block of 64-bit times, and the footer with the rule for later years."""
    if data[4:5] < b"2":
        msg = f"the zone file of {name!r} has no 64-bit times"
        raise ValueError(msg)
    utc, std, leap, times, types, chars = struct.unpack(">6l", data[20:44])
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + std + utc
    utc, std, leap, times, types, chars = struct.unpack(">6l", data[at + 20 : at + 44])
    at += 44
    seconds = struct.unpack(f">{times}q", data[at : at + 8 * times])
    which = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    kinds = [struct.unpack(">lBB", data[at + 6 * k : at + 6 * k + 6])[0] * SECOND for k in range(types)]
    at += 6 * types + chars + leap * 12 + std + utc
    footer = data[at:].strip(b"\n").decode("ascii")

    starts, offsets, offset = [], [], kinds[0]
    for second, kind in zip(seconds, which, strict=True):
        if kinds[kind] != offset:
            offset = kinds[kind]
            starts.append(second * SECOND)
            offsets.append(offset)
    settled = seconds[-1] * SECOND if seconds else NEG_INF
    return Zone(name, kinds[0], tuple(starts), tuple(offsets), _rule(footer), settled)


def _rule(footer: str) -> Rule | None:
    match = _POSIX.fullmatch(footer)
    if not match or match[3] is None:
        return None
    standard = -_clock(match[1])
    return Rule(standard, -_clock(match[2]) if match[2] else standard + 3600 * SECOND, match[3], match[4])


@lru_cache(maxsize=8192)
def _rule_year(rule: Rule, year: int) -> tuple[tuple[int, int], ...]:
    into = _moment(year, rule.into) - rule.standard, rule.daylight
    back = _moment(year, rule.back) - rule.daylight, rule.standard
    return (into, back) if into < back else (back, into)


def _moment(year: int, text: str) -> int:
    """Return the local time of a POSIX date (``Mm.w.d``, ``Jn``, ``n``) and time of day in one year."""
    date, _, clock = text.partition("/")
    if date.startswith("M"):
        month, week, weekday = map(int, date[1:].split("."))
        first = days_of(year, month, 1)
        # 1970-01-01 was a Thursday; POSIX counts Sunday as 0
        day = first + (weekday - (first + 4)) % 7 + 7 * (week - 1)
        if day >= days_of(year + month // 12, month % 12 + 1, 1):
            day -= 7
    elif date.startswith("J"):
        is_leap = days_of(year + 1, 1, 1) - days_of(year, 1, 1) == 366
        nth = int(date[1:])
        day = days_of(year, 1, 1) + nth - 1 + (is_leap and nth > 59)
    else:
        day = days_of(year, 1, 1) + int(date)
    return day * DAY + (_clock(clock) if clock else 7200 * SECOND)


def _clock(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(p) for p in text.lstrip("+-").split(":")]
    return sign * sum(p * s for p, s in zip(parts, (3600, 60, 1), strict=False)) * SECOND
