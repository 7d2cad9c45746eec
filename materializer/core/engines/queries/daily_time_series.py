"""The query of daily time series: windows inside the sessions of trading days.

A window is identified by its trading day and its number in that day. Arithmetic computes both from a row's time, so the query
needs no table of windows; holidays and half days are branches of a CASE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.engine_query import (
    CLOSED_ON_ARRIVAL,
    IS_FILLED,
    KEY_MAX,
    PART_MAX,
    TIME,
    Before,
    EngineQuery,
    as_results,
    filled,
    over_rows,
    with_earlier,
    with_newest,
)
from materializer.core.engines.trading_calendar import Calendar, Session
from materializer.core.query.nodes import Query

DAY: Final = "_day"
"""The trading day of a row or of a window."""
PLACE: Final = "_at"
"""The number of a window in its day; null for a row that is in none, which only advances time."""
_DAY_MAX: Final = "_day_max"
_WINDOW: Final = "_window"
_KNOWN: Final = "apply the definition again for a newer calendar, set calendar_start, or leave the row out with WHERE"


def rows(raw: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Return the windows of *raw*, as :mod:`materializer.core.engines.engine_query` describes them."""
    p: DailyTimeSeries = e.params
    calendar = p.calendar
    placed = raw.add((DAY, day_sql(calendar, TIME))).add((PLACE, number_sql(calendar)))
    if CLOSED_ON_ARRIVAL in raw.names:
        is_open = f"coalesce({window_sql(calendar, DAY, PLACE)}.closes > {CLOSED_ON_ARRIVAL}, true)"
        placed = placed.add((PLACE, f"CASE WHEN {is_open} THEN {PLACE} END"))
    found = over_rows(placed, [*e.groups, DAY, PLACE], e)
    found = with_newest(found if e.before is None else _with_earlier(found, e.before, calendar), e)
    found = found.over([*e.groups, DAY], [], (_DAY_MAX, "max(last_t)")).where(f"{PLACE} IS NOT NULL")
    if p.fills:
        found = _filled(found, e, at)
    else:
        found = found.add((_WINDOW, window_sql(calendar, DAY, PLACE)), (IS_FILLED, "false"))
    is_final = f"(coalesce({_is_closed(p, at, KEY_MAX)} OR {_is_flushed(p, at)}, false) OR {IS_FILLED})"
    return as_results(
        found,
        e,
        w_start=f"{_WINDOW}.w_start",
        w_end=f"{_WINDOW}.w_end",
        label=f"{_WINDOW}.{'w_start' if p.use_window_start_time else 'label'}",
        is_final=is_final,
        is_shown="true" if p.update_time is not None else is_final,
    )


def _with_earlier(found: Query, before: Before, c: Calendar) -> Query:
    """Return windows together with the last stored ones below the frozen boundary."""
    earlier = before.windows.add((DAY, day_from_sql(c, "w_start")))
    return with_earlier(found, earlier.add((PLACE, begun_sql(c, "w_start", DAY))))


def is_outside_sql(p: DailyTimeSeries) -> str:
    """Return SQL that tells whether a raw row is in no window: after its day's last session, or on a day without sessions."""
    return f"({number_sql(p.calendar).replace(DAY, day_sql(p.calendar, TIME))}) IS NULL"


# -- the calendar in SQL -------------------------------------------------------------------------------------------------


def day_sql(c: Calendar, t: str) -> str:
    """SQL of the trading day of an instant."""
    return _day_sql(c, t, c.past_day, c.past_end)


def day_from_sql(c: Calendar, w_start: str) -> str:
    """SQL of the trading day of the window that begins at an instant."""
    return _day_sql(c, w_start, 0, 0)


def _day_sql(c: Calendar, t: str, shift: int, past: int) -> str:
    since = f"({t} - {c.opens + shift}L)"
    day = f"(({since} - pmod({since}, {c.day}L)) div {c.day}L)"
    if not c.reaches_over:
        return day
    ends = _byday_sql(c, f"({day} - 1L)", lambda sessions: f"{sessions[-1].end}L", f"{-2 * c.day}L")
    return f"({day} - IF({t} < ({day} - 1L) * {c.day}L + {ends} + {past}L, 1L, 0L))"


