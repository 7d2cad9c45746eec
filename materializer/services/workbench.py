"""What a refresh touches, for real: the journal, the source and the two tables of one aggregate.

:class:`Workbench` implements the protocol's ports. Small things go through the driver's lane (``deltalake``, no JVM);
Spark is started only when something has to be computed, and computes always.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, assert_never
from uuid import uuid4

import pyarrow as pa

from materializer.config import Config
from materializer.core.definition import Definition
from materializer.core.engines.changed import Work
from materializer.core.invalidation import Cause, Entry, InvalidationLog
from materializer.core.plan import (
    MAX_SPANS,
    Estimate,
    Facts,
    Lane,
    Merge,
    Plan,
    Recompute,
    RunReport,
    Settle,
    TableBase,
    decide,
    reason_of,
)
from materializer.core.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import (
    DataError,
    JournalConflictError,
    MaterializerError,
    NotADeltaTableError,
    NotIncrementalError,
    SourceDamagedError,
    SourceReplacedError,
    SourceRolledBackError,
    TableNotFoundError,
    TablesAheadError,
    WriteFencedError,
)
from materializer.journal.events import (
    Aborted,
    Captured,
    Done,
    Event,
    Frozen,
    Invalidated,
    Lease,
    LeaseRenewed,
    Planned,
    Retired,
)
from materializer.journal.fold import AggregateState, apply
from materializer.journal.journal import Journal
from materializer.lake.commit import fence
from materializer.lake.extent import Extent, files
from materializer.lake.log import LogGapError, commits, find_notes, latest_version
from materializer.lake.replace import replace_spans
from materializer.lake.table import DeltaFolder
from materializer.services import cascade, change_feed, guard, held, planning, processes, retention
from materializer.services.capture import Capture
from materializer.services.engine_planning import EnginePlanner
from materializer.services.gate import Gate, has_gate
from materializer.services.planning import Request, Run
from materializer.services.protocol import Audit, CommitsGoneError, Decision, TableHead, Which
from materializer.services.switch_tables import SwitchTables

if TYPE_CHECKING:
    from materializer.services.definitions import Bound
    from materializer.spark.engine import Computed, Engine


SAFETY: Final = 1.2
"""How much larger a result may be than earlier ones let expect."""
ROOM: Final = 0.95
"""Share of the driver's lane that a run is sized for; it ends at a bucket's edge, a little later."""
MAX_SHRINK: Final = 8
"""Runs are made smaller for the driver's lane by this factor at most."""
RECENT: Final = 10
WHOLE: Final = 1 << 62
"""An engine's window is one run unless it is cut by hand: results reach beyond what a run would hold."""
ENOUGH_ROWS: Final = 1_000
"""Recomputes of fewer rows say little about the next one."""


@dataclass(slots=True)
class Counters:
    """Deterministic costs of one run."""

    commits: int = 0
    files_rewritten: int = 0
    started: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class RunNote:
    """What planning tells the caller: the run, what remains, and why there is nothing to do.

    Args:
        run: The run that was planned; None when nothing is dirty.
        window: The whole refresh window; None when an open end leaves nothing.
        dirty: Dirty spans inside the window before this run.
        source_version: The version that was looked at.
        captured: Whether new source versions were captured.
        state: The aggregate after what was captured, before the plan.
    """

    run: Run | None
    window: Span | None
    dirty: SpanSet
    source_version: int
    captured: Captured | None
    state: AggregateState


