"""Trading days: the sessions of a day, the windows of a session, and the window that takes a row.

All times are instant ticks. The times of a session count from the midnight of its trading day, and may lie on the date before
or after it. Where all sessions lie inside one date, a trading day begins at midnight; otherwise it begins with its first
session::

    0:00 ........ 9:30 [w][w][w] 11:30 ....... 13:00 [w][w] 15:00 ............. 24:00
    |---- first window ---|       |-- first of the second --|       | dropped, moves time on
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from materializer.core.time.trading_days import TradingDays


class Session(Struct, frozen=True):
    """One session of a trading day.

    Args:
        begin: Start of its first window, counted from midnight.
        end: End of its last window, counted from midnight.
        windows: Number of its windows.
        before: Number of windows before it in the trading day.
    """

    begin: int
    end: int
    windows: int
    before: int


class Window(Struct, frozen=True):
    """One window of a trading day.

    Args:
        day: Number of the trading day, from 1970-01-01.
        w_start: Start of the window.
        w_end: End of the window. The last window of a session may be short, or long where a short one was merged into it.
        label: The end that labels the window.
        closes: The window is closed when time has reached this instant.
        session_end: End of its session.
    """

    day: int
    w_start: int
    w_end: int
    label: int
    closes: int
    session_end: int


class Calendar(Struct, frozen=True):
    """The rules that divide trading days into windows.

    Args:
        sessions: (begin, end) of each session, counted from midnight, in order; together less than a day.
        step: Length of a window.
        day: Ticks of a day.
        holds_end: Whether windows are ``(start, end]``.
        merges_end: Whether a row exactly at the end of a session is in its last window.
        merges_last: Whether a short last window is merged into the window before it.
        holidays: Days without sessions.
        half_days: (day, time of day): on these days sessions end at that time at the latest.
        weekdays: ISO numbers of the weekdays with sessions; empty for all.
        dated: The sessions of every date, where they differ from date to date. Then *sessions* is the span of them all, and
            holidays, half days and weekdays are not used.
    """

    sessions: tuple[tuple[int, int], ...]
    step: int
    day: int
    holds_end: bool = False
    merges_end: bool = False
    merges_last: bool = False
    holidays: tuple[int, ...] = ()
    half_days: tuple[tuple[int, int], ...] = ()
    weekdays: tuple[int, ...] = ()
    dated: TradingDays | None = None

    @property
    def opens(self) -> int:
        """Start of the rows of a trading day, counted from its midnight."""
        return self.sessions[0][0] if self.sessions[0][0] < 0 or self.sessions[-1][1] > self.day else 0

    @property
    def past_end(self) -> int:
        """1 where a row exactly at the end of a session belongs to that session, else 0."""
        return 1 if self.holds_end or self.merges_end else 0

    @property
    def past_day(self) -> int:
        """1 where a row exactly at the end of a trading day belongs to that day and not to the next, else 0."""
        return self.past_end if self.dated is None and self.sessions[-1][1] == self.opens + self.day else 0

    @property
    def reaches_over(self) -> bool:
        """Whether some trading day ends after the time of day at which the next one begins."""
        return self.dated is not None and self.dated.span[1] + self.past_end > self.opens + self.day

    @property
    def lead(self) -> int:
        """Longest time by which a row can precede the start of its window."""
        days = [self.sessions] if self.dated is None else self.dated.kinds.values()
        return max(b - e for of in days for (b, _), e in zip(of, [self.opens, *(e for _, e in of)], strict=False))

    @property
    def length(self) -> int:
        """Length of the longest window."""
        return self.step * 2 if self.merges_last else self.step

    def divided(self, latest: int | None = None) -> tuple[Session, ...]:
        """Return the sessions of a day with their windows; on a half day sessions end at *latest*."""
        return self.divide(self.sessions, latest)

    def divide(self, sessions: Sequence[tuple[int, int]], latest: int | None = None) -> tuple[Session, ...]:
        """Return sessions with their windows; sessions after *latest* are left out, one that contains *latest* ends there."""
        found: list[Session] = []
        for begin, last in sessions:
            end = last if latest is None else min(last, latest)
            if end > begin:
                before = found[-1].before + found[-1].windows if found else 0
                found.append(Session(begin, end, self._windows(end - begin), before))
        return tuple(found)

    def _windows(self, length: int) -> int:
        whole, rest = divmod(length, self.step)
        return whole + (1 if rest and not (self.merges_last and whole) else 0)

    def is_open(self, day: int) -> bool:
        """Whether a day has sessions."""
        if self.dated is not None:
            return bool(self.dated.of(day))
        return day not in self.holidays and (not self.weekdays or (day + 3) % 7 + 1 in self.weekdays)

    def day_of(self, t: int) -> int:
        """Return the trading day that the rows of an instant belong to, whether or not that day has sessions."""
        return self._day(t - self.past_day, self.past_end)

    def _day(self, t: int, past: int) -> int:
        day = (t - self.opens) // self.day
        if self.dated is None or not self.reaches_over:
            return day
        before = self.dated.of(day - 1)
        return day - 1 if before and t < (day - 1) * self.day + before[-1][1] + past else day

    def sessions_of(self, day: int) -> tuple[Session, ...]:
        """Return the sessions of a trading day."""
        if self.dated is not None:
            return self.divide(self.dated.of(day))
        return self.divided(dict(self.half_days).get(day)) if self.is_open(day) else ()

    def day_from(self, w_start: int) -> int:
        """Return the trading day of the window that begins at an instant."""
        return self._day(w_start, 0)

    def windows_of(self, day: int) -> Iterator[Window]:
        """Yield the windows of a trading day, in order."""
        for session in self.sessions_of(day):
            for i in range(session.windows):
                yield self._window(day, session, i)

    def window_at(self, t: int) -> Window | None:
        """Return the window that takes a row at *t*, None when the row is dropped.

        Examples:
            >>> Calendar(((10, 20), (30, 35)), 4, 100).window_at(22)
            Window(day=0, w_start=30, w_end=34, label=34, closes=34, session_end=35)
            >>> Calendar(((10, 20), (30, 35)), 4, 100).window_at(35) is None
            True
        """
        day = self.day_of(t)
        since = t - day * self.day
        for session in self.sessions_of(day):
            if since < session.end + self.past_end:
                i = (since - session.begin - (1 if self.holds_end else 0)) // self.step
                return self._window(day, session, max(0, min(session.windows - 1, i)))
        return None

    def following(self, w_start: int) -> Window | None:
        """Return the window after the one that begins at *w_start*, which may be on a later day; None without a near one."""
        first = self.day_from(w_start)
        near = range(first, first + 9 + self._pause + len(self.half_days))
        return next((w for day in near for w in self.windows_of(day) if w.w_start > w_start), None)

    def last_open(self, day: int) -> int | None:
        """Return the last day with sessions at or before *day*; None without a near one."""
        if self.dated is not None:
            day = min(day, self.dated.last)
        near = range(day, day - 8 - self._pause, -1)
        return next((d for d in near if self.is_open(d)), None)

    @property
    def _pause(self) -> int:
        """The largest number of consecutive dates without sessions, days excluded by *weekdays* not counted."""
        return len(self.holidays) if self.dated is None else self.dated.longest_pause

    def _window(self, day: int, session: Session, i: int) -> Window:
        midnight = day * self.day
        start, is_last = midnight + session.begin + i * self.step, i == session.windows - 1
        end = midnight + session.end if is_last else start + self.step
        past = self.past_end if is_last else 1 if self.holds_end else 0
        return Window(day, start, end, min(start + self.step, end), end + past, midnight + session.end)


def schedule(
    begins: Sequence[int], ends: Sequence[int], day: int, *, merges: bool = False, is_dated_by_last: bool = True
) -> tuple[tuple[int, int], ...]:
    """Return the sessions of one trading day, counted from the midnight of its date: the date on which its last session begins.

    The order in which sessions are written is their order in the trading day. An end that is not after its begin lies on the
    next calendar day, and so does a begin before the previous end. Where the first session begins and the last one ends at
    midnight, these two are one session across midnight, which begins the evening before and opens the trading day.

    Args:
        begins: Times of day.
        ends: Times of day, one for each begin.
        day: Ticks of a day.
        merges: Whether sessions that touch inside the day are joined too.
        is_dated_by_last: False for definitions that were stored before this rule. For them the session across midnight is the
            last one, and the date is the one on which the first session begins.

    Raises:
        ValueError: If the two lists do not match, or the sessions take more than a day.

    Examples:
        >>> schedule([21, 23, 9], [22, 2, 11], 24)
        ((-3, -2), (-1, 2), (9, 11))
        >>> schedule([0, 9, 21], [2, 11, 0], 24)
        ((-3, 2), (9, 11))
        >>> schedule([9, 21], [11, 2], 24)
        ((9, 11), (21, 26))
    """
    if not begins or len(begins) != len(ends):
        raise ValueError(f"{len(begins)} begins of sessions need as many ends, found {len(ends)}")
    found: list[tuple[int, int]] = []
    for begin, end in zip(begins, ends, strict=True):
        after = found[-1][1] if found else 0
        start = begin + -(-max(0, after - begin) // day) * day
        stop = start - start % day + end
        found.append((start, stop if stop > start else stop + day))
    if len(found) > 1 and found[0][0] == 0 and found[-1][1] == day:
        across, between = (found[-1][0], day + found[0][1]), found[1:-1]
        found = [across, *((b + day, e + day) for b, e in between)] if is_dated_by_last else [*between, across]
    if found[-1][1] - found[0][0] > day:
        raise ValueError("the sessions of a trading day take more than a day")
    date = found[-1][0] // day * day if is_dated_by_last else 0
    found = [(begin - date, end - date) for begin, end in found]
    return tuple(_joined(found) if merges else found)


def _joined(found: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, end = found[0]
    for start, stop in found[1:]:
        if start != end:
            yield begin, end
            begin = start
        end = stop
    yield begin, end
