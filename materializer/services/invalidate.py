"""Declaring buckets dirty by hand: after a repair of the source that no change feed shows, or a changed function."""

from __future__ import annotations

from dataclasses import dataclass

from materializer.core.invalidation import Cause, Entry
from materializer.core.spans import Span
from materializer.journal.events import Invalidated
from materializer.services.refresh import Refresher


@dataclass(slots=True)
class Invalidator:
    """Writes invalidations under the lease."""

    refresher: Refresher

    def invalidate(self, name: str, span: Span, reason: str) -> Span:
        """Make whole buckets dirty.

        Args:
            name: The aggregate.
            span: Whole buckets of its grid.
            reason: Recorded with the event.
        """
        journal = self.refresher.journal
        with self.refresher.writing(name) as state:
            # once more, for another version may have been published since, with other buckets
            span = self.refresher.bound(state).definition.grid.cover(span)
            journal.insist([(state.id, Invalidated((Entry(span, None, Cause.INVALIDATED),), reason))])
        return span
