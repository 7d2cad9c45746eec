"""Refreshing: a request is done in runs, and each run is a complete refresh.

A request without work is recognised from the journal and the source's newest version, without a lease or a write. Otherwise
each run takes the lease, recovers what a dead process left, plans from the newest state and ends. Buckets that were not
refreshed stay dirty, so a request can be stopped anywhere and repeated.
"""

# ruff: noqa: PLC0415 - a request without work writes nothing, and needs nothing that writes

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.refresh.output_feed import is_on
from materializer.errors import (
    DataError,
    LeaseHeldError,
    MaterializerError,
    NotLocalError,
    OutputHandlerError,
    ResultTooLargeError,
    SourceDamagedError,
)
from materializer.journal.events import Event, Frozen
from materializer.lake import opened_before
from materializer.lake.table import DeltaFolder, TableHead, one_look
from materializer.local.kinds import BUG
from materializer.services.activity import ActivityKind, Phase, activity, tell_phase
from materializer.services.aggregate import Aggregate
from materializer.services.definitions import rolled_up
from materializer.services.delivery import handlers, registration
from materializer.services.observe import frozen_bound
from materializer.services.observe.dirty import dirty_below_newest, stuck_spans
from materializer.services.observe.own_tables import are_left
from materializer.services.planning import runs as planning
from materializer.services.planning.options import RefreshOptions
from materializer.services.planning.runs import Request
from materializer.services.refresh.reports import RefreshReport, RunDone, outcome_of

if TYPE_CHECKING:
    from materializer.core.refresh.plan import Plan
    from materializer.core.time.spans import Span
    from materializer.journal.state import AggregateState
    from materializer.journal.view import View
    from materializer.services.commit.lake import Lake, OutputHandler
    from materializer.services.definitions.waiting import WaitingVersion
    from materializer.services.maintenance.maintain import MaintainReport
    from materializer.services.observe.source_deletes import OtherReader
    from materializer.services.protocol.decision import RunNote
    from materializer.services.protocol.process import Process

Checkpoint = Callable[[str], None]


