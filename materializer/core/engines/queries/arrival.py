"""Which of the rows that arrived an engine accepts, where the order of arrival counts (``strict`` or ``delay`` lateness).

The change feed gives this order, from the table's first version on: commits in order; inside a commit by the sequence column (if
there is one), by time, and by the other columns that the definition reads. An update or a delete does not undo a row that was
accepted, as in the streaming engines: the new image of an updated row arrives like any other row.

=================  =====================================================================================================
engine             a row is late when
=================  =====================================================================================================
most               an earlier row of its key that was accepted has a larger time
``accepted_delay``  every window it belongs to ended at or before its key's largest earlier time, less the delay
``force_trigger``   every window it belongs to ended at or before the largest earlier time of all keys, less the force
daily              also: a row of a later trading day (of any key) had arrived, and keys are forgotten daily
event time         its panes were discarded: their end is at or before the watermark of earlier commits, less the discard age
=================  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.engine_query import CLOSED_ON_ARRIVAL, ORIGIN, TIME, VERSION, EngineQuery
from materializer.core.engines.event_time_window import EventTimeWindow, advanced
from materializer.core.engines.queries.daily_time_series import (
    DAY,
    PLACE,
    count_sql,
    day_sql,
    is_outside_sql,
    number_sql,
    window_sql,
)
from materializer.core.engines.queries.time_series import SHUT_OUT, with_shut_out
from materializer.core.query.nodes import Columns, Frame, Named, Query

LATE: Final = "_late"
"""The reason why a row is not accepted; null for an accepted row."""
MARKS: Final[Columns] = (("_mz_version", "bigint"), ("_mz_mark", "bigint"))
"""The columns of :func:`marked`."""
_EARLIER: Final[Frame] = ("rows", None, -1)
_BEFORE: Final = "_mz_before"
_CLOSED: Final = "'all its windows were closed'"


def judged(rows: Query, e: EngineQuery, at: ClosingClock, marks: Query | None = None) -> Query:
    """Return every row that arrived with why it is late.

    Args:
        rows: All rows that arrived, with ``_t``, the keys and ``_version``, the commit that brought each. Where
            :func:`looks_at_all` says no, those of some keys are enough.
        e: The definition.
        at: The bounds that close windows.
        marks: For an engine with a watermark, the rows of :func:`marked`.

    Shape:
        The columns of *rows*, ``_late`` string, ``_wm`` bigint (see :mod:`materializer.core.engines.engine_query`), and for a time
        series ``_origin`` bigint.
    """
    if marks is not None:
        return _by_watermark(rows, e.params, marks)
    p, order, delay = e.params, [VERSION, *e.arrives_by], e.params.accepted_delay
    found = rows.over(e.keys, order, (_BEFORE, f"max({TIME})"), frame=_EARLIER)
    why, bounds = "CAST(NULL AS STRING)" if delay else _is_earlier(_BEFORE), []
    if delay:
        bounds.append(f"{_BEFORE} - {delay}L")
    if p.force_trigger_time is not None:
        found = found.over([], order, _mz_newest=f"max({TIME})", frame=_EARLIER)
        bounds.append(f"_mz_newest - {p.force_trigger_time}L")
    closed = f"greatest({', '.join(bounds)})" if len(bounds) > 1 else "".join(bounds) or "CAST(NULL AS BIGINT)"
    found = found.add((CLOSED_ON_ARRIVAL, closed))
    if p.arrival == "rows":
        return found.add((LATE, why)).only(*rows.names, LATE, CLOSED_ON_ARRIVAL)
    found = found.over(e.keys, order, _mz_place="row_number()")
    found = found.over(e.keys, [], (ORIGIN, f"max(CASE WHEN _mz_place = 1 THEN {TIME} END)"))
    if p.arrival == "sessions":
        return _by_session(found.add((LATE, why)), p, order).only(*rows.names, LATE, CLOSED_ON_ARRIVAL)
    found = with_shut_out(found, e, at)
    why = f"CASE WHEN {SHUT_OUT} THEN {_CLOSED} END"
    if not delay:  # a row that was shut out is as one that never came: it does not make others late
        accepted = f"max(CASE WHEN NOT {SHUT_OUT} THEN {TIME} END)"
        found = found.over(e.keys, order, _mz_accepted=accepted, frame=_EARLIER)
        why = f"coalesce({_is_earlier('_mz_accepted')}, {why})"
    return found.add((LATE, why)).only(*rows.names, LATE, CLOSED_ON_ARRIVAL, ORIGIN)


def accepted(found: Query) -> Query:
    """Return the rows of :func:`judged` that count."""
    return found.where(f"{LATE} IS NULL").without(LATE)


def refused(found: Query, e: EngineQuery, after: int | None = None) -> Query:
    """Return the rows of :func:`judged` that do not count, and arrived after a version if one is given."""
    if e.params.arrival == "sessions":  # in no window, but they advance time: the query has them
        outside = f"CASE WHEN {is_outside_sql(e.params)} THEN 'outside of the trading sessions' END"
        found = found.add((LATE, f"coalesce({LATE}, {outside})"))
    late = found.where(f"{LATE} IS NOT NULL")
    return late if after is None else late.where(f"{VERSION} > {after}")


def looks_at_all(params: Any) -> bool:
    """Return whether rows of other keys make a row late."""
    if params.arrival == "watermark" or params.force_trigger_time is not None:
        return True
    return params.arrival == "sessions" and bool(params.key_purge_daily)


def days_with_sessions(rows: Query, e: EngineQuery) -> Query:
    """Return the rows that arrived on days with sessions, with the day of each.

    They are what :func:`judged` looks at of rows of other keys, where keys are forgotten daily.
    """
    c = e.params.calendar
    return rows.add((DAY, day_sql(c, TIME))).where(f"{count_sql(c, DAY)} > 0")


def days_of_commits(rows: Query) -> Query:
    """Return (``_version``, last day) of each commit, of the rows of :func:`days_with_sessions`."""
    return rows.group([VERSION], [("day", f"max({DAY})")])


def records(rows: Query, e: EngineQuery, marks: Query) -> Query:
    """Return those of the rows of :func:`days_with_sessions` whose day is later than that of every row which arrived before.

    Where each of them is accepted, no other row of another key decides which rows are late: the last day of the rows that were
    accepted before a row is that of one of them.

    Args:
        rows: The rows.
        e: The definition.
        marks: Commits whose last day is later than all days before, each with the last day before it, as :data:`MARKS` has them.
    """
    (version, _), (mark, _) = MARKS
    near = rows.join(marks, [(VERSION, "<=>", version)], is_small=True).where(f"coalesce({DAY} > {mark}, true)")
    found = near.over([], [VERSION, *e.arrives_by], _mz_days=f"max({DAY})", frame=_EARLIER)
    return found.where(f"coalesce({DAY} > _mz_days, true)").only(*rows.names)


def later(commits: Iterable[tuple[int, int]]) -> list[tuple[int, int | None]]:
    """Return the commits whose last day is later than all days before, each with the last day before it: the rows of :data:`MARKS`."""
    last: int | None = None
    found = []
    for version, day in sorted(commits):
        if last is None or day > last:
            found.append((version, last))
            last = day
    return found


def _is_earlier(before: str) -> str:
    """Return SQL of the reason that a row is late where its time is before *before*, else null."""
    return f"CASE WHEN {TIME} < {before} THEN 'earlier than its key''s newest row' END"


def _by_session(rows: Query, p: DailyTimeSeries, order: list[str]) -> Query:
    """Return rows of a daily engine with the reason why they are late: a closed window, or keys forgotten since then."""
    c = p.calendar
    placed = rows.add((DAY, day_sql(c, TIME))).add((PLACE, number_sql(c)))
    window = window_sql(c, DAY, PLACE)
    is_closed = f"{window}.closes <= {CLOSED_ON_ARRIVAL}"
    if p.accepted_delay:  # rows of windows before the window of the key's first row are late, too
        placed = placed.add(_mz_day=day_sql(c, ORIGIN)).add(_mz_first=number_sql(c, ORIGIN, "_mz_day"))
        begins = window_sql(c, "_mz_day", "_mz_first")
        is_closed = f"({is_closed} OR coalesce({window}.w_end < {begins}.w_end, false))"
    placed = placed.add((LATE, f"coalesce({LATE}, CASE WHEN {is_closed} THEN {_CLOSED} END)"))
    if not p.key_purge_daily:
        return placed
    days = f"max(CASE WHEN {LATE} IS NULL AND {count_sql(c, DAY)} > 0 THEN {DAY} END)"
    placed = placed.over([], order, _mz_days=days, frame=_EARLIER)
    is_past = f"{PLACE} IS NOT NULL AND {DAY} < _mz_days"
    return placed.add((LATE, f"coalesce({LATE}, CASE WHEN {is_past} THEN 'a later trading day had begun' END)"))


# -- watermarks ----------------------------------------------------------------------------------------------------------


def newest(rows: Query) -> Query:
    """Return (``_version``, newest time) of each commit that brought rows."""
    return rows.group([VERSION], [("newest", f"max({TIME})")])


def _marks(p: EventTimeWindow, commits: Iterable[tuple[int, int]]) -> list[tuple[int, int | None, int | None]]:
    """Return (commit, watermark before it, watermark after it) of each commit, in order.

    Args:
        p: The engine.
        commits: Each commit, with its newest time.
    """
    watermark: int | None = None
    largest, found = None, []
    for version, t in sorted(commits):
        largest = t if largest is None else max(largest, t)
        moved, before = advanced(watermark, largest, p.lag, p.minimum_gap), watermark
        watermark = watermark if moved is None else moved
        found.append((version, before, watermark))
    return found


def discarded(p: EventTimeWindow, commits: Iterable[tuple[int, int]]) -> list[tuple[int, int | None]]:
    """Return each commit with the watermark before it less the discard age: the rows of :data:`MARKS`."""
    return [(version, None if before is None else before - p.discard_age) for version, before, _ in _marks(p, commits)]


def submitted(p: EventTimeWindow, commits: Iterable[tuple[int, int]]) -> int | None:
    """Return the event time that set the newest watermark (watermark plus lag); None without rows."""
    after = next((after for _, _, after in reversed(_marks(p, commits))), None)
    return None if after is None else after + p.lag


def marked() -> Named:
    """Return the rows of :func:`discarded`."""
    return Named("marks", MARKS)


def _by_watermark(rows: Query, p: EventTimeWindow, marks: Query) -> Query:
    """Return rows of an event-time engine with ``_late`` and ``_wm``: the watermark of earlier commits less the discard age."""
    (version, _), (mark, _) = MARKS
    placed = rows.join(marks, [(VERSION, "<=>", version)], is_small=True).add((CLOSED_ON_ARRIVAL, mark))
    start = f"({TIME} - pmod({TIME} - {p.pane_offset}L, {p.creation_period}L))"
    # the end of the row's last pane; a row between two panes is in none, and never late
    end = f"({start} + {p.interval_duration}L)"
    is_over = f"{end} <= {CLOSED_ON_ARRIVAL} AND {TIME} < {end}"
    placed = placed.add((LATE, f"CASE WHEN {is_over} THEN 'its panes were discarded' END"))
    return placed.only(*rows.names, LATE, CLOSED_ON_ARRIVAL)
