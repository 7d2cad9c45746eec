"""Windows over events that last: an event lives in ``[start, end)``, an end of None is the end of time.

An event lives one tick at least: an end that is not after the start makes it a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tests.oracle.engines.rows import Answer, Event, Key, RefusedError, Row, has_reached, keys_of, measured


class Lasting(Struct, frozen=True):
    """An event and how long it lasts."""

    event: Event
    start: int
    end: int | None

    def meets(self, start: int, end: int) -> bool:
        """Whether it lives in a part of ``[start, end)``."""
        return self.start < end and (self.end is None or start < self.end)


class Seen(Struct, frozen=True):
    """What every window needs to say its rows.

    Args:
        metrics: What is computed over the events of a window.
        keys: Names of the key columns.
        as_of: Clock; windows that end after it are open. None closes all.
    """

    metrics: Sequence[Row]
    keys: Sequence[str] = ()
    as_of: int | None = None

    def say(self, answer: Answer, key: Key, members: Sequence[Lasting], labels: dict[str, Any]) -> None:
        """Add the row of a window that has events."""
        end = labels["window_end"]
        is_closed = self.as_of is None or (end is not None and has_reached(self.as_of, end))
        shown = labels | dict(zip(self.keys, key, strict=True))
        shown |= measured(self.metrics, [m.event for m in members], "recompute")
        (answer.final if is_closed else answer.open).append(shown)


def hopping(
    events: Sequence[Lasting], seen: Seen, *, duration: int, period: int, alignment: int, clips: bool, bound: int | None
) -> Answer:
    """Return every window ``[a + n p, a + n p + d)`` that an event meets.

    Args:
        events: All of them.
        seen: What is said.
        duration: d.
        period: p.
        alignment: a.
        clips: The output lives as long as its window (``ClipToWindowEnd``); otherwise it is a point at the window's end.
        bound: Where open events are cut; None refuses them.

    Raises:
        RefusedError: If an event is open and there is no bound.
    """
    if bound is None and any(e.end is None for e in events):
        message = "an event without an end is in infinitely many hopping windows"
        raise RefusedError(message)
    ended = [replace(e, end=e.end if e.end is not None else bound) for e in events]
    answer = Answer()
    for key, mine in _by_key(ended):
        first = (min(e.start for e in mine) - duration - alignment) // period
        last = (max(e.end or 0 for e in mine) - alignment) // period
        for start in (alignment + n * period for n in range(first, last + 1)):
            end = start + duration
            lives = (start, end) if clips else (end, end + 1)
            labels = {"window_start": start, "window_end": end, "event_start": lives[0], "event_end": lives[1]}
            members = [e for e in mine if e.meets(start, end)]
            if members:
                seen.say(answer, key, members, labels)
    return answer


def compressed(events: Sequence[Lasting], seen: Seen, *, duration: int, period: int, alignment: int) -> Answer:
    """Return hopping windows as one row a change.

    Raises:
        RefusedError: If there are gaps between the windows.
    """
    if duration < period:
        message = "the compressed form needs windows without gaps: duration >= period"
        raise RefusedError(message)
    return snapshots([altered(e, duration, period, alignment) for e in events], seen)


def altered(event: Lasting, duration: int, period: int, alignment: int) -> Lasting:
    """Return the event as long as the slots of all windows that it meets."""

    def snap(t: int, to: int) -> int:
        return to + (t - to) // period * period

    end = None if event.end is None else snap(event.end - 1, alignment) + duration
    return replace(event, start=snap(event.start, alignment + duration), end=end)


def snapshots(events: Sequence[Lasting], seen: Seen) -> Answer:
    """Return each stretch between neighbouring starts and ends that has an event."""
    answer = Answer()
    for key, mine in _by_key(events):
        edges = sorted({e.start for e in mine} | {e.end for e in mine if e.end is not None})
        for start, end in zip(edges, [*edges[1:], None], strict=True):
            members = [e for e in mine if e.meets(start, start + 1)]
            if members:
                seen.say(answer, key, members, {"window_start": start, "window_end": end})
    return answer


def counts(events: Sequence[Lasting], seen: Seen, *, count: int) -> Answer:
    """Return each run of *count* neighbouring different starts, with the events that start in it."""
    answer = Answer()
    for key, mine in _by_key(events):
        starts = sorted({e.start for e in mine})
        for i in range(len(starts) - count + 1):
            first, last = starts[i], starts[i + count - 1]
            members = [e for e in mine if first <= e.start <= last]
            seen.say(answer, key, members, {"window_start": first, "window_end": last + 1})
    return answer


def _by_key(events: Sequence[Lasting]) -> list[tuple[Key, list[Lasting]]]:
    return [(key, [e for e in events if e.event.key == key]) for key in keys_of([e.event for e in events])]
