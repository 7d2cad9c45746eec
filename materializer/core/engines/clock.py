"""What closes windows besides the rows of their own key; the journal keeps it from refresh to refresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where time stands for an engine.

    Args:
        origin: First event time that was ever accepted, on which the engine's grid hangs; None for engines without one.
        as_of: Clock instant that closes windows, or None.
        global_max: Largest event time of all keys, for engines that close by it; None without rows.
    """

    origin: int | None = None
    as_of: int | None = None
    global_max: int | None = None

    @classmethod
    def of(cls, memory: Mapping[str, int | None]) -> Bounds:
        """Return what the journal kept; nothing when it kept nothing."""
        return cls(memory.get("origin"), memory.get("as_of"), memory.get("global_max"))
