"""Freezing history before its raw rows are deleted, and thawing it.

``expire`` moves the frozen boundary. It writes only to the journal: captured changes and the new boundary, in one commit.
Afterwards the owner of the source may delete the rows. ``thaw`` removes the boundary and makes everything below it dirty, so
that the next refresh computes it from the rows that the source still has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.policy.retention import SOURCE
from materializer.core.printed import Printed
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry
from materializer.core.refresh.plan import Estimate
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.grid import Grid
from materializer.core.time.instants import Instant, Shown, parse, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.windows import spans_text
from materializer.errors import (
    ExpireBoundError,
    ExpireDirtyError,
    ExpireEngineError,
    HistoryBuildingError,
    MaterializerError,
)
from materializer.journal.events import Event, Frozen, Invalidated
from materializer.journal.state import AggregateState
from materializer.journal.version_fields import fields_of
from materializer.journal.view import View
from materializer.lake.table import DeltaFolder
from materializer.services.commit.lake import Lake
from materializer.services.definitions import lineage
from materializer.services.observe import frozen_bound
from materializer.services.observe.dirty import stuck_spans
from materializer.services.observe.observe import Observation, applied
from materializer.services.observe.source_deletes import OtherReader, delete_statement, readers_of

Report = TypeVar("Report")


class Expiry(Printed, Struct, frozen=True):
    """The result of freezing, or of a dry run of it.

    Args:
        name: The aggregate.
        time_type: Type of its time column.
        before: The instant that was asked for.
        bound: The frozen boundary afterwards; never ``NEG_INF``.
        was: The frozen boundary before.
        source: Name or path of the source.
        source_version: Source version up to which changes are captured.
        below: Upper limit of the source's rows and files below the boundary.
        waiting: Dirty spans below the boundary that the next refresh merges.
        as_stored: Dirty spans below the boundary that only raw rows could clean: they stay as they are stored.
        delete: The statement that deletes the raw rows; empty when the source is the output of another aggregate.
        readers: Other aggregates that read these rows and are not frozen there.
        notes: What to know before the rows are deleted.
        is_dry_run: Whether nothing was written.
    """

    _INSTANTS: ClassVar[frozenset[str]] = frozenset({"before", "bound", "was"})

    name: str
    time_type: Shown
    before: int
    bound: int
    was: int
    source: str
    source_version: int
    below: Estimate
    waiting: SpanSet
    delete: str
    readers: tuple[OtherReader, ...]
    notes: tuple[str, ...] = ()
    as_stored: SpanSet = field(default_factory=SpanSet)
    is_dry_run: bool = False


class Thaw(Printed, Struct, frozen=True):
    """The result of thawing, or of a dry run of it.

    Args:
        name: The aggregate.
        time_type: Type of its time column.
        was: The frozen boundary before; ``NEG_INF`` when nothing was frozen.
        dirty: The spans that become dirty and are computed from the rows that the source has.
        kept: Upper limit of the stored partials below the boundary.
        below: Upper limit of the source's rows and files there.
        expired_rows: Rows that are known to have been deleted there.
        stuck: The spans that were dirty there and could not be computed.
        follows: Whether ``source.retention`` will freeze it again.
        is_dry_run: Whether nothing was written.
    """

    _INSTANTS: ClassVar[frozenset[str]] = frozenset({"was"})

    name: str
    time_type: Shown
    was: int
    dirty: SpanSet
    kept: Estimate
    below: Estimate
    expired_rows: int
    stuck: SpanSet
    follows: bool
    is_dry_run: bool = False


class _Dirt(Struct, frozen=True):
    """The dirty spans below a boundary: those that merge, those that cannot have rows, and those that need raw rows."""

    waiting: SpanSet = field(default_factory=SpanSet)
    settled: SpanSet = field(default_factory=SpanSet)
    needed: SpanSet = field(default_factory=SpanSet)


class Expirer(Struct):
    """Freezes and thaws the history of aggregates of one lake."""

    lake: Lake

    def expire(self, name: str, before: Instant, *, dry_run: bool, as_stored: bool = False) -> Expiry:
        """Freeze history up to the last edge at or before an instant.

        Args:
            name: The aggregate.
            before: The instant: ISO text, a ``datetime``, a ``date`` or an integer.
            dry_run: Only return what would be done; nothing is written.
            as_stored: Whether dirty buckets that need their raw rows are frozen as they are stored.

        Raises:
            ExpireEngineError: If an engine computes the aggregate whose results need older rows.
            ExpireBoundError: If *before* is no time, or nothing was materialised up to there.
            ExpireDirtyError: If dirty buckets below need their raw rows, or results of an engine may still change.
            HistoryBuildingError: While a next version is built.
            LeaseHeldError: If another live process works on the aggregate.
        """
        grid = self.lake.aggregate(self._state(name)).definition.grid
        try:
            instant = parse(before, grid.time_type, grid.resolution)
        except ValueError as exc:
            raise ExpireBoundError(str(exc), hint="give a time like 2024-03-01, or an integer") from None
        if dry_run:
            observation = self._observation(name)
            state = observation.looked(observation.given_back(self._state(name)))
            return self._expiry(state, observation, instant, as_stored=as_stored, dry_run=True)[0]

        def decide(state: AggregateState, observation: Observation) -> tuple[Expiry, list[Event]]:
            captured = observation.uncaptured(
                state
            )  # captured once, because the source may get a new version between two readings
            now = state if captured is None else applied(state, captured)
            expiry, events = self._expiry(now, observation, instant, as_stored=as_stored, dry_run=False)
            return expiry, events if captured is None else [captured, *events]

        return self._written(name, decide)

    def thaw(self, name: str, *, dry_run: bool) -> Thaw:
        """Remove the frozen boundary and make everything below it dirty.

        Args:
            name: The aggregate.
            dry_run: Only return what would be done; nothing is written.

        Raises:
            HistoryBuildingError: While a next version is built.
            LeaseHeldError: If another live process works on the aggregate.
        """
        if dry_run:
            return self._thaw(self._state(name), self._observation(name), dry_run=True)

        def decide(state: AggregateState, observation: Observation) -> tuple[Thaw, list[Event]]:
            thaw = self._thaw(state, observation, dry_run=False)
            entries = tuple(Entry(span, None, Cause.INVALIDATED, gone=ANY_ROWS) for span in thaw.dirty)
            return thaw, [] if thaw.was == NEG_INF else [Frozen(NEG_INF, "thaw"), Invalidated(entries, "thaw")]

        return self._written(name, decide)

    def _written(
        self, name: str, decide: Callable[[AggregateState, Observation], tuple[Report, list[Event]]]
    ) -> Report:
        """Append in one commit, under the lease, the events that *decide* returns for the newest state; return its report."""
        reports: list[Report] = []

        def decide_now(view: View) -> list[tuple[str, Event]]:
            state = view.named(name)
            report, events = decide(state, self._observation(name))
            reports.append(report)
            self.lake.on_checkpoint("bound")
            return [(state.id, event) for event in events]

        with self.lake.lease(name) as lease:
            lease.transact(decide_now, holds=lambda before, now: now.has_basis_of(before, name))
            self.lake.on_checkpoint("bounded")
        return reports[-1]

    def _state(self, name: str) -> AggregateState:
        return self.lake.journal.view().named(name)

    def _observation(self, name: str) -> Observation:
        return self.lake.observation(self._state(name))

    def _expiry(
        self, state: AggregateState, observation: Observation, before: int, *, as_stored: bool, dry_run: bool
    ) -> tuple[Expiry, list[Event]]:
        definition = self.lake.aggregate(state).definition
        grid = definition.grid
        if definition.engine is not None and definition.engine.not_frozen:
            raise ExpireEngineError(
                f"'{state.name}' needs the raw rows of its history: {definition.engine.not_frozen}",
                hint="keep the rows of its source",
            )
        self._refuse_building(state)
        bound = frozen_bound.cut_edge(definition, _bound(state, before, grid))
        if bound == NEG_INF:
            raise ExpireBoundError(
                f"no edge of '{state.name}' in the days before lies between two windows (filled: days) of its trading sessions",
                hint="set 'slice' to a length that divides them, such as '1 hour'",
            )
        bound = max(bound, state.frozen)
        dirt = _dirt(state, bound, observation)
        if dirt.needed and not as_stored:
            shown = spans_text(grid, dirt.needed)
            end = render(bound, grid.shown)
            raise ExpireDirtyError(
                f"'{state.name}' is dirty below {end} and can only be computed from raw rows there: {shown}",
                hint=f"run 'materializer refresh {state.name} --end {end}' first, or freeze them as they are stored with "
                "--as-stored",
            )
        if bound > state.frozen and not as_stored:
            self._refuse_unsettled(state, bound, observation, grid)
        view = self.lake.journal.view()
        parent = lineage.parent_of(state.source.path, self.lake.root, view.states)
        expiry = Expiry(
            state.name,
            definition.grid.shown,
            before,
            bound,
            state.frozen,
            state.source.name or state.source.path,
            state.cursor,
            observation.source_estimate(state, SpanSet.of(Span(NEG_INF, bound))),
            dirt.waiting,
            "" if parent else delete_statement(state.source, definition, bound),
            tuple(readers_of(state, bound, view.all.values())),
            tuple(_notes(state, bound, parent)),
            dirt.needed,
            dry_run,
        )
        if bound <= state.frozen:
            return expiry, []
        # without this, inserts that are never merged would look like inserts that wait for a merge
        stored = tuple(replace(e, after=None, gone=0) for e in state.log.cut(dirt.needed).taken)
        asked: list[Event] = [Invalidated(stored, "frozen as stored")] if stored else []
        return expiry, [*asked, Frozen(bound, "expire", dirt.settled)]

    def _refuse_unsettled(self, state: AggregateState, bound: int, observation: Observation, grid: Grid) -> None:
        """Refuse a boundary above results of an engine that may still change, because no later row could change them then."""
        first = observation.unsettled(state, bound)
        if first is None:
            return
        raise ExpireDirtyError(
            f"results of '{state.name}' from {_text(first, grid)} on are open, or reach what is dirty above "
            f"{_text(bound, grid)}: they may still change, and need their raw rows then",
            hint=f"refresh '{state.name}' first (--as-of T closes what ends by T), take a time before that, or freeze them as "
            "they are stored with --as-stored",
        )

    def _refuse_building(self, state: AggregateState) -> None:
        if self.lake.journal.view().build_of(state) is not None:
            raise HistoryBuildingError(
                f"the next version of '{state.name}' is being built: both versions need the raw rows that they have",
                hint=f"publish it with 'materializer build {state.name}', or give it up with 'materializer abandon "
                f"{state.name}', first",
            )

    def _thaw(self, state: AggregateState, observation: Observation, *, dry_run: bool) -> Thaw:
        self._refuse_building(state)
        spec, was = AggregateSpec.from_json(state.spec), state.frozen
        below = SpanSet() if was == NEG_INF else SpanSet.of(Span(NEG_INF, was))
        dirty = below & SpanSet.of(Span(state.discarded, POS_INF))
        return Thaw(
            state.name,
            spec.time_type or TimeType.TIMESTAMP,
            was,
            dirty,
            _known(lambda: observation.stored_estimate(below)),
            _known(lambda: observation.source_estimate(state, below)),
            state.expired_rows,
            stuck_spans(state),
            SOURCE in spec.property_map,
            dry_run,
        )


def _bound(state: AggregateState, before: int, grid: Grid) -> int:
    """Return the edge to freeze at, which is never below the frozen boundary."""
    if before in (NEG_INF, POS_INF):
        raise ExpireBoundError("history is frozen before a time, not before infinity", hint="give --before a time")
    bound = grid.edge_at(before)
    if bound > state.threshold:
        until = "nothing at all" if state.threshold == NEG_INF else f"nothing from {_text(state.threshold, grid)} on"
        raise ExpireBoundError(
            f"'{state.name}' cannot be frozen before {_text(bound, grid)}: {until} was ever materialised",
            hint=f"run 'materializer refresh {state.name}' first, or take an earlier time",
        )
    if bound <= grid.limits.start:
        raise ExpireBoundError(
            f"no row of '{state.name}' can lie before {_text(bound, grid)}", hint="take a later time"
        )
    return max(bound, state.frozen)


def _known(estimate: Callable[[], Estimate]) -> Estimate:
    """Return an estimate, or an empty one: thawing is possible although a table is gone or was replaced."""
    try:
        return estimate()
    except MaterializerError:
        return Estimate()


def _text(instant: int, grid: Grid) -> str:
    return render(instant, grid.shown)


def _dirt(state: AggregateState, bound: int, observation: Observation) -> _Dirt:
    if bound <= state.frozen:
        return _Dirt()
    taken = state.log.cut(SpanSet.of(Span(state.frozen, bound))).taken
    merges = observation.merges
    waiting = SpanSet.union(e.span for e in taken if merges and e.is_mergeable)
    rest = SpanSet.union(e.span for e in taken if e.cause is not Cause.RETIRED) - waiting
    needed = observation.present(state, rest) if rest else rest
    return _Dirt(waiting, rest - needed, needed)


def _notes(state: AggregateState, bound: int, parent: AggregateState | None) -> list[str]:
    notes = []
    if any(fields_of(version)["frozen"] < bound for version in state.previous[:1]):
        notes.append("the previous version that is kept cannot be rolled back to then: its history is not frozen")
    if parent is not None:
        notes.append(f"the source is the output of '{parent.name}': its rows go by its own output.retention")
    if DeltaFolder.at(state.source.path).properties().get("delta.enableChangeDataFeed", "").lower() != "true":
        notes.append("the source has no change feed: rows that come below the bound cannot be merged, only reported")
    return notes
