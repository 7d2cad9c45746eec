"""The log of provisional calculations of a time-series window, with arrival at event time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.engines.rows import Event, Row, keys_of, measured


def log(
    events: Sequence[Event],
    metrics: Sequence[Row],
    *,
    keys: Sequence[str],
    origin: int,
    step: int,
    update: int,
    second: int,
) -> list[dict[str, Any]]:
    """Return the calculations inside of windows, in order.

    The first row after a sub-window computes the rows before it. A row that is not computed after twice *update*, and at
    least two seconds, computes all rows. Windows are tumbling.

    Args:
        events: In order of arrival, which is their time.
        metrics: What is computed.
        keys: Names of the key columns.
        origin: An instant on which windows end.
        step: Distance and size of windows.
        update: ``updateTime``.
        second: Ticks of a second.
    """
    said: list[dict[str, Any]] = []
    patience = max(2 * update, 2 * second)
    for key in keys_of(events):
        mine = [e for e in events if e.key == key]
        for start in sorted({origin + (e.t - origin) // step * step for e in mine}):
            members = [e for e in mine if start <= e.t < start + step]
            closing = min((e.t for e in mine if e.t >= start + step), default=None)
            shown = {"time": start + step, **dict(zip(keys, key, strict=True))}
            for at, why, computed in _calculations(members, start, update, patience, closing):
                said.append({"at": at, "why": why, **shown, **measured(metrics, computed, "strict")})
    return sorted(said, key=lambda row: row["at"])


def _calculations(
    members: Sequence[Event], start: int, update: int, patience: int, closing: int | None
) -> list[tuple[int, str, list[Event]]]:
    found: list[tuple[int, str, list[Event]]] = []
    done = 0  # rows that are computed
    for i, event in enumerate(members):
        if done < i and event.t > members[done].t + patience:
            found.append((members[done].t + patience, "timer", list(members[:i])))
            done = i
        before = [e for e in members[:i] if e.t < start + (event.t - start) // update * update]
        if len(before) > done:
            found.append((event.t, "sub-window", before))
            done = len(before)
    if done < len(members):
        at = members[done].t + patience
        if closing is None or at < closing:
            found.append((at, "timer", list(members)))
    return found
