"""Event-time panes: fixed windows on the epoch, fired by one watermark for all keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Final

from materializer.core.engines.closing import Reach, plan
from materializer.core.engines.params import About, Reader, Trouble
from materializer.core.engines.ranges import Kept, Range
from materializer.core.spec.spec import Resolution
from materializer.core.time.instants import SECOND, TICKS_PER_SECOND

DEFAULT_GAP: Final = 0.1
"""Seconds by which a watermark advances at least."""


@dataclass(frozen=True, slots=True)
class Params:
    """What the engine is told; lengths are instant ticks.

    Args:
        interval_duration: Length of a pane.
        creation_period: Distance of panes, which are ``[n * period + offset, … + duration)``.
        pane_offset: Start of pane 0, counted from the epoch.
        lag: The watermark stands this far behind the newest row.
        minimum_gap: By less the watermark does not advance.
        discard_age: A pane takes late rows until the watermark is this far past its end.
    """

    interval_duration: int
    creation_period: int
    pane_offset: int = 0
    lag: int = 0
    minimum_gap: int = 0
    discard_age: int = 0

    @property
    def needs_global_max(self) -> bool:
        """Whether the newest row of all keys closes windows."""
        return True

    @property
    def slice_width(self) -> int:
        """Length of the pieces of time that no edge of a pane cuts."""
        return gcd(self.interval_duration, self.creation_period)


def read(values: Mapping[str, object], about: About) -> tuple[Params | None, list[Trouble]]:
    """Return the parameters, and everything that is wrong with them; None for parameters that cannot be used.

    Whole numbers and fractions are seconds, as in the annotation; integer time columns count milliseconds, unless the
    definition says otherwise.
    """
    is_integer = about.time_type is not None and about.time_type.is_integer
    if is_integer and about.resolution is Resolution.NONE:
        about = replace(about, resolution=Resolution.MS)
    per_second = TICKS_PER_SECOND[about.resolution] if is_integer else SECOND
    reader = Reader(values, about, per_second)
    duration = reader.duration("interval_duration", least=1)
    if duration is None and reader.given("interval_duration") is None:
        reader.refuse("'interval_duration' is missing")
    duration = max(duration or 1, 1)
    gap = per_second // 10 if values.get("minimum_gap") is None else 0
    params = Params(
        interval_duration=duration,
        creation_period=max(reader.duration("creation_period", duration, least=1) or duration, 1),
        pane_offset=reader.duration("offset", 0, least=0) or 0,
        lag=reader.duration("lag", 0, least=0) or 0,
        minimum_gap=reader.duration("minimum_gap", gap, least=0) or 0,
        discard_age=reader.duration("discard_age", 0, least=0) or 0,
    )
    if params.pane_offset >= duration:
        reader.refuse("'offset' must be less than 'interval_duration'")
    reader.refuse_unknown()
    return (None if reader.troubles else params), reader.troubles


def advanced(watermark: int | None, newest: int, lag: int, minimum_gap: int) -> int | None:
    """Return the watermark that a newest row moves it to, None when it stays where it is.

    Args:
        watermark: The last one that was submitted, None before the first.
        newest: Largest time so far.
        lag: Of the engine.
        minimum_gap: Of the engine; an advance of exactly the gap counts.
    """
    found = newest - lag
    is_enough = watermark is None or (found > watermark and found - watermark >= minimum_gap)
    return found if is_enough else None


def watermarks(times: Iterable[int], lag: int, minimum_gap: int) -> Iterator[tuple[int, int]]:
    """Yield (position, watermark) for each row, from 0, that moves the watermark.

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


def ranges(
    p: Params, spans: Sequence[tuple[int, int]], kept: Sequence[Kept], *, is_complete: bool
) -> list[Range] | None:
    """Return which results of one key a change touches; see :mod:`materializer.core.engines.closing`.

    The newest row of all keys is never before the newest of the key, so what this one closes stays closed.
    """
    reach = Reach(p.interval_duration, slack=p.lag + p.minimum_gap)
    return plan(spans, kept, reach, is_complete=is_complete)
