"""Whether rows that were only added are merged into stored results of an engine, whose own rows are not read again then."""

from __future__ import annotations

from collections.abc import Sequence

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.strategies import reason_of
from materializer.core.time.spans import NEG_INF
from materializer.journal.state import AggregateState
from materializer.services.planning.engine_rows import EngineRows
from materializer.services.planning.runs import Request


def added_after(
    rows: EngineRows, request: Request, state: AggregateState, taken: Sequence[Entry]
) -> tuple[int | None, str]:
    """Return the version of the source that all stored results show, where rows added since may be merged into them; else None and why not.

    Dirt tells from which version on rows changed. Results that a later run computed may show some of these rows already, also
    those that begin in other slices.

    Args:
        rows: Reads rows of the aggregate's source, and its stored results.
        request: What was asked.
        state: The aggregate, everything captured.
        taken: The dirt.
    """
    if why := _why_not(rows, request, state):
        return None, why
    others = [e.cause for e in taken if e.cause is not Cause.CHANGE or e.after is None]
    if others:
        return None, f"not all is known row by row: {reason_of(others[0])}"
    known = {e.after for e in taken}
    after = known.pop() if len(known) == 1 else None
    if after is None:
        return None, "rows changed since several versions"
    if not state.ended or state.ended[-1].report.source_version > after:
        return None, "stored results may show some of these rows already"
    return after, ""


def _why_not(rows: EngineRows, request: Request, state: AggregateState) -> str:
    """Return why no added rows are merged, whatever changed, or ""."""
    spec = rows.aggregate.definition.spec
    if spec.lateness != "recompute":
        return f"lateness '{spec.lateness}' depends on arrival"
    if not state.frozen == NEG_INF == state.retired:
        return "history below a bound stays as it is"
    if asked := request.options.strategy:
        return f"'{asked}' was asked for"
    return "" if rows.may_merge else f"stored results of {spec.engine} take no added rows here"
