"""The session-window engine: rows of a key join while they are less than the gap apart."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.engines.rows import (
    Answer,
    Event,
    Key,
    Lateness,
    RefusedError,
    Row,
    has_reached,
    in_order,
    keys_of,
    measured,
)


def run(
    events: Sequence[Event],
    metrics: Sequence[Row],
    *,
    gap: int,
    keys: Sequence[str] = (),
    lateness: Lateness = "strict",
    shows_start: bool = True,
    force: int | None = None,
    as_of: int | None = None,
) -> Answer:
    """Return the sessions after these rows.

    The clock ends a session when it has reached the last row + gap; and once it stands *force* after the last row of all,
    it ends every session.

    Raises:
        RefusedError: If lateness is ``delay``: no source gives this engine a delay.
    """
    if lateness == "delay":
        message = "a session window has no accepted delay"
        raise RefusedError(message)
    answer = Answer()
    accepted: list[Event] = []
    own: dict[Key, int] = {}
    for event in events:
        if lateness == "strict" and event.t < own.get(event.key, event.t):
            answer.discarded.append(event.seq)
        else:
            accepted.append(event)
            own[event.key] = max(event.t, own.get(event.key, event.t))
    is_flushed = force is not None and has_reached(as_of, max((e.t for e in accepted), default=0) + force)
    for key in keys_of(accepted):
        found = _sessions([e for e in accepted if e.key == key], gap, lateness)
        for i, session in enumerate(found):
            end = session[-1].t + gap
            is_closed = i + 1 < len(found) or is_flushed or has_reached(as_of, end)
            shown = {"time": session[0].t if shows_start else end, **dict(zip(keys, key, strict=True))}
            (answer.final if is_closed else answer.open).append(shown | measured(metrics, session, lateness))
    return answer


def _sessions(events: Sequence[Event], gap: int, lateness: Lateness) -> list[list[Event]]:
    found: list[list[Event]] = []
    for event in in_order(events, lateness):
        if found and event.t - found[-1][-1].t < gap:
            found[-1].append(event)
        else:
            found.append([event])
    return found
