"""Event-time panes: windows at fixed distances from the epoch, fired by one watermark for all keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import ClassVar, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.engines.base import Excess, WindowEngine
from materializer.core.engines.closing import Reach, plan
from materializer.core.engines.params import About, ParamReader, Trouble
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.spec.spec import Resolution
from materializer.core.time.instants import SECOND, TICKS_PER_SECOND

DEFAULT_GAP: Final = 0.1
"""Default of the least advance of a watermark, in seconds."""


class EventTimeWindow(WindowEngine, Struct, frozen=True):
    """Parameters of the engine; lengths are instant ticks.

    Args:
        interval_duration: Length of a pane.
        creation_period: Distance between panes: pane n is ``[n * period + offset, n * period + offset + duration)``.
        pane_offset: Start of pane 0, counted from the epoch.
        lag: Distance of the watermark behind the newest row.
        minimum_gap: Least advance of the watermark; a smaller one is not made.
        discard_age: A pane accepts late rows until the watermark is this far past its end.
    """

    interval_duration: int
    creation_period: int
    pane_offset: int = 0
    lag: int = 0
    minimum_gap: int = 0
    discard_age: int = 0

    @property
    def needs_global_max(self) -> bool:
        """Whether the newest row over all keys closes windows; always true here."""
        return True

    @property
    def slice_width(self) -> int:
        """Length of the slices of time that no edge of a pane cuts."""
        return gcd(self.interval_duration, self.creation_period)

    @staticmethod
    def read(values: Mapping[str, object], about: About) -> tuple[EventTimeWindow | None, list[Trouble]]:
        """Return the parameters and all problems with them; the parameters are None when there is a problem.

        Whole numbers and fractions are seconds, as in IBM's annotation. An integer time column counts milliseconds unless the
        definition sets its resolution.
        """
        is_integer = about.time_type is not None and about.time_type.is_integer
        if is_integer and about.resolution is Resolution.NONE:
            about = replace(about, resolution=Resolution.MS)
        per_second = TICKS_PER_SECOND[about.resolution] if is_integer else SECOND
        reader = ParamReader(values, about, per_second)
        duration = reader.duration("interval_duration", least=1)
        if duration is None and reader.given("interval_duration") is None:
            reader.refuse("'interval_duration' is missing", about="interval_duration")
        duration = max(duration or 1, 1)
        gap = per_second // 10 if values.get("minimum_gap") is None else 0
        params = EventTimeWindow(
            interval_duration=duration,
            creation_period=max(reader.duration("creation_period", duration, least=1) or duration, 1),
            pane_offset=reader.duration("offset", 0, least=0) or 0,
            lag=reader.duration("lag", 0, least=0) or 0,
            minimum_gap=reader.duration("minimum_gap", gap, least=0) or 0,
            discard_age=reader.duration("discard_age", 0, least=0) or 0,
        )
        if params.pane_offset >= duration:
            reader.refuse("'offset' must be less than 'interval_duration'", about="offset")
        reader.refuse_unknown()
        return (None if reader.troubles else params), reader.troubles

    def ranges(
        self, spans: Sequence[tuple[int, int]], stored: Sequence[StoredResult], *, is_complete: bool
    ) -> list[Range] | None:
        """Return which results of one key a change touches; see :mod:`materializer.core.engines.closing`.

        A window that the newest row of its own key closes stays closed, because the newest row over all keys is never older.
        """
        reach = Reach(self.interval_duration, slack=self.lag + self.minimum_gap)
        return plan(spans, stored, reach, is_complete=is_complete)

    EXTRA_OUTPUTS: ClassVar = (("pane_index", "x_ordinal"), ("timing", "x_timing"))

    @property
    def arrival(self) -> Literal["watermark"]:
        """A row is late when the watermark has passed its panes."""
        return "watermark"

    def first_result(self, t: int, bound: int, stored: Sequence[StoredResult], *, may_go: bool) -> int:  # noqa: ARG002 (of the base)
        """Return the start of the first pane that holds *t*."""
        start = t - self.interval_duration + 1
        return start + (self.pane_offset - start) % self.creation_period

    @property
    def most_counts(self) -> int:
        """In how many results one row is counted at most."""
        return self.share

    @property
    def share(self) -> int:
        """In how many panes one row is at most."""
        return -(-self.interval_duration // self.creation_period)

    @property
    def spacing(self) -> int:
        """Distance between the starts of panes."""
        return self.creation_period

    def why_many(self, excess: Excess) -> tuple[str, str]:
        """Return for which row there are so many panes, and the properties that let it, in words."""
        return f"for each row, such as the row {excess.row}", "'interval_duration' and 'creation_period'"


def advanced(watermark: int | None, newest: int, lag: int, minimum_gap: int) -> int | None:
    """Return the new watermark, or None when the newest row does not move it.

    Args:
        watermark: The last watermark that was issued, None before the first.
        newest: Largest event time so far.
        lag: The engine's lag.
        minimum_gap: The engine's minimum gap; an advance of exactly this gap is made.
    """
    found = newest - lag
    is_enough = watermark is None or (found > watermark and found - watermark >= minimum_gap)
    return found if is_enough else None


def watermarks(times: Iterable[int], lag: int, minimum_gap: int) -> Iterator[tuple[int, int]]:
    """Yield (position, watermark) for each row that moves the watermark; positions count from 0.

    Examples:
        >>> list(watermarks([0, 50, 99, 100, 90, 250], 0, 100))
        [(0, 0), (3, 100), (5, 250)]
    """
    watermark: int | None = None
    newest: int | None = None
    for position, t in enumerate(times):
        newest = t if newest is None else max(newest, t)
        moved = advanced(watermark, newest, lag, minimum_gap)
        if moved is not None:
            watermark = moved
            yield position, moved
