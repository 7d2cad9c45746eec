"""Windows over events that have a start and an end: hopping, compressed hopping, snapshot and count windows.

An event of a key lives in ``[start, end)``. It lasts at least one tick: an event whose end is not after its start is a point
event of one tick. An event whose end is null is open: it never ends.

* ``hopping_window``: window n is ``[a + n*p, a + n*p + d)``, for every whole n. An event is in every window that it overlaps.
  Windows without events do not exist. An open event would be in infinitely many windows, so it needs ``default_end``.
* ``compressed_hopping_window``: the same results, with one row for each run of equal results. Window n owns the slot of
  length p at its end. Each event is snapped to ``[snap(start, a + d), snap(end - 1 tick, a) + d)``; the results are the
  snapshots of the snapped events.
* ``snapshot_window``: one result for each stretch between neighbouring starts and ends of events, where there is an event.
* ``count_window``: *count* consecutive distinct starts. A window ends one tick after the last of its starts; its rows are
  the events that begin in it. The next window begins at the next start.

Result rows write an open end as :data:`OPEN`. There is no lateness: an event counts whenever it arrives.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.engines.base import Excess, WindowEngine
from materializer.core.engines.params import About, ParamReader, Trouble
from materializer.core.engines.ranges import Range, StoredResult, first_across, merge_ranges
from materializer.core.engines.time_kinds import read_instant, read_time_kind
from materializer.core.time.spans import NEG_INF, POS_INF

HOPPING: Final = "hopping_window"
COMPRESSED: Final = "compressed_hopping_window"
SNAPSHOT: Final = "snapshot_window"
COUNT: Final = "count_window"

POINT: Final = "point_align_to_window_end"
CLIP: Final = "clip_to_window_end"

OPEN: Final = 2**62
"""The end of an open event in result rows: later than every real instant, and inside 64 bits."""


class IntervalWindow(WindowEngine, Struct, frozen=True):
    """Parameters of the four kinds of windows; lengths in instants.

    Args:
        kind: One of the four kinds.
        end: Column of the events' end; None for count windows without one.
        duration: Length of a hopping window.
        period: Distance between the starts of hopping windows.
        alignment: Start of one hopping window, which positions all others.
        output_policy: Result of a hopping window: a point event at the window's end, or an event as long as the window.
        default_end: End of open events in hopping windows, or None.
        count: Number of distinct starts in a count window.
        tick: The shortest length of an event.
    """

    kind: str
    end: str | None = None
    duration: int = 0
    period: int = 0
    alignment: int = 0
    output_policy: str = POINT
    default_end: int | None = None
    count: int = 0
    tick: int = 1

    @staticmethod
    def read(values: Mapping[str, object], about: About) -> tuple[IntervalWindow | None, list[Trouble]]:
        """Return the parameters and all problems with them; the parameters are None when there is a problem.

        Args:
            values: The parameters.
            about: The definition; ``engine`` names one of the four kinds.
        """
        r = ParamReader(values, about)
        kind = about.engine
        tick = read_time_kind(r)
        end = r.text("end")
        if end is None and kind != COUNT:
            r.refuse(
                "'end' is missing", "name the column that holds the end of an event; null is an open end", about="end"
            )
        p = IntervalWindow(kind, end, tick=tick)
        if kind in (HOPPING, COMPRESSED):
            p = _hopping(r, p)
        elif kind == COUNT:
            p = replace(p, count=_required(r, "count", r.integer("count", least=1)))
        r.refuse_unknown()
        return (None, r.troubles) if r.troubles else (p, [])

    def ranges(
        self,
        spans: Sequence[tuple[int, int]],
        stored: Sequence[StoredResult],
        *,
        is_complete: bool,
    ) -> list[Range] | None:
        """Return which windows of one key a change touches, or None when the answer needs older stored rows.

        A span is the life of a changed event and may leave out its last instant. The raw rows of a range are the events that
        overlap the raw range. Where the ends of neighbouring events are edges of a result, the raw range is wider than the result
        range, so that it includes these neighbours.
        """
        match self.kind:
            case "hopping_window":
                found = [_hops(self, lo, hi) for lo, hi in spans]
                return merge_ranges(
                    [*found, *(_hops_in(self, k.w_start, k.w_start + 1) for k in stored if not k.is_final)]
                )
            case "count_window":
                return _counts(self, spans, stored, is_complete=is_complete)
            case _:
                return _stretches(self, spans, stored, is_complete=is_complete)

    @property
    def reopens_on_first_clock(self) -> bool:
        """Row times close windows until there is a clock."""
        return True

    def lasts_from(self, bound: int) -> int | None:
        """Return the least last instant of an event that counts above *bound*; None for count windows.

        An event that ends exactly at the bound gives the results an edge there. A compressed window ends one window length
        after its last event, so this instant is earlier by that length.
        """
        if self.kind == COUNT:
            return None
        if bound == NEG_INF:
            return NEG_INF
        return bound - (self.duration if self.kind == COMPRESSED else self.tick)

    def first_result(self, t: int, bound: int, stored: Sequence[StoredResult], *, may_go: bool) -> int:
        """Return the start of the first result that takes an event at *t*; see :meth:`WindowEngine.begins_below`."""
        if self.kind == HOPPING:
            start = t - self.duration + 1
            return start + (self.alignment - start) % self.period
        if self.kind == COMPRESSED:
            edge = snap(t, self.alignment + self.duration, self.period)
            return min(edge, first_across(edge - may_go, bound, stored))
        return first_across(t - may_go, bound, stored)

    @property
    def why_not_additive(self) -> str:
        """Why the row count of results may fall; see :attr:`WindowEngine.why_not_additive`."""
        return "an older event moves all windows after it" if self.kind == COUNT else ""

    @property
    def share(self) -> int:
        """In how many windows one event of one tick is at most; elsewhere an event has two edges."""
        if self.kind == HOPPING:
            return -(-self.duration // self.period) + 1
        return 1 if self.kind == COUNT else 2

    @property
    def grows_by(self) -> Literal["rows", "events"]:
        """The number of hopping windows follows the lengths of events."""
        return "events" if self.kind == HOPPING else "rows"

    @property
    def is_census_due(self) -> bool:
        """There are no more results than edges of events, wherever these lie."""
        return False

    def between(self, start: int, end: int) -> int:
        """Return how many hopping windows at most begin in the life of an event."""
        return max(0, end - start) // self.period + self.share

    def why_many(self, excess: Excess) -> tuple[str, str]:
        """Return for which event there are so many windows, and the properties that let it, in words."""
        until = "has no end" if excess.is_open else f"lasts until {excess.other}"
        what = f"for one event: the row {excess.row} {until}, and hopping windows begin every 'period'"
        return what, "'period' or 'default_end'"


def _hopping(r: ParamReader, p: IntervalWindow) -> IntervalWindow:
    duration = _required(r, "duration", r.duration("duration", least=1))
    period = r.duration("period", duration or None, least=1) or 0
    if p.kind == COMPRESSED and 0 < duration < period:
        message = f"'duration' ({r.given('duration')}) is shorter than 'period' ({r.given('period')})"
        r.refuse(
            f"{message}: compressed windows must leave no gap",
            "make it at least as long, or use hopping_window",
            about="duration",
        )
    p = replace(p, duration=duration, period=period, alignment=read_instant(r, "alignment") or 0)
    if p.kind == COMPRESSED:
        return p
    return replace(p, output_policy=_policy(r), default_end=read_instant(r, "default_end"))


def _required(r: ParamReader, name: str, value: int | None) -> int:
    if value is None and r.given(name) is None:
        r.refuse(f"'{name}' is missing", about=name)
    return value or 0


def _policy(r: ParamReader) -> str:
    """Return the output policy; its words may be written without underscores, as in ``ClipToWindowEnd``."""
    given = r.text("output_policy", POINT) or POINT
    known = {name.replace("_", ""): name for name in (POINT, CLIP)}
    folded = given.lower().replace("_", "")
    if folded not in known:
        r.refuse(f"'output_policy' must be {POINT} or {CLIP}, got '{given}'", about="output_policy")
    return known.get(folded, POINT)


def snap(t: int, base: int, period: int) -> int:
    """Return the last edge at or before *t* of the grid through *base*.

    Examples:
        >>> snap(-1, 3, 5), snap(3, 3, 5)
        (-2, 3)
    """
    return t - (t - base) % period


def _hops(p: IntervalWindow, lo: int, hi: int) -> Range:
    return _hops_in(p, lo - p.duration + 1, min(hi + p.tick + 1, POS_INF))


def _hops_in(p: IntervalWindow, start: int, end: int) -> Range:
    return Range(start, end, start - p.tick, min(end - 1 + p.duration, POS_INF))


def _stretches(
    p: IntervalWindow, spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult], *, is_complete: bool
) -> list[Range] | None:
    """Return the stretches that contain or touch a changed event: an edge inside them or at their end may come or go."""
    lives = [_life(p, lo, hi) for lo, hi in spans]
    if lives and not is_complete and not (stored and stored[0].w_start < lives[0][0]):
        return None
    found = [(k.w_start, k.w_end) for k in stored if not k.is_final]
    for lo, hi in lives:
        first = bisect_left(stored, lo, key=lambda k: k.w_end)
        stop = bisect_right(stored, hi, key=lambda k: k.w_start)
        touched = stored[first:stop]
        found.append(
            (
                min(lo, touched[0].w_start) if touched else lo,
                max(min(hi + 1, POS_INF), touched[-1].w_end) if touched else min(hi + 1, POS_INF),
            )
        )
    before, after = (p.duration, p.period) if p.kind == COMPRESSED else (p.tick, 1)
    return merge_ranges(Range(lo, hi, lo - before, min(hi + after, POS_INF)) for lo, hi in found)


def _life(p: IntervalWindow, lo: int, hi: int) -> tuple[int, int]:
    """Return the first and the last edge that a changed event can cause in the results."""
    last = hi + p.tick if hi < OPEN else POS_INF
    if p.kind == SNAPSHOT:
        return lo, last
    edge = last if last == POS_INF else snap(last, p.alignment, p.period) + p.duration
    return snap(lo, p.alignment + p.duration, p.period), edge


def _counts(
    p: IntervalWindow, spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult], *, is_complete: bool
) -> list[Range] | None:
    """Return the windows that contain a changed start.

    Every distinct start has a stored row, even while its window is not full. Only starts outside the spans are counted,
    because only these certainly still exist.
    """
    reach = p.count - 1
    sure = list(_starts_outside(stored, spans))
    found = [
        Range(k.w_start, k.w_start + 1, k.w_start, stored[i + reach].w_start + 1)
        for i, k in enumerate(stored)
        if not k.is_final and i + reach < len(stored)
    ]
    for lo, hi in spans:
        at, after = bisect_left(sure, lo) - reach, bisect_right(sure, hi) + reach - 1
        if at < 0 and reach and not is_complete:
            return None
        start = lo if not reach else sure[at] if at >= 0 else NEG_INF
        end = min(hi + 1, POS_INF)
        raw_end = end if not reach else sure[after] + 1 if after < len(sure) else POS_INF
        found.append(Range(start, end, start, raw_end))
    return merge_ranges(found)


def _starts_outside(stored: Sequence[StoredResult], spans: Sequence[tuple[int, int]]) -> Iterator[int]:
    at = 0
    for k in stored:
        while at < len(spans) and spans[at][1] < k.w_start:
            at += 1
        if at == len(spans) or k.w_start < spans[at][0]:
            yield k.w_start
