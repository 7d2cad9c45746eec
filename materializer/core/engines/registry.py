"""The windowing engines by name, and the functions that each of their modules offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Protocol, cast

from materializer.core.engines.params import OURS, About, Trouble
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.spec.spec import AggregateSpec

ENGINES: Final[Mapping[str, str]] = {
    "time_series": "time_series",
    "daily_time_series": "daily_time_series",
    "session_window": "session_window",
    "reactive_state": "reactive_state",
    "hopping_window": "interval_windows",
    "compressed_hopping_window": "interval_windows",
    "snapshot_window": "interval_windows",
    "count_window": "interval_windows",
    "event_time_window": "event_time_window",
}
"""Name of each engine, and the module that holds it in ``core/engines`` and in ``spark/engines``."""


LATENESS: Final = ("recompute", "strict", "delay")
"""The ways to treat late rows."""


class Planner(Protocol):
    """The pure part of an engine: its parameters, and what a change touches."""

    def read(self, values: Mapping[str, object], about: About) -> tuple[Any, list[Trouble]]:
        """Return the engine's parameters and all problems with them."""

    def ranges(
        self, p: Any, spans: Sequence[tuple[int, int]], kept: Sequence[StoredResult], *, is_complete: bool
    ) -> list[Range] | None:
        """Return which results of one key a change touches, or None when the answer needs older stored rows."""


def planner(engine: str) -> Planner:
    """Return the pure part of an engine.

    Raises:
        KeyError: If there is no such engine.
    """
    return cast("Planner", import_module(f"materializer.core.engines.{ENGINES[engine]}"))


def about(spec: AggregateSpec) -> About:
    """Return the parts of a definition that affect how its engine parameters are read."""
    texts = tuple((m.name, m.formula.fill([call.text for call in m.formula.calls])) for m in spec.measures)
    return About(spec.time_type, spec.resolution, tuple(k.name for k in spec.keys), texts, spec.lateness)


def read_params(spec: AggregateSpec) -> tuple[Any, list[Trouble]]:
    """Return the parameters of an engine's definition and all problems with them."""
    values = {name: value for name, value in spec.params if name not in OURS}
    if ENGINES[spec.engine] == "interval_windows":
        values |= {"engine": spec.engine}
    return planner(spec.engine).read(values, about(spec))
