"""What is dirty of an aggregate, as reports show it."""

from __future__ import annotations

from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.journal.state import AggregateState


def dirty_below_newest(state: AggregateState) -> SpanSet:
    """Return what is dirty below the newest row and a refresh can mend; the tail above it is not news."""
    top = max(state.extent_end, state.threshold)
    if all(entry.span.start >= top for entry in state.log.entries):
        return SpanSet()
    return SpanSet.union(e.span for e in state.computable.cut(SpanSet.of(Span(NEG_INF, top))).taken)


def stuck_spans(state: AggregateState) -> SpanSet:
    """Return what is dirty below the frozen bound and could only be computed from raw rows."""
    return SpanSet.union(e.span for e in state.uncomputable)


def dirty_at_cursor(state: AggregateState) -> SpanSet:
    """Return what the output does not reflect at the cursor: the log and the spans of an unfinished plan."""
    planned = SpanSet.union(e.span for e in state.plan.taken) if state.plan else SpanSet()
    return state.log.spans | planned


def reflected(state: AggregateState) -> SpanSet:
    """Return where the output is what the source says at the cursor: of an engine everywhere or nowhere.

    A change reaches beyond its slice in an engine. What is dirty below the frozen bound stays so, and reaches nothing above.
    """
    dirty = dirty_at_cursor(state)
    if not state.is_engine:
        return SpanSet.of(EVERYTHING) - dirty
    top = max(state.extent_end, state.threshold)
    is_dirty = top > state.frozen and dirty & SpanSet.of(Span(state.frozen, top))
    return SpanSet() if is_dirty or state.threshold == NEG_INF else SpanSet.of(EVERYTHING)
