"""The always-fresh read: clean buckets as published, dirty ones computed on the fly, as of the newest source version.

Dirty *old* buckets count as much as the tail above the threshold: dirty(v) is the log, the spans of an unfinished
refresh, and what changed in the source since the log was last told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from materializer.core.spans import EVERYTHING, SpanSet
from materializer.services.planning import Request
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
        state = r.journal.view().named(name)
        bound = r.bound(state)
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
        )
        return FreshRead(frame, state.cursor, dirty)
