"""Grids: divisions of time into buckets.

A grid is a fixed set of edges; a bucket is the span from one edge to the next. There are two kinds: :class:`FixedGrid`,
whose buckets all have the same length, and :class:`CalendarGrid`, which divides the wall clock of a zone by months or by a
fixed length. :func:`build` makes a grid from its declaration.

Source:
    TimescaleDB's ``time_bucket`` for origins, offsets and ranges; :mod:`materializer.core.time.wallclock` for zones.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from msgspec.structs import replace

from materializer.core.spec.spec import GridSpec, Resolution, TimeType, Width
from materializer.core.time.instants import DAY, SECOND, TICKS_PER_SECOND, Shown, days_of, render, shown_as
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.wallclock import FixedLattice, Lattice, MonthLattice, WallClock, month_of
from materializer.core.time.widths import describe_width, parse_width
from materializer.core.time.zones import UTC, Zone, load, names
from materializer.errors import DefinitionError, OutOfRangeError, Problem
from materializer.structs import AbstractStruct

__all__ = [
    "CalendarGrid",
    "FixedGrid",
    "FixedLattice",
    "Grid",
    "MonthLattice",
    "build",
    "describe_width",
    "limits_of",
    "parse_width",
]

_MOST: Final = {False: 2**63, True: 12 * 300_000}
"""Widths from these on are refused: ticks or microseconds (False), and months (True)."""

EPOCH_2000: Final = days_of(2000, 1, 1) * DAY
MONDAY_2000: Final = EPOCH_2000 + 2 * DAY
_CLOCK: Final = Span(EPOCH_2000 - 2**63, EPOCH_2000 + 2**63)
"""The span of 64-bit microseconds around 2000: a shifted time outside it is out of range, as in TimescaleDB."""
YEARS_1_TO_9999: Final = Span(days_of(1, 1, 1) * DAY, days_of(10_000, 1, 1) * DAY)

_LIMITS: Final = {
    TimeType.SMALLINT: Span(-(2**15), 2**15),
    TimeType.INT: Span(-(2**31), 2**31),
    TimeType.BIGINT: Span(-(2**63), 2**63),
}
_TIME_LIMITS: Final = Span(days_of(-4713, 11, 24) * DAY, days_of(294_277, 1, 1) * DAY)
"""4714-11-24 BC (Julian day 0) to the end of 294276: the times that ``time_bucket`` accepts."""


def limits_of(time_type: TimeType) -> Span:
    """Return the instants that a time column of this type can hold."""
    return _LIMITS.get(time_type, _TIME_LIMITS)


# -- grids ---------------------------------------------------------------------------------------------------------------


class Grid(AbstractStruct, frozen=True):
    """A division of time into buckets.

    Args:
        spec: The declaration that it was built from.
        time_type: Type of the time column, which decides what an instant is.
        resolution: Meaning of a tick of an integer time column.
    """

    spec: GridSpec
    time_type: TimeType
    resolution: Resolution

    @abstractmethod
    def edge_at(self, instant: int) -> int:
        """Return the last edge at or before *instant*, even if the column cannot hold it."""

    @abstractmethod
    def edge_from(self, instant: int) -> int:
        """Return the first edge at or after *instant*, even if the column cannot hold it."""

    @abstractmethod
    def _edges_within(self, span: Span) -> int:
        """Return how many edges a bounded span holds."""

    @property
    def shown(self) -> Shown:
        """How people are shown its instants."""
        return shown_as(self.time_type, self.resolution)

    @property
    def limits(self) -> Span:
        """The instants that the column type can hold."""
        return limits_of(self.time_type)

    def floor(self, instant: int) -> int:
        """Return the start of the bucket that holds *instant*; an infinite instant is returned unchanged.

        Raises:
            OutOfRangeError: If *instant* or the start of its bucket is outside the column's type.
        """
        if instant in (NEG_INF, POS_INF):
            return instant
        edge = self.edge_at(instant)
        if instant not in self.limits or edge not in self.limits:
            self._refuse(instant)
        return edge

    def next(self, edge: int) -> int:
        """Return the end of the bucket that starts at *edge*; it may be outside the column's type.

        Raises:
            ValueError: If *edge* is no edge.
        """
        if self.edge_at(edge) != edge:
            msg = f"{render(edge, self.shown)} is no edge of {self.describe()}"
            raise ValueError(msg)
        return self.edge_from(edge + 1)

    def bucket(self, instant: int) -> Span:
        """Return the bucket that holds a finite *instant*.

        Raises:
            OutOfRangeError: If *instant* or the start of its bucket is outside the column's type.
        """
        edge = self.floor(instant)
        return Span(edge, self.edge_from(edge + 1))

    def cover(self, span: Span) -> Span:
        """Return the smallest run of whole buckets around *span*; infinite ends stay, and ends may leave the column's type."""
        start = span.start if span.start == NEG_INF else self.edge_at(span.start)
        end = span.end if span.end == POS_INF else self.edge_from(span.end)
        return Span(start, end)

    def cover_set(self, spans: SpanSet) -> SpanSet:
        """Return the smallest set of whole buckets that contains *spans*."""
        return SpanSet.union(self.cover(s) for s in spans)

    def within(self, span: Span) -> Span | None:
        """Return the largest run of whole buckets inside *span*, or None without a whole bucket; infinite ends stay."""
        start = span.start if span.start == NEG_INF else self.edge_from(span.start)
        end = span.end if span.end == POS_INF else self.edge_at(span.end)
        return Span(start, end) if start < end else None

    def count(self, span: Span) -> int:
        """Return how many buckets overlap a bounded span.

        Raises:
            ValueError: If *span* is not bounded.
        """
        if not span.is_bounded:
            msg = f"an open span has no number of buckets, got {span}"
            raise ValueError(msg)
        return 1 + self._edges_within(Span(span.start + 1, span.end)) if span.end - span.start > 1 else 1

    def describe(self) -> str:
        """Return the grid in words, such as ``1 day in America/New_York``."""
        text = describe_width(self.spec.width)
        if self.spec.timezone:
            text += f" in {self.spec.timezone}"
        if self.spec.origin is not None:
            text += f" from {render(self.spec.origin, self.shown)}"
        if self.spec.offset:
            text += f" shifted by {describe_width(self.spec.offset)}"
        return text

    def _refuse(self, instant: int) -> None:
        what = f"{render(instant, self.shown)} has no bucket of {self.describe()}"
        msg = f"{what}: its start is outside what {self.time_type} holds"
        raise OutOfRangeError(msg, instant=instant)


