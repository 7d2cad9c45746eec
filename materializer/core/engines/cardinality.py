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
from typing import Final

from msgspec import Struct

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.ranges import StoredOfKey
from materializer.core.engines.work import Key, Part
from materializer.core.time.spans import NEG_INF, POS_INF, Span

TOGETHER: Final = 10
"""All rows of a run together may make this many times as many windows as a single row may make."""
EACH: Final = 10
"""In addition, each row may make this many times the windows that it makes in any case (:attr:`WindowEngine.share`)."""


def in_parts(
    engine: WindowEngine, parts: Sequence[Part], about: Mapping[Key, Life], hull: Span | None, clock: ClosingClock
) -> int | None:
    """Return how many windows some ranges of keys hold at most; None when there is no upper bound.

    Args:
        engine: The engine.
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
        until = engine.filled_until(clock)
        if part.end == POS_INF and until is not None:
            end = max(end, until)
        if end in (NEG_INF, POS_INF) or start in (NEG_INF, POS_INF):
            return None
        found += engine.between(start, end) + engine.beyond
    return found


class Life(Struct, frozen=True):
    """The first and last instant at which a key has rows or results, as far as a change of the key shows.

    Args:
        start: First instant; ``POS_INF`` when nothing is known.
        end: Last instant; ``NEG_INF`` when nothing is known.
        results: Upper bound of the results in the slices of its ranges, but for what each changed row adds.
    """

    start: int
    end: int
    results: int = 0

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int]], stored: StoredOfKey, around: Sequence[Span] = ()) -> Life:
        """Return the life that changed times and stored results show.

        Rows that are gone cut a stored result in two, at most once at each changed time.

        Args:
            spans: Closed intervals of changed times, in order.
            stored: Stored results of the key.
            around: The slices of the key's ranges.
        """
        first = [lo for lo, _ in spans[:1]] + [k.w_start for k in stored.rows[:1]]
        last = [hi for _, hi in spans[-1:]] + [k.w_end for k in stored.rows]
        count = sum(stored.count_in(slices.start, slices.end) for slices in around)
        return cls(min(first, default=POS_INF), max(last, default=NEG_INF), count + len(spans) if around else 0)


def is_too_many(engine: WindowEngine, windows: int, most: int, rows: int, limit: int) -> bool:
    """Whether a run would make more windows than it may.

    Args:
        engine: The engine.
        windows: Number of windows that all rows make.
        most: Largest number of windows that a single row makes.
        rows: Number of rows.
        limit: Largest number of windows that a single row may make.

    Examples:
        >>> from materializer.core.engines.time_series import TimeSeries
        >>> bars = TimeSeries(step=10, window_sizes=(10,), alignment=0)
        >>> is_too_many(bars, 10_500, 40, 100, 1_000), is_too_many(bars, 11_500, 40, 100, 1_000)
        (False, True)
        >>> is_too_many(bars, 1_500, 1_001, 100, 1_000)
        True
    """
    return most > limit or windows > TOGETHER * limit + EACH * engine.share * rows