class Refresher(Struct):
    """Refreshes aggregates of one lake."""

    lake: Lake

    def refresh(
        self,
        name: str,
        options: RefreshOptions,
        *,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> RefreshReport:
        """Refresh every whole bucket of the window, run by run; each run reflects one source version.

        Args:
            name: The aggregate.
            options: The window, and how to refresh it.
            on_plan: Called with each plan before it is carried out.
            on_run: Called with each run when it is done.

        Raises:
            LeaseHeldError: If another live process works on it; nothing was written.
            MaterializerError: If planning, computing or writing fails.
        """
        began = time.perf_counter()
        tell_phase(Phase.READING)
        with one_look():
            state = self._followed(self.lake.journal.view().named(name))
        policy = options.plan_note.get("policy", {})
        with (
            activity(
                self.lake.listeners,
                ActivityKind.BUILD if state.builds else options.activity,
                state,
                self.lake.root,
                start=options.start,
                end=options.end,
                policy=policy.get("name", ""),
                now=lambda: self.lake.journal.last_view.all.get(state.id),
            ) as telling,
            self.lake.reading(state),
        ):

            def ran(run: RunDone) -> None:
                on_run(run)
                telling.ran(run.plan, run.report, run.verdict, is_last=not run.runs_left)

            report = self._refreshed(name, state, options, on_plan, ran, began)
            opened_before.note(state.source.path)
            now = self.lake.journal.last_view.all.get(state.id, state)
            warnings = telling.completed(now, report.outcome, window=report.window)
        waiting = _waiting(self.lake.journal.last_view, now)
        return (
            replace(report, warnings=(*report.warnings, *warnings), waiting=waiting) if warnings or waiting else report
        )

    def _refreshed(
        self,
        name: str,
        state: AggregateState,
        options: RefreshOptions,
        on_plan: Callable[[Plan, RunNote], None],
        on_run: Callable[[RunDone], None],
        began: float,
    ) -> RefreshReport:
        with one_look():
            opened_before.expect(state.source.path, TableHead(state.cursor, state.source.table_id))
            state, first = self._over_wider_columns(state, options)
            was = state.frozen
            handler = None if state.builds else handlers.handler_of(state, self.lake.handlers)
            idle = self._nothing_to_do(state, Request(options))
        if idle is not None:
            self._deliver(state, handler)
            problem = registration.why_not(self.lake.journal.last_view.named(name))
            idle = replace(idle, warnings=(problem,) if problem else (), seconds=time.perf_counter() - began)
            return first.before(idle)
        ended: list[Process] = []
        try:
            return first.before(self._in_runs(name, state, options, handler, on_plan, on_run, ended, was, began))
        except MaterializerError as exc:
            _tell_way_back(exc, state, self.lake.root)
            if ended and not isinstance(exc, OutputHandlerError):  # which says so itself
                one = len(ended) == 1
                exc.follows("a run of it ended and stays" if one else f"{len(ended)} runs of it ended and stay")
            raise

    def _in_runs(
        self,
        name: str,
        state: AggregateState,
        options: RefreshOptions,
        handler: OutputHandler | None,
        on_plan: Callable[[Plan, RunNote], None],
        on_run: Callable[[RunDone], None],
        ended: list[Process],
        was: int,
        began: float,
    ) -> RefreshReport:
        """Do the runs, each of which is added to *ended* when it is published, and what follows the last one."""
        from materializer.services.commit.lease import run

        runs: list[RunDone] = []
        recovered: list[tuple[int, str]] = []
        note: RunNote | None = None
        asked: Request | None = Request(options)
        window: Span | None = None
        plans: list[Plan] = []

        def planned(plan: Plan, note: RunNote) -> None:
            plans.append(plan)
            on_plan(plan, note)

        while asked is not None and (options.max_runs is None or len(runs) < options.max_runs):
            try:
                process = run(self.lake, state, asked, planned)
            except MaterializerError as exc:
                other = _otherwise(asked, plans, exc)
                if other is None:
                    raise
                asked, state = other, self.lake.journal.view().named(name)
                continue
            ended += [process] if process.report is not None else []
            state = self.lake.journal.view().named(name)
            recovered += process.recovered
            note = process.note
            window = window or (note.window if note else None)
            if process.plan is None or process.report is None or note is None or note.run is None:
                break
            left = note.run.runs - 1 if note.run.rest else 0
            kind = self.lake.aggregate(state).definition.grid.shown
            done = RunDone(process.plan, process.report, note.run.window, left, _verdict(state, process.plan), kind)
            runs.append(done)
            on_run(done)
            self._deliver(state, handler)
            asked = planning.following(asked, note.run)
        if not runs:
            self._deliver(state, handler)
        with one_look():
            return self._ended(name, options, runs, recovered, window, was, began)

    def _followed(self, state: AggregateState) -> AggregateState:
        """Return *state* after a roll-up went on with the partials that its parent has now."""
        if rolled_up.moved(state, self.lake.root, self.lake.journal.last_view.states) is None:
            return state

        with self.lake.lease(state.id) as lease:

            def decide(view: View) -> list[tuple[str, Event]]:
                event = rolled_up.moved(view.named(state.id), self.lake.root, view.states)
                return [] if event is None else [(state.id, event)]

            lease.transact(decide)
        return self.lake.journal.view().named(state.id)

    def _over_wider_columns(self, state: AggregateState, options: RefreshOptions) -> tuple[AggregateState, _First]:
        """Return *state* after its definition went on over columns that became wider, and what was done for that."""
        with suppress(MaterializerError):  # who reads it says what is wrong with it
            if DeltaFolder.at(state.source.path).head().version == state.cursor:
                return state, _First()
        from materializer.services.definitions import widened

        recovered: tuple[tuple[int, str], ...] = ()
        if state.plan is not None and widened.wider_columns(state):
            with self.lake.lease(state.id) as lease:  # what it began reads the columns as they were
                recovered = lease.recovered
            state = self.lake.journal.view().named(state.id)
        if state.plan is not None:
            return state, _First()
        found = widened.found(state, self.lake.engine, self.lake.config.run_rows, is_strict=options.strict)
        if found is None:
            return state, _First(recovered=recovered)
        with self.lake.lease(state.id) as lease:

            def decide(view: View) -> list[tuple[str, Event]]:
                is_same = view.named(state.id).spec == state.spec
                return [(state.id, event) for event in found.events] if is_same else []

            lease.transact(decide)
        recovered += lease.recovered
        return self.lake.journal.view().named(state.id), _First((found.text,), recovered)

    def _ended(
        self,
        name: str,
        options: RefreshOptions,
        runs: list[RunDone],
        recovered: list[tuple[int, str]],
        window: Span | None,
        was: int,
        began: float,
    ) -> RefreshReport:
        """Tidy up after a refresh, and report it."""
        if runs:
            self._follow_newest(name, options.as_of)
        tidied = self.lake.journal.tidy()
        state = self.lake.journal.view().named(name)
        late: tuple[str, ...] = ()
        if self.lake.aggregate(state).definition.spec.lateness != "recompute" and not state.builds:
            from materializer.services.delivery import quarantine

            local = None if Request(options).executor(self.lake.config) == "spark" else self.lake.local
            aggregate = self.lake.aggregate(state)
            found = quarantine.follow(state, aggregate, self.lake.engine, local)
            came = "1 row came" if found == 1 else f"{found:,} rows came"
            late = (f"{came} too late and went to {aggregate.paths['quarantine']}",) if found else ()
        problem = registration.why_not(state)
        reports, warnings = self._maintained(state, [run.plan.n for run in runs])
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
            reports,
            (*([problem] if problem else []), *_left_to_spark(runs), *late, *warnings, *tidied),
            state.frozen,
            stuck_spans(state),
            *self._let_go(state, was),
            time_type=self.lake.aggregate(state).definition.grid.shown,
        )

    def _maintained(
        self, state: AggregateState, numbers: list[int]
    ) -> tuple[tuple[MaintainReport, ...], tuple[str, ...]]:
        """Return what maintenance did after refreshes, where the definition asks for it, and why it failed."""
        from materializer.core.policy.table_properties import every_of
        from materializer.journal.state import spec_of

        every = every_of(spec_of(state))
        if every is None or not numbers or max(numbers) // every == (min(numbers) - 1) // every:
            return (), ()
        from materializer.services.maintenance.afterwards import afterwards

        return afterwards(self.lake, state)

    def _let_go(self, state: AggregateState, was: int) -> tuple[str, tuple[OtherReader, ...]]:
        """Return the statement that deletes raw rows, and other readers of them, if the frozen boundary moved up from *was*."""
        from materializer.services.observe.source_deletes import left_to_owner

        if state.builds or state.frozen <= was:
            return "", ()
        return left_to_owner(state, self.lake.aggregate(state).definition, self.lake.root, self.lake.journal.view())

    def _follow_newest(self, name: str, as_of: int | None) -> None:
        """Move the frozen boundary to where the refresh has made everything clean, so that raw rows may go from now on.

        A run moves it when it is planned, at most to the first dirty bucket: the first refresh could not move it at all. That of
        an engine needs what is stored now, and perhaps Spark, which a request without work does not start.
        """
        view = self.lake.journal.view()
        state = view.named(name)
        aggregate = self.lake.aggregate(state)
        moves = frozen_bound.moved(state, aggregate.definition.grid)
        if not frozen_bound.may_freeze(state, view) or not any(isinstance(e, Frozen) for e in moves):
            return

        def decide(view: View) -> list[tuple[str, Event]]:
            state = view.named(name)
            observation = self.lake.observation(state, as_of)
            captured = observation.uncaptured(
                state
            )  # rows that were deleted before the boundary moves are a correction
            moves = observation.moves(observation.looked(state))
            return [(state.id, event) for event in ([captured] if captured and moves else []) + list(moves)]

        with (
            suppress(LeaseHeldError),
            self.lake.lease(name) as lease,
        ):  # the process that has the lease moves the boundary itself
            lease.transact(decide, holds=lambda before, now: now.has_basis_of(before, name))

    def _deliver(self, state: AggregateState, handler: OutputHandler | None) -> None:
        """Bring the change feed and the output handler up to the output, if the definition has them."""
        if is_on(self.lake.aggregate(state).definition.spec):
            from materializer.services.delivery import output_feed

            output_feed.follow(self.lake, state)
        registration.follow(self.lake, state)
        if handler is not None:
            handlers.deliver(
                handler, state, self.lake.aggregate(state), self.lake.engine, self.lake.journal, self.lake.on_checkpoint
            )

    def _nothing_to_do(self, state: AggregateState, request: Request) -> RefreshReport | None:
        """Return the report of a refresh without work, or None when there is work; takes no lease and writes nothing."""
        if state.plan is not None or self.lake.planner(state, request).has_work(state):
            return None
        aggregate = self.lake.aggregate(state)
        if not are_left(state, self.lake.journal):
            return None
        window = planning.whole_window(request, state, aggregate.definition.grid)
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
            time_type=aggregate.definition.grid.shown,
        )


