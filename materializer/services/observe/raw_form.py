"""What a roll-up means over raw rows, and where it does not show these yet.

A roll-up merges partials of its parent, which may be a roll-up of another aggregate. At the root is an aggregate that reads
raw rows. The roll-up shows the rows of that source at a version in all buckets in which no aggregate on the way is dirty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.compiled.definition import Definition
from materializer.core.compiled.rolled_up import defined_over_raw_rows
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import Invalidated
from materializer.journal.state import AggregateState, States
from materializer.services.aggregate import Aggregate
from materializer.services.definitions import rolled_up
from materializer.services.observe import frozen_bound
from materializer.services.observe.dirty import dirty_at_cursor
from materializer.services.observe.observe import applied

if TYPE_CHECKING:
    from materializer.services.observe.observe import Observation


class RawRows(Struct, frozen=True):
    """The raw rows behind a roll-up.

    Args:
        aggregate: The roll-up, defined over them; its tables are its own.
        state: Its state as if it had read them always: the cursor is their version, the log has what is dirty on the way.
    """

    aggregate: Aggregate
    state: AggregateState

    @property
    def dirty(self) -> SpanSet:
        """The buckets that do not show these rows, or of which the rows may be gone."""
        return dirty_at_cursor(self.state) | (SpanSet.of(EVERYTHING) - frozen_bound.raw_spans(self.state))


def behind(
    aggregate: Aggregate,
    state: AggregateState,
    root: str,
    states: States,
    observe: Callable[[AggregateState], Observation],
    *,
    newest: bool,
) -> RawRows:
    """Return the raw rows behind a roll-up; writes nothing.

    Args:
        aggregate: The roll-up.
        state: Its state.
        root: The root of the lake.
        states: All aggregates.
        observe: Observes an aggregate.
        newest: Whether the rows are those of the newest version of their source; else those that the aggregate at the root
            has captured.

    Raises:
        MaterializerError: If an aggregate on the way is gone.
    """
    grid = aggregate.definition.grid
    state = _as_now(state, root, states, observe)
    dirty, frozen = dirty_at_cursor(state), state.frozen
    source, chain = state, rolled_up.parents_of(state, root, states)
    for below in chain:
        is_raw = "rolls_up" not in below.spec
        source = _as_now(below, root, states, observe) if newest or not is_raw else below
        above = max(source.extent_end, source.threshold)  # no row lies above
        there = SpanSet.of(Span(NEG_INF, above) if above > NEG_INF else EVERYTHING)
        dirty = dirty | grid.cover_set(dirty_at_cursor(source) & there)
        if source.floor > NEG_INF:
            frozen = max(frozen, grid.cover(Span(source.floor - 1, source.floor)).end)
    end = source.extent_end
    return RawRows(
        replace(aggregate, definition=defined_over_raw_rows(_as_defined_now(aggregate, chain)), source=source.source),
        replace(
            state,
            source=source.source,
            cursor=source.cursor,
            plan=None,
            log=InvalidationLog(tuple(Entry(span, None, Cause.FILES) for span in dirty)),
            extent_end=NEG_INF if end == NEG_INF else grid.cover(Span(end - 1, end)).end,
            followed_end=POS_INF,
            frozen=frozen,
            changes=(),
        ),
    )


def _as_defined_now(aggregate: Aggregate, chain: Sequence[AggregateState]) -> Definition:
    """Return a roll-up of what its parents are now; its own definition says what they were when it was applied."""
    spec: AggregateSpec | None = None
    for below in reversed(chain):
        made = AggregateSpec.from_json(below.spec)
        spec = made if spec is None else replace(made, rolls_up=spec)
    definition = aggregate.definition
    return replace(definition, spec=replace(definition.spec, rolls_up=spec))


def _as_now(
    state: AggregateState, root: str, states: States, observe: Callable[[AggregateState], Observation]
) -> AggregateState:
    """Return *state* as if its open refresh had been given up, and everything had been captured."""
    observation = observe(state)
    taken = () if state.plan is None else state.plan.taken
    state = observation.given_back(state)
    if taken:
        unknown = tuple(replace(e, after=None, keys=None, is_insert_only=False) for e in taken)
        state = applied(state, Invalidated(unknown, "unfinished"))
    if rolled_up.moved(state, root, states) is not None:
        return applied(state, Invalidated((Entry(EVERYTHING, None, Cause.LOST),), "its parent was switched"))
    return observation.looked(state)