def _byday_sql(c: Calendar, day: str, of: Callable[[tuple[Session, ...]], str], closed: str, beyond: str = "") -> str:
    """SQL of what *of* returns for the sessions of a day; *closed* on days without sessions, *beyond* outside the calendar."""
    if c.dated is not None:
        # a byte of a constant is found directly; to find a character, Spark counts all characters before it
        days = f"substring(CAST('{c.dated.days}' AS BINARY), CAST({day} - {c.dated.first - 1}L AS INT), 1)"
        kinds = ((f"X'{ord(letter):02x}'", of(c.divide(found))) for letter, found in c.dated.kinds.items())
        whens = " ".join(f"WHEN {byte} THEN {what}" for byte, what in kinds)
        outside = f"WHEN {day} NOT BETWEEN {c.dated.first}L AND {c.dated.last}L THEN {beyond or closed}"
        return f"CASE {outside} ELSE CASE {days} {whens} ELSE {closed} END END"
    cases = []
    if c.holidays:
        cases.append(f"WHEN {day} IN ({', '.join(f'{d}L' for d in c.holidays)}) THEN {closed}")
    if c.weekdays:
        cases.append(f"WHEN pmod({day} + 3L, 7L) + 1L NOT IN ({', '.join(map(str, c.weekdays))}) THEN {closed}")
    for date, latest in c.half_days:
        sessions = c.divided(latest)
        cases.append(f"WHEN {day} = {date}L THEN {of(sessions) if sessions else closed}")
    whole = of(c.divided())
    return f"CASE {' '.join(cases)} ELSE {whole} END" if cases else whole


def number_sql(c: Calendar, t: str = TIME, day: str = DAY) -> str:
    """SQL of the number of an instant's window in its trading day; null where the row is dropped.

    A row on a day that the calendar does not cover is an error: if dropped, it would be missing once the calendar covers it.
    """
    since = f"({t} - {day} * {c.day}L)"
    right = 1 if c.holds_end else 0

    def of(sessions: tuple[Session, ...]) -> str:
        found = [
            f"WHEN {since} < {s.end + c.past_end}L THEN {s.before}L + "
            f"greatest(0L, least({s.windows - 1}L, ({since} - {s.begin + right}L) div {c.step}L))"
            for s in sessions
        ]
        return f"CASE {' '.join(found)} END"

    text = f"concat('a row lies on the trading day ', date_from_unix_date(CAST({day} AS INT)), ', which the calendar does not know: {_KNOWN}')"
    return _byday_sql(c, day, of, "CAST(NULL AS BIGINT)", f"CAST(raise_error({text}) AS BIGINT)")


def begun_sql(c: Calendar, w_start: str, day: str) -> str:
    """SQL of the number, in its trading day, of the window that begins at an instant."""
    since = f"({w_start} - {day} * {c.day}L)"

    def of(sessions: tuple[Session, ...]) -> str:
        found = [f"WHEN {since} < {s.end}L THEN {s.before}L + ({since} - {s.begin}L) div {c.step}L" for s in sessions]
        return f"CASE {' '.join(found)} END"

    return _byday_sql(c, day, of, "CAST(NULL AS BIGINT)")


def window_sql(c: Calendar, day: str, number: str) -> str:
    """SQL of a window as a struct: its start, end and label, the time when it closes, and the end of its session."""
    midnight = f"{day} * {c.day}L"

    def of(sessions: tuple[Session, ...]) -> str:
        found = []
        for s in sessions:
            start = f"({midnight} + {s.begin}L + ({number} - {s.before}L) * {c.step}L)"
            is_last, until = f"{number} = {s.before + s.windows - 1}L", f"({midnight} + {s.end}L)"
            end, past = f"IF({is_last}, {until}, {start} + {c.step}L)", 1 if c.holds_end else 0
            found.append(
                f"WHEN {number} < {s.before + s.windows}L THEN named_struct("
                f"'w_start', {start}, 'w_end', {end}, 'label', least({start} + {c.step}L, {end}), "
                f"'closes', {end} + IF({is_last}, {c.past_end}L, {past}L), 'session_end', {until})"
            )
        return f"CASE {' '.join(found)} END"

    return f"({_byday_sql(c, day, of, 'NULL')})"


