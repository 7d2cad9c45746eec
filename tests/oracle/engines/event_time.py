"""Event-time panes and their watermark.

Under ``strict`` the watermark moves at the end of each commit, so rows of one commit are judged against the watermark that
the commit before has left. Under ``recompute`` every row counts, and the watermark is the largest time less the lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct, field

from tests.oracle.engines.rows import Answer, Event, Key, Lateness, Row, has_reached, measured


class Panes(Struct, frozen=True):
    """Panes ``[n * period + offset, n * period + offset + duration)``, all in ticks.

    Args:
        duration: Length of a pane.
        period: Distance of panes.
        offset: Start of the pane 0.
        lag: The watermark stands so far behind the largest time.
        gap: Smallest advance of the watermark.
        age: How long after its end a pane takes late rows.
    """

    duration: int
    period: int
    offset: int = 0
    lag: int = 0
    gap: int = 0
    age: int = 0

    def around(self, t: int) -> Iterator[tuple[int, int]]:
        """Yield the panes that hold an instant."""
        last = (t - self.offset) // self.period
        for n in range(last - self.duration // self.period - 1, last + 1):
            start = n * self.period + self.offset
            if start <= t < start + self.duration:
                yield start, start + self.duration


class Pane(Struct):
    """What a pane of a key holds.

    Args:
        rows: Its rows.
        fired: How often it was output.
        is_dirty: Whether rows came since.
    """

    rows: list[Event] = field(default_factory=list)
    fired: int = 0
    is_dirty: bool = False


def watermarks(events: Iterable[tuple[int, int]], *, lag: int, gap: int) -> list[tuple[int, int]]:
    """Return (position, watermark) whenever it is moved, from (position, time) in order of arrival.

    Examples:
        >>> watermarks([(1, 0), (2, 50), (3, 99), (4, 100), (5, 90)], lag=0, gap=100)
        [(1, 0), (4, 100)]
    """
    found: list[tuple[int, int]] = []
    newest: int | None = None
    for position, t in events:
        newest = t if newest is None else max(newest, t)
        if not found or _has_moved(found[-1][1], newest - lag, gap):
            found.append((position, newest - lag))
    return found


def _has_moved(watermark: int, to: int, gap: int) -> bool:
    return to > watermark and to - watermark >= gap


def run(
    events: Sequence[Event], metrics: Sequence[Row], panes: Panes, *, keys: Sequence[str] = (), lateness: Lateness
) -> Answer:
    """Return each firing of each pane as a row, and panes that have not fired as open."""
    answer = Answer()
    held: dict[tuple[int, int, Key], Pane] = {}
    watermark: int | None = None
    commits = [list(found) for _, found in groupby(events, lambda e: 0 if lateness == "recompute" else e.commit)]
    newest: int | None = None
    for commit in commits:
        for event in commit:
            taken = [p for p in panes.around(event.t) if not has_reached(watermark, p[1] + panes.age)]
            for start, end in taken:
                pane = held.setdefault((start, end, event.key), Pane())
                pane.rows.append(event)
                pane.is_dirty = True
            if not taken and any(panes.around(event.t)):
                answer.discarded.append(event.seq)
        newest = max([e.t for e in commit] + ([] if newest is None else [newest]))
        if watermark is None or _has_moved(watermark, newest - panes.lag, panes.gap):
            watermark = newest - panes.lag
            _fire(answer, held, watermark, metrics, keys, lateness)
    for (start, end, key), pane in held.items():
        if not pane.fired:
            answer.open.append(_shown(start, end, key, keys) | measured(metrics, pane.rows, lateness))
    return answer


def _fire(
    answer: Answer,
    held: dict[tuple[int, int, Key], Pane],
    watermark: int,
    metrics: Sequence[Row],
    keys: Sequence[str],
    lateness: Lateness,
) -> None:
    for (start, end, key), pane in sorted(held.items(), key=lambda item: item[0][:2]):
        if has_reached(watermark, end) and pane.is_dirty:
            timing = {"paneIndex": pane.fired, "paneTiming": "late" if pane.fired else "onTime"}
            values = measured(metrics, pane.rows, lateness)
            answer.final.append(_shown(start, end, key, keys) | timing | values)
            pane.fired += 1
            pane.is_dirty = False


def _shown(start: int, end: int, key: Key, keys: Sequence[str]) -> dict[str, object]:
    return {"interval_start": start, "interval_end": end, **dict(zip(keys, key, strict=True))}
