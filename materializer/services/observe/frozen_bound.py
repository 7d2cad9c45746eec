"""Where the frozen bound and the retired bound stand, and where retention wants them.

```
        retired          frozen                             extent end
  ──────┴────────────────┴──────────────────────────────────┴─────▶ time
  not stored in our tables  stored; raw rows may be gone: merged   computed from raw rows
                          or left as it is
```

Both bounds are edges and move up only; they follow the newest row at each refresh, in the journal commit that also holds
what was captured. Rows past the clock are not followed: which those were stands in the journal with what was captured, so that
every command counts from the same row. The frozen bound stops at the first bucket that is dirty: what is not true yet has to be computed while
its raw rows are there. Moving it back is :meth:`materializer.services.maintenance.expire.Expirer.thaw`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from materializer.core.compiled.definition import Definition
from materializer.core.policy.retention import OUTPUT, PROPERTIES, SOURCE, edge, length
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.time.grid import Grid
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import FrozenWindowError, RetiredWindowError
from materializer.journal.events import Frozen, Retired
from materializer.journal.state import AggregateState, spec_of
from materializer.journal.view import View

if TYPE_CHECKING:
    from materializer.core.engines.base import WindowEngine

FOLLOWED = SOURCE
"""The reason of a bound that follows the newest row."""


def wanted(state: AggregateState, grid: Grid, name: str) -> int:
    """Return the bound that a retention asks for as of the newest row that it follows; ``NEG_INF`` without one."""
    width = length(spec_of(state).property_map, name)
    return NEG_INF if width is None else edge(width, min(state.extent_end, state.followed_end), grid)


def counts_anew(state: AggregateState, clock_edge: int) -> bool:
    """Whether the clock may let a retention follow other rows than it did when the source was captured.

    Args:
        state: The aggregate.
        clock_edge: See :func:`materializer.services.observe.clock.followed_below`.
    """
    if state.followed_end == POS_INF and state.extent_end <= clock_edge:
        return False
    return any(name in spec_of(state).property_map for name in PROPERTIES)


def cut_edge(definition: Definition, bound: int) -> int:
    """Return the last edge up to *bound* at which history can be cut at all; ``NEG_INF`` without one.

    A continuous aggregate can be cut at every edge, an engine where none of its windows takes rows of both sides.
    """
    if definition.engine is None:
        return bound
    engine: WindowEngine = definition.engine.params
    return engine.edge_for(bound, definition.grid)


def may_freeze(state: AggregateState, view: View) -> bool:
    """Whether the frozen bound may move: while a next version is built, both versions need the raw rows they have."""
    return not state.builds and view.build_of(state) is None


def moved(
    state: AggregateState,
    grid: Grid,
    present: Callable[[SpanSet], SpanSet] = lambda spans: spans,
    *,
    freezes: bool = True,
    cut: Callable[[int], int] = lambda bound: bound,
) -> Iterator[Frozen | Retired]:
    """Yield the events that let both bounds follow the newest row, none when they stand where they should.

    Args:
        state: The aggregate, with everything captured.
        grid: How it divides time.
        present: The part of some spans in which the source or our tables may have rows.
        freezes: See :func:`may_freeze`.
        cut: The last edge up to a bound at which history can be cut now; see :meth:`materializer.services.observe.observe.Observation.cut`.
    """
    dirt, retired = state.log, wanted(state, grid, OUTPUT)
    if retired > state.retired:
        yield Retired(retired)
        dirt = dirt if state.is_engine else dirt.split(retired)[1]
    frozen = min(wanted(state, grid, SOURCE), state.threshold)
    if frozen <= state.frozen or not freezes:
        return
    coming = SpanSet.of(Span(state.frozen, frozen))
    dirty = SpanSet.union(e.span for e in dirt.cut(coming).taken if e.cause is not Cause.RETIRED)
    there = present(dirty) if dirty else dirty
    frozen = there.spans[0].start if there else frozen
    frozen = cut(frozen) if frozen > state.frozen else frozen
    if frozen > state.frozen:
        yield Frozen(frozen, FOLLOWED, (dirty - there) & SpanSet.of(Span(state.frozen, frozen)))


def computable(window: Span, state: AggregateState, grid: Grid) -> Span:
    """Return the part of *window* that may be computed from raw rows on request.

    Raises:
        FrozenWindowError: If all of it is frozen.
        RetiredWindowError: If all of it is older than what the output keeps.
    """
    if window.end <= state.frozen:
        raise FrozenWindowError(
            f"'{state.name}' is frozen below {render(state.frozen, grid.shown)}: "
            "nothing there is computed from raw rows again",
            hint=f"take a window that ends later; 'materializer thaw {state.name}' says what giving the history up means",
        )
    if window.end <= state.retired:
        raise RetiredWindowError(
            f"'{state.name}' does not keep buckets below {render(state.retired, grid.shown)} (output.retention)",
            hint=f"lengthen output.retention and apply it, then 'materializer invalidate {state.name} --all-time' and a refresh "
            "bring them back",
        )
    return Span(max(window.start, state.floor), window.end)


def raw_spans(state: AggregateState) -> SpanSet:
    """Return the time in which the source has the rows that published buckets were computed from."""
    return SpanSet.of(Span(state.floor, POS_INF))


def why_stuck(entry: Entry) -> str:
    """Return in words why a dirty span below the frozen bound is not planned."""
    if entry.cause is Cause.CHANGE and entry.is_insert_only:
        return "rows came, and there is nothing that they could be merged into"
    if entry.cause is Cause.FILES and not entry.is_insert_only:
        return "rows came, and without a change feed nobody can tell which"
    from materializer.core.refresh.strategies import reason_of  # noqa: PLC0415 - most refreshes have no bound to explain

    return reason_of(entry.cause)
