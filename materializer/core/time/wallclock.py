"""The wall clock of a zone, divided by a lattice: the instants of its edges, also where the clock jumps.

- Forward (a gap): edges continue in the old offset until the first edge of the new offset. A day that would begin in the
  gap begins at the gap's instant, or later by as much as its midnight lies inside the gap.
- Back (a fold): for widths below a day, both passes of the repeated time have their own edges. From a day on, only the
  first pass has edges, so a day begins at the first instant of its date.

So edges are the same whether they are searched for from before or from after, which a rule for single instants does not
guarantee. All values here are microseconds.

Source:
    TimescaleDB's ``time_bucket`` with a timezone. It differs only in folds, where its answers do not form a grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from materializer.core.time.instants import DAY, date_of, days_of
from materializer.core.time.spans import NEG_INF, Span
from materializer.core.time.zones import Regime, Zone


class FixedLattice(Struct, frozen=True):
    """Points at equal distances.

    Args:
        width: Distance between neighbouring points, positive.
        phase: The point in ``[0, width)``.
    """

    width: int
    phase: int

    def index(self, x: int) -> int:
        """Return the index of the last point at or before *x*; indexes of neighbours differ by one."""
        return (x - self.phase) // self.width

    def point(self, index: int) -> int:
        """Return the point with that index."""
        return index * self.width + self.phase


class MonthLattice(Struct, frozen=True):
    """First days of months, all shifted by the same amount.

    Args:
        months: Months from one point to the next, positive.
        phase: In ``[0, months)``; points lie in the months whose number 12 * year + month - 1 leaves this remainder.
        shift: Microseconds from 00:00 on the first of its month to each point.
    """

    months: int
    phase: int
    shift: int

    def index(self, x: int) -> int:
        """Return the index of the last point at or before *x*; indexes of neighbours differ by one."""
        return (month_of(x - self.shift) - self.phase) // self.months

    def point(self, index: int) -> int:
        """Return the point with that index."""
        year, month = divmod(index * self.months + self.phase, 12)
        return days_of(year, month + 1, 1) * DAY + self.shift


Lattice: TypeAlias = FixedLattice | MonthLattice


def _floor(lattice: Lattice, x: int) -> int:
    return lattice.point(lattice.index(x))


def _ceil(lattice: Lattice, x: int) -> int:
    return lattice.point(lattice.index(x - 1) + 1)


def _points(lattice: Lattice, start: int, end: int) -> int:
    """Return how many points lie in [start, end); 0 when reversed."""
    return max(0, lattice.index(end - 1) - lattice.index(start - 1))


def month_of(x: int) -> int:
    """Return the number 12 * year + month - 1 of the month of a wall clock time."""
    year, month, _ = date_of(x // DAY)
    return 12 * year + month - 1


class OffsetRule(Struct, frozen=True):
    """The rule for buckets from one instant on, until the next piece.

    Args:
        start: First instant.
        offset: Local time minus UTC.
        bucket: The bucket, when a jump of the clock changes it; None when buckets follow from the lattice.
    """

    start: int
    offset: int
    bucket: Span | None


class WallClock(Struct, frozen=True):
    """The wall clock of *zone*, divided by *lattice*."""

    lattice: Lattice
    zone: Zone

    @property
    def has_one_pass(self) -> bool:
        """Whether repeated local time has edges in its first pass only."""
        return isinstance(self.lattice, MonthLattice) or self.lattice.width >= DAY

    def pieces(self, span: Span) -> Iterator[OffsetRule]:
        """Yield the rules for buckets in a bounded span, from left to right."""
        for regime in self.zone.regimes(span):
            at, stop = max(regime.start, span.start), min(regime.end, span.end)
            # a bucket may extend over a jump, so each one is compared until buckets follow the wall clock again
            while at < stop and not self._is_plain(at, regime.offset):
                bucket = Span(self.edge_at(at), self.edge_from(at + 1))
                yield OffsetRule(at, regime.offset, bucket)
                at = bucket.end
            if at >= stop:
                continue
            yield OffsetRule(at, regime.offset, None)
            last = self.edge_at(stop - 1)
            if last > at and not self._is_plain(last, regime.offset):
                yield OffsetRule(last, regime.offset, Span(last, self.edge_from(last + 1)))

    def _is_plain(self, at: int, offset: int) -> bool:
        """Whether the bucket of *at* is that of the lattice in one offset."""
        index = self.lattice.index(at + offset)
        start, end = self.lattice.point(index) - offset, self.lattice.point(index + 1) - offset
        return start == self.edge_at(at) and end == self.edge_from(start + 1)

    def edge_at(self, at: int) -> int:
        """Return the last edge at or before *at*."""
        lattice = self.lattice
        regime = self.zone.regime_at(at)
        while True:
            point = _floor(lattice, at + regime.offset)
            edge = point - regime.offset
            if edge >= regime.start and point >= self._first_new(regime):
                return edge
            if regime.offset > regime.before:
                edge = _floor(lattice, at + regime.before) - regime.before
                if edge >= regime.start:
                    return edge
            at = regime.start - 1
            regime = self.zone.regime_at(at)

    def edge_from(self, at: int) -> int:
        """Return the first edge at or after *at*."""
        lattice = self.lattice
        regime = self.zone.regime_at(at)
        while True:
            edge = _ceil(lattice, max(at + regime.offset, self._first_new(regime))) - regime.offset
            if regime.offset > regime.before:
                old = _ceil(lattice, at + regime.before) - regime.before
                edge = old if old < self._first_after_gap(regime) else edge
            if edge < regime.end:
                return edge
            at = regime.end
            regime = self.zone.regime_at(at)

    def _first_new(self, regime: Regime) -> int:
        """Return the first local time of *regime* that may be an edge; NEG_INF except after a one-pass fold."""
        if self.has_one_pass and regime.offset < regime.before:
            return regime.start + regime.before
        return NEG_INF

    def edges_within(self, start: int, end: int) -> int:
        """Return how many edges lie in [start, end); 0 when reversed."""
        return sum(self._edges_of(r, start, end) for r in self.zone.regimes(Span(start, end))) if start < end else 0

    def _edges_of(self, regime: Regime, start: int, end: int) -> int:
        start, end = max(start, regime.start), min(end, regime.end)
        total = _points(self.lattice, max(start + regime.offset, self._first_new(regime)), end + regime.offset)
        if regime.offset > regime.before:
            last = min(end, self._first_after_gap(regime))
            total += _points(self.lattice, start + regime.before, last + regime.before)
        return total

    def bends(self, span: Span) -> Iterator[int]:
        """Yield the instants (at least those inside *span*) between which edges are lattice points in one offset."""
        for regime in self.zone.regimes(span):
            if regime.start == NEG_INF:
                continue
            yield regime.start
            if regime.offset > regime.before:
                yield self._first_after_gap(regime)
            elif self.has_one_pass:
                yield regime.start + regime.before - regime.offset

    def _first_after_gap(self, regime: Regime) -> int:
        """Return the first edge of the new offset; until then the edges of the old offset continue."""
        return _ceil(self.lattice, regime.start + regime.offset) - regime.offset
