"""Running state: parameters from texts, and the engine as a loop."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.core.engines.params import About
from materializer.core.engines.reactive_state import ReactiveState
from materializer.core.spec.spec import TimeType
from tests.core.engines.histories import Clock, Result, Row

ABOUT = About(TimeType.TIMESTAMP)


def params_of(*measures: str, **more: object) -> ReactiveState:
    """Parameters with the measures m0, m1 …"""
    params, troubles = ReactiveState.read(
        {"metrics": [[f"m{i}", text] for i, text in enumerate(measures)], **more}, ABOUT
    )
    assert params is not None, troubles
    return params


def last_values(n: int):
    """The engine that shows the last *n* rows of the key, itself among them, null when there are fewer."""

    def naive(rows: Sequence[Row], _outside: int | None, _clock: Clock) -> list[Result]:
        ordered = sorted(rows)
        found = []
        for i, row in enumerate(ordered):
            seen = tuple(r.id for r in ordered[max(0, i - n + 1) : i + 1])
            found.append(Result(row.t, row.t, row.t, row.t, 1, True, (row.id, seen if len(seen) == n else None)))
        return found

    return naive
