"""Trading calendars as data: the sessions of every date, as a text that a definition stores.

The text holds the first date, then one letter for each date (``.`` for a date without sessions), then the sessions of each
letter. So ten years take four kilobytes::

    2024-12-23 aba..aa a=14:30/21:00 b=14:30/18:00

Times count from the midnight of the date: ``-1:00`` is 23:00 on the evening before.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import groupby, pairwise
from typing import Final, TypeAlias

from msgspec import Struct

MICROSECONDS: Final = 86_400_000_000
"""Length of a day in microseconds, the unit of a calendar's rows."""
DAYS: Final = "calendar_days"
"""Name of the parameter that holds the text."""
CLOSED: Final = "."
_LETTERS: Final = string.ascii_lowercase + string.ascii_uppercase + string.digits
_EPOCH: Final = date(1970, 1, 1).toordinal()
_OFFSET: Final = re.compile(r"(-?)(\d+):(\d\d)(?::(\d\d)(?:\.(\d{6}))?)?", re.ASCII)

Sessions: TypeAlias = tuple[tuple[int, int], ...]


class TradingDays(Struct, frozen=True):
    """The sessions of every date in a range of dates.

    Args:
        first: The first date, counted from 1970-01-01.
        days: One letter for each date, beginning with *first*.
        kinds: The sessions of each letter, as (begin, end) counted from the midnight of the date.
    """

    first: int
    days: str
    kinds: Mapping[str, Sessions]

    @property
    def last(self) -> int:
        """The last date of the calendar."""
        return self.first + len(self.days) - 1

    @property
    def span(self) -> tuple[int, int]:
        """The earliest begin and the latest end of all sessions, each counted from the midnight of its date."""
        found = [s for sessions in self.kinds.values() for s in sessions]
        return min(b for b, _ in found), max(e for _, e in found)

    @property
    def longest_pause(self) -> int:
        """The largest number of consecutive dates without sessions."""
        return max((len(list(run)) for kind, run in groupby(self.days) if kind == CLOSED), default=0)

    def of(self, day: int) -> Sessions:
        """Return the sessions of a date; none for a date outside the calendar."""
        return self.kinds.get(self.days[day - self.first], ()) if self.first <= day <= self.last else ()


def calendar_from_sessions(rows: Iterable[tuple[int, int, int]], start: int | None = None) -> str:
    """Return the text of a calendar with exactly these sessions; it ends at the last of their dates.

    Args:
        rows: (date, begin, end) of each session: the date of its trading day, counted from 1970-01-01, and begin and end in
            microseconds since 1970-01-01 on the clock of the time column.
        start: The first date of the calendar; None for the date of the first row.

    Raises:
        ValueError: If sessions overlap, lie too far from their date, or have too many kinds of days.

    Examples:
        >>> hour = 3_600_000_000
        >>> calendar_from_sessions([(1, 23 * hour, 44 * hour), (3, 71 * hour, 90 * hour)])
        '1970-01-02 a.b a=-1:00/20:00 b=-1:00/18:00'
    """
    found = sorted(set(rows))
    if not found:
        raise ValueError("it has no sessions")
    for (_, _, ended), (day, begin, _) in pairwise(found):
        if begin < ended:
            raise ValueError(f"a session of {_date(day)} begins before the one before it ends")
    dates = {d: _sessions(d, [(b, e) for _, b, e in of]) for d, of in groupby(found, lambda row: row[0])}
    first, last = min(dates) if start is None else start, max(dates)
    kinds = list(dict.fromkeys(dates[d] for d in range(first, last + 1) if d in dates))
    if len(kinds) > len(_LETTERS):
        raise ValueError(f"its days are of {len(kinds)} kinds, and {len(_LETTERS)} can be kept: let it begin later")
    letters = dict(zip(kinds, _LETTERS, strict=False))
    days = "".join(letters[dates[d]] if d in dates else CLOSED for d in range(first, last + 1))
    meanings = (f"{letter}={','.join(f'{_told(b)}/{_told(e)}' for b, e in kind)}" for kind, letter in letters.items())
    return " ".join((_date(first), days, *meanings))


