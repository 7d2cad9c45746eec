"""The daily time-series engine: windows inside the sessions of trading days."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Final, Literal

from materializer.core.engines import alignment
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.closing import Closing, Reach, plan, read_closing, refuse_steps
from materializer.core.engines.params import About, ParamReader, Trouble
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.engines.trading_calendar import Calendar, schedule
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import Grid
from materializer.core.time.spans import NEG_INF
from materializer.core.time.trading_days import DAYS, TradingDays, read_days

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d)m?(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATED: Final = "dated_by"
_NANOSECONDS: Final = 86_400 * 10**9


class DailyTimeSeries(Closing, frozen=True, kw_only=True):
    """Parameters of the engine; lengths are instant ticks.

    Args:
        sessions: (begin, end) of the sessions of a trading day, counted from its midnight.
        day: Ticks of a day.
        merge_session_end: Whether a row exactly at the end of a session is in its last window (for windows that are closed
            on the left).
        merge_last_window: Whether a short last window is merged into the window before it.
        force_trigger_session_end_time: The clock closes all windows of a session this long after the session's end; None:
            it closes each window at the window's own end.
        key_purge_daily: Whether a new trading day forgets all keys: open windows close, and filling ends.
        holidays: Days without sessions, counted from 1970-01-01.
        half_days: (day, time of day): on these days sessions end at that time.
        weekdays: ISO numbers of the weekdays with sessions; empty for all.
        dated: The sessions of every date, where a calendar lists them. Then *sessions* is the span of them all.
    """

    sessions: tuple[tuple[int, int], ...]
    day: int
    merge_session_end: bool = False
    merge_last_window: bool = False
    force_trigger_session_end_time: int | None = None
    key_purge_daily: bool = True
    holidays: tuple[int, ...] = ()
    half_days: tuple[tuple[int, int], ...] = ()
    weekdays: tuple[int, ...] = ()
    dated: TradingDays | None = None

    @property
    def calendar(self) -> Calendar:
        """The calendar of trading days that these parameters describe."""
        return Calendar(
            sessions=self.sessions,
            step=self.step,
            day=self.day,
            holds_end=self.closed == "right",
            merges_end=self.merge_session_end and self.closed == "left",
            merges_last=self.merge_last_window,
            holidays=self.holidays,
            half_days=self.half_days,
            weekdays=self.weekdays,
            dated=self.dated,
        )

    @property
    def needs_global_max(self) -> bool:
        """Whether the newest row over all keys closes windows."""
        return self.force_trigger_time is not None or self.key_purge_daily

    @staticmethod
    def read(values: Mapping[str, object], about: About) -> tuple[DailyTimeSeries | None, list[Trouble]]:
        """Return the parameters and all problems with them; the parameters are None when there is a problem."""
        reader = ParamReader({name: value for name, value in values.items() if name not in (_DATED, DAYS)}, about)
        if reader.boolean("use_system_time"):
            reader.refuse(
                "'use_system_time' has no sessions",
                "sessions are times of the day of the rows",
                about="use_system_time",
            )
        scale = alignment.scale(reader)
        reader.unit = scale.unit
        day = _day(reader, scale)
        step = _step(reader)
        reader.boolean("round_time")  # no effect here: windows begin with their session
        sessions = _sessions(reader, day, is_dated_by_last=_DATED in values or not dated(values))
        known = _trading_days(reader, values.get(DAYS), day)
        params = DailyTimeSeries(
            step=step,
            sessions=sessions if known is None else (known.span,),
            day=day,
            merge_session_end=reader.boolean("merge_session_end"),
            merge_last_window=reader.boolean("merge_last_window"),
            force_trigger_session_end_time=reader.duration("force_trigger_session_end_time", least=0),
            key_purge_daily=reader.boolean("key_purge_daily", default=True),
            holidays=_days(reader, "holidays"),
            half_days=_half_days(reader, day),
            weekdays=_weekdays(reader),
            dated=known,
            **read_closing(reader, is_clock=False),
        )
        refuse_steps(reader, params, step)
        reader.refuse_unknown()
        return (None if reader.troubles else params), reader.troubles

    def ranges(
        self, spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult], *, is_complete: bool
    ) -> list[Range] | None:
        """Return which results of one key a change touches; see :mod:`materializer.core.engines.closing`."""
        calendar = self.calendar
        # a row can lie one tick past the end of the window that holds it
        reach = Reach(
            calendar.length + 1,
            lead=self.lead,
            slack=self.accepted_delay,
            is_filled=bool(self.fills),
            is_purged=self.key_purge_daily,
        )
        return plan(spans, stored, reach, is_complete=is_complete)

    @property
    def lead(self) -> int:
        """How long before its session a row counts in its first window."""
        return self.calendar.lead

    @property
    def windows_a_day(self) -> int:
        """Number of windows of a whole trading day."""
        return sum(s.windows for s in self.calendar.divided())

    @property
    def arrival(self) -> Literal["sessions"]:
        """A row is late when the window of its session is closed, or outside of all sessions."""
        return "sessions"

    def edge_for(self, bound: int, grid: Grid) -> int:
        """Return the last edge of slices at or before *bound* where the history can be cut; ``NEG_INF`` without one.

        A window of a trading session also takes rows from before its session. So the edge must lie between two windows, and
        between two trading days where windows are filled within a trading day.
        """
        if bound == NEG_INF:
            return bound
        edge, last = bound, bound - 2 * self.day
        while edge > last:
            if self._parts_windows(edge) and (not self.fills_by_day or self._parts_days(edge)):
                return edge
            edge = grid.edge_at(edge - 1)
        return NEG_INF

    def _parts_windows(self, edge: int) -> bool:
        """Whether all rows from *edge* on are in windows that begin at *edge* or later."""
        after = self.calendar.window_at(edge)
        return after is None or (after.w_start >= edge and self.calendar.window_at(edge - 1) != after)

    def _parts_days(self, edge: int) -> bool:
        """Whether an edge between two windows also lies between two trading days."""
        after = self.calendar.window_at(edge)
        return after is None or after == next(self.calendar.windows_of(after.day))

    @property
    def fills_on(self) -> bool:
        """Whether windows are filled on from day to day."""
        return bool(self.fills) and not self.key_purge_daily

    @property
    def fills_by_day(self) -> bool:
        """Whether windows without rows are filled only from windows of the same trading day."""
        return bool(self.fills) and self.key_purge_daily

    def filled_after(self, w_start: int) -> int | None:
        """Return the start of the window of a session that follows a window; None where the calendar ends."""
        after = self.calendar.following(w_start)
        return None if after is None else after.w_start

    def first_unfilled(self, days: Iterable[tuple[int, int]]) -> int | None:
        """Return the start of the first stored window in the first trading day that is not filled to its end; None without one.

        A missing window may still be added, by the clock or by a row. The last window alone proves nothing: it may have rows
        while the windows before it were still open at the end of the day.

        Args:
            days: (start of the first, count) of the stored windows of a key in each trading day.
        """
        calendar, starts = self.calendar, dict[int, list[int]]()
        for first, count in sorted(days):
            day = calendar.day_from(first)
            if day not in starts:
                starts[day] = [w.w_start for w in calendar.windows_of(day)]
            if count < len(starts[day]) - bisect_left(starts[day], first):
                return first
        return None

    @property
    def most_counts(self) -> int:
        """In how many results one row is counted at most: windows do not overlap."""
        return 1

    @property
    def grows_by(self) -> Literal["rows", "days", "gaps"]:
        """What the number of windows follows."""
        return "days" if self.fills_by_day else "gaps" if self.fills else "rows"

    @property
    def fill_unit(self) -> tuple[int, int]:
        """A day and its windows."""
        return self.day, self.windows_a_day

    @property
    def beyond(self) -> int:
        """A trading day is filled to its end."""
        return self.windows_a_day

    def filled_until(self, clock: ClosingClock) -> int | None:
        """Return until when windows are filled: the newest row of all keys fills too, unless a day forgets its keys."""
        if not self.fills_on:
            return None
        return max((t for t in (clock.global_max, clock.as_of) if t is not None), default=None)

    @property
    def filling_properties(self) -> str:
        """The properties that let windows be filled, in words."""
        return "'fill' or 'key_purge_daily'"


def dated(values: Mapping[str, object]) -> dict[str, str]:
    """Return the extra parameter that records the dating rule of trading days, where the rule makes a difference; else nothing.

    Definitions that were stored before the rule of :func:`~materializer.core.engines.trading_calendar.schedule` lack this
    parameter. They keep the trading days of their results, and so differ from the same text applied anew.
    """
    reader = ParamReader(values, About(None))
    begins, ends = (_clocks(reader, name, _NANOSECONDS) for name in ("session_begin", "session_end"))
    try:
        now, before = (schedule(begins, ends, _NANOSECONDS, is_dated_by_last=rule) for rule in (True, False))
    except ValueError:
        return {}
    moves = [(b - now[0][0], e - now[0][0]) for b, e in now] != [
        (b - before[0][0], e - before[0][0]) for b, e in before
    ]
    has_dates = any(values.get(name) for name in ("holidays", "half_days", "weekdays"))
    return {_DATED: "last_session"} if moves or (has_dates and now != before) else {}


def _day(reader: ParamReader, scale: alignment.Scale) -> int:
    day = alignment.ticks_of_day(reader.about, scale)
    if day is None:
        reader.refuse("the time column is a bare number, which has no days", "set time.resolution, or 'time_kind'")
    return day or 86_400


def _step(reader: ParamReader) -> int:
    size, step = reader.duration("window_size", least=1), reader.duration("step", least=1)
    if size is None and reader.given("window_size") is None:
        reader.refuse("'window_size' is missing", about="window_size")
    if size is not None and step is not None and size != step:
        reader.refuse(
            "'window_size' must be equal to 'step': windows do not reach before their session", about="window_size"
        )
    return max(size or step or 1, 1)


def _sessions(reader: ParamReader, day: int, *, is_dated_by_last: bool) -> tuple[tuple[int, int], ...]:
    begins, ends = (_clocks(reader, name, day) for name in ("session_begin", "session_end"))
    merges = reader.boolean("merge_session")
    until = ends or ([0] if not begins or len(begins) == 1 else [])
    try:
        return schedule(begins or [0], until, day, merges=merges, is_dated_by_last=is_dated_by_last)
    except ValueError as exc:
        reader.refuse(f"'session_begin' and 'session_end': {exc}", about="session_begin")
        return ((0, day),)


def _trading_days(reader: ParamReader, text: object | None, day: int) -> TradingDays | None:
    """Return the sessions of a calendar; None without a calendar, or before ``apply`` has read it."""
    calendar, zone = reader.text("calendar"), reader.text("calendar_zone", "UTC")
    bounds = [name for name in ("calendar_start", "calendar_end") if reader.given(name) is not None]
    if calendar is None:
        for name in (*bounds, *(("calendar_zone",) if reader.given("calendar_zone") is not None else ())):
            reader.refuse(f"'{name}' is given without 'calendar'", about=name)
        return None
    kind, _, name = calendar.partition(":")
    if kind not in ("table", "exchange") or not name.strip():
        reader.refuse(f"'calendar' must be table:NAME or exchange:NAME, got {calendar!r}", about="calendar")
    for other in ("session_begin", "session_end", "holidays", "half_days", "weekdays"):
        if reader.given(other) is not None:
            reader.refuse(
                f"'{other}' is given beside 'calendar'",
                "leave one of them away: the calendar has all sessions",
                about=other,
            )
    for bound in bounds:
        if _date(str(reader.given(bound))) is None:
            reader.refuse(f"'{bound}' must be a date such as 2015-01-01, got {reader.given(bound)!r}", about=bound)
        elif kind == "table":
            reader.refuse(f"'{bound}' is given for a table", "a table says itself when it begins and ends", about=bound)
    if zone != "UTC" and reader.about.time_type is TimeType.TIMESTAMP:
        reader.refuse(
            f"'calendar_zone' is {zone}, but timestamps are instants",
            "leave it away, or use timestamp_ntz",
            about="calendar_zone",
        )
    if text is None:
        return None
    try:
        return read_days(str(text), day)
    except ValueError as exc:
        hint = "keep the times of the column in the exchange's zone, and set 'calendar_zone' to it"
        reader.refuse(f"'calendar' {calendar}: {exc}", hint, about="calendar")
        return None


def _clocks(reader: ParamReader, name: str, day: int) -> list[int]:
    found = [_clock(text, day) for text in reader.texts(name) or ()]
    if any(f is None for f in found):
        reader.refuse(f"'{name}' must be times of day such as 09:30:00, got {reader.given(name)!r}", about=name)
    return [f for f in found if f is not None]


def _clock(text: str, day: int) -> int | None:
    """Return a time of day in ticks; None when the text is no time of day, or its ticks are no whole number."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = Fraction(hour * 3600 + minute * 60 + second) + Fraction(int((match[4] or "0").ljust(9, "0")), 10**9)
    ticks = seconds * day / 86_400
    return ticks.numerator if ticks.denominator == 1 else None


def _days(reader: ParamReader, name: str) -> tuple[int, ...]:
    found = [_date(text) for text in reader.texts(name) or ()]
    if any(f is None for f in found):
        reader.refuse(f"'{name}' must be dates such as 2024-12-25, got {reader.given(name)!r}", about=name)
    return tuple(sorted({f for f in found if f is not None}))


def _date(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return None


def _half_days(reader: ParamReader, day: int) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for text in reader.texts("half_days") or ():
        on, _, until = text.partition(" ")
        which, end = _date(on), _clock(until.strip(), day)
        if which is None or end is None:
            reader.refuse(
                f"'half_days' must be dates with an end such as 2024-12-24 13:00, got {text!r}", about="half_days"
            )
        else:
            found[which] = end
    return tuple(sorted(found.items()))


def _weekdays(reader: ParamReader) -> tuple[int, ...]:
    found = reader.texts("weekdays") or ()
    if not all(text.isdigit() and 1 <= int(text) <= 7 for text in found):
        reader.refuse(
            f"'weekdays' must be numbers from 1 (Monday) to 7, got {reader.given('weekdays')!r}", about="weekdays"
        )
        return ()
    return tuple(sorted({int(text) for text in found}))
