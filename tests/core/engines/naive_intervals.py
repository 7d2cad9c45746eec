"""Windows over events that last, as double loops over windows and events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from materializer.core.engines.interval_windows import COMPRESSED, COUNT, HOPPING, SNAPSHOT, IntervalWindow
from tests.core.engines.histories import OPEN, Clock, Naive, Result, Row

BOUND = 40


def until(row: Row, tick: int) -> int:
    """The end of an event that lasts a tick at least."""
    return max(row.end if row.end is not None else OPEN, row.t + tick)


def result(start: int, end: int, rows: Sequence[Row], clock: Clock, *, is_full: bool = True) -> Result:
    """A window with the rows in it."""
    times, ids = [r.t for r in rows], tuple(sorted(r.id for r in rows))
    is_final = is_full and (clock.as_of is None or end <= clock.as_of)
    return Result(start, end, min(times), max(times), len(rows), is_final, (ids,))


def hopping(p: IntervalWindow) -> Naive:
    """Every window of the grid, with the events that overlap it; open events end at the bound."""

    def naive(rows: Sequence[Row], _outside: int | None, clock: Clock) -> list[Result]:
        found = []
        for n in range(-(BOUND + 60) // p.period - 2, (BOUND + 60) // p.period + 2):
            start = p.alignment + n * p.period
            inside = [r for r in rows if r.t < start + p.duration and start < _bounded(p, r)]
            found += [result(start, start + p.duration, inside, clock)] if inside else []
        return found

    return naive


def _bounded(p: IntervalWindow, row: Row) -> int:
    return max(BOUND, row.t + p.tick) if row.end == OPEN else until(row, p.tick)


def compressed(p: IntervalWindow) -> Naive:
    """Runs of slots whose windows hold the same events; a window's slot is its last period."""

    def naive(rows: Sequence[Row], _outside: int | None, clock: Clock) -> list[Result]:
        # Windows hold ticks, so an event is in those that hold one of its ticks.
        runs: list[tuple[int, int, list[Row]]] = []
        last = 80 // p.period + 2
        for n in range(-last, last):
            start, end = p.alignment + n * p.period, p.alignment + n * p.period + p.duration
            inside = [r for r in rows if r.t < end and start <= until(r, p.tick) - p.tick]
            if runs and runs[-1][1] == end - p.period and runs[-1][2] == inside:
                runs[-1] = (runs[-1][0], end, inside)
            elif inside:
                runs.append((end - p.period, end, inside))
        if runs and any(r.end == OPEN for r in rows):
            runs[-1] = (runs[-1][0], OPEN, runs[-1][2])
        return [result(start, end, inside, clock) for start, end, inside in runs]

    return naive


def snapshots(p: IntervalWindow) -> Naive:
    """The stretches between neighbouring edges."""

    def naive(rows: Sequence[Row], _outside: int | None, clock: Clock) -> list[Result]:
        edges = sorted({r.t for r in rows} | {until(r, p.tick) for r in rows})
        found = []
        for start, end in pairwise(edges):
            inside = [r for r in rows if r.t <= start < until(r, p.tick)]
            found += [result(start, end, inside, clock)] if inside else []
        return found

    return naive


def counts(p: IntervalWindow) -> Naive:
    """The windows that begin at each distinct start, full or not."""

    def naive(rows: Sequence[Row], _outside: int | None, clock: Clock) -> list[Result]:
        starts = sorted({r.t for r in rows})
        found = []
        for i, start in enumerate(starts):
            mine = starts[i : i + p.count]
            inside = [r for r in rows if r.t in mine]
            found.append(result(start, mine[-1] + p.tick, inside, clock, is_full=len(mine) == p.count))
        return found

    return naive


ENGINES = {HOPPING: hopping, COMPRESSED: compressed, SNAPSHOT: snapshots, COUNT: counts}