def read_days(text: str, day: int) -> TradingDays:
    """Return the calendar of a text that :func:`calendar_from_sessions` wrote, in ticks; a day has *day* ticks.

    Raises:
        ValueError: If the text is no calendar, a time is no whole number of ticks, or sessions span more than two days.
    """
    first, days, *meanings = text.split(" ")
    kinds = {m[0]: tuple(_ticks(part, day) for part in m[2:].split(",")) for m in meanings}
    found = TradingDays(date.fromisoformat(first).toordinal() - _EPOCH, days, kinds)
    low, high = found.span
    if high - low > 2 * day:
        times = [_told(t * MICROSECONDS // day) for t in (low, high)]
        raise ValueError(
            f"some trading days begin at {times[0]}, others end at {times[1]}: more than two days lie between"
        )
    return found


def agree(one: Mapping[str, object], other: Mapping[str, object], until: int | None = None) -> bool:
    """Whether two sets of parameters have the same sessions on every date of the first calendar, and no other difference.

    Args:
        one: Stored parameters.
        other: Parameters that replace them.
        until: The last date to compare; None for the last date of the first calendar.
    """
    texts = [str(p.get(DAYS, "")) for p in (one, other)]
    if not all(texts) or {n: v for n, v in one.items() if n != DAYS} != {n: v for n, v in other.items() if n != DAYS}:
        return False
    old, new = (read_days(text, MICROSECONDS) for text in texts)
    last = old.last if until is None else min(old.last, until)
    return (
        new.first <= old.first and last <= new.last and all(old.of(d) == new.of(d) for d in range(old.first, last + 1))
    )


def shown(text: str) -> str:
    """Return a calendar's text as a summary of a few words."""
    found = read_days(text, MICROSECONDS)
    count = len(found.days) - found.days.count(CLOSED)
    return f"{_date(found.first)} to {_date(found.last)}, {count} trading days"


def changed(was: str, is_now: str) -> tuple[str, ...]:
    """Return the differences between two calendars, as lines for people."""
    old, new = (read_days(text, MICROSECONDS) for text in (was, is_now))
    lines = [f"- calendar: {shown(was)}", f"+ calendar: {shown(is_now)}"] if shown(was) != shown(is_now) else []
    both = range(max(old.first, new.first), min(old.last, new.last) + 1)
    days = [d for d in both if old.of(d) != new.of(d)]
    for d in days[:5]:
        lines += [f"{sign} sessions of {_date(d)}: {_words(found.of(d))}" for sign, found in (("-", old), ("+", new))]
    return (*lines, *([f"+ and {len(days) - 5} more dates"] if len(days) > 5 else []))


def _sessions(day: int, times: Iterable[tuple[int, int]]) -> Sessions:
    found = tuple((begin - day * MICROSECONDS, end - day * MICROSECONDS) for begin, end in times)
    for begin, end in found:
        if begin >= end or begin <= -MICROSECONDS or end > 2 * MICROSECONDS:
            raise ValueError(f"a session of {_date(day)} from {_told(begin)} to {_told(end)} cannot be")
    return found


def _words(sessions: Sessions) -> str:
    return ", ".join(f"{_told(b)}/{_told(e)}" for b, e in sessions) or "none"


def _date(day: int) -> str:
    return date.fromordinal(day + _EPOCH).isoformat()


def _told(micros: int) -> str:
    minutes, rest = divmod(abs(micros), 60_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    text = f"{'-' if micros < 0 else ''}{minutes // 60}:{minutes % 60:02}"
    return text + (f":{seconds:02}" if rest else "") + (f".{fraction:06}" if fraction else "")


def _ticks(session: str, day: int) -> tuple[int, int]:
    begin, end = (_heard(part, day) for part in session.split("/"))
    return begin, end


def _heard(text: str, day: int) -> int:
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no time")
    sign, hours, minutes, seconds, fraction = match.groups()
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)) * 1_000_000 + int(fraction or 0)
    ticks, rest = divmod(micros * day, MICROSECONDS)
    if rest:
        raise ValueError(f"{text} is no whole number of ticks of the time column")
    return -ticks if sign else ticks
