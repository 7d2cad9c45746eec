"""What the source and the tables of one aggregate hold, and what follows from it before anything is planned.

An observation reads logs and file statistics, each version once, and the change feed; it writes nothing.
"""

# ruff: noqa: PLC0415 - a source without a new version is not captured

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Estimate
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import (
    NotADeltaTableError,
    SourceDamagedError,
    SourceReplacedError,
    SourceRolledBackError,
    TableNotFoundError,
)
from materializer.journal.events import Aborted, Captured, Event, Frozen, Retired
from materializer.journal.fold import apply
from materializer.journal.state import AggregateState, NamedStates
from materializer.lake.keys import wanted, why_not_recorded
from materializer.lake.log import LogGapError
from materializer.lake.table import DeltaFolder
from materializer.services.definitions import lineage
from materializer.services.observe import frozen_bound, stored_extent
from materializer.services.observe.clock import followed_below
from materializer.services.protocol.process import OwnTableHead, Which

if TYPE_CHECKING:
    from materializer.config import Config
    from materializer.journal.journal import Journal
    from materializer.lake.extent import Extent
    from materializer.services.aggregate import Aggregate
    from materializer.services.observe.feed_limit import FeedLimit
    from materializer.spark.run.spark import Spark


def missing_source(state: AggregateState, root: str) -> str:
    """Return what mends a source of which nothing is there: it moved, or the output of another aggregate was deleted."""
    if parent := lineage.maker_of(state.source.path, root):
        return f"'materializer repair {parent}' makes it again"
    return (
        "if it moved, name its new place in [sources] of materializer.toml and run 'materializer apply FILE' with the "
        "definition; if it is gone, what is published stays"
    )


MANY_FILES: Final = 20
"""From so many changed files on it counts for the price whether they were read a moment ago."""


