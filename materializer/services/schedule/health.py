"""Whether a process that stays does its work: written by the thread that follows, read by any other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

AT_REST: Final = 60.0
"""Seconds, beside those between two looks, in which a look has to begin."""
AT_WORK: Final = 3_600.0
"""Seconds that one step of a refresh may take: Spark says nothing while it computes a run."""
OFTEN: Final = 3
"""So many failures in a row are more than a disturbance."""


class Health(Struct):
    """How a process that stays is doing.

    Args:
        clock: Returns seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    followed: Sequence[str] = ()
    """The aggregates that it follows."""
    _sign: tuple[float, float] | None = None
    """When it was last seen to do something, and the seconds until it has to do something again."""
    _failing: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def lives(self, patience: float) -> None:
        """Note that something was begun.

        Args:
            patience: Seconds in which the next step has to begin.
        """
        self._sign = self.clock(), patience

    def fails(self, failing: Mapping[str, tuple[int, str]]) -> None:
        """Note what fails at the moment.

        Args:
            failing: By aggregate, "" for the journal, how often it failed in a row, and the code of the last error.
        """
        self._failing = dict(failing)

    def reasons(self) -> list[dict[str, Any]]:
        """Return why it is not well; nothing if it is.

        Shape:
            ``reason`` is ``not-begun``, ``hanging`` with ``seconds``, or ``failing`` with ``aggregate``, ``code`` and ``times``.
        """
        if self._sign is None:
            return [{"reason": "not-begun"}]
        at, patience = self._sign
        since = self.clock() - at
        found: list[dict[str, Any]] = [{"reason": "hanging", "seconds": round(since)}] if since > patience else []
        for name, (times, code) in sorted(self._failing.items()):
            if times >= OFTEN:
                found.append({"reason": "failing", "aggregate": name or None, "code": code, "times": times})
        return found
