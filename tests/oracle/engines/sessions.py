"""Sessions of a trading day, and the daily time-series engine over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tests.oracle.engines.rows import (
    Answer,
    Event,
    Key,
    Lateness,
    RefusedError,
    has_reached,
    keys_of,
    less,
    measured,
    most,
)
from tests.oracle.engines.time_series import Arrivals, Setting, filled


def schedule(begins: Sequence[int], ends: Sequence[int], day: int, *, merges: bool = False) -> list[tuple[int, int]]:
    """Return the sessions of one trading day as ticks after its midnight.

    An end that is not after its begin, or a begin before the previous end, is on the next calendar day. Sessions that meet
    at midnight, the last and the first, are one, with which the trading day opens: it begins before that midnight.

    Args:
        begins: Times of day.
        ends: Likewise.
        day: Ticks of a day.
        merges: Also join sessions that meet inside the day.

    Examples:
        >>> schedule([21, 23, 9], [22, 2, 11], 24)
        [(21, 22), (23, 26), (33, 35)]
        >>> schedule([0, 9, 21], [2, 11, 0], 24)
        [(-3, 2), (9, 11)]
    """
    found: list[tuple[int, int]] = []
    for begin, end in zip(begins, ends, strict=True):
        after = found[-1][1] if found else 0
        starts = begin
        while starts < after:
            starts += day
        stops = starts - starts % day + end
        found.append((starts, stops if stops > starts else stops + day))
    if len(found) > 1 and found[0][0] == 0 and found[-1][1] % day == 0:
        evening, morning = found.pop(), found.pop(0)
        found.insert(0, (evening[0] - day, morning[1]))
    if found and found[-1][1] - found[0][0] > day:
        message = "sessions of a trading day take longer than a day"
        raise RefusedError(message)
    return list(_joined(found)) if merges else found


def _joined(found: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, end = found[0]
    for starts, stops in found[1:]:
        if starts != end:
            yield begin, end
            begin = starts
        end = stops
    yield begin, end


class Daily(Struct, frozen=True):
    """What the daily engine has beyond the time-series engine.

    Args:
        sessions: Sessions after the trading day's midnight.
        day: Ticks of a day.
        merges_end: A row exactly at the end of a session belongs to it.
        merges_last: A short last window goes into the one before it.
        purges: Keys are forgotten on a new trading day.
        force_end: ``forceTriggerSessionEndTime``.
    """

    sessions: Sequence[tuple[int, int]]
    day: int
    merges_end: bool = False
    merges_last: bool = False
    purges: bool = True
    force_end: int | None = None


class Pane(Struct, frozen=True):
    """One window: its labels, the ticks that it takes, and when its session ends.

    It is closed when the bound has reached *after*, the first tick that it does not take.
    """

    date: int
    start: int
    end: int
    first: int
    after: int
    session_end: int


def panes(date: int, setting: Setting, daily: Daily) -> list[Pane]:
    """Return the windows of a trading day, counted in days since 1970, in order."""
    midnight = date * daily.day
    late = 1 if setting.holds_end else 0
    past = 1 if setting.holds_end or daily.merges_end else 0
    spans_two = daily.sessions[-1][1] > daily.day or daily.sessions[0][0] < 0
    opens = midnight + (daily.sessions[0][0] if spans_two else 0)
    found: list[Pane] = []
    for begin, end in ((midnight + b, midnight + e) for b, e in daily.sessions):
        inside = [
            Pane(date, s, min(s + setting.step, end), s + late, min(s + setting.step, end) + late, end)
            for s in range(begin, end, setting.step)
        ]
        inside[0] = replace(inside[0], first=opens)
        inside[-1] = replace(inside[-1], after=end + past)
        if daily.merges_last and len(inside) > 1 and inside[-1].end - inside[-1].start < setting.step:
            inside[-2:] = [replace(inside[-2], after=inside[-1].after)]
        found += inside
        opens = end + past
    return found


def run(
    events: Sequence[Event], setting: Setting, daily: Daily, *, lateness: Lateness, as_of: int | None = None
) -> Answer:
    """Return what the engine has said after these rows, at a clock that stands at *as_of*."""
    arrived, answer = Arrivals(), Answer()
    accepted: list[tuple[Event, Pane]] = []
    in_time: list[Event] = []
    newest: int | None = None  # trading day
    for event in events:
        pane = _pane_of(event.t, setting, daily)
        bound = _bound(arrived, event.key, setting, lateness)
        is_late = lateness == "strict" and event.key in arrived.own and event.t < arrived.own[event.key]
        if pane is not None and lateness != "recompute":
            is_late = is_late or has_reached(bound, pane.after) or _is_purged(pane, newest, daily)
            if lateness == "delay" and event.key in arrived.first:
                begins = _pane_of(arrived.first[event.key].t, setting, daily)
                is_late = is_late or (begins is not None and pane.end < begins.end)
        if not is_late:  # a row outside of all sessions moves the bound and the trading day, too
            arrived.see(event)
            in_time.append(event)
            date = _date_of(event.t, setting, daily)
            newest = date if newest is None else max(newest, date)
        if is_late or pane is None:
            answer.discarded.append(event.seq)
        else:
            accepted.append((event, pane))
    for key in keys_of([e for e, _ in accepted]):
        about = _Key(key, _bound(arrived, key, setting, lateness), newest, as_of)
        _say(answer, accepted, about, in_time, setting, daily, lateness)
    return answer


class _Key(Struct, frozen=True):
    key: Key
    bound: int | None
    newest: int | None
    as_of: int | None


def _pane_of(t: int, setting: Setting, daily: Daily) -> Pane | None:
    near = range(t // daily.day - 2, t // daily.day + 2)
    return next((p for date in near for p in panes(date, setting, daily) if p.first <= t < p.after), None)


def _date_of(t: int, setting: Setting, daily: Daily) -> int:
    """The trading day that had begun last."""
    near = range(t // daily.day - 2, t // daily.day + 2)
    return max(date for date in near if panes(date, setting, daily)[0].first <= t)


def _bound(arrived: Arrivals, key: Key, setting: Setting, lateness: Lateness) -> int | None:
    delay = 0 if lateness == "strict" else setting.delay
    forced = None if setting.force is None else less(arrived.everyone, setting.force)
    return most(less(arrived.own.get(key), delay), forced)


def _is_purged(pane: Pane, newest: int | None, daily: Daily) -> bool:
    return daily.purges and newest is not None and pane.date < newest


def _is_struck(pane: Pane, as_of: int | None, daily: Daily) -> bool:
    """Whether the clock closes the window: itself, or with its session."""
    if daily.force_end is not None:
        return has_reached(as_of, pane.session_end + daily.force_end)
    return has_reached(as_of, pane.after)


def _say(
    answer: Answer,
    accepted: Sequence[tuple[Event, Pane]],
    about: _Key,
    events: Sequence[Event],
    setting: Setting,
    daily: Daily,
    lateness: Lateness,
) -> None:
    mine = [(e, p) for e, p in accepted if e.key == about.key]
    dates = range(min(p.date for _, p in mine), max(about.newest or 0, *(p.date for _, p in mine)) + 1)
    last: Mapping[str, Any] | None = None
    for date in dates:
        bound = _bound_of_day(date, about.key, events, setting, daily, lateness)
        last = None if daily.purges else last
        for pane in panes(date, setting, daily):
            members = [e for e, p in mine if p == pane]
            shown = {"time": pane.start if setting.shows_start else pane.end}
            shown |= dict(zip(setting.keys, about.key, strict=True))
            is_filled = has_reached(bound if daily.purges else about.bound, pane.after)
            is_filled = is_filled or _is_struck(pane, about.as_of, daily)
            is_closed = is_filled or has_reached(about.bound, pane.after) or _is_purged(pane, about.newest, daily)
            if members:
                values = measured(setting.metrics, members, lateness)
                (answer.final if is_closed else answer.open).append(shown | values)
                last = values if is_closed else last
            elif last is not None and setting.fills and is_filled:
                answer.final.append(shown | filled(setting.metrics, setting.fills, last))


def _bound_of_day(
    date: int, key: Key, events: Sequence[Event], setting: Setting, daily: Daily, lateness: Lateness
) -> int | None:
    """The bound up to which a day of a key is filled before the key is forgotten.

    Its own rows count until the next trading day begins. What closes by force goes by the rows of all keys, whenever they
    are: the row that begins a later day also ends what the days before it still wait for.
    """
    begins_next = panes(date + 1, setting, daily)[0].first
    own, everyone = Arrivals(), Arrivals()
    for event in events:
        everyone.see(event)
        if event.t < begins_next:
            own.see(event)
    delay = 0 if lateness == "strict" else setting.delay
    forced = None if setting.force is None else less(everyone.everyone, setting.force)
    return most(less(own.own.get(key), delay), forced)