class _First(NamedTuple):
    """What was done before the runs of a refresh: what is said of it, and the refreshes of dead processes that were ended."""

    warnings: tuple[str, ...] = ()
    recovered: tuple[tuple[int, str], ...] = ()

    def before(self, report: RefreshReport) -> RefreshReport:
        """Return the report of the refresh."""
        warnings, recovered = (*self.warnings, *report.warnings), (*self.recovered, *report.recovered)
        return replace(report, warnings=warnings, recovered=recovered)


def _waiting(view: View, state: AggregateState) -> WaitingVersion | None:
    """Return the next version of an aggregate in a few words; None if there is none."""
    if state.builds or view.build_of(state) is None:
        return None
    from materializer.services.definitions.waiting import waiting_version

    return waiting_version(view, state)


def _left_to_spark(runs: Iterable[RunDone]) -> tuple[str, ...]:
    """Return the errors of this process after which Spark computed, each once."""
    reasons = (
        reason for run in runs for reason in (run.report.extra.get("left_to_spark", ""), run.plan.executor_reason)
    )
    return tuple(dict.fromkeys(f"{reason}; Spark computed it" for reason in reasons if reason.startswith(BUG)))


def _verdict(state: AggregateState, plan: Plan) -> Mapping[str, Any]:
    """Return the gate's verdict on an ended plan, empty without one."""
    return next((e.verdict for e in reversed(state.ended) if e.n == plan.n), {})


def _otherwise(asked: Request, plans: Sequence[Plan], exc: MaterializerError) -> Request | None:
    """Return the request with another strategy or lane after a failure that this can avoid, or None.

    A sum of the rows that came or went may leave its type where that of all rows does not.
    """
    subtracted = isinstance(exc, DataError) and plans and plans[-1].retracts
    if (isinstance(exc, SourceDamagedError) or subtracted) and asked.may_merge:
        return replace(asked, may_merge=False)
    if isinstance(exc, ResultTooLargeError) and asked.may_fetch:
        return replace(asked, may_fetch=False)
    if isinstance(exc, NotLocalError) and exc.values.get("is_cut") and plans:
        return asked.fewer_rows(plans[-1])
    return None


def _tell_way_back(exc: MaterializerError, state: AggregateState, root: str) -> None:
    """Say how a damaged table of ours is made anew; that of a source is for its owner to mend."""
    path = exc.values.get("path")
    if isinstance(exc, SourceDamagedError) and path in Aggregate.of(state, root).paths.values():
        exc.hint = (
            f"run 'materializer repair {state.name} --yes'; where it finds nothing wrong, move '{path}' away first"
        )
