"""Upper bounds of the number of windows that rows make, by arithmetic before any window is made.

Most engines make as many results as there are rows, or a fixed number for each row. Two kinds do not. Filling adds windows
from one row of a key to the next, however far apart these are. An event with an end lies in as many hopping windows as its
life is long. In both cases one wrong row would cause unbounded work, so the windows are counted first::

      row                                                  next row of its key
    --[w]--[filled]--[filled]--[filled]-- ... --[filled]--[w]--
       |<----------------- between(row, next) ----------->|
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from materializer.core.engines import (
    daily_time_series,
    event_time_window,
    interval_windows,
    time_series,
)
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.ranges import StoredResult
from materializer.core.engines.work import Key, Part
from materializer.core.time.spans import NEG_INF, POS_INF, Span

TOGETHER: Final = 10
"""All rows of a run together may make this many times as many windows as a single row may make."""
EACH: Final = 10
"""In addition, each row may make this many times the windows that it makes in any case (:func:`share`)."""


def share(params: Any) -> int:
    """Return in how many windows one row at one instant is at most; windows of several sizes that end together count as one.

    Args:
        params: The engine's ``Params``.
    """
    match params:
        case time_series.Params():
            return params.length // params.step
        case event_time_window.Params():
            return -(-params.interval_duration // params.creation_period)
        case interval_windows.Params(kind=interval_windows.HOPPING):
            return -(-params.duration // params.period) + 1
        case interval_windows.Params(kind=interval_windows.COUNT):
            return 1
        case interval_windows.Params():
            return 2  # an event has two edges
        case _:
            return 1


def windows_a_day(params: daily_time_series.Params) -> int:
    """Return the number of windows of a whole trading day."""
    return sum(s.windows for s in params.calendar.divided())


def is_bounded_by_rows(params: Any) -> bool:
    """Whether rows make no more windows than :func:`share` for each: nothing is filled, and no event extends over windows."""
    if getattr(params, "fills", ()):
        return False
    return not (isinstance(params, interval_windows.Params) and params.kind == interval_windows.HOPPING)


def between(params: Any, start: int, end: int) -> int:
    """Return how many windows at most begin between two instants in the life of one key or event.

    Args:
        params: Parameters of an engine for which :func:`is_bounded_by_rows` is false.
        start: First instant.
        end: Last instant, not before *start*.

    Examples:
        >>> between(time_series.Params(step=10, window_sizes=(10,), alignment=0, fills=(("null", ""),)), 5, 1000)
        100
    """
    length = max(0, end - start)
    match params:
        case daily_time_series.Params():
            return (length // params.day + 1) * windows_a_day(params)
        case interval_windows.Params():
            return length // params.period + share(params)
        case _:
            return length // int(params.step) + 1


def beyond(params: Any) -> int:
    """Return how many windows rows at two instants may add outside of these: a trading day is filled to its end."""
    return windows_a_day(params) if isinstance(params, daily_time_series.Params) else share(params)


def filled_until(params: Any, clock: ClosingClock) -> int | None:
    """Return until when windows are filled after the newest row of a key; None when filling ends with that row."""
    if not getattr(params, "fills", ()):
        return None
    is_daily = isinstance(params, daily_time_series.Params)
    if is_daily and params.key_purge_daily:
        return None
    is_forced = is_daily or params.use_system_time or params.force_trigger_time is not None
    return max((t for t in (clock.global_max if is_forced else None, clock.as_of) if t is not None), default=None)


def in_parts(
    params: Any, parts: Sequence[Part], about: Mapping[Key, Life], hull: Span | None, clock: ClosingClock
) -> int | None:
    """Return how many windows some ranges of keys hold at most; None when there is no upper bound.

    Args:
        params: The engine's ``Params``.
        parts: The ranges.
        about: The life of each key.
        hull: The span of the source's rows, None when unknown.
        clock: The clock that closes windows.
    """
    found = 0
    for part in parts:
        life = about[part.key]
        start, end = max(part.start, life.start), min(part.end, life.end)
        if part.start == NEG_INF:
            if hull is None:
                return None
            start = min(life.start, hull.start)
        until = filled_until(params, clock)
        if part.end == POS_INF and until is not None:
            end = max(end, until)
        if end in (NEG_INF, POS_INF) or start in (NEG_INF, POS_INF):
            return None
        found += between(params, start, end) + beyond(params)
    return found


@dataclass(frozen=True, slots=True)
class Life:
    """The first and last instant at which a key has rows or results, as far as a change of the key shows.

    Args:
        start: First instant; ``POS_INF`` when nothing is known.
        end: Last instant; ``NEG_INF`` when nothing is known.
    """

    start: int
    end: int

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int]], kept: Sequence[StoredResult]) -> Life:
        """Return the life that changed times and stored results show."""
        first = [lo for lo, _ in spans[:1]] + [k.w_start for k in kept[:1]]
        last = [hi for _, hi in spans[-1:]] + [k.w_end for k in kept]
        return cls(min(first, default=POS_INF), max(last, default=NEG_INF))


def is_too_many(params: Any, windows: int, most: int, rows: int, limit: int) -> bool:
    """Whether a run would make more windows than it may.

    Args:
        params: The engine's ``Params``.
        windows: Number of windows that all rows make.
        most: Largest number of windows that a single row makes.
        rows: Number of rows.
        limit: Largest number of windows that a single row may make.

    Examples:
        >>> bars = time_series.Params(step=10, window_sizes=(10,), alignment=0)
        >>> is_too_many(bars, 10_500, 40, 100, 1_000), is_too_many(bars, 11_500, 40, 100, 1_000)
        (False, True)
        >>> is_too_many(bars, 1_500, 1_001, 100, 1_000)
        True
    """
    return most > limit or windows > TOGETHER * limit + EACH * share(params) * rows
