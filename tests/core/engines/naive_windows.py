"""Windows with rows, filled and closed, by loops: what plans are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hypothesis import strategies as st
from msgspec import Struct

from materializer.core.engines.ranges import Range, StoredResult

Window = tuple[int, int, int]
"""Start, end, and the time at which it is closed."""


class Change(Struct, frozen=True):
    """Rows of one key before and after, and the times that differ."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    times: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The changed times as closed intervals."""
        return [(t, t) for t in sorted(set(self.times))]


@st.composite
def changes(draw: st.DrawFn, latest: int) -> Change:
    """Draw a change: rows added, rows removed, often the newest one."""
    times = st.integers(0, latest)
    before = draw(st.lists(times, min_size=draw(st.sampled_from([0, 3, 8])), max_size=14))
    kind = draw(st.sampled_from(["add", "remove", "newest", "both", "nothing"]))
    added = draw(st.lists(times, min_size=1, max_size=3)) if kind in ("add", "both") else []
    gone: list[int] = []
    if before and kind in ("remove", "both"):
        gone = [before[i] for i in draw(st.sets(st.integers(0, len(before) - 1), min_size=1, max_size=3))]
    if before and kind == "newest":
        gone = sorted(before)[-draw(st.integers(1, min(3, len(before)))) :]
    after = list(before)
    for t in gone:
        after.remove(t)
    return Change(tuple(before), (*after, *added), (*added, *gone))


class Result(Struct, frozen=True):
    """A result row: its place, the times in it, whether it is closed, and what fills it."""

    window: Window
    times: tuple[int, ...]
    is_final: bool
    filled_from: tuple[int, ...] = ()

    @property
    def kept(self) -> StoredResult:
        """The row as a planner sees it."""
        start, end, _ = self.window
        times = self.times
        return StoredResult(start, end, min(times, default=None), max(times, default=None), self.is_final, len(times))


def results(
    times: Iterable[int],
    windows_of: Callable[[int], Iterable[Window]],
    every: Sequence[Window],
    *,
    known: int | None = None,
    bound: int = -(10**9),
    slack: int = 0,
    is_filled: bool = False,
) -> list[Result]:
    """Return the result rows of one key.

    Args:
        times: Its rows.
        windows_of: Windows that take a row.
        every: All windows there are, in order.
        known: Largest time of the key outside of *times*.
        bound: What other keys and the clock close.
        slack: Windows stay open so long after their end.
        is_filled: Whether closed windows without rows follow those with rows.
    """
    rows = sorted(times)
    held: dict[Window, list[int]] = {}
    for t in rows:
        for window in windows_of(t):
            held.setdefault(window, []).append(t)
    newest = max([*rows, *([] if known is None else [known])], default=-(10**9))
    found: list[Result] = []
    last: tuple[int, ...] = ()
    for window in every:
        inside = tuple(held.get(window, ()))
        is_closed = max(newest - slack, bound) >= window[2]
        if inside:
            found.append(Result(window, inside, is_closed))
            last = inside
        elif last and is_filled and is_closed:
            found.append(Result(window, (), is_closed, last))
    return found


def refreshed(
    before: Sequence[Result], after: Sequence[int], ranges: Sequence[Range], compute: Callable[..., list[Result]]
) -> Mapping[Window, Result]:
    """Return what a key has after its ranges were computed anew, each from its own rows."""
    found = {r.window: r for r in before if not any(x.start <= r.window[0] < x.end for x in ranges)}
    for x in ranges:
        inside = [t for t in after if x.raw_start <= t < x.raw_end]
        outside = [t for t in after if not x.raw_start <= t < x.raw_end]
        for r in compute(inside, known=max(outside, default=None)):
            if x.start <= r.window[0] < x.end:
                found[r.window] = r
    return found
