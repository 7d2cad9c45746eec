"""How many windows rows make at most, told by arithmetic before any is made.

Most engines make as many results as there are rows, or a fixed number for each. Two kinds do not: windows without rows are
filled from one row of a key to the next, however far that is; and an event that lasts lies in as many hopping windows as
its life is long. There one stray row would be unbounded work, so their windows are counted first::

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
from materializer.core.engines.clock import Bounds
from materializer.core.engines.ranges import Kept
from materializer.core.engines.work import Key, Part
from materializer.core.time.spans import NEG_INF, POS_INF, Span

TOGETHER: Final = 10
"""How many times what one row may make all rows of a run may make together."""
EACH: Final = 10
"""How many times what each row makes in any case they may make besides."""


def share(params: Any) -> int:
    """Return how many windows one row at one instant is in at most; windows of several sizes that end together are one.

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
    """Return how many windows a whole trading day has."""
    return sum(s.windows for s in params.calendar.divided())


def is_bounded_by_rows(params: Any) -> bool:
    """Whether :func:`share` of each row is all that is made: nothing is filled, and no event lasts over windows."""
    if getattr(params, "fills", ()):
        return False
    return not (isinstance(params, interval_windows.Params) and params.kind == interval_windows.HOPPING)


def between(params: Any, start: int, end: int) -> int:
    """Return how many windows begin between two instants at most, both inside the life of one key or event.

    Args:
        params: Of an engine for which :func:`is_bounded_by_rows` does not hold.
        start: First instant.
        end: Last instant, not before it.

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
    """Return how many windows may begin outside of two instants because of rows at them: a trading day is filled to its end."""
    return windows_a_day(params) if isinstance(params, daily_time_series.Params) else share(params)


def filled_until(params: Any, clock: Bounds) -> int | None:
    """Return until when windows are filled after the newest row of a key; None for no longer than the row itself tells."""
    if not getattr(params, "fills", ()):
        return None
    is_daily = isinstance(params, daily_time_series.Params)
    if is_daily and params.key_purge_daily:
        return None
    is_forced = is_daily or params.use_system_time or params.force_trigger_time is not None
    return max((t for t in (clock.global_max if is_forced else None, clock.as_of) if t is not None), default=None)


def in_parts(
    params: Any, parts: Sequence[Part], about: Mapping[Key, Life], hull: Span | None, clock: Bounds
) -> int | None:
    """Return how many windows some ranges of keys hold at most; None where no number can be told.

    Args:
        params: The engine's ``Params``.
        parts: The ranges.
        about: What is known of their keys.
        hull: Where the source has rows, None when unknown.
        clock: What closes windows.
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
    """From when to when a key has rows or results, as far as a change of it shows.

    Args:
        start: First instant; ``POS_INF`` when nothing is known.
        end: Last instant; ``NEG_INF`` when nothing is known.
    """

    start: int
    end: int

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int]], kept: Sequence[Kept]) -> Life:
        """Return the life that changed times and kept results show."""
        first = [lo for lo, _ in spans[:1]] + [k.w_start for k in kept[:1]]
        last = [hi for _, hi in spans[-1:]] + [k.w_end for k in kept]
        return cls(min(first, default=POS_INF), max(last, default=NEG_INF))


def is_too_many(params: Any, windows: int, most: int, rows: int, limit: int) -> bool:
    """Whether a run would make more windows than it may.

    Args:
        params: The engine's ``Params``.
        windows: Windows that all rows make.
        most: Windows that a single row makes.
        rows: How many rows there are.
        limit: What a single row may make.

    Examples:
        >>> bars = time_series.Params(step=10, window_sizes=(10,), alignment=0)
        >>> is_too_many(bars, 10_500, 40, 100, 1_000), is_too_many(bars, 11_500, 40, 100, 1_000)
        (False, True)
        >>> is_too_many(bars, 1_500, 1_001, 100, 1_000)
        True
    """
    return most > limit or windows > TOGETHER * limit + EACH * share(params) * rows