class Workbench(SwitchTables):
    """The protocol's ports over real Delta tables.

    Args:
        journal: The lake's journal.
        bound: The aggregate's definition, compiled for use.
        config: Settings.
        engine: Starts Spark on first use and returns the engine.
        request: What was asked.
        on_checkpoint: Told the names of the points between commits that the protocol's steps do not name.
    """

    def __init__(
        self,
        journal: Journal,
        bound: Bound,
        config: Config,
        engine: Callable[[], Engine],
        request: Request,
        on_checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        if bound.definition.engine is not None and bound.definition.engine.end:
            # results of events that last reach beyond any end: above it nobody would tell a later refresh of them
            request = replace(request, end=None)
        self.request = request
        self.counters = Counters()
        self._journal = journal
        self.bound = bound
        self._config = config
        self._engine = engine
        self._checkpoint = on_checkpoint
        self._capture = Capture(bound, config, engine)
        self._source = DeltaFolder.at(bound.source.path)
        self._tables = {which: DeltaFolder.at(bound.paths[which.value]) for which in Which}
        self._extents: dict[tuple[str, int], Extent] = {}
        self._captured: dict[tuple[int, int], Captured | None] = {}
        self._computed: Computed | None = None
        self._work: Work | None = None
        self._engine_planner = EnginePlanner(bound, engine, request) if bound.definition.engine else None
        self._lock = threading.Lock()

    # -- journal ---------------------------------------------------------------------------------------------------------

    def read(self) -> tuple[int, AggregateState]:
        """See :class:`Ports`."""
        view = self._journal.view()
        return view.version, view.living(self.bound.aggregate_id, self.bound.name)

    def append(self, version: int, events: Sequence[Event]) -> None:
        """See :class:`Ports`."""
        if events:
            self._journal.append(version, self.bound.aggregate_id, events)
            self.counters.commits += 1

    def is_dead(self, lease: Lease) -> bool:
        """See :class:`Ports`."""
        return processes.is_dead(lease, time.time())

    def renew(self, lease: Lease, *, jvm: tuple[int, int] = (0, 0)) -> None:
        """Say that the holder still works; a lost race with another commit is tried again."""
        for _ in range(20):
            version, state = self.read()
            if state.lease is None or state.lease.owner != lease.owner:
                return
            event = LeaseRenewed(lease.owner, time.time() + self._config.lease_seconds, *jvm)
            try:
                self.append(version, [event])
            except JournalConflictError:
                continue
            return

    # -- tables ----------------------------------------------------------------------------------------------------------

    def head(self, which: Which) -> TableHead:
        """See :class:`Ports`."""
        table = self._tables[which]
        try:
            head = table.head()
        except (TableNotFoundError, NotADeltaTableError, SourceDamagedError) as exc:
            exc.hint = f"it is the {which} table of '{self.bound.name}': {self.bound.mend}"
            raise
        return TableHead(head.table_id, head.version, table.transaction_version(self.bound.app_ids[which.value]) or 0)

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """See :class:`Ports`."""
        base = plan.partials if which is Which.PARTIALS else plan.output
        try:
            notes = find_notes(self.bound.paths[which.value], base.version)
        except LogGapError as exc:
            raise CommitsGoneError(str(exc)) from exc
        written = [note for note in notes if note.kind in ("data", "switch")]
        if stranger := next((n for n in written if n.plan_id != plan.id and n.n <= plan.n), None):
            # earlier plans were ended and fenced before this one was made: only another journal gives its numbers again
            raise TablesAheadError(
                f"the {which} table of '{self.bound.name}' carries refresh {stranger.n} of a journal that is not this one",
                hint=self.bound.mend,
                wrote=f"refresh {plan.n} may be in the tables; the repair counts it as never written",
            )
        return any(note.plan_id == plan.id for note in written)

    def fence(self, which: Which, plan: Plan) -> None:
        """See :class:`Ports`."""
        if self.head(which).n >= plan.n:
            return
        note = self._note(plan, "fence")
        fence(self.bound.paths[which.value], self.bound.app_ids[which.value], plan.n, note)
        self.counters.commits += 1

    def write(self, plan: Plan, result: Computed, which: frozenset[Which]) -> None:
        """See :class:`Ports`."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            futures = [pool.submit(self._write_one, plan, result, one) for one in sorted(which)]
        failures = [f.exception() for f in futures if f.exception()]
        for failure in failures:
            if not isinstance(failure, MaterializerError):
                raise failure  # type: ignore[misc]  # the list holds no None
        for failure in failures:
            if isinstance(failure, MaterializerError) and not isinstance(failure, WriteFencedError):
                raise failure

    def _write_one(self, plan: Plan, result: Computed, which: Which) -> None:
        self._checkpoint(f"writing_{which}")
        if self.head(which).n < plan.n:
            table = result.partials if which is Which.PARTIALS else result.output
            spans = plan.replaced if result.spans is None else result.spans
            if which is Which.PARTIALS and self._engine_planner is not None:
                spans -= plan.discarded
            self._commit(plan, table, which, spans, result.rows)
        self._checkpoint(f"wrote_{which}")

    def _commit(self, plan: Plan, rows: Any, which: Which, spans: SpanSet, count: int) -> None:
        bound, note = self.bound, self._note(plan, "data")
        if which is Which.OUTPUT:
            note |= change_feed.note_of(bound, plan)
        path, app_id = bound.paths[which.value], bound.app_ids[which.value]
        column, is_end = bound.slice_column(which.value)
        if isinstance(rows, pa.Table):
            result = replace_spans(
                path,
                rows,
                column,
                bound.definition.time_type,
                spans,
                app_id,
                plan.n,
                note,
                is_end=is_end,
                order=bound.order(which.value),
            )
            removed = result.files_removed
        else:
            predicate, before = bound.predicate(which.value, spans), latest_version(path)
            self._engine().commit(
                rows,
                path,
                predicate=predicate,
                order=bound.order(which.value),
                rows=count,
                app_id=app_id,
                n=plan.n,
                note=note,
            )
            made = [c for c in commits(path, before, latest_version(path)) if c.transactions.get(app_id) == plan.n]
            removed = sum(len(c.removes) for c in made)
        with self._lock:
            self.counters.commits += 1
            self.counters.files_rewritten += removed

    def publish(self, plan: Plan, held: SpanSet) -> None:
        """See :class:`Ports`."""
        spans = plan.spans - held if held else plan.replaced
        version = self._tables[Which.PARTIALS].head().version
        rows = self._kept(version).estimate(spans).rows
        in_driver = plan.lane is Lane.DRIVER or rows <= self._config.driver_lane_rows
        output = self._engine().finalise_committed(
            self._published(), self.bound.paths["partials"], version, spans, fetch=in_driver
        )
        self._commit(plan, output, Which.OUTPUT, spans, rows)

    def _published(self) -> Definition:
        """Return the definition with what the output keeps now; a build that is being made is not in the journal yet."""
        state = self._journal.view().all.get(self.bound.aggregate_id)
        return self.bound.published_from(self.bound.kept_from if state is None else state.retired)

    def _note(self, plan: Plan, kind: str) -> dict[str, Any]:
        return {"plan": plan.id, "n": plan.n, "kind": kind, "source_version": plan.source_version}

    # -- planning --------------------------------------------------------------------------------------------------------

    def decide(self, state: AggregateState, heads: dict[Which, TableHead]) -> Decision:
        """See :class:`Ports`."""
        captured = self._look(state)
        events: list[Event] = [captured] if captured else []
        state = _applied(state, captured) if captured else state
        # an engine's kept results tell where it can be cut: they are read once the refresh is done
        for move in self.moves(state, freezes=self._engine_planner is None):
            events.append(move)
            state = _applied(state, move)
        window = planning.whole_window(self.request, state, self.bound.definition.grid)
        if window is None:
            return Decision(tuple(events), note=RunNote(None, None, SpanSet(), state.cursor, captured, state))
        told = state.log.spans
        if self.request.is_forced:
            wanted = retention.computable(window, state, self.bound.definition.grid)
            event = Invalidated((planning.forced(wanted),), "forced")
            events.append(event)
            state = _applied(state, event)
        dirty = self._dirt(state, SpanSet.of(window) | state.log.retired).entries
        has_clock_moved = self._engine_planner is not None and self._engine_planner.has_clock_moved(state)
        outlived = held.outlived(self.bound, lambda: heads[Which.OUTPUT].version, state.retired)
        if not dirty and not has_clock_moved and not outlived:
            return Decision(tuple(events), note=RunNote(None, window, SpanSet(), state.cursor, captured, state))
        return self._plan(state, heads, window, dirty, events, captured, told, outlived)

    def _plan(
        self,
        state: AggregateState,
        heads: dict[Which, TableHead],
        window: Span,
        dirty: tuple[Entry, ...],
        events: list[Event],
        captured: Captured | None,
        told: SpanSet,
        outlived: SpanSet,
    ) -> Decision:
        raw, kept = self._raw(state.cursor), self._kept(heads[Which.PARTIALS].version)
        facts = self._facts(state, raw, kept, self._stale(dirty, heads))
        dirt = self._dirt(state, SpanSet.of(window))
        dirty_spans = SpanSet.union(e.span for e in dirty)
        run = planning.first_run(
            replace(self.request, run_rows=self._run_rows(state) if self._engine_planner is None else WHOLE),
            window,
            dirt,
            self.bound.definition.grid,
            present=facts.present(dirty_spans),
            rows_in=raw.rows_in,
        )
        taken = self._dirt(state, SpanSet.of(run.window)).entries
        if len(taken) < MAX_SPANS or not any(e.cause is Cause.REPAIRED for e in state.stuck):
            # else one commit would replace what lies between, and only the output knows what that is; they wait for the next
            taken = self._dirt(state, SpanSet.of(run.window) | state.log.retired).entries
        memory: dict[str, Any] = {}
        if self._engine_planner is None:
            steps = decide(taken, facts)
        else:
            made = self._engine_planner.run(
                state,
                run.window,
                taken,
                heads[Which.PARTIALS].version,
                facts.raw,
                lambda s: self._dirt(state, s).entries,
                told,
            )
            taken, steps, self._work, memory = made.taken, made.steps, made.work, {"engine": asdict(made.work.at)}
            if conflicts := made.conflicts - SpanSet.union(e.span for e in state.stuck):
                entries = tuple(Entry(span, None, Cause.CONFLICT) for span in conflicts)
                events.append(Invalidated(entries, "rows above the frozen bound belong to results that begin below it"))
            replaced = SpanSet.union(s for step in steps if isinstance(step, Recompute) for s in step.spans)
            if outlived := outlived - replaced:
                steps = (*steps, Recompute(outlived, reason_of(Cause.RETIRED), is_discard=True))
        self._refuse_if_strict(steps)
        plan = Plan(
            uuid4().hex,
            1 + max(state.last_n, *(h.n for h in heads.values())),
            state.cursor,
            run.window,
            taken,
            steps,
            Lane.DRIVER,
            TableBase(heads[Which.PARTIALS].table_id, heads[Which.PARTIALS].version),
            TableBase(heads[Which.OUTPUT].table_id, heads[Which.OUTPUT].version),
        )
        plan = replace(plan, lane=self._lane(state, plan, raw, kept))
        options = {"forced": self.request.is_forced, **self.request.options, **memory}
        events.append(Planned(plan, run.window.end, options))
        if all(isinstance(s, Settle) for s in steps):
            seconds = time.perf_counter() - self.counters.started
            events.append(
                Done(plan.n, RunReport(state.cursor, "settle", commits=self.counters.commits + 1, seconds=seconds))
            )
        note = RunNote(run, window, dirty_spans, state.cursor, captured, state)
        return Decision(tuple(events), plan, note)

    def _dirt(self, state: AggregateState, window: SpanSet) -> InvalidationLog:
        """Return what a run may take inside some spans; below the frozen bound only what merges, and that it may."""
        below, above = state.plannable.split(state.frozen)
        merges = self.request.may_merge
        frozen = [e for e in below.cut(window).taken if merges or e.cause is Cause.RETIRED]
        return InvalidationLog((*frozen, *above.cut(window).taken))

    def moves(self, state: AggregateState, *, freezes: bool = True) -> list[Frozen | Retired]:
        """Return how the frozen bound, if asked for, and the retired bound follow the newest row of *state*."""
        freezes = freezes and retention.may_freeze(state, self._journal.view())

        def present(spans: SpanSet) -> SpanSet:
            return self.present(state, spans)

        def cut(bound: int) -> int:
            return self.cut(state, bound)

        return list(retention.moved(state, self.bound.definition.grid, present, freezes=freezes, cut=cut))

    def cut(self, state: AggregateState, bound: int) -> int:
        """Return the last edge up to *bound* at which history can be cut now.

        A continuous aggregate can be cut anywhere. An engine can where no result that begins below may still change.
        """
        definition = self.bound.definition
        if definition.engine is None:
            return bound
        edge = retention.cut_edge(definition, bound)
        if edge <= state.frozen:
            return edge
        first = self.unsettled(state, edge)
        return edge if first is None else retention.cut_edge(definition, definition.grid.edge_at(first))

    def unsettled(self, state: AggregateState, bound: int) -> int | None:
        """Return where an engine's first result begins, of those that begin below *bound*, that is open or reaches dirt above.

        What is frozen already counts for nothing.
        """
        if self.bound.definition.engine is None or bound == NEG_INF:
            return None
        above = state.log.cut(SpanSet.of(Span(bound, max(bound + 1, state.extent_end)))).taken
        dirty = min((e.span.start for e in above), default=POS_INF)
        path, version = self.bound.paths["partials"], self.head(Which.PARTIALS).version
        inside = Span(state.frozen, bound)
        return self._engine().windows.unsettled(self.bound.definition, path, version, inside, dirty)

    def without_old(self, state: AggregateState) -> AggregateState:
        """Return *state* as if the next refresh had told what the output no longer keeps; writes nothing."""
        for move in retention.moved(state, self.bound.definition.grid, freezes=False):
            state = _applied(state, move)
        return state

    def _look(self, state: AggregateState) -> Captured | None:
        """Return what the source did since the cursor, or None when it is known already; remembered between attempts."""
        head = self._source.head()
        self.check_source(state, head.table_id, head.version)
        if head.version == state.cursor and state.extent_end != NEG_INF:
            return None
        key = (state.cursor, head.version)
        if key not in self._captured:
            self._captured[key] = self._fresh_look(state, head.version)
        return self._captured[key]

    def _fresh_look(self, state: AggregateState, version: int) -> Captured | None:
        extent = self._raw(version)
        end = self._extent_end(extent)
        if version > state.cursor:
            captured = self._capture.upto(state, version)
            return replace(captured, extent_end=end, null_times=extent.null_times)
        return None if end == NEG_INF else Captured(version, (), end, (), extent.null_times)

    def looked(self, state: AggregateState) -> AggregateState:
        """Return *state* as if what the source did since the cursor had been captured; writes nothing."""
        captured = self._look(state)
        return _applied(state, captured) if captured else state

    def uncaptured(self, state: AggregateState) -> Captured | None:
        """Return what the source did since the cursor, or None when it did nothing; writes nothing."""
        return self._look(state)

    def given_back(self, state: AggregateState) -> AggregateState:
        """Return *state* as if its unfinished refresh had been aborted; writes nothing."""
        return state if state.plan is None else _applied(state, Aborted(state.plan.n, "preview"))

    def whole_plan(self, state: AggregateState, heads: dict[Which, TableHead], window: Span) -> Plan:
        """Return a plan for everything dirty in a window, in one run that nobody writes."""
        newest = max(state.extent_end, state.threshold)
        below = SpanSet() if newest == NEG_INF else SpanSet.of(Span(NEG_INF, newest))
        taken = self._dirt(state, SpanSet.of(window) & below).entries
        kept = self._kept(heads[Which.PARTIALS].version)
        facts = self._facts(state, self._raw(state.cursor), kept, self._stale(taken, heads))
        partials, output = (TableBase(heads[w].table_id, heads[w].version) for w in (Which.PARTIALS, Which.OUTPUT))
        if self._engine_planner is None or not taken:
            steps = decide(taken, facts)
        else:
            made = self._engine_planner.run(
                state, window, taken, partials.version, facts.raw, lambda s: self._dirt(state, s).entries
            )
            taken, steps, self._work = made.taken, made.steps, made.work
        return Plan("", 0, state.cursor, window, taken, steps, Lane.SPARK, partials, output)

    @property
    def work(self) -> Work | None:
        """What an engine computes by the plan that was made last."""
        return self._work

    @property
    def merges(self) -> bool:
        """Whether the aggregates can be merged."""
        return not self.bound.definition.layout.not_mergeable

    def present(self, state: AggregateState, spans: SpanSet) -> SpanSet:
        """Return the part of *spans* in which the source, at the cursor, or our tables may have rows.

        A result of an engine is in the slice in which it begins, and may hold rows of all later ones.
        """
        heads = {which: self.head(which) for which in Which}
        raw, kept = self._raw(state.cursor), self._kept(heads[Which.PARTIALS].version)
        if self._engine_planner is not None:
            first = NEG_INF
            if not raw.unknown.files and not kept.unknown.files:
                first = min((e.hull.start for e in (raw, kept) if e.hull is not None), default=POS_INF)
            return spans & SpanSet.of(Span(first, POS_INF)) if first < POS_INF else SpanSet()
        return self._facts(state, raw, kept, self._stale(state.log.entries, heads)).present(spans)

    def source_estimate(self, state: AggregateState, spans: SpanSet) -> Estimate:
        """Return which files of the source may hold rows of *spans*, at the cursor."""
        return _estimate(self._raw(state.cursor), spans)

    def kept_estimate(self, spans: SpanSet) -> Estimate:
        """Return which files of the partials may hold rows of *spans*."""
        return _estimate(self._kept(self.head(Which.PARTIALS).version), spans)

    def hull(self, version: int) -> Span | None:
        """Return where the source has rows at a version, or None when some file does not tell."""
        extent = self._raw(version)
        return None if extent.unknown.files else extent.hull

    def close(self) -> None:
        """Give back what the last computation holds in memory."""
        if self._computed is not None:
            self._engine().free(self._computed)
            self._computed = None

    def check_source(self, state: AggregateState, table_id: str, version: int) -> None:
        """Refuse a source that is not the one the aggregate was defined on.

        Raises:
            SourceReplacedError: If it was dropped and recreated.
            SourceRolledBackError: If its newest version lies before the cursor.
        """
        if table_id != state.source.table_id:
            mend = f"apply the definition of '{state.name}' again to build it from the new table, or drop it"
            if cascade.parent_of(state.source.path, self._journal.root, self._journal.view().states):
                mend = f"run 'materializer repair {state.name}': the aggregate that it reads was repaired"
            raise SourceReplacedError(
                f"the source of '{state.name}' at {state.source.path} was dropped and recreated",
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

    def _extent_end(self, extent: Extent) -> int:
        hull = extent.hull
        if extent.unknown.files:
            newest = self._engine().newest_time(self.bound.definition, self.bound.source, extent.version)
            hull = None if newest is None else Span(newest, newest + 1)
        if hull is None:
            return NEG_INF
        return self.bound.definition.grid.cover(hull).end

    def _stale(self, dirty: Sequence[Entry], heads: dict[Which, TableHead]) -> SpanSet:
        """Return where the output has rows that the partials may not have: after a repair, or as a canary found."""
        is_doubtful = any(e.cause in (Cause.DIFFERED, Cause.REPAIRED, Cause.RETIRED) for e in dirty)
        return held.published(self.bound, heads[Which.OUTPUT].version) if is_doubtful else SpanSet()

    def _facts(self, state: AggregateState, raw: Extent, kept: Extent, stale: SpanSet) -> Facts:
        grid = self.bound.definition.grid

        def present(spans: SpanSet) -> SpanSet:
            found = raw.present(spans) | kept.present(spans) | (stale & spans)
            return grid.cover_set(found) & spans

        return Facts(
            raw=lambda spans: _estimate(raw, spans),
            changed=lambda after, _: self._changed(state, after),
            kept=lambda spans: _estimate(kept, spans),
            present=present,
            feed_from=0 if self.request.may_merge else None,
            not_mergeable=self.bound.definition.layout.not_mergeable,
            is_first=state.threshold == NEG_INF,
            no_feed_reason="the change feed could not be read a moment ago",
            frozen=state.frozen,
        )

    def _changed(self, state: AggregateState, after: int) -> Estimate:
        """Return what reading the changes since *after* costs: rows as captured, bytes of the files that came."""
        try:
            adds = [a for c in commits(self.bound.source.path, after, state.cursor) for a in c.adds if a.data_change]
        except LogGapError:
            adds = []
        rows = state.changed_rows(after)
        changed = sum(a.rows or 0 for a in adds) if rows is None else rows
        return Estimate(changed, sum(a.bytes for a in adds), len(adds), changed)

    def _run_rows(self, state: AggregateState) -> int:
        """Return the source rows of a run: as configured, or fewer when that lets the driver commit the result."""
        rows, most = self.request.run_rows, self._config.driver_lane_rows
        ratio = _groups_per_row(state)
        small = round(ROOM * most / (ratio * SAFETY)) if ratio else most // 2
        return min(rows, small) if small * MAX_SHRINK >= rows and self.request.may_fetch else rows

    def _lane(self, state: AggregateState, plan: Plan, raw: Extent, kept: Extent) -> Lane:
        """Let the driver commit what is small: groups are at most raw rows, or kept groups plus changed rows.

        Where that bound is too coarse, earlier refreshes tell how many groups a row makes.
        """
        ratio = _groups_per_row(state)
        bound = _likely(kept, plan.replaced - plan.spans)
        for step in plan.steps:
            match step:
                case Recompute(spans=spans, estimate=estimate, changed_rows=changed):
                    groups = float(estimate.rows) if changed is None else _likely(kept, spans) + changed
                    if ratio:
                        groups = min(groups, raw.rows_in(spans) * ratio * SAFETY)
                    bound += min(estimate.rows, groups)
                case Merge(spans=spans, after=after):
                    bound += _likely(kept, spans) + (state.changed_rows(after) or 0)
                case Settle():
                    continue
                case _:
                    assert_never(step)
        is_small = bound <= self._config.driver_lane_rows and self.request.may_fetch
        return Lane.DRIVER if is_small else Lane.SPARK

    def _refuse_if_strict(self, steps: Sequence[Any]) -> None:
        if not self.request.is_strict:
            return
        for step in steps:
            if isinstance(step, Recompute) and step.is_rebuild:
                raise NotIncrementalError(
                    f"the plan for '{self.bound.name}' is a rebuild: {step.reason}",
                    hint="run it without --strict, or backfill first",
                )

    def _raw(self, version: int) -> Extent:
        spec = self.bound.definition.spec
        return self._extent(self.bound.source.path, version, spec.time_column)

    def _kept(self, version: int) -> Extent:
        return self._extent(self.bound.paths["partials"], version, "slice")

    def _extent(self, path: str, version: int, column: str) -> Extent:
        if (path, version) not in self._extents:
            self._extents[path, version] = files(path, version, column, self.bound.definition.time_type)
        return self._extents[path, version]

    # -- computing -------------------------------------------------------------------------------------------------------

    def compute(self, plan: Plan) -> Computed:
        """See :class:`Ports`."""
        engine = self._engine()
        if plan.lane is Lane.SPARK:
            _, state = self.read()
            pid = engine.jvm_pid()
            if state.lease is not None and pid:
                self.renew(state.lease, jvm=(pid, processes.started(pid)))
        paths, definition = self.bound.paths, self._published()
        hull = self.hull(plan.source_version)
        try:
            self._computed = engine.compute(
                definition, self.bound.source, paths["partials"], plan, hull=hull, work=self._work
            )
        except DataError as exc:
            where = planning.spans_text(definition.grid, plan.spans)
            raise DataError(f"{exc.message} (buckets {where})", hint=exc.hint, wrote=exc.wrote, **exc.values) from exc
        if not self.request.accepts_fewer_rows:
            guard.check(self.bound, engine, plan, self._computed, is_build=bool(self.read()[1].builds))
        return self._computed

    def audit(self, plan: Plan, result: Computed) -> Audit | None:
        """See :class:`Ports`."""
        if not has_gate(self.bound.definition.spec, plan.n):
            return None
        _, state = self.read()
        planner = self._engine_planner
        again = None if planner is None else lambda plan, spans: planner.again(state, plan, spans)
        gate = Gate(self.bound, state, self._engine, self.hull, self.request.publish_anyway, again)
        return gate(plan, result)

    def report(self, plan: Plan, result: Computed | None) -> RunReport:
        """See :class:`Ports`."""
        seconds = round(time.perf_counter() - self.counters.started, 3)
        extra = {"fewer_rows": "accepted"} if self.request.accepts_fewer_rows else {}
        base = RunReport(plan.source_version, plan.strategy, plan.lane.value, seconds=seconds, extra=extra)
        if result is None:
            return replace(base, commits=self.counters.commits + 1)
        return replace(
            base,
            buckets=result.buckets,
            rows_read=result.rows_read,
            partials_written=result.rows,
            rows_written=result.output_rows,
            jobs=self._engine().jobs_of(result),
            commits=self.counters.commits + 1,
            files_rewritten=self.counters.files_rewritten,
        )


def _likely(kept: Extent, spans: SpanSet) -> float:
    """Return how many kept groups lie in *spans*: as the files' times tell, generously, and never more than they hold."""
    estimate = kept.estimate(spans)
    return min(estimate.rows, 2.0 * estimate.likely_rows + ENOUGH_ROWS)


def _groups_per_row(state: AggregateState) -> float | None:
    """Return the most groups that a source row made in recent recomputes, None when there were none."""
    since = max((i + 1 for i, e in enumerate(state.ended) if e.outcome == "switched"), default=0)
    ended = state.ended[since:][-RECENT:]
    reports = [e.report for e in ended if e.outcome == "done" and "merge" not in e.report.strategy]
    return max((r.partials_written / r.rows_read for r in reports if r.rows_read >= ENOUGH_ROWS), default=None)


def _applied(state: AggregateState, event: Event) -> AggregateState:
    after = apply(state, state.id, event)
    if after is None:
        msg = f"{type(event).__name__} does not end an aggregate"
        raise ValueError(msg)
    return after


def _estimate(extent: Extent, spans: SpanSet) -> Estimate:
    found = extent.estimate(spans)
    return Estimate(found.rows, found.bytes, found.files, found.likely_rows)
