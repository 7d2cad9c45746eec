"""What users read about each engine: what it is for, its parameters, and one example in both forms.

The pages in ``docs/engines`` and the command ``materializer engines`` show these texts; tests hold the parameters against
what the engines read, and the two forms of an example against each other. The texts are TOML files in the folder ``guides``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from msgspec import Struct


class Parameter(Struct, frozen=True):
    """One parameter of an engine.

    Args:
        name: As it is written as a property in SQL, and as an argument in Python.
        default: What it is when it is left out; ``required`` where it may not be.
        meaning: What it does, and within which limits.
        original: What the product that the engine follows calls it; empty when it has none.
    """

    name: str
    default: str
    meaning: str
    original: str = ""


class Guide(Struct, frozen=True):
    """What users read about one engine.

    Args:
        name: Name of the engine.
        title: What it computes, in a few words.
        purpose: What it is for, in one paragraph.
        follows: The product whose windows these are.
        parameters: All its own parameters.
        elsewhere: (name in that product, what takes its place here), for what is no parameter here.
        sql: An example as one SQL statement.
        python: The same definition as a call of ``Materializer.define``, the object named ``m``.
    """

    name: str
    title: str
    purpose: str
    follows: str
    parameters: tuple[Parameter, ...]
    elsewhere: tuple[tuple[str, str], ...]
    sql: str
    python: str


_NAMES: Final = (
    "continuous_aggregate",
    "time_series",
    "daily_time_series",
    "session_window",
    "reactive_state",
    "hopping_window",
    "compressed_hopping_window",
    "snapshot_window",
    "count_window",
    "event_time_window",
)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "guides" / f"{name}.toml").read_text(encoding="utf-8"))


def _guide(name: str, shared: Mapping[str, Any]) -> Guide:
    found = _read(name)
    parameters = (Parameter(**(shared[p["shared"]] if "shared" in p else p)) for p in found.pop("parameters", []))
    elsewhere = tuple(found.pop("elsewhere", {}).items())
    return Guide(name=name, parameters=tuple(parameters), elsewhere=elsewhere, **found)


_COMMON: Final = _read("common")
COMMON: Final = tuple(Parameter(**p) for p in _COMMON["parameters"])
"""Parameters of every engine."""
AS_OF: Final[str] = _COMMON["as_of"]
"""What the clock of a refresh does."""
GUIDES: Final[Mapping[str, Guide]] = {name: _guide(name, _COMMON["shared"]) for name in _NAMES}
"""All engines, the continuous aggregate first."""


def guide(name: str) -> Guide:
    """Return what users read about an engine.

    Raises:
        KeyError: If there is no such engine.

    Examples:
        >>> guide("session_window").parameters[0].name
        'session_gap'
    """
    return GUIDES[name]
