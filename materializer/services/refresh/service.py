"""Refreshing: one request, done in runs, each a whole refresh of its own.

A no-op is found before anything is written: the journal and the source's newest version are enough to know that there is
nothing to do. Otherwise each run takes the lease, recovers what a dead process left, plans from the newest state and
ends; what is not done stays dirty, so a request can be stopped anywhere and asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from materializer.config import Config
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import (
    JournalConflictError,
    LeaseHeldError,
    LeaseLostError,
    MaterializerError,
    ResultTooLargeError,
    SourceDamagedError,
    SparkError,
)
from materializer.journal.events import Frozen, Lease
from materializer.journal.fold import AggregateState
from materializer.journal.journal import Journal
from materializer.lake.table import DeltaFolder
from materializer.services import processes
from materializer.services.aggregate import Bound
from materializer.services.commit.ports import Workbench
from materializer.services.delivery import handlers, output_feed, quarantine
from materializer.services.delivery.handlers import OutputHandler
from materializer.services.maintenance.maintain import MaintainReport, afterwards
from materializer.services.observe import frozen_bound, stored_extent
from materializer.services.observe.clock import followed_below
from materializer.services.observe.observe import Survey
from materializer.services.observe.source_deletes import Reader, left_to_owner
from materializer.services.planning import runs as planning
from materializer.services.planning.planner import RunNote, RunPlanner
from materializer.services.planning.runs import Request
from materializer.services.protocol import refresh_steps
from materializer.services.protocol.refresh_steps import At, Process
from materializer.spark.runtime.jvm import telling

if TYPE_CHECKING:
    from materializer.spark.run.spark import Engine

Checkpoint = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunDone:
    """One run of a request.

    Args:
        plan: What was decided.
        report: What it did.
        window: Its buckets.
        runs_left: How many runs are left about, 0 for the last.
        verdict: What its gate found, as JSON; empty without one.
    """

    plan: Plan
    report: RunReport
    window: Span
    runs_left: int = 0
    verdict: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh or backfill did.

    Args:
        name: The aggregate.
        outcome: ``refreshed``, ``up-to-date``, or ``empty-window`` when the window holds no whole bucket and something is
            dirty elsewhere.
        window: The whole buckets of the refresh window; None when an open end left nothing.
        source_version: Version of the source that the result reflects.
        runs: What was done, in order.
        recovered: Refreshes of dead processes that were ended first: (number, ``finished`` or ``aborted``).
        left: What is dirty after it, outside the window.
        null_times: Source rows left out because their time is null, when known.
        seconds: Wall time of everything.
        maintained: What was maintained afterwards, where the definition asks for it.
        warnings: What went wrong afterwards; the refresh itself is done.
        frozen: Below it nothing is computed from raw rows; ``NEG_INF`` when nothing is frozen.
        stuck: What is dirty below *frozen* and stays so.
        delete: Statement by which the owner of the source may delete the rows below *frozen*; "" where the bound did not
            move in this refresh, or the rows are not the owner's to delete.
        readers: Who else reads them and is not frozen there.
    """

    name: str
    outcome: str
    window: Span | None
    source_version: int
    runs: tuple[RunDone, ...] = ()
    recovered: tuple[tuple[int, str], ...] = ()
    left: SpanSet = field(default_factory=SpanSet)
    null_times: int | None = None
    seconds: float = 0.0
    maintained: tuple[MaintainReport, ...] = ()
    warnings: tuple[str, ...] = ()
    frozen: int = NEG_INF
    stuck: SpanSet = field(default_factory=SpanSet)
    delete: str = ""
    readers: tuple[Reader, ...] = ()


