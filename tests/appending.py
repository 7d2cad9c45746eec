"""Events of tests, which hold no lease."""

from __future__ import annotations

from materializer.journal.events import Event
from materializer.journal.journal import Journal


def append(journal: Journal, *events: tuple[str, Event]) -> None:
    """Append events, (id, event), in one commit."""
    journal.transact(lambda _: events)
