"""Whether a refresh of an engine computes everything, because that is cheaper than what changed rows touch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.price import FEW, RATES
from materializer.core.engines.work import ChangedKeys
from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Estimate, ExecutorKind
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.journal.state import AggregateState
from materializer.services.planning.engine_rows import EngineRows
from materializer.services.planning.runs import Request

if TYPE_CHECKING:
    from materializer.lake.engine_rows import Near
    from materializer.lake.extent import Extent

ANYWHERE: Final = SpanSet.of(EVERYTHING)


class Everything:
    """Compares both ways of a refresh.

    Args:
        rows: Reads rows of the aggregate's source, and its stored results.
        request: What was asked.
        stored: Returns the files of a version of the stored results.
    """

    def __init__(self, rows: EngineRows, request: Request, stored: Callable[[int], Extent]) -> None:
        self._rows, self._request, self._stored = rows, request, stored

    def why(
        self,
        state: AggregateState,
        taken: Sequence[Entry],
        version: int,
        estimate: Callable[[SpanSet], Estimate],
        changed: ChangedKeys | None = None,
        computed: int = 0,
        *,
        merges: bool = False,
    ) -> str:
        """Return why computing everything is cheaper than what changed rows touch, or "" where it is not, or may not be done.

        Args:
            state: The aggregate.
            taken: The dirt.
            version: Version of the stored results.
            estimate: Cost of reading the raw rows of some spans.
            changed: The changed keys; None before they are read, when file statistics and the log tell how much changed.
            computed: Stored results in the slices that would be computed; 0 before the ranges of the keys are planned.
            merges: Whether added rows would go into stored results here, and no raw row be read.
        """
        is_exact = self._rows.aggregate.definition.spec.lateness == "recompute"
        is_cut = self._request.inside is not None or self._request.options.run_buckets is not None
        if not is_exact or not state.frozen == NEG_INF == state.retired or is_cut or self._request.options.strategy:
            return ""
        below = SpanSet.of(Span(NEG_INF, state.threshold))
        dirty = SpanSet.union(e.span for e in taken) & below
        if (SpanSet.union(e.span for e in state.log.entries) & below) - dirty:
            return ""  # what was not asked for stays as it is
        whole, new = estimate(ANYWHERE), estimate(ANYWHERE - below).likely_rows
        known = [e.after for e in taken if e.after is not None]
        count = changed.rows if changed is not None else state.changed_rows(min(known)) if known else 0
        rows = max((count or 0) - new, 0)
        if changed is None:  # of other dirt all rows count as changed
            rows += estimate(SpanSet.union(e.span for e in taken if e.after is None) & below).likely_rows
        if rows <= FEW:
            return ""
        touched = 0 if changed is None else max(sum(map(len, changed.spans.values())) - new, 0)
        stored = self._stored(version)
        rates = RATES[self._rows.executor_of(whole)]
        everything = rates.everything(whole.rows, stored.rows_in(ANYWHERE))
        results, opened = stored.rows_in(dirty), estimate(dirty).likely_rows
        by = RATES[ExecutorKind.LOCAL] if merges else rates
        changes = by.changes(0 if merges else opened, results, rows, touched, computed)
        if not rates.is_worth_it(everything, changes):
            return ""
        return f"{rows:,} changed rows lie among about {results:,} results: computing everything is cheaper"


def looked_at(windows: WindowEngine, changed: ChangedKeys) -> Near | None:
    """Return where stored results of changed keys are looked at; None for everywhere."""
    found = {key: windows.looks_at(spans) for key, spans in changed.spans.items()}
    return {k: around for k, around in found.items() if around is not None} if None not in found.values() else None
