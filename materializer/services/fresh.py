"""The always-fresh read: clean buckets as published, dirty ones computed on the fly, as of the newest source version.

Dirty *old* buckets count as much as the tail above the threshold: dirty(v) is the log, the spans of an unfinished
refresh, and what changed in the source since the log was last told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from materializer.core.spans import EVERYTHING, SpanSet
from materializer.errors import RetryableError
from materializer.journal.fold import AggregateState
from materializer.lake.table import DeltaFolder
from materializer.services.definitions import Bound
from materializer.services.planning import Request
from materializer.services.protocol import ATTEMPTS
from materializer.services.refresh import Refresher
from materializer.services.verify import dirty_at_cursor
from materializer.services.workbench import Workbench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FreshRead:
    """Rows as of a source version.

    Args:
        frame: All rows, columns as published.
        source_version: The version.
        computed: Spans that were computed on the fly.
    """

    frame: DataFrame
    source_version: int
    computed: SpanSet


@dataclass(slots=True)
class FreshReader:
    """Reads aggregates of one lake as of now; writes nothing."""

    refresher: Refresher

    def read(self, name: str) -> FreshRead:
        """Return the rows of an aggregate as of the newest version of its source."""
        r = self.refresher
        state, bound, version = self._pinned(name)
        bench = Workbench(r.journal, bound, r.config, r.engine, Request())
        state = bench.looked(state)
        dirty = dirty_at_cursor(state)
        clean = SpanSet.of(EVERYTHING) - dirty
        frame = r.engine().fresh(
            bound.definition,
            state.source,
            state.cursor,
            bound.paths["output"],
            clean=bound.predicate("output", clean),
            dirty=dirty,
            hull=bench.hull(state.cursor),
            memory=state.engine,
            output_version=version,
        )
        return FreshRead(frame, state.cursor, dirty)

    def _pinned(self, name: str) -> tuple[AggregateState, Bound, int]:
        """Return the aggregate, and the version of its output that it describes."""
        r = self.refresher
        for _ in range(ATTEMPTS):
            state = r.journal.view().named(name)
            bound = r.bound(state)
            if state.switch and state.plan is not None:
                return state, bound, state.plan.output.version
            table = DeltaFolder.at(bound.paths["output"])
            version, n = table.head().version, table.transaction_version(bound.app_ids["output"]) or 0
            if n <= state.last_n:
                return state, bound, version
        raise RetryableError(f"'{name}' was refreshed again and again while it was looked at")
