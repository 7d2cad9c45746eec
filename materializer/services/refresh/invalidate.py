"""Declaring buckets dirty by hand: after a repair of the source that no change feed shows, or a changed function."""

from __future__ import annotations

from dataclasses import dataclass, replace

from materializer.core.policy.retention import OUTPUT
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.time.spans import Span
from materializer.journal.events import Invalidated, Retired
from materializer.journal.state import AggregateState
from materializer.services.commit.lake import Lake
from materializer.services.observe import frozen_bound


@dataclass(slots=True)
class Invalidator:
    """Writes invalidations under the lease."""

    lake: Lake

    def invalidate(self, name: str, span: Span, reason: str) -> Span:
        """Make whole buckets dirty and return those that are: nothing below the frozen bound.

        Buckets that the output no longer keeps are wanted again, unless ``output.retention`` still takes them away.

        Args:
            name: The aggregate.
            span: Whole buckets of its grid.
            reason: Recorded with the event.

        Raises:
            FrozenWindowError: If all of it is frozen.
            RetiredWindowError: If the output keeps none of it.
        """
        journal = self.lake.journal
        with self.lake.lease(name) as lease:
            state = lease.state
            # once more, for another version may have been published since, with other buckets
            events = self._events(state, self.lake.aggregate(state).definition.grid.cover(span), reason)
            journal.append_leased([(state.id, event) for event in events])
        return events[-1].entries[0].span

    def _events(self, state: AggregateState, span: Span, reason: str) -> tuple[*tuple[Retired, ...], Invalidated]:
        grid = self.lake.aggregate(state).definition.grid
        back = max(span.start, state.frozen, frozen_bound.wanted(state, grid, OUTPUT))
        again = (Retired(back),) if back < min(state.retired, span.end) else ()
        wanted = frozen_bound.computable(span, replace(state, retired=min(back, state.retired)), grid)
        return (*again, Invalidated((Entry(wanted, None, Cause.INVALIDATED),), reason))
