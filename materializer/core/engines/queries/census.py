"""The query that counts the windows that an engine would make before it makes them, and finds the row that would make the most.

It reads rows once, and only their keys and times. It groups neighbouring rows of a key into blocks of time. Inside a block begin
fewer windows than one row may make, so a gap that exceeds this limit always lies between two blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.closing import Closing
from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.engine_query import END, KNOWN_MAX, TIME, Before, EngineQuery
from materializer.core.engines.interval_windows import IntervalWindow
from materializer.core.engines.queries.daily_time_series import day_sql
from materializer.core.query.nodes import Columns, Query, Union
from materializer.core.spec.table_names import quoted

LONGEST: Final = 1 << 61
"""Maximum length of a block of time, and of a gap that is counted."""
_WORST, _NEWEST = "_mz_worst", "_mz_newest"
_EARLIEST: Final = f"min_by({{}}, {TIME})"
_MOST: Final = "max_by({}, _most)"
_NEWEST_TIME: Final = "_at"
_DETAILS: Final = ("_time", "_most", "_other", "_is_last", "_is_later")


class Census(Struct, frozen=True):
    """How many windows rows make.

    Args:
        windows: Upper bound of the windows that all rows make.
        rows: Number of rows.
        most: Upper bound of the windows that one row makes.
        key: Key values of the row that makes the most windows; None without rows.
        time: Time of that row.
        other: Time up to which that row makes windows: the next row of its key, the end of the filling, or an event's end.
        is_last: Whether that row is the last of its key. A clock, or the newest row of all keys, then causes the filling.
        is_later: Whether fewer rows lie from *other* on than up to *time*: then the row at *other* is the outlier.
        newest: Key of the newest row, if that row lies at *other*; else None.
    """

    windows: int
    rows: int
    most: int
    key: tuple[Any, ...] | None = None
    time: int = 0
    other: int = 0
    is_last: bool = False
    is_later: bool = False
    newest: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Census:
        """Return what the only row of :func:`counted` says."""
        if not row["rows"] or row["_time"] is None:
            return cls(0, 0, 0)
        key, newest = (tuple(v for n, v in row.items() if n.startswith(side)) for side in (_WORST, _NEWEST))
        newest_time = row.get(_NEWEST_TIME)
        time, most, other, is_last, is_later = (row.get(name, 0) for name in _DETAILS)
        return cls(
            int(row["windows"]),
            int(row["rows"]),
            int(most),
            key,
            time,
            other,
            bool(is_last),
            bool(is_later),
            newest if newest_time is not None and newest_time == other else None,
        )


def counted(raw: Query, e: EngineQuery, at: ClosingClock, limit: int) -> Query:
    """Return one row that says how many windows rows make; see :meth:`Census.of`.

    Args:
        raw: Raw rows, of which keys, part and times are taken.
        e: The definition; empty windows are filled after its windows *before*.
        at: The bounds that close windows.
        limit: Maximum number of windows that one row may make.
    """
    match e.params.grows_by:
        case "events":
            return _of_events(raw, e, e.params)
        case "days":
            return _of_days(raw, e, e.params)
        case "gaps":
            return _of_gaps(raw, e, e.params, at, limit)
        case _:
            return _alike(raw, e, e.params)


def _totals(
    rows: Query, e: EngineQuery, totals: Columns, details: Columns, worst: str, newest: Columns = (), last: str = ""
) -> Query:
    """Return totals of rows, and what two of them say.

    Args:
        rows: Rows, each with the keys.
        e: The definition.
        totals: Name and aggregate of each total.
        details: Name and text of what is said of one row.
        worst: The aggregate that picks this row.
        newest: Name and text of what is said of another row.
        last: The aggregate that picks it, or "".
    """
    found, fields = list(totals), [(name, name) for name, _ in totals]
    for side, columns, picks in ((_WORST, details, worst), (_NEWEST, newest, last)):
        if picks:
            of_row = [*((f"{side}{i}", quoted(name)) for i, name in enumerate(e.keys)), *columns]
            rows = rows.add(*of_row)
            names = [name for name, _ in of_row]
            found.append((side, picks.format(f"struct({', '.join(names)})")))
            fields += [(name, f"{side}.{name}") for name in names]
    return rows.group([], found).select(*fields)


def _alike(raw: Query, e: EngineQuery, p: WindowEngine) -> Query:
    """Count windows where every row is in the same number of windows; windows that neighbours share count once."""
    share, step = p.share, p.spacing
    panes = raw.group(
        [*((name, quoted(name)) for name in e.groups), ("_pane", f"{TIME} - pmod({TIME}, {step}L)")],
        [("n", "count(1)"), (TIME, f"min({TIME})")],
    )
    placed = panes.over(e.groups, ["_pane"], _next="lead(_pane)")
    made = placed.add(_made=f"least(coalesce((_next - _pane) / {step}L, {share}D), {share}D)")
    totals = (("rows", "sum(n)"), ("windows", "sum(_made)"))
    return _totals(made, e, totals, (("_time", TIME), ("_most", f"{share}L")), _EARLIEST)


def _of_days(raw: Query, e: EngineQuery, p: DailyTimeSeries) -> Query:
    """Count, as an upper bound, all windows of the trading days in which a key has rows."""
    a_day = p.windows_a_day
    days = raw.group(
        [*((name, quoted(name)) for name in e.groups), ("_day", day_sql(p.calendar, TIME))],
        [("n", "count(1)"), (TIME, f"min({TIME})")],
    )
    totals = (("rows", "sum(n)"), ("windows", f"CAST(count(1) * {a_day}L AS DOUBLE)"))
    return _totals(days, e, totals, (("_time", TIME), ("_most", f"{a_day}L")), _EARLIEST)


def _of_events(raw: Query, e: EngineQuery, p: IntervalWindow) -> Query:
    """Count the windows that begin during an event, or less than one window length before it."""
    open_end = TIME if p.default_end is None else f"{p.default_end}L"
    ended = raw.add(_other=f"greatest({TIME}, CASE WHEN {END} IS NULL THEN {open_end} ELSE {END} END)")
    is_far = f"{TIME} < 0 AND _other > {2**62}L + {TIME}"
    made = ended.add(_most=f"(CASE WHEN {is_far} THEN {2**62}L ELSE _other - {TIME} END) div {p.period}L + {p.share}L")
    totals = (("rows", "count(1)"), ("windows", "sum(CAST(_most AS DOUBLE))"))
    return _totals(made, e, totals, (("_time", TIME), ("_most", "_most"), ("_other", "_other")), _MOST)


def _of_gaps(raw: Query, e: EngineQuery, p: Closing, at: ClosingClock, limit: int) -> Query:
    """Count the windows that are filled from each row of a key to the next, and after its last row as far as windows close."""
    points = raw.select(*((name, quoted(name)) for name in (*e.groups, TIME, KNOWN_MAX)), n="1L")
    if e.before is not None:
        points = Union((points, _from_before(e.before, p, e)))
    blocks = points.group(
        [*((name, quoted(name)) for name in e.groups), ("_block", f"floor({TIME} / {_block(p, limit)}D)")],
        [("lo", f"min({TIME})"), ("hi", f"max({TIME})"), ("_known", f"max({KNOWN_MAX})"), ("n", "sum(n)")],
    )
    ordered = blocks.over(e.groups, ["_block"], _next="lead(lo)")
    ordered = ordered.over(e.groups, ["_block"], _until="sum(n)", frame=("rows", None, 0))
    ordered = ordered.over(e.groups, [], _last_known="max(_known)", _all="sum(n)")
    until = p.filled_until(at)
    after = "hi" if until is None else f"greatest(hi, {until}L)"
    other = f"CASE WHEN _next IS NOT NULL THEN _next WHEN _last_known > hi THEN hi ELSE {after} END"
    made = ordered.add(_other=other).add(_most=_between(p, "hi", "_other"))
    made = made.add(_windows=f"{_between(p, 'lo', 'hi')} + _most")
    details = (
        ("_time", "hi"),
        ("_most", "_most"),
        ("_other", "_other"),
        ("_is_last", "_next IS NULL"),
        ("_is_later", "_next IS NOT NULL AND _all - _until < _until"),
    )
    totals = (("rows", "sum(n)"), ("windows", "sum(CAST(_windows AS DOUBLE))"))
    return _totals(made, e, totals, details, _MOST, ((_NEWEST_TIME, "hi"),), "max_by({}, hi)")


def _from_before(before: Before, p: Closing, e: EngineQuery) -> Query:
    """Return each key's last window below the frozen boundary as a row at the boundary: no window is made below it."""
    since = f"greatest(w_start, {before.since - p.fill_unit[0]}L)"
    windows: Query = before.windows
    keys = ((name, quoted(name)) for name in e.groups)
    return windows.select(*keys, (TIME, since), (KNOWN_MAX, "CAST(NULL AS BIGINT)"), n="0L")


def _block(p: Closing, limit: int) -> int:
    """Return the length of a block of time: at most half of the windows that one row may make begin in a block."""
    length, windows = p.fill_unit
    return min(LONGEST, max(1, limit // (2 * windows)) * length)


def _between(p: Closing, start: str, end: str) -> str:
    """Return the SQL form of :meth:`materializer.core.engines.closing.Closing.between`, where the gap may be longer than 64 bits hold."""
    length, windows = p.fill_unit
    most = min(LONGEST, LONGEST // windows * length)
    gap = f"CASE WHEN {start} < 0 AND {end} > {most}L + {start} THEN {most}L ELSE least({end} - {start}, {most}L) END"
    return f"({gap} div {length}L + 1L) * {windows}L"
