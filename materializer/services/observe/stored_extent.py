"""The time range that our tables cover, in instants of the aggregate's grid, from file statistics alone."""

# ruff: noqa: PLC0415 - most refreshes ask no statistics of files

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from materializer.core.compiled.definition import SLICE
from materializer.core.policy.retention import SOURCE
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.errors import MaterializerError
from materializer.journal.events import Frozen
from materializer.journal.state import AggregateState, States
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.definitions import lineage
from materializer.services.observe import frozen_bound
from materializer.services.observe.clock import followed_below

if TYPE_CHECKING:
    from materializer.lake.extent import Extent

OUTLIVED = "repaired"
"""The reason of a bound that a repair moved."""


def published(aggregate: Aggregate, version: int) -> SpanSet:
    """Return where the output may hold rows at a version; everywhere when a file does not tell."""
    from materializer.lake.extent import files

    column = aggregate.slice_column("output")
    extent = files(aggregate.paths["output"], version, column.name, column.type)
    if extent.unknown.files:
        return SpanSet.of(EVERYTHING)
    if not column.holds_end:
        found = SpanSet.union(Span(f.start, f.end) for f in extent.files)
        return (
            aggregate.definition.grid.cover_set(found)
            if column.name == aggregate.definition.spec.bucket_time
            else found
        )
    floor = (
        aggregate.definition.grid.floor
    )  # what ends at an edge lies before it, and a file tells its last edge not exactly
    return SpanSet.union(Span(f.start - 1, floor(f.end - 1)) for f in extent.files)


def outlived(aggregate: Aggregate, version: Callable[[], int], kept_from: int) -> SpanSet:
    """Return where the output of an engine may still hold what it is to keep no longer.

    The table tells by itself what is left to take out: no journal has to remember it, whatever died on the way.

    Args:
        aggregate: The aggregate; one without an engine takes its rows out bucket by bucket, as the log says.
        version: Of the output.
        kept_from: Below it the output keeps nothing.
    """
    if aggregate.definition.engine is None or kept_from == NEG_INF:
        return SpanSet()
    return aggregate.definition.grid.cover_set(published(aggregate, version())) & SpanSet.of(Span(NEG_INF, kept_from))


def partials(aggregate: Aggregate) -> Extent:
    """Return where the newest partials lie."""
    from materializer.lake.extent import files

    path = aggregate.paths["partials"]
    return files(path, DeltaFolder.at(path).head().version, SLICE, aggregate.definition.time_type)


def end_of(aggregate: Aggregate) -> int:
    """Return the end of the newest bucket that one of the two tables may hold rows of, ``NEG_INF`` without any.

    A file that does not tell its times counts as none: those that we write do.
    """
    output = published(aggregate, DeltaFolder.at(aggregate.paths["output"]).head().version)
    hulls = [hull for hull in (partials(aggregate).hull, output.hull) if hull is not None and hull.is_bounded]
    return max((aggregate.definition.grid.cover(hull).end for hull in hulls), default=NEG_INF)


def frozen_again(state: AggregateState, aggregate: Aggregate, states: States) -> tuple[Frozen, ...]:
    """Return the event that freezes what a repair must not compute again: rows of ours that outlived their raw rows.

    The journal may have forgotten how far it was frozen. Where the definition has ``source.retention``, or something was
    frozen once, whatever that lets go is taken as gone, and so is the time before the source's first row, where our
    tables hold rows. A source that is another table than before, that is empty, or whose files do not tell their times
    says nothing; neither does the output of another aggregate.

    Args:
        state: The aggregate, repaired.
        aggregate: The same, compiled.
        states: All aggregates.
    """
    is_asked = SOURCE in aggregate.definition.spec.property_map or state.frozen != NEG_INF
    engine = aggregate.definition.engine
    if (engine is not None and engine.not_frozen) or state.builds or not is_asked:
        return ()
    grid = aggregate.definition.grid
    lets_go = frozen_bound.wanted(replace(state, extent_end=_followed_end(state, aggregate)), grid, SOURCE)
    at = max(lets_go, _first_edge(state, aggregate, states))
    at = min(at, state.threshold)
    at = frozen_bound.cut_edge(aggregate.definition, at)
    return (Frozen(at, OUTLIVED),) if at > state.frozen else ()


def outlived_edge(state: AggregateState, aggregate: Aggregate, states: States) -> int:
    """Return the edge below which our tables hold rows and the source has none, if history can be frozen there.

    ``NEG_INF`` where there are none, or where the source or the engine does not say; see :func:`frozen_again`.
    """
    engine = aggregate.definition.engine
    if (engine is not None and engine.not_frozen) or state.builds:
        return NEG_INF
    return frozen_bound.cut_edge(aggregate.definition, _first_edge(state, aggregate, states))


def _followed_end(state: AggregateState, aggregate: Aggregate) -> int:
    """Return the end of the newest bucket that was materialised, of those that do not lie past the clock."""
    grid = aggregate.definition.grid
    edge = followed_below(None, grid)
    if state.threshold <= edge:
        return state.threshold
    newest = None
    with suppress(MaterializerError):
        newest = partials(aggregate).newest_before(edge)
    return NEG_INF if newest is None else grid.cover(Span(newest, newest + 1)).end


def _first_edge(state: AggregateState, aggregate: Aggregate, states: States) -> int:
    """Return the start of the bucket of the source's first row, where our tables hold rows before it; else ``NEG_INF``."""
    from materializer.lake.extent import files

    definition, path = aggregate.definition, state.source.path
    if lineage.parent_of(path, places.parent(places.parent(aggregate.paths["output"])), states) is not None:
        return NEG_INF
    try:
        head = DeltaFolder.at(path).head()
        raw = files(path, head.version, definition.spec.time_column, definition.time_type)
    except MaterializerError:
        return NEG_INF
    starts = [hull.start for hull in _hulls(aggregate) if hull.is_bounded]
    if head.table_id != state.source.table_id or raw.unknown.files or raw.hull is None or not starts:
        return NEG_INF
    first = definition.grid.floor(raw.hull.start)
    return first if definition.grid.floor(min(starts)) < first else NEG_INF


def _hulls(aggregate: Aggregate) -> Iterator[Span]:
    """Yield where each of our two tables holds rows, as far as it can be read."""
    with suppress(MaterializerError):
        if (hull := partials(aggregate).hull) is not None:
            yield hull
    with suppress(MaterializerError):
        if (hull := published(aggregate, DeltaFolder.at(aggregate.paths["output"]).head().version).hull) is not None:
            yield hull
