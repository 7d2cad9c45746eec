"""The windowing engines by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, cast

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.params import OURS, About, Trouble
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
"""Name of each engine, and the module that holds it in ``core/engines``, and its query in ``core/engines/queries``."""

CLASSES: Final[Mapping[str, str]] = {
    "time_series": "TimeSeries",
    "daily_time_series": "DailyTimeSeries",
    "session_window": "SessionWindow",
    "reactive_state": "ReactiveState",
    "interval_windows": "IntervalWindow",
    "event_time_window": "EventTimeWindow",
}
"""Class of the engine in each of these modules."""

LATENESS: Final = ("recompute", "strict", "delay")
"""The ways to treat late rows."""


def engine_class(engine: str) -> type[WindowEngine]:
    """Return the class of an engine; its module is imported on first use.

    Raises:
        KeyError: If there is no such engine.
    """
    module = ENGINES[engine]
    found = getattr(import_module(f"materializer.core.engines.{module}"), CLASSES[module])
    return cast("type[WindowEngine]", found)


def query_module(engine: str) -> Any:
    """Return the module that holds the query of an engine."""
    return import_module(f"materializer.core.engines.queries.{ENGINES[engine]}")


def about(spec: AggregateSpec) -> About:
    """Return the parts of a definition that affect how its engine parameters are read."""
    texts = tuple((m.name, m.formula.fill([call.text for call in m.formula.calls])) for m in spec.measures)
    return About(spec.time_type, spec.resolution, tuple(k.name for k in spec.keys), texts, spec.lateness, spec.engine)


def read_params(spec: AggregateSpec) -> tuple[WindowEngine | None, list[Trouble]]:
    """Return the engine of a definition and all problems with its parameters; None when there is a problem."""
    values = {name: value for name, value in spec.params if name not in OURS}
    return engine_class(spec.engine).read(values, about(spec))