class FixedGrid(Grid, frozen=True):
    """A grid whose buckets all have one length.

    Args:
        width: Length of a bucket, in microseconds or ticks, positive.
        zero: Start from which *shift* counts: 2000-01-01 for times, 0 for integers.
        shift: Distance of an edge from *zero*, less than *width*, with the sign of the declared origin and offset.
    """

    width: int
    zero: int
    shift: int

    @property
    def phase(self) -> int:
        """The edge in ``[0, width)``."""
        return (self.zero + self.shift) % self.width

    def floor(self, instant: int) -> int:
        """Return the start of the bucket that holds *instant*; an infinite instant is returned unchanged.

        Raises:
            OutOfRangeError: If *instant*, the start of its bucket, or either without the shift is outside the column's type.
        """
        edge = Grid.floor(self, instant)
        # the time and the start without the shift must be values of the type too: the rule of time_bucket
        reach = self.limits if self.time_type.is_integer else _CLOCK
        if instant not in (NEG_INF, POS_INF) and (instant - self.shift not in reach or edge - self.shift not in reach):
            self._refuse(instant)
        return edge

    def edge_at(self, instant: int) -> int:
        """Return the last edge at or before *instant*, even if the column cannot hold it."""
        return instant - (instant - self.zero - self.shift) % self.width

    def edge_from(self, instant: int) -> int:
        """Return the first edge at or after *instant*, even if the column cannot hold it."""
        return instant + (self.zero + self.shift - instant) % self.width

    def _edges_within(self, span: Span) -> int:
        return (span.end - 1 - self.phase) // self.width - (span.start - 1 - self.phase) // self.width


class SliceGrid(FixedGrid, frozen=True):
    """The slices of an engine's results; the first one may begin before the column's type does."""

    def floor(self, instant: int) -> int:
        """Return the start of the slice that holds *instant*; an infinite instant is returned unchanged."""
        return instant if instant in (NEG_INF, POS_INF) else self.edge_at(instant)


