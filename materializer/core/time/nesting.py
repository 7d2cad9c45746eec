"""Checks whether buckets nest: an aggregate over another one needs each of its edges among the parent's edges.

A bucket of the parent is one row for its child, and counts as a whole in one bucket of the child. Where an edge of the child
lies inside a bucket of the parent, a part of that bucket is counted on the wrong side.

Both grids are regular between *bends*: instants at which a zone's offset changes, or the effect of such a change on
edges ends. Between two bends only as many edges are compared as prove all others: two for buckets of equal length, those of
one calendar cycle for months.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from math import lcm
from typing import Final

from materializer.core.spec.spec import Resolution
from materializer.core.time.grid import EPOCH_2000, YEARS_1_TO_9999, CalendarGrid, FixedGrid, Grid
from materializer.core.time.instants import DAY, SECOND, TICKS_PER_SECOND
from materializer.core.time.spans import Span
from materializer.core.time.wallclock import MonthLattice
from materializer.core.time.zones import UTC, Zone

_MONTHS_IN_400_YEARS: Final = 4_800
_SINCE: Final = Span(0, YEARS_1_TO_9999.end)
"""The span in which different zones are compared: zone data are reliable from 1970 on; local mean times before fit no hour."""


@lru_cache(maxsize=256)  # each command that checks a folder compares every aggregate with its parent again
def misfit(child: Grid, parent: Grid) -> int | None:
    """Return an edge of *child* that is no edge of *parent*; None when each bucket of *parent* lies in one of *child*.

    It is the first such edge from 2000 on, else the nearest one before 2000. Edges of the years 1 to 9999 are compared, or all
    edges of a plain integer column. Zones that differ are compared from 1970 on.

    Args:
        child: Grid of the aggregate that reads the outputs of *parent*.
        parent: Grid of the raw rows; its instants are those of *child*.
    """
    reach, middle = _reach(child, parent), _scaled(EPOCH_2000, child)
    if reach is None:
        return None
    middle = min(max(middle, reach.start), reach.end - 1)
    bends = sorted({reach.start, middle, reach.end, *_bends(child, reach), *_bends(parent, reach)})
    regular = [Span(*ends) for ends in pairwise(bends)]
    most = _enough(child, parent)
    after = [span for span in regular if span.start >= middle]
    for span in [*after, *reversed(regular[: len(regular) - len(after)])]:
        found = _first(child, parent, span, most)
        if found is not None:
            return found
    return None


def _first(child: Grid, parent: Grid, span: Span, most: int) -> int | None:
    edge = child.edge_from(span.start)
    while most and edge < span.end:
        if parent.edge_at(edge) != edge:
            return edge
        edge, most = child.edge_from(edge + 1), most - 1
    return None


def _enough(child: Grid, parent: Grid) -> int:
    """Return how many neighbouring edges of *child* suffice: if all these are edges of *parent*, all others are too."""
    months, width = _months(child), _width(parent)
    if months is None:
        # equal distances never match months for long, except for whole cycles of the calendar, of which few exist
        return 2 if width is not None else sys.maxsize
    if width is not None and _scaled(DAY, child) % width == 0:
        return 2
    if width is None and child.resolution is not parent.resolution:
        return sys.maxsize
    return lcm(months, _MONTHS_IN_400_YEARS) // months + 1


def _months(grid: Grid) -> int | None:
    is_by_months = isinstance(grid, CalendarGrid) and isinstance(grid.wall.lattice, MonthLattice)
    return grid.spec.width.months if is_by_months else None


def _width(grid: Grid) -> int | None:
    """Return the length of a bucket in the column's own unit, None for months."""
    if isinstance(grid, FixedGrid):
        return grid.width
    if isinstance(grid, CalendarGrid) and not isinstance(grid.wall.lattice, MonthLattice):
        return grid.instant_of(grid.wall.lattice.width)
    return None


def _reach(child: Grid, parent: Grid) -> Span | None:
    """Return the instants to compare, or None when the column holds none of them."""
    if child.time_type.is_integer and child.resolution is Resolution.NONE:
        return child.limits
    years = YEARS_1_TO_9999 if _zone(child) is _zone(parent) else _SINCE
    return Span(_scaled(years.start, child), _scaled(years.end, child)) & child.limits


def _scaled(micros: int, grid: Grid) -> int:
    """Return microseconds in the unit of the grid's column; unchanged for integers without a resolution."""
    if not grid.time_type.is_integer or grid.resolution is Resolution.NONE:
        return micros
    return micros * TICKS_PER_SECOND[grid.resolution] // SECOND


def _zone(grid: Grid) -> Zone:
    return grid.wall.zone if isinstance(grid, CalendarGrid) else UTC


def _bends(grid: Grid, reach: Span) -> Iterator[int]:
    """Yield the instants inside *reach* between which the grid is regular."""
    if not isinstance(grid, CalendarGrid) or grid.wall.zone is UTC:
        return
    micros = Span(grid.micros_of(reach.start) - grid.delay, grid.micros_of(reach.end) - grid.delay)
    for bend in grid.wall.bends(micros):
        at = grid.instant_of(bend + grid.delay)
        if reach.start < at < reach.end:
            yield at
