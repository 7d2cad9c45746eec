"""Two states of the rows of a key, and what a planner has to hold between them.

An engine is given as a naive function from rows to results. The kept results of the first state, with the ranges of a plan
computed anew from the raw rows of the second state that the plan asks for, have to be the results of the second state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.time.spans import POS_INF

OPEN = 2**62


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A source row: its time, its end (None: open), its value, and what tells it from its equals."""

    t: int
    end: int | None = field(default=None, compare=False)
    v: int | None = field(default=None, compare=False)
    id: int = 0


@dataclass(frozen=True, slots=True)
class Clock:
    """What closes windows besides the key's own rows."""

    as_of: int | None = None
    global_max: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A result row; ``values`` is everything that may not differ. A window without rows has no first and no last time."""

    w_start: int
    w_end: int
    first_t: int | None
    last_t: int | None
    n: int
    is_final: bool
    values: tuple[Any, ...] = ()

    @property
    def kept(self) -> StoredResult:
        """The row as a planner sees it."""
        return StoredResult(self.w_start, self.w_end, self.first_t, self.last_t, self.is_final, self.n)


Naive = Callable[[Sequence[Row], int | None, Clock], list[Result]]
"""From rows of a part, the newest time outside of it, and the clock, to results in order of ``w_start``."""
Planner = Callable[..., list[Range] | None]
"""A planner that knows its parameters."""


@dataclass(frozen=True, slots=True)
class History:
    """Rows before and after a change, and the clock at both times."""

    before: tuple[Row, ...]
    after: tuple[Row, ...]
    then: Clock = Clock()
    now: Clock = Clock()
    is_coarse: bool = False

    def spans(self) -> list[tuple[int, int]]:
        """Where rows changed, as closed intervals; coarse ones leave out the gaps between them."""
        joined: list[tuple[int, int]] = []
        for row in sorted({*self.before} ^ {*self.after}):
            lo, hi = row.t, row.t if row.end is None else max(row.t, row.end - 1)
            hi = POS_INF if row.end == OPEN else hi
            if joined and (lo <= joined[-1][1] or self.is_coarse):
                lo, hi = joined[-1][0], max(hi, joined.pop()[1])
            joined.append((lo, hi))
        return joined


def overlaps(row: Row, r: Range) -> bool:
    """Whether the framework reads a row for a range."""
    until = row.t + 1 if row.end is None else max(row.end, row.t + 1)
    return row.t < r.raw_end and until > r.raw_start


def carried_out(history: History, naive: Naive, planner: Planner, recent: int | None) -> list[Result] | None:
    """Return the results after the change by way of the planner, None when it asks for older kept rows.

    Args:
        history: The change.
        naive: The engine.
        planner: Its planner.
        recent: Kept rows before it are not shown to the planner unless they are not final; None shows all.
    """
    kept = naive(history.before, None, history.then)
    shown = [k.kept for k in kept if recent is None or not k.is_final or k.w_start >= recent]
    plan = planner(history.spans(), shown, is_complete=recent is None)
    if plan is None:
        return None
    assert all(a.end <= b.start and a.raw_end <= b.raw_start for a, b in pairwise(plan))
    results = [k for k in kept if not any(r.start <= k.w_start < r.end for r in plan)]
    for r in plan:
        raw = [row for row in history.after if overlaps(row, r)]
        outside = max((row.t for row in history.after if row not in raw), default=None)
        results += [x for x in naive(raw, outside, history.now) if r.start <= x.w_start < r.end]
    return sorted(results, key=lambda x: (x.w_start, x.values))


def expected(history: History, naive: Naive) -> list[Result]:
    """Return the results after the change from all rows."""
    return sorted(naive(history.after, None, history.now), key=lambda x: (x.w_start, x.values))


@dataclass(frozen=True, slots=True)
class Kind:
    """What histories are drawn.

    Args:
        is_lasting: Rows are events with an end, some of them open or of no length.
        is_clocked: A clock closes windows, which only goes forward, and there are other keys.
        most: Times lie in [-most, most].
    """

    is_lasting: bool = False
    is_clocked: bool = False
    most: int = 15

    def row(self, rng: random.Random, number: int) -> Row:
        """Draw a row."""
        t, v = rng.randint(-self.most, self.most), rng.choice([None, rng.randint(-9, 9)])
        end = rng.choice([OPEN, t - 1, *(t + n for n in range(10))]) if self.is_lasting else None
        return Row(t, end, v, number)

    def clocks(self, rng: random.Random, newest: Sequence[int | None]) -> list[Clock]:
        """Draw the clock before and after a change, with the newest time of all keys."""
        instants = sorted(rng.randint(-self.most, 2 * self.most) for _ in newest) if self.is_clocked else [None, None]
        return [Clock(instant, most) for instant, most in zip(instants, newest, strict=True)]

    def history(self, rng: random.Random) -> History:
        """Draw rows that stay, and a few that come or go."""
        fates = "=" * rng.choice([0, 1, 3, 8, 12]) + "".join(rng.choices("-+", k=rng.randint(1, 3)))
        rows = [(self.row(rng, i), fate) for i, fate in enumerate(fates)]
        before = tuple(row for row, fate in rows if fate != "+")
        after = tuple(row for row, fate in rows if fate != "-")
        other = rng.randint(-self.most, self.most) if self.is_clocked else -self.most
        newest = [max([other, *(row.t for row in some)]) for some in (before, after)]
        return History(before, after, *self.clocks(rng, newest), rng.random() < 0.25)


def hold(rng: random.Random, kind: Kind, is_true: Callable[[History], bool], count: int = 400) -> None:
    """Check many histories, and show the smallest for which the check fails."""
    failed = [h for h in (kind.history(rng) for _ in range(count)) if not is_true(h)]
    assert min(failed, key=lambda h: len(h.before) + len(h.after), default=None) is None


def keeps_true(history: History, naive: Naive, planner: Planner, recent: int | None = None) -> bool:
    """Whether kept results with the planned ranges computed anew are the results of the changed rows.

    With recent kept rows alone the planner may also ask for older ones.
    """
    found = carried_out(history, naive, planner, recent)
    return found == expected(history, naive) or (found is None and recent is not None)