class CalendarGrid(Grid, frozen=True):
    """A grid whose buckets divide a zone's wall clock, by months or by a fixed length.

    Args:
        wall: The divided wall clock; that of ``UTC`` for dates, for timestamps without zone, and without a declared zone.
        delay: Microseconds from the wall clock's instant to each edge.
    """

    wall: WallClock
    delay: int

    def edge_at(self, instant: int) -> int:
        """Return the last edge at or before *instant*, even if the column cannot hold it."""
        return self.instant_of(self.wall.edge_at(self.micros_of(instant) - self.delay) + self.delay)

    def edge_from(self, instant: int) -> int:
        """Return the first edge at or after *instant*, even if the column cannot hold it."""
        return self.instant_of(self.wall.edge_from(self._micros_from(instant)) + self.delay)

    def micros_of(self, instant: int) -> int:
        """Return the microsecond that contains *instant*; *instant* itself unless the time column is an integer."""
        if not self.time_type.is_integer:
            return instant
        return instant * SECOND // TICKS_PER_SECOND[self.resolution]

    def instant_of(self, micros: int) -> int:
        """Return the instant of an edge given in microseconds."""
        if not self.time_type.is_integer:
            return micros
        return micros * TICKS_PER_SECOND[self.resolution] // SECOND

    def _edges_within(self, span: Span) -> int:
        return self.wall.edges_within(self._micros_from(span.start), self._micros_from(span.end))

    def _micros_from(self, instant: int) -> int:
        """Return the first microsecond at or after *instant*, minus the delay; a nanosecond may lie inside a microsecond."""
        at = -self.micros_of(-instant) if self.resolution is Resolution.NS else self.micros_of(instant)
        return at - self.delay

    def micros_span(self, span: Span) -> Span | None:
        """Return the microseconds of *span* inside the years 1 to 9999, or None without any."""
        start = NEG_INF if span.start == NEG_INF else self.micros_of(span.start)
        end = POS_INF if span.end == POS_INF else self.micros_of(span.end - 1) + 1
        return Span(start, end) & YEARS_1_TO_9999


# -- from a declaration --------------------------------------------------------------------------------------------------


def slices(grid: Grid) -> Grid:
    """Return a grid as that of the slices of an engine."""
    if isinstance(grid, FixedGrid) and grid.time_type.is_integer:
        return SliceGrid(grid.spec, grid.time_type, grid.resolution, grid.width, grid.zero, grid.shift)
    return grid


def build(spec: GridSpec, time_type: TimeType, resolution: Resolution = Resolution.NONE) -> Grid:
    """Return the grid that *spec* declares over a time column.

    Args:
        spec: The declaration; its origin is an instant of the column.
        time_type: Type of the time column.
        resolution: Meaning of a tick of an integer column; ignored for other columns. With a resolution, widths may be lengths
            of time, and edges are those of a timestamp; without one, widths are ticks.

    Raises:
        DefinitionError: With all problems, if the declaration gives no grid for such a column.
    """
    resolution = resolution if time_type.is_integer else Resolution.NONE
    parts = (
        (describe_width(spec.width), _width_problems(spec, time_type, resolution)),
        (describe_width(spec.offset or Width()), _offset_problems(spec, time_type, resolution)),
        ("", _origin_problems(spec, time_type)),
        (spec.timezone or "", _zone_problems(spec, time_type, resolution)),
    )
    if problems := [replace(problem, about=part) for part, found in parts for problem in found]:
        raise DefinitionError(problems)
    zone = load(spec.timezone) if spec.timezone else UTC
    if spec.width.ticks is None and (spec.width.months or zone is not UTC):
        return _calendar(spec, time_type, resolution, zone)
    offset = _ticks(spec.offset or Width(), resolution)
    width = _ticks(spec.width, resolution)
    if spec.width.ticks is None:
        zero, origin = (_ticks(Width(micros=m), resolution) for m in (EPOCH_2000, MONDAY_2000))
    else:
        zero = origin = 0
    if spec.origin is not None:
        origin = spec.origin
    shift = origin - zero + offset
    shift = shift % width if shift >= 0 else -(-shift % width)
    return FixedGrid(spec, time_type, resolution, width=width, zero=zero, shift=shift)


def _calendar(spec: GridSpec, time_type: TimeType, resolution: Resolution, zone: Zone) -> CalendarGrid:
    offset = spec.offset or Width()
    # the days of an offset are days of the wall clock, its smaller units are elapsed time; without a zone both are the same
    shift, delay = offset.days * DAY, offset.micros
    if zone is UTC:
        shift, delay = shift + delay, 0
    if spec.origin is None:
        local = MONDAY_2000
    else:
        micros = spec.origin * SECOND // TICKS_PER_SECOND[resolution] if time_type.is_integer else spec.origin
        local = micros + zone.regime_at(micros).offset
    lattice: Lattice
    if spec.width.months:
        lattice = MonthLattice(spec.width.months, (month_of(local) + offset.months) % spec.width.months, shift)
    else:
        width = spec.width.days * DAY + spec.width.micros
        lattice = FixedLattice(width, (local + shift) % width)
    return CalendarGrid(spec, time_type, resolution, wall=WallClock(lattice, zone), delay=delay)


def _micros(width: Width) -> int:
    return width.days * DAY + width.micros


