"""Whether rows that were only added are merged into stored results of an engine, whose own rows are not read again then."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.time.spans import NEG_INF
from materializer.journal.state import AggregateState
from materializer.services.planning.engine_rows import EngineRows
from materializer.services.planning.runs import Request


def added_after(rows: EngineRows, request: Request, state: AggregateState, taken: Sequence[Entry]) -> int | None:
    """Return the version of the source that all stored results show, where rows added since may be merged into them; else None.

    Dirt tells from which version on rows changed. Results that a later run computed may show some of these rows already, also
    those that begin in other slices.

    Args:
        rows: Reads rows of the aggregate's source, and its stored results.
        request: What was asked.
        state: The aggregate, everything captured.
        taken: The dirt.
    """
    spec = rows.aggregate.definition.spec
    known = {e.after if e.cause is Cause.CHANGE else None for e in taken}
    after = known.pop() if len(known) == 1 else None
    is_exact = spec.lateness == "recompute" and state.frozen == NEG_INF == state.retired
    if after is None or not is_exact or request.options.strategy or not rows.may_merge:
        return None
    return after if state.ended and state.ended[-1].report.source_version <= after else None
