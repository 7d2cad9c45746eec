"""The instants that close windows across keys; the journal stores them from one refresh to the next."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ClosingClock(Struct, frozen=True):
    """The clock of an engine: the instants that decide where windows lie and which of them are closed.

    Args:
        origin: First event time ever accepted, which positions the engine's grid; None for engines without such a grid.
        as_of: Clock instant that closes windows, or None.
        global_max: Largest event time over all keys, for engines whose windows it closes; None without rows.
    """

    origin: int | None = None
    as_of: int | None = None
    global_max: int | None = None

    @classmethod
    def of(cls, memory: Mapping[str, int | None]) -> ClosingClock:
        """Return the instants that the journal stores; an instant that it does not store is None."""
        return cls(memory.get("origin"), memory.get("as_of"), memory.get("global_max"))