def _ticks(width: Width, resolution: Resolution) -> int:
    """Return a length without months in the column's own unit."""
    if width.ticks is not None:
        return width.ticks
    return _micros(width) if resolution is Resolution.NONE else _micros(width) * TICKS_PER_SECOND[resolution] // SECOND


def _is_whole(width: Width, resolution: Resolution) -> bool:
    """Whether a length is a whole number of ticks."""
    return resolution is Resolution.NONE or _micros(width) * TICKS_PER_SECOND[resolution] % SECOND == 0


def _width_problems(spec: GridSpec, time_type: TimeType, resolution: Resolution) -> Iterator[Problem]:
    width, text = spec.width, describe_width(spec.width)
    has_time = bool(width.months or width.days or width.micros)
    if width.ticks is not None and has_time:
        yield Problem("definition.width-mixed", f"a width is ticks or a length of time, not both; found {width}")
    elif width.months and (width.days or width.micros):
        hint = "write months and years alone, or days and time alone"
        yield Problem("definition.width-mixed", f"months have no fixed length in days or time; found '{text}'", hint)
    elif (width.months or (_micros(width) if width.ticks is None else width.ticks)) <= 0:
        yield Problem("definition.width-zero", f"a width must be longer than nothing; found '{text}'")
    elif max(width.months, _ticks(width, resolution)) >= _MOST[bool(width.months)]:
        yield Problem("definition.width-too-long", f"a width must fit the time column; found '{text}'")
    elif width.ticks is not None and not time_type.is_integer:
        hint = f"name a unit, such as '{text} seconds'"
        yield Problem("definition.width-type", f"a {time_type} column needs a length of time; found '{text}'", hint)
    elif width.ticks is None and time_type.is_integer and resolution is Resolution.NONE:
        hint = "if its values are parts of a second, add the property 'time.resolution' = 'ms' (or 's', 'us', 'ns'); else give the width in its own unit"
        yield Problem("definition.width-type", f"a plain {time_type} column needs an integer; found '{text}'", hint)
    elif time_type is TimeType.DATE and width.micros % DAY:
        yield Problem("definition.width-type", f"a date column needs whole days; found '{text}'")
    elif not _is_whole(width, resolution):
        yield Problem("definition.width-type", f"'{text}' is no whole number of the column's ticks ({resolution})")


def _offset_problems(spec: GridSpec, time_type: TimeType, resolution: Resolution) -> Iterator[Problem]:
    offset, width = spec.offset, spec.width
    if offset is None:
        return
    text = describe_width(offset)
    if offset.ticks is not None and (offset.months or offset.days or offset.micros):
        yield Problem("definition.offset-mixed", f"an offset is ticks or a length of time, not both; found {offset}")
    elif offset.months and not width.months:
        found = f"found an offset of '{text}' for a width of '{describe_width(width)}'"
        yield Problem("definition.offset-mixed", f"an offset may have months only where the width has; {found}")
    elif (offset.ticks is None) != (width.ticks is None):
        found = f"found '{text}' for a width of '{describe_width(width)}'"
        yield Problem("definition.offset-type", f"an offset is given in the same kind of unit as the width; {found}")
    elif time_type is TimeType.DATE and offset.micros % DAY:
        yield Problem("definition.offset-type", f"a date column needs an offset of whole days; found '{text}'")
    elif not _is_whole(offset, resolution):
        yield Problem("definition.offset-type", f"'{text}' is no whole number of the column's ticks ({resolution})")


def _origin_problems(spec: GridSpec, time_type: TimeType) -> Iterator[Problem]:
    origin = spec.origin
    if origin is None:
        return
    if origin not in limits_of(time_type):
        yield Problem(
            "definition.origin-invalid", f"an origin must be a {time_type} value; found {render(origin, time_type)}"
        )
    elif time_type is TimeType.DATE and origin % DAY:
        yield Problem("definition.origin-invalid", f"an origin must be a date; found {origin} us since 1970-01-01")


def _zone_problems(spec: GridSpec, time_type: TimeType, resolution: Resolution) -> Iterator[Problem]:
    if spec.timezone is None:
        return
    is_time = time_type is TimeType.TIMESTAMP or resolution is not Resolution.NONE
    if not is_time or spec.width.ticks is not None:
        what = f"ticks of a {time_type} column" if spec.width.ticks is not None else f"a {time_type} column"
        yield Problem("definition.timezone-type", f"{what} cannot be divided by the time zone {spec.timezone!r}")
    try:
        load(spec.timezone)
    except ValueError as error:
        near = get_close_matches(spec.timezone, names(), n=1)
        yield Problem("definition.timezone-unknown", str(error), f"did you mean {near[0]!r}?" if near else "")
