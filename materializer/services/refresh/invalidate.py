"""Declaring buckets dirty by hand, after a change that no change feed shows: of old files of the source, or of a function."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.policy.retention import OUTPUT
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.time.spans import Span
from materializer.journal.events import Invalidated, Retired
from materializer.journal.state import AggregateState
from materializer.services.commit.lake import Lake
from materializer.services.observe import frozen_bound


class Invalidator(Struct):
    """Writes invalidations under the lease."""

    lake: Lake

    def invalidate(self, name: str, span: Span, reason: str) -> Span:
        """Make whole buckets dirty, and return their span, which never begins below the frozen boundary.

        Buckets that were discarded are retained again, unless ``output.retention`` still excludes them.

        Args:
            name: The aggregate.
            span: Whole buckets of its grid.
            reason: Recorded with the event.

        Raises:
            FrozenWindowError: If all of it is frozen.
            RetiredWindowError: If no bucket of it is retained.
        """
        with self.lake.lease(name) as lease:
            state = lease.state
            # rounded again, because a version with other buckets may have been published since
            events = self._events(state, self.lake.aggregate(state).definition.grid.cover(span), reason)
            lease.append(*((state.id, event) for event in events))
        return events[-1].entries[0].span

    def _events(self, state: AggregateState, span: Span, reason: str) -> tuple[*tuple[Retired, ...], Invalidated]:
        grid = self.lake.aggregate(state).definition.grid
        back = max(span.start, state.frozen, frozen_bound.wanted(state, grid, OUTPUT))
        again = (Retired(back),) if back < min(state.retired, span.end) else ()
        wanted = frozen_bound.computable(span, replace(state, retired=min(back, state.retired)), grid)
        return (*again, Invalidated((Entry(wanted, None, Cause.INVALIDATED),), reason))
