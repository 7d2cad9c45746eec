"""Daily time series by a loop over the windows of a calendar."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.core.engines.daily_time_series import DailyTimeSeries
from materializer.core.engines.trading_calendar import Window
from tests.core.engines.histories import Clock, Naive, Result, Row
from tests.core.engines.naive_series import FILLED


def days(p: DailyTimeSeries) -> Naive:
    """Return the engine, whose measure lists the rows of a window."""
    c = p.calendar

    def results(rows: Sequence[Row], outside: int | None, clock: Clock) -> list[Result]:
        held: dict[Window, list[Row]] = {}
        newest_of: dict[int, int] = {}
        for row in sorted(rows):
            day = c.day_of(row.t)
            newest_of[day] = max(row.t, newest_of.get(day, row.t))
            if (window := c.window_at(row.t)) is not None:
                held.setdefault(window, []).append(row)
        if not held:
            return []
        newest = max(row.t for row in rows)
        known = max(t for t in (newest, outside) if t is not None)

        def is_closed(w: Window, time: int) -> bool:
            force = p.force_trigger_session_end_time
            return (
                time - p.accepted_delay >= w.closes
                or (
                    p.force_trigger_time is not None
                    and clock.global_max is not None
                    and clock.global_max - p.force_trigger_time >= w.closes
                )
                or (clock.as_of is not None and force is None and clock.as_of >= w.closes)
                or (clock.as_of is not None and force is not None and clock.as_of - force >= w.session_end)
            )

        def is_forgotten(w: Window) -> bool:
            day = None if clock.global_max is None else c.last_open(c.day_of(clock.global_max))
            return p.key_purge_daily and day is not None and w.day < day

        found: list[Result] = []
        last: tuple[Window, Result] | None = None
        until = max(
            [max(w.day for w in held), *(c.day_of(t) for t in (known, clock.global_max, clock.as_of) if t is not None)]
        )
        for w in (w for day in range(min(w.day for w in held), until + 1) for w in c.windows_of(day)):
            if inside := held.get(w):
                t, ids = [row.t for row in inside], tuple(sorted(row.id for row in inside))
                is_final = is_closed(w, known) or is_forgotten(w)
                last = w, Result(w.w_start, w.w_end, min(t), max(t), len(t), is_final, (ids,))
                found.append(last[1])
            elif last is not None and p.fills:
                is_before = any(other.w_start > w.w_start for other in held)
                time = newest_of[last[0].day] if p.key_purge_daily else known
                is_of_day = w.day == last[0].day or not p.key_purge_daily
                if is_of_day and is_closed(w, time) and (is_before or known <= newest):
                    ((kind, _),) = p.fills
                    values = last[1].values if kind == "ffill" else (FILLED if kind == "constant" else None,)
                    found.append(Result(w.w_start, w.w_end, None, None, 0, True, values))
        return found

    return results