class Observation:
    """The present of one aggregate: its source, its tables, and the changes of the source that are not captured yet.

    Args:
        journal: The lake's journal.
        aggregate: The aggregate's definition, compiled for use.
        config: Settings.
        engine: Starts Spark on first use and returns the engine.
        as_of: The clock, an instant of the time column; None takes the wall clock. Retention follows no row past it.
    """

    def __init__(
        self,
        journal: Journal,
        aggregate: Aggregate,
        config: Config,
        engine: Callable[[], Spark],
        as_of: int | None = None,
    ) -> None:
        self.aggregate = aggregate
        self.coming = SpanSet()
        """Where the source may have rows that it does not store yet."""
        self.clock_edge = followed_below(as_of, aggregate.definition.grid)
        """Retention follows no row from there on."""
        self._journal = journal
        self._engine = engine
        self._config = config
        self._source = DeltaFolder.at(aggregate.source.path)
        self._tables = {which: DeltaFolder.at(aggregate.paths[which.value]) for which in Which}
        self._extents: dict[tuple[str, int, str], Extent] = {}
        self._captured: dict[tuple[int, int], Captured | None] = {}

    def of(self, aggregate: Aggregate) -> Observation:
        """Return an observation of the same tables, over another source."""
        return Observation(self._journal, aggregate, self._config, self._engine)

    def others(self) -> tuple[str, NamedStates]:
        """Return the root of the lake, and all its aggregates as the journal was read last."""
        return self._journal.root, self._journal.last_view.states

    def head(self, which: Which) -> OwnTableHead:
        """Return the newest version of one of our tables."""
        table = self._tables[which]
        try:
            head = table.head()
        except (TableNotFoundError, NotADeltaTableError, SourceDamagedError) as exc:
            exc.hint = f"it is the {which} table of '{self.aggregate.name}': {self.aggregate.mend}"
            raise
        n, plan = table.numbered(self.aggregate.app_ids[which.value])
        return OwnTableHead(head.table_id, head.version, n or 0, plan)

    def check_source(self, state: AggregateState, table_id: str, version: int) -> None:
        """Refuse a source that is not the one the aggregate was defined on.

        Raises:
            SourceReplacedError: If it was dropped and recreated.
            SourceRolledBackError: If its newest version lies before the cursor.
        """
        if table_id != state.source.table_id and not self._goes_on(state):
            from materializer.lake.capture.source_marks import what_happened

            mend = f"apply the definition of '{state.name}' again to build it from the new table, or drop it"
            if lineage.parent_of(state.source.path, self._journal.root, self._journal.view().states):
                mend = f"run 'materializer repair {state.name}': the aggregate that it reads was repaired"
            raise SourceReplacedError(
                f"'{state.name}' reads {state.source.path}: {what_happened(self._source, state.cursor, state.source.table_id, state.mark)}",
                hint=mend,
                found=table_id,
                expected=state.source.table_id,
            )
        if version < state.cursor:
            raise SourceRolledBackError(
                f"the source of '{state.name}' is at version {version}, but {state.cursor} was already captured",
                hint=f"if it was replaced by an older copy, apply the definition of '{state.name}' again to build it anew",
                found=version,
                expected=state.cursor,
            )

    def _is_other(self, state: AggregateState, version: int) -> bool:
        """Return whether the cursor's version, which is the newest, is another commit than the one that was captured."""
        if version != state.cursor or state.mark.file == self._source.file_of(version):
            return False
        from materializer.lake.capture.source_marks import has_other_commit

        return has_other_commit(self._source, version, state.mark)

    def _goes_on(self, state: AggregateState) -> bool:
        """Return whether a later commit replaced the source, and a refresh may go on with it."""
        if lineage.parent_of(state.source.path, self._journal.root, self._journal.view().states):
            return False
        from materializer.services.definitions.replaced import goes_on

        return goes_on(state)

    def uncaptured(self, state: AggregateState) -> Captured | None:
        """Return what the source did since the cursor, or None when it is known already.

        It is remembered between attempts. Where rows lay past the clock, the clock may have reached them since.
        """
        return self.uncaptured_at(state, self.source_version(state))

    def source_version(self, state: AggregateState) -> int:
        """Return the newest version of the source; raises as :meth:`check_source`."""
        try:
            head = self._source.head()
        except TableNotFoundError as exc:
            exc.hint = missing_source(state, self._journal.root)
            raise
        self.check_source(state, head.table_id, head.version)
        return head.version

    def uncaptured_at(self, state: AggregateState, version: int) -> Captured | None:
        """Return what the source did from the cursor to its newest *version*; see :meth:`uncaptured`."""
        is_other = self._is_other(state, version)
        is_captured = version == state.cursor and state.extent_end != NEG_INF and not is_other
        if is_captured and not frozen_bound.counts_anew(state, self.clock_edge):
            return None
        key = (state.cursor, version)
        if key not in self._captured:
            self._captured[key] = self._fresh_look(state, version)
        return self._captured[key]

    def _fresh_look(self, state: AggregateState, version: int) -> Captured | None:
        if version > state.cursor:
            from materializer.services.observe.source_breaks import refuse_misfits

            refuse_misfits(state)
        extent = self.raw(version)
        is_other = self._is_other(state, version)
        if not is_other and version == state.cursor and state.extent_end != NEG_INF and extent.unknown.files:
            return None  # looking again takes a scan: the next version of the source is soon enough
        end = self._extent_end(extent)
        followed = self._followed_end(extent, end)
        if version > state.cursor or is_other:
            from materializer.services.observe.capture import Capture

            captured = Capture(self.aggregate, self._config, self._engine, self._feed_limit(version)).upto(
                state, version
            )
            return replace(captured, extent_end=end, null_times=extent.null_times, followed_end=followed)
        if end in (NEG_INF, state.extent_end) and followed == state.followed_end:
            return None
        from materializer.lake.capture.source_marks import mark

        known = mark(self._source, version, [name for name, _ in self.aggregate.definition.spec.read_types])
        return Captured(version, (), end, (), extent.null_times, followed_end=followed, mark=known)

    def _feed_limit(self, version: int) -> FeedLimit:
        from materializer.services.observe.feed_limit import FeedLimit

        definition, spec = self.aggregate.definition, self.aggregate.definition.spec
        engine = definition.engine
        return FeedLimit(
            self._config,
            "" if engine is None else spec.engine,
            engine is not None and (bool(engine.params.end) or spec.lateness != "recompute"),
            bool(spec.keys) and not why_not_recorded(definition),
            lambda: self._source.features().obstacle is None,
            lambda: self.raw(version),
            lambda: self.partials(self.head(Which.PARTIALS).version),
        )

    def looked(self, state: AggregateState) -> AggregateState:
        """Return *state* as if what the source did since the cursor had been captured; writes nothing."""
        captured = self.uncaptured(state)
        return applied(state, captured) if captured else state

    def given_back(self, state: AggregateState) -> AggregateState:
        """Return *state* as if its unfinished refresh had been aborted; writes nothing."""
        return state if state.plan is None else applied(state, Aborted(state.plan.n, "preview"))

    def without_old(self, state: AggregateState) -> AggregateState:
        """Return *state* as if the next refresh had recorded what the output no longer retains; writes nothing."""
        for move in frozen_bound.moved(state, self.aggregate.definition.grid, freezes=False):
            state = applied(state, move)
        return state

    def moves(self, state: AggregateState, *, freezes: bool = True) -> list[Frozen | Retired]:
        """Return how the frozen bound, if asked for, and the retired bound follow the newest row of *state*."""
        freezes = freezes and frozen_bound.may_freeze(state, self._journal.last_view)

        def present(spans: SpanSet) -> SpanSet:
            return self.present(state, spans)

        def cut(bound: int) -> int:
            return self.cut(state, bound)

        return list(frozen_bound.moved(state, self.aggregate.definition.grid, present, freezes=freezes, cut=cut))

    def cut(self, state: AggregateState, bound: int) -> int:
        """Return the last edge up to *bound* at which history can be cut now.

        A continuous aggregate can be cut anywhere. An engine can where no result that begins below may still change.
        """
        definition = self.aggregate.definition
        if definition.engine is None:
            return bound
        edge = frozen_bound.cut_edge(definition, bound)
        if edge <= state.frozen:
            return edge
        first = self.unsettled(state, edge)
        return edge if first is None else frozen_bound.cut_edge(definition, definition.grid.edge_at(first))

    def unsettled(self, state: AggregateState, bound: int) -> int | None:
        """Return where an engine's first result begins, of those that begin below *bound*, that is open or reaches dirt above.

        What is frozen already counts for nothing.
        """
        definition = self.aggregate.definition
        if definition.engine is None or bound == NEG_INF:
            return None
        above = state.log.cut(SpanSet.of(Span(bound, max(bound + 1, state.extent_end)))).taken
        dirty = min((e.span.start for e in above), default=POS_INF)
        path, version = self.aggregate.paths["partials"], self.head(Which.PARTIALS).version
        inside = Span(state.frozen, bound)
        from materializer.lake import engine_rows

        found = engine_rows.progress(self._config.budget, definition, path, version, inside, dirty)
        if found is not None:
            return found.unsettled(definition.engine.params, inside)
        return self._engine().windows.unsettled(definition, path, version, inside, dirty)

    def present(self, state: AggregateState, spans: SpanSet) -> SpanSet:
        """Return the part of *spans* in which the source, at the cursor, or our tables may have rows.

        A result of an engine is in the slice in which it begins, and may hold rows of all later ones.
        """
        heads = {which: self.head(which) for which in Which}
        raw, stored = self.raw(state.cursor), self.partials(heads[Which.PARTIALS].version)
        if self.aggregate.definition.engine is not None:
            first = NEG_INF
            if not raw.unknown.files and not stored.unknown.files:
                first = min((e.hull.start for e in (raw, stored) if e.hull is not None), default=POS_INF)
            return spans & SpanSet.of(Span(first, POS_INF)) if first < POS_INF else SpanSet()
        return self.present_in(raw, stored, self.stale(state.log.entries, heads), spans)

    def present_in(self, raw: Extent, stored: Extent, stale: SpanSet, spans: SpanSet) -> SpanSet:
        """Return the part of *spans*, in whole buckets, in which one of these may have rows."""
        grid = self.aggregate.definition.grid
        return grid.cover_set(raw.present(spans) | stored.present(spans) | ((stale | self.coming) & spans)) & spans

    def stale(self, dirty: Sequence[Entry], heads: dict[Which, OwnTableHead]) -> SpanSet:
        """Return where the output has rows that the partials may not have: after a repair, or as a canary found."""
        is_doubtful = any(e.cause in (Cause.DIFFERED, Cause.REPAIRED, Cause.RETIRED) for e in dirty)
        return stored_extent.published(self.aggregate, heads[Which.OUTPUT].version) if is_doubtful else SpanSet()

    def source_estimate(self, state: AggregateState, spans: SpanSet) -> Estimate:
        """Return which files of the source may hold rows of *spans*, at the cursor."""
        return estimate_of(self.raw(state.cursor), spans)

    def stored_estimate(self, spans: SpanSet) -> Estimate:
        """Return which files of the partials may hold rows of *spans*."""
        return estimate_of(self.partials(self.head(Which.PARTIALS).version), spans)

    def changed(self, state: AggregateState, after: int) -> Estimate:
        """Return what reading the changes since *after* costs: rows as captured, bytes of the files that hold them.

        These are the change files of a commit or, where it has none, the files that came and went; of many commits that were read
        a moment ago none is read again.
        """
        try:
            since = self._source.commits(after, state.cursor)
        except LogGapError:
            since = []
        came = [a for c in since for a in c.adds if a.data_change]
        read = [f.bytes for c in since for f in c.change_files or [f for f in (*c.adds, *c.removes) if f.data_change]]
        captured = state.changed_rows(after)
        rows = sum(a.rows or 0 for a in came) if captured is None else captured
        if len(read) >= MANY_FILES:
            from materializer.lake.capture.changed_rows import are_read

            if are_read(self._source.opened(), self.aggregate.source.path, since):
                return Estimate(rows, 0, 0, rows)
        return Estimate(rows, sum(read), len(read), rows)

    @property
    def merges(self) -> bool:
        """Whether the aggregates can be merged."""
        return not self.aggregate.definition.layout.not_mergeable

    def hull(self, version: int) -> Span | None:
        """Return where the source has rows at a version, or None when some file does not tell."""
        extent = self.raw(version)
        stored = SpanSet() if extent.hull is None else SpanSet.of(extent.hull)
        return None if extent.unknown.files else (stored | self.coming).hull

    def raw(self, version: int) -> Extent:
        """Return which files the source has at a version, and where in time their rows lie."""
        spec = self.aggregate.definition.spec
        start = NEG_INF if spec.sample is None else spec.sample.start
        return self._extent(self.aggregate.source.path, version, spec.time_column, start)

    def raw_of_keys(self, version: int, entries: Sequence[Entry]) -> Estimate:
        """Return the cost of reading the raw rows of the changed keys of some entries, without the stored groups.

        Each stored group is taken to have as many rows as any other.
        """
        from materializer.lake.extent import files

        definition, spans = self.aggregate.definition, SpanSet.union(e.span for e in entries)
        within = wanted(definition, [key for e in entries for key in e.keys or ()])
        path, column = self.aggregate.source.path, definition.spec.time_column
        found = estimate_of(files(path, version, column, definition.time_type, within), spans)
        if not all(e.span.is_bounded for e in entries):
            return found
        groups = sum(len(e.keys or ()) * definition.grid.count(e.span) for e in entries)
        stored = self.partials(self.head(Which.PARTIALS).version)
        buckets = (replace(f, end=definition.grid.cover(Span(f.start, f.end)).end) for f in stored.files)
        share = min(1.0, groups / max(replace(stored, files=tuple(buckets)).rows_in(spans), 1))
        return replace(found, likely_rows=min(found.likely_rows, round(share * self.raw(version).rows_in(spans))))

    def ends(self, version: int, column: str) -> Extent:
        """Return the same of the ends of events that last."""
        return self._extent(self.aggregate.source.path, version, column)

    def partials(self, version: int) -> Extent:
        """Return the same of the partials."""
        return self._extent(self.aggregate.paths["partials"], version, "slice")

    def _extent(self, path: str, version: int, column: str, start: int = NEG_INF) -> Extent:
        if (path, version, column) not in self._extents:
            from materializer.lake.extent import files

            found = files(path, version, column, self.aggregate.definition.time_type)
            self._extents[path, version, column] = found if start == NEG_INF else found.since(start)
        return self._extents[path, version, column]

    def _extent_end(self, extent: Extent) -> int:
        hull = extent.hull
        if extent.unknown.files:
            newest = self._engine().newest_time(self.aggregate.definition, self.aggregate.source, extent.version)
            hull = None if newest is None else Span(newest, newest + 1)
        if hull is None:
            return NEG_INF
        return self.aggregate.definition.grid.cover(hull).end

    def _followed_end(self, extent: Extent, end: int) -> int:
        """Return the end of the bucket of the newest row that retention follows; ``POS_INF`` where no row lies past the clock."""
        edge = self.clock_edge
        if end <= edge:
            return POS_INF
        newest = extent.newest_before(edge)
        if extent.unknown.files:
            newest = self._engine().newest_time(
                self.aggregate.definition, self.aggregate.source, extent.version, before=edge
            )
        return NEG_INF if newest is None else self.aggregate.definition.grid.cover(Span(newest, newest + 1)).end


def applied(state: AggregateState, event: Event) -> AggregateState:
    """Return *state* after an event that does not end the aggregate."""
    after = apply(state, state.id, event)
    if after is None:
        msg = f"{type(event).__name__} does not end an aggregate"
        raise ValueError(msg)
    return after


def estimate_of(extent: Extent, spans: SpanSet) -> Estimate:
    """Return what reading the rows of *spans* costs."""
    found = extent.estimate(spans)
    return Estimate(found.rows, found.bytes, found.files, found.likely_rows)