def count_sql(c: Calendar, day: str) -> str:
    """SQL of the number of windows of a day."""
    return _byday_sql(c, day, lambda sessions: f"{sessions[-1].before + sessions[-1].windows}L", "0L")


# -- closing and filling -------------------------------------------------------------------------------------------------


def _is_closed(p: DailyTimeSeries, at: ClosingClock, newest: str) -> str:
    """SQL of whether a window is closed, by rows (*newest* is the time of the key's newest one) or by the clock."""
    closes, bounds = f"{_WINDOW}.closes", [f"{newest} - {p.accepted_delay}L"]
    if p.force_trigger_time is not None and at.global_max is not None:
        bounds.append(f"{at.global_max - p.force_trigger_time}L")
    found = [f"{bound} >= {closes}" for bound in bounds]
    if at.as_of is not None:
        force = p.force_trigger_session_end_time
        found.append(f"{at.as_of}L >= {closes}" if force is None else f"{at.as_of - force}L >= {_WINDOW}.session_end")
    return f"({' OR '.join(found)})"


def _is_flushed(p: DailyTimeSeries, at: ClosingClock) -> str:
    """SQL of whether a later trading day has begun; the engine then forgets all keys of the earlier day."""
    if not p.key_purge_daily or at.global_max is None:
        return "false"
    newest = p.calendar.last_open(p.calendar.day_of(at.global_max))
    return "false" if newest is None else f"{DAY} < {newest}L"


def _filled(found: Query, e: EngineQuery, at: ClosingClock) -> Query:
    """Add the closed windows without rows that follow a window with rows; if keys are purged daily, only on the same day."""
    p: DailyTimeSeries = e.params
    c, is_purged = p.calendar, p.key_purge_daily
    newest = _DAY_MAX if is_purged else KEY_MAX
    order = [*e.groups, *([DAY] if is_purged else [])]
    spread = found.over(order, [DAY, PLACE], _next=f"lead({PLACE})", _next_day=f"lead({DAY})")
    # after the last window of a part, windows are filled up to the bound, unless the key has rows after the part
    spread = spread.over(e.groups, [DAY, PLACE], _after=f"lead({DAY})")
    spread = spread.add(_goes_on=f"_next IS NOT NULL OR {KEY_MAX} <= {PART_MAX} OR _after IS NOT NULL")
    bounds = [newest, *(f"{t}L" for t in (at.global_max, at.as_of) if t is not None), f"{DAY} * {c.day}L"]
    latest = f"greatest({', '.join(bounds)})"
    until = DAY if is_purged else f"coalesce(_next_day, {day_sql(c, latest)})"
    spread = spread.explode("_d", f"sequence({DAY}, CASE WHEN _goes_on THEN greatest({DAY}, {until}) ELSE {DAY} END)")
    last = f"CASE WHEN _goes_on THEN IF(_d <=> _next_day, _next - 1L, {count_sql(c, '_d')} - 1L) END"
    spread = spread.add(_last=last).add(
        _first=f"IF(_d = {DAY}, {PLACE}, 0L)", _last=f"IF(_d = {DAY}, greatest({PLACE}, _last), _last)"
    )
    spread = spread.explode("_i", "CASE WHEN _first <= _last THEN sequence(_first, _last) END")
    spread = spread.add((IS_FILLED, f"_d > {DAY} OR _i > {PLACE}"), (_WINDOW, window_sql(c, "_d", "_i")))
    spread = spread.where(f"NOT {IS_FILLED} OR {_is_closed(p, at, newest)}")
    return filled(spread, e, (DAY, "_d"), (PLACE, "_i")).only(*found.names, IS_FILLED, _WINDOW)