@dataclass(slots=True)
class Refresher:
    """Refreshes aggregates of one lake.

    Args:
        root: The lake's root folder.
        journal: Its journal.
        config: Settings.
        engine: Starts Spark on first use.
        on_checkpoint: Told the name of each step before it is done; tests stop, kill and interleave there.
        handlers: Output handlers by name.
    """

    root: Path
    journal: Journal
    config: Config
    engine: Callable[[], Engine]
    on_checkpoint: Checkpoint = lambda _: None
    handlers: Mapping[str, OutputHandler] = field(default_factory=dict)

    def refresh(
        self,
        name: str,
        request: Request,
        *,
        max_runs: int | None = None,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> RefreshReport:
        """Bring every whole bucket of the window to one source version, run by run.

        Args:
            name: The aggregate.
            request: Window and how to go about it.
            max_runs: Stop after so many runs; the rest stays dirty.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UsageError: If *max_runs* is less than 1.
            LeaseHeldError: If another live process works on it; nothing was written.
            MaterializerError: Whatever planning, computing or writing found.
        """
        planning.refuse_no_runs(max_runs)
        began = time.perf_counter()
        state = self.journal.view().named(name)
        was = state.frozen
        handler = None if state.builds else handlers.handler_of(state, self.handlers)
        idle = self._nothing_to_do(name, request)
        if idle is not None:
            self._deliver(name, handler)
            return replace(idle, seconds=time.perf_counter() - began)
        runs: list[RunDone] = []
        recovered: list[tuple[int, str]] = []
        note: RunNote | None = None
        asked: Request | None = request
        window: Span | None = None
        while asked is not None and (max_runs is None or len(runs) < max_runs):
            try:
                process = self._run(name, asked, on_plan)
            except MaterializerError as exc:
                other = _otherwise(asked, exc)
                if other is None:
                    if runs:
                        exc.follows(
                            "a run of it ended and stays"
                            if len(runs) == 1
                            else f"{len(runs)} runs of it ended and stay"
                        )
                    raise
                asked = other
                continue
            recovered += process.recovered
            note = process.note
            window = window or (note.window if note else None)
            if process.plan is None or process.report is None or note is None or note.run is None:
                break
            left = note.run.runs - 1 if note.run.rest else 0
            done = RunDone(process.plan, process.report, note.run.window, left, self._verdict(name, process.plan))
            runs.append(done)
            on_run(done)
            self._deliver(name, handler)
            asked = planning.following(asked, note.run)
        if not runs:
            self._deliver(name, handler)
        if runs:
            self._follow_newest(name, request.as_of)
        self.journal.tidy()
        state = self.journal.view().named(name)
        if self.bound(state).definition.spec.lateness != "recompute" and not state.builds:
            quarantine.follow(state, self.bound(state), self.engine)
        after = afterwards(self, state, [run.plan.n for run in runs])
        return RefreshReport(
            state.name,
            outcome_of(runs, window, dirty_below_newest(state)),
            window,
            runs[-1].plan.source_version if runs else state.cursor,
            tuple(runs),
            tuple(recovered),
            dirty_below_newest(state),
            state.null_times,
            time.perf_counter() - began,
            after.reports,
            after.warnings,
            state.frozen,
            stuck_spans(state),
            *self._let_go(state, was),
        )

    def _let_go(self, state: AggregateState, was: int) -> tuple[str, tuple[Reader, ...]]:
        """Return what the owner of the source may delete and who else needs it, when the frozen bound moved from *was*."""
        if state.builds or state.frozen <= was:
            return "", ()
        return left_to_owner(state, self.bound(state).definition, self.root, self.journal.view())

    def _follow_newest(self, name: str, as_of: int | None) -> None:
        """Let the frozen bound of an engine follow what a refresh has made true: Spark runs now, and a no-op needs none."""
        state, view = self.journal.view().named(name), self.journal.view()
        bound = self.bound(state)
        freezes = bound.definition.engine is not None and frozen_bound.may_freeze(state, view)
        if not freezes or not any(isinstance(e, Frozen) for e in frozen_bound.moved(state, bound.definition.grid)):
            return
        # whoever holds the lease now does it in turn
        with suppress(LeaseHeldError), self.writing(name):
            while True:
                view = self.journal.view()
                state = view.named(name)
                survey = self.survey(state, as_of)
                captured = survey.uncaptured(state)  # what went before the bound moves is a correction
                moves = survey.moves(survey.looked(state))
                try:
                    if moves:
                        self.journal.append(view.version, state.id, [*([captured] if captured else []), *moves])
                except JournalConflictError:
                    continue
                return

    def _verdict(self, name: str, plan: Plan) -> Mapping[str, Any]:
        """Return what the gate found of a run that is done; the journal has it, and is small."""
        state = self.journal.view().named(name)
        return next((e.verdict for e in reversed(state.ended) if e.n == plan.n), {})

    def _deliver(self, name: str, handler: OutputHandler | None) -> None:
        """Give the change feed and the output handler, where there are any, what they were not given yet."""
        output_feed.follow(self, name)
        if handler is not None:
            state = self.journal.view().named(name)
            handlers.deliver(handler, state, self.bound(state), self.engine, self.journal, self.on_checkpoint)

    def _nothing_to_do(self, name: str, request: Request) -> RefreshReport | None:
        """Return the report of a no-op, found by reading versions and file lists; None when there may be work."""
        view = self.journal.view()
        state = view.named(name)
        if state.plan is not None or request.is_forced:
            return None
        bound = self.bound(state)
        head = DeltaFolder.at(state.source.path).head()
        if head.version != state.cursor or head.table_id != state.source.table_id or state.extent_end == NEG_INF:
            return None
        if request.as_of is not None and request.as_of > (state.engine.get("as_of") or NEG_INF):
            return None
        looks_ahead = frozen_bound.counts_anew(state, followed_below(request.as_of, bound.definition.grid))
        if looks_ahead and self.survey(state, request.as_of).uncaptured(state) is not None:
            return None
        window = planning.whole_window(request, state, bound.definition.grid)
        if window is not None and state.plannable.cut(SpanSet.of(window) | state.log.retired).taken:
            return None
        freezes = bound.definition.engine is None and frozen_bound.may_freeze(state, view)
        if any(frozen_bound.moved(state, bound.definition.grid, freezes=freezes)):
            return None
        if stored_extent.outlived(bound, lambda: DeltaFolder.at(bound.paths["output"]).head().version, state.retired):
            return None
        left = dirty_below_newest(state)
        return RefreshReport(
            state.name,
            outcome_of((), window, left),
            window,
            state.cursor,
            left=left,
            null_times=state.null_times,
            frozen=state.frozen,
            stuck=stuck_spans(state),
        )

    def switch(self, name: str) -> Process:
        """Publish the build of an aggregate, or end a switch that was begun; see :mod:`materializer.services.protocol.switch_steps`."""
        output_feed.follow(self, name)
        process = self._run(name, Request(), lambda _plan, _note: None, switches=True)
        output_feed.follow(self, name)
        return process

    def _run(
        self, name: str, request: Request, on_plan: Callable[[Plan, RunNote], None], *, switches: bool = False
    ) -> Process:
        bench = self._bench(self.journal.view().named(name), request)
        process = Process(processes.new_lease(time.time(), self.config.lease_seconds), switches=switches)
        with self._working(process.lease, bench), ExitStack() as closing:
            while process.at is not At.END:
                self.on_checkpoint(process.at.value)
                before, bench = process, self._bound_now(process, bench, closing)
                process = refresh_steps.advance(process, bench)
                if before.at is At.PLAN and process.plan is not None:
                    on_plan(process.plan, process.note)
            self.on_checkpoint(At.END.value)
        return process

    def _bench(self, state: AggregateState, request: Request) -> Workbench:
        return Workbench(self.journal, self.bound(state), self.config, self.engine, request, self.on_checkpoint)

    def _bound_now(self, process: Process, bench: Workbench, closing: ExitStack) -> Workbench:
        """Return what the next step works with: something new when another version was published, by us or before us.

        Raises:
            LeaseLostError: If the request was cut to the buckets of the version before, or its time is of another type.
        """
        state = self.journal.view().all.get(bench.bound.aggregate_id)
        if process.at is At.LEASE or state is None or state.data_version == bench.bound.data_version:
            return bench
        asked = bench.planner.request
        found = self._bench(state, asked)
        closing.callback(found.close)
        if asked.inside is not None or not _is_same_time(found.bound, bench.bound):
            msg = f"another version of '{state.name}' was published while this process worked"
            raise LeaseLostError(msg, wrote="what was finished before is published, or was replaced")
        return found

    @contextmanager
    def _working(self, lease: Lease, bench: Workbench) -> Iterator[None]:
        """Renew the lease while the block works; give it back when the block fails."""
        stopped = threading.Event()

        def renew() -> None:
            while not stopped.wait(self.config.lease_seconds / 3):
                try:
                    bench.renew(lease)
                except MaterializerError:
                    return

        thread = threading.Thread(target=renew, name="materializer-lease", daemon=True)
        thread.start()
        try:
            with processes.at_work(lease), telling():
                yield
        except BaseException as exc:
            stopped.set()
            # what stopped the work is what is to be told; a lease that nobody works under is taken over, and one that
            # somebody else holds is left alone
            with suppress(MaterializerError):
                refresh_steps.release(Process(lease), bench)
                if isinstance(exc, SparkError) and (plan := bench.read()[1].plan) is not None:
                    exc.wrote = (
                        f"refresh {plan.n} has not ended: what it wrote is finished or undone by the next command"
                    )
            raise
        finally:
            stopped.set()
            bench.close()
            thread.join()

    @contextmanager
    def writing(self, name: str) -> Iterator[AggregateState]:
        """Hold the lease of an aggregate, recovered, while another command writes; see architecture section 6, step 0."""
        state = self.journal.view().named(name)
        with self.holding(state) as (process, bench):
            self.recovered(process, bench)
            yield self.journal.view().named(state.id)

    @contextmanager
    def holding(self, state: AggregateState) -> Iterator[tuple[Process, Workbench]]:
        """Hold the lease of an aggregate as it is, while a repair looks whether it can be recovered."""
        bench = self._bench(state, Request())
        process = Process(processes.new_lease(time.time(), self.config.lease_seconds), is_recovery_only=True)
        with self._working(process.lease, bench):
            self.on_checkpoint(process.at.value)
            yield refresh_steps.advance(process, bench), bench
            try:
                if state.id in self.journal.view().all:
                    refresh_steps.release(process, bench)
            except MaterializerError as exc:
                exc.wrote = "what it did before giving its lease back stays; the lease is still held"
                raise

    def recovered(self, process: Process, bench: Workbench) -> None:
        """End what a dead process left of an aggregate, under the lease."""
        with ExitStack() as closing:
            while process.at is not At.END:
                self.on_checkpoint(process.at.value)
                bench = self._bound_now(process, bench, closing)
                process = refresh_steps.advance(process, bench)

    def survey(self, state: AggregateState, as_of: int | None = None) -> Survey:
        """Return what there is of the aggregate of *state*; *as_of* is the clock, the wall clock where it is None."""
        return Survey(self.journal, self.bound(state), self.config, self.engine, as_of)

    def planner(self, state: AggregateState, request: Request) -> RunPlanner:
        """Return what plans a run, for who does not do it."""
        return RunPlanner(self.survey(state, request.as_of), request, self.config, self.engine)

    def bound(self, state: AggregateState) -> Bound:
        """Return the aggregate of *state*, compiled once a data version."""
        return Bound.of(state, self.root)


def _otherwise(asked: Request, exc: MaterializerError) -> Request | None:
    """Return a request that goes about it in another way than the one that failed, or None."""
    if isinstance(exc, SourceDamagedError) and asked.may_merge:
        return replace(asked, may_merge=False)
    if isinstance(exc, ResultTooLargeError) and asked.may_fetch:
        return replace(asked, may_fetch=False)
    return None


def _is_same_time(one: Bound, other: Bound) -> bool:
    specs = one.definition.spec, other.definition.spec
    return len({(spec.time_type, spec.resolution) for spec in specs}) == 1


def outcome_of(runs: Sequence[RunDone], window: Span | None, left: SpanSet) -> str:
    """Return what a refresh says of itself; that nothing was left to do only where something was looked at, or all is done."""
    return "refreshed" if runs else "up-to-date" if window is not None or not left else "empty-window"


def dirty_below_newest(state: AggregateState) -> SpanSet:
    """Return what is dirty below the newest row and a refresh can mend; the tail above it is not news."""
    top = max(state.extent_end, state.threshold)
    if top == NEG_INF:
        return SpanSet()
    return SpanSet.union(e.span for e in state.plannable.cut(SpanSet.of(Span(NEG_INF, top))).taken)


def stuck_spans(state: AggregateState) -> SpanSet:
    """Return what is dirty below the frozen bound and could only be computed from raw rows."""
    return SpanSet.union(e.span for e in state.stuck)
