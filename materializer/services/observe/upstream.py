"""What an aggregate over another has to compute because its parent is not refreshed.

The child's source is the parent's output, and that ends where the parent was refreshed last. A fresh read goes on from there:
the parent is read fresh too, and so is its own parent, down to a table that is no aggregate. Where the parent computes on the
fly, the child does, from the rows that the parent comes to; elsewhere stored and computed rows are the same, and what the child
has stored counts as always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.policy.retention import OUTPUT
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Estimate
from materializer.core.time.grid import Grid
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import Invalidated
from materializer.journal.state import AggregateState
from materializer.services.observe.observe import Observation, applied

if TYPE_CHECKING:
    from materializer.core.compiled.definition import Definition
    from materializer.spark.run.fresh import OnTheFly
    from materializer.spark.run.spark import Spark


class Upstream(Struct, frozen=True):
    """A parent whose rows, as of now, are others than it stores.

    Args:
        version: Version of its output from which the clean rows come.
        spans: Where its rows may be others, in its own slices.
        column: The column of its output that these slices are of.
        rows: Returns all of its rows by Spark.
        estimate: What computing them reads at most.
    """

    version: int
    spans: SpanSet
    column: SliceColumn
    rows: Callable[[], OnTheFly]
    estimate: Estimate


def judges_arrival(definition: Definition) -> bool:
    """Whether rows count by when they came: those that a parent has not published yet have not come."""
    engine = definition.engine
    return definition.spec.lateness != "recompute" or bool(engine is not None and engine.params.use_system_time)


def wanted_of(definition: Definition, window: Span | None, column: str, grid: Grid) -> Span | None:
    """Return which whole buckets of its parent a read of *window* depends on; None for all of them.

    Args:
        definition: The child.
        window: What is read of it; None for everything.
        column: The parent's column of bucket starts; "" where its output has none.
        grid: The parent's buckets.
    """
    is_by_start = column and definition.spec.time_column == column
    if window is None or not is_by_start or definition.engine is not None or OUTPUT in definition.spec.property_map:
        return None
    return grid.cover(definition.grid.cover(window))


def above(observation: Observation, state: AggregateState, upstream: Upstream, engine: Spark) -> AggregateState:
    """Return *state* with what its parent's fresh rows make dirty, and let *observation* find these rows in the source.

    Where the parent's slices say nothing of the child's time everything is dirty. Below the child's frozen bound nothing is: what
    is published stays.

    Args:
        observation: Of the child.
        state: The child, with everything captured that the parent has stored.
        upstream: The parent.
        engine: Spark.
    """
    definition = observation.aggregate.definition
    grid = definition.grid
    source = engine.over(observation.aggregate.source, upstream.rows())
    dirty = _in_time_of(definition, upstream)
    hull = dirty.hull
    extent_end, followed_end, coming = state.extent_end, state.followed_end, dirty
    if hull is not None and (not hull.is_bounded or OUTPUT in definition.spec.property_map):
        times = engine.times(definition, source, upstream.version, before=observation.clock_edge)
        if times is None:
            extent_end, coming = NEG_INF, SpanSet()
        else:
            first, newest, followed = times
            coming = dirty & SpanSet.of(grid.cover(Span(first, newest + 1)))
            extent_end = grid.cover(Span(newest, newest + 1)).end
            followed_end = NEG_INF if followed is None else grid.cover(Span(followed, followed + 1)).end
    elif hull is not None:
        extent_end = max(extent_end, hull.end)
    observation.coming = coming
    observation.aggregate = replace(observation.aggregate, source=source)
    computable = SpanSet.of(Span(max(state.frozen, state.discarded), POS_INF))
    entries = tuple(Entry(span, None, Cause.FILES) for span in dirty & computable)
    state = applied(state, Invalidated(entries, "the parent is not refreshed"))
    return replace(state, extent_end=extent_end, followed_end=followed_end)


def _in_time_of(definition: Definition, upstream: Upstream) -> SpanSet:
    """Return the whole buckets of the child in which rows of the parent's dirty slices may lie."""
    if definition.spec.time_column != upstream.column.name:
        return SpanSet.of(EVERYTHING) if upstream.spans else SpanSet()
    # an end counts as a time of both slices that it lies between
    return definition.grid.cover_set(upstream.spans | upstream.column.values_in(upstream.spans))
