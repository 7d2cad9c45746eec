"""Refresh policies of aggregates that are applied: which there are, when they are due, and running them.

A policy is part of the definition. What the journal adds is when it ran last: it is told only when a run did something or
moves the schedule on, so that looking for what is due writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from materializer.core.policy.policies import (
    DEFAULT,
    KEYS,
    MAX_STALENESS,
    NAME,
    OPEN,
    Policy,
    beyond,
    has_clock,
    key_of,
    policies_of,
    read_now,
    refresh_window,
    render_now,
    split_key,
)
from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.grid import Grid
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import (
    PolicyExistsError,
    PolicyNowError,
    UnknownPolicyError,
    UsageError,
)
from materializer.journal.events import Event, PolicyRan
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.services.aggregate import Aggregate
from materializer.services.commit.lake import Lake
from materializer.services.definitions import cron, lineage
from materializer.services.definitions.apply import Definitions
from materializer.services.definitions.changes import DefinitionChange
from materializer.services.observe.clock import wall_clock
from materializer.services.observe.dirty import dirty_below_newest
from materializer.services.planning.options import RefreshOptions
from materializer.services.protocol.decision import RunNote
from materializer.services.refresh.reports import RefreshReport, RunDone, outcome_of
from materializer.services.refresh.service import Refresher


@dataclass(frozen=True, slots=True)
class PolicyState:
    """A policy of an aggregate, as it stands at some time.

    Args:
        aggregate: The aggregate.
        policy: The policy.
        grid: How the aggregate divides time.
        window: The whole buckets that it would refresh now; None when there are none, or nobody can tell what now is.
        last_now: The *now* of its newest run, or None when it never ran.
        next_due: When its schedule comes due next, microseconds since the epoch; None when it has none, or never ran.
        is_due: Whether it is due: its schedule came due since its newest run, or it has one and never ran.
    """

    aggregate: str
    policy: Policy
    grid: Grid
    window: Span | None
    last_now: int | None
    next_due: int | None
    is_due: bool


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """What a run of a policy did.

    Args:
        policy: Its name.
        now: What its window was computed from; given again, it gives the same window.
        report: What the refresh did, dirt that was taken along included.
    """

    policy: str
    now: str | int
    report: RefreshReport


def policy_states(
    state: AggregateState, aggregate: Aggregate, now: int | None, clock: int, *, is_by_clock: bool
) -> tuple[PolicyState, ...]:
    """Return the policies of an aggregate, newest window first, as they stand at *now*.

    Args:
        state: The aggregate.
        aggregate: The same, compiled.
        now: Microseconds since the epoch, a plain integer where time is one, or None when nobody said.
        clock: By which instant schedules are judged, microseconds since the epoch.
        is_by_clock: Whether that is what the clock says, and not what somebody asked for.
    """
    grid, policies = aggregate.definition.grid, policies_of(aggregate.definition.spec)
    found = []
    for policy in policies:
        last = state.policy_runs.get(policy.name)
        window = None if now is None else refresh_window(policy, policies, now, grid)
        due = cron.next_due(policy.schedule, last[1]) if policy.schedule and last else None
        is_due = policy.schedule is not None and (last is None or (due is not None and due <= clock))
        is_due = is_due or (is_by_clock and _is_ahead(policy, last, clock))
        found.append(PolicyState(state.name, policy, grid, window, last[0] if last else None, due, is_due))
    return tuple(found)


def outside(state: AggregateState, aggregate: Aggregate, now: int | None) -> SpanSet | None:
    """Return what is dirty below the newest row and lies in no policy's window at *now*.

    None when there is no policy, or nobody can tell what now is.
    """
    policies = policies_of(aggregate.definition.spec)
    if not policies or now is None:
        return None
    return dirty_below_newest(state) & beyond(policies, now, aggregate.definition.grid)


def now_to_look(given: str | int | None, state: AggregateState, grid: Grid, clock: int) -> int | None:
    """Return the *now* to show an aggregate at: as given, or the clock's; for plain integer time that of the newest run."""
    if has_clock(grid):
        return clock if given is None else read_now(given, grid)
    try:
        return read_now("" if given is None else given, grid)
    except PolicyNowError:
        return max((now for now, _ in state.policy_runs.values()), default=None)


@dataclass(slots=True)
class Policies:
    """Adds, removes and runs refresh policies in one lake.

    Args:
        lake: The lake.
        definitions: Changes definitions.
        refresher: Refreshes.
        clock: The time, where none is given.
    """

    lake: Lake
    definitions: Definitions
    refresher: Refresher
    clock: Callable[[], int] = field(default=wall_clock)

    def states(self, name: str | None = None, now: str | int | None = None) -> list[PolicyState]:
        """Return the policies of one aggregate, or of all with parents first, as they stand at *now*."""
        view = self.lake.journal.view()
        found: list[PolicyState] = []
        for each in [name] if name is not None else lineage.parents_first(self.lake.root, view.states):
            state = view.named(each)
            if not policies_of(AggregateSpec.from_json(state.spec)):
                continue
            aggregate = self.lake.aggregate(state)
            clock = self.clock()
            at = now_to_look(now, state, aggregate.definition.grid, clock)
            is_clock = at is not None and has_clock(aggregate.definition.grid)
            judged = at if at is not None and is_clock else clock
            found += policy_states(state, aggregate, at, judged, is_by_clock=now is None)
        return found

    def add(
        self, name: str, policy: str, given: Mapping[str, str], *, max_staleness: str | None = None
    ) -> DefinitionChange:
        """Add a policy to an applied definition; nothing is computed again.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            given: What it says, by :data:`~materializer.core.policy.policies.KEYS`.
            max_staleness: What the definition promises from now on; ``none`` takes the promise back.

        Raises:
            PolicyExistsError: If there is a policy of that name.
            UsageError: If the name is unfit, or nothing is given.
            DefinitionError: If what it says is malformed, or does not fit the aggregate or its other policies.
        """
        policy = policy.lower()
        if not NAME.fullmatch(policy):
            raise UsageError(
                f"'{policy}' cannot name a policy",
                hint="use letters, digits and underscores, a letter first, 128 at most",
            )
        if not given and (policy != DEFAULT or max_staleness is None):
            raise UsageError(
                f"nothing is said of policy '{policy}'", hint="give --start-offset, --end-offset or --schedule"
            )

        def edit(properties: Mapping[str, str]) -> Mapping[str, str]:
            if given and _keys_of(policy, properties):
                raise PolicyExistsError(
                    f"'{name}' has a policy '{policy}' already",
                    hint=f"run 'materializer policy remove {name} --policy {policy}' first, or choose another name",
                    name=name,
                    policy=policy,
                )
            told = {MAX_STALENESS: max_staleness} if max_staleness is not None else {}
            edited = {**properties, **{key_of(policy, part): value for part, value in given.items()}, **told}
            return {k: v for k, v in edited.items() if k != MAX_STALENESS or v.lower() not in OPEN}

        return self.definitions.edit_properties(name, edit, lease=self.lake.lease)

    def remove(self, name: str, policy: str = DEFAULT) -> DefinitionChange:
        """Remove a policy from an applied definition; what it refreshed stays.

        Raises:
            UnknownPolicyError: If there is none of that name.
        """
        policy = policy.lower()

        def edit(properties: Mapping[str, str]) -> Mapping[str, str]:
            keys = _keys_of(policy, properties)
            if not keys:
                raise _unknown(name, policy, {split[0] for k in properties if (split := split_key(k))})
            return {k: v for k, v in properties.items() if k not in keys}

        return self.definitions.edit_properties(name, edit, lease=self.lake.lease)

    def due(self, name: str | None = None, now: str | int | None = None) -> list[tuple[str, str]]:
        """Return (aggregate, policy) of every policy that is due, parents first and newest windows first."""
        return [(s.aggregate, s.policy.name) for s in self.states(name, now) if s.is_due]

    def run(
        self,
        name: str,
        policy: str = DEFAULT,
        now: str | int | None = None,
        *,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> PolicyReport:
        """Refresh the window that a policy has at *now*, and tell the journal.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            now: ISO text, or an integer for integer time; None takes the clock.
            on_plan: Told each plan before it is done.
            on_run: Told each run when it is done.

        Raises:
            UnknownPolicyError: If there is none of that name.
            PolicyNowError: If *now* cannot be read, or has to be given.
            MaterializerError: Whatever the refresh found.
        """
        state = self.lake.journal.view().named(name)
        grid = self.lake.aggregate(state).definition.grid
        policies = policies_of(AggregateSpec.from_json(state.spec))
        mine = next((p for p in policies if p.name == policy.lower()), None)
        if mine is None:
            raise _unknown(state.name, policy, {p.name for p in policies})
        clock = self.clock()
        at = _now(now, grid, clock)
        window = refresh_window(mine, policies, at, grid)
        shown = render_now(at, grid)
        told = {"name": mine.name, "now": shown, "window": None if window is None else window.as_json()}
        options = RefreshOptions(
            run_rows=self.lake.config.run_rows,
            is_newest_first=mine.order == "newest",
            plan_note={"policy": told},
        )

        def refresh(span: Span, max_runs: int | None) -> RefreshReport:
            part = replace(
                options,
                start=None if span.start == NEG_INF else span.start,
                end=None if span.end == POS_INF else span.end,
                max_runs=max_runs,
            )
            return self.refresher.refresh(name, part, on_plan=on_plan, on_run=on_run)

        report = _nothing(state) if window is None else refresh(window, mine.max_runs)
        if mine.catch_dirt:
            report = self._caught(mine, policies, at, grid, report, refresh)
        self._record(mine, at, at if has_clock(grid) else clock, report, is_by_clock=now is None)
        return PolicyReport(mine.name, shown, report)

    def _caught(
        self,
        policy: Policy,
        policies: tuple[Policy, ...],
        now: int,
        grid: Grid,
        report: RefreshReport,
        refresh: Callable[[Span, int | None], RefreshReport],
    ) -> RefreshReport:
        """Refresh what is dirty in no policy's window too, as long as runs are left; what is clean between stays."""
        gaps = beyond(policies, now, grid)
        for gap in reversed(gaps.spans) if policy.order == "newest" else gaps.spans:
            left = None if policy.max_runs is None else policy.max_runs - len(report.runs)
            dirt = dirty_below_newest(self.lake.journal.view().named(report.name)) & SpanSet.of(gap)
            if dirt.hull is not None and left != 0:
                report = _joined(report, refresh(dirt.hull, left))
        return report

    def _record(self, policy: Policy, now: int, clock: int, report: RefreshReport, *, is_by_clock: bool) -> None:
        """Tell the journal that a policy ran, unless that is no news."""

        def decide(view: View) -> list[tuple[str, Event]]:
            state = view.named(report.name)
            last = state.policy_runs.get(policy.name)
            was_ahead = is_by_clock and _is_ahead(policy, last, clock)
            if not was_ahead and not _is_news(policy, last, (now, clock), has_worked=bool(report.runs)):
                return []
            return [(state.id, PolicyRan(policy.name, now, clock, was_ahead))]

        if self.lake.journal.transact(decide):
            self.lake.journal.tidy()


def _is_ahead(policy: Policy, last: tuple[int, int] | None, clock: int) -> bool:
    """Whether a policy ran by a clock that was ahead: its schedule comes due before it is said to have run."""
    if policy.schedule is None or last is None:
        return False
    due = cron.next_due(policy.schedule, clock)
    return due is not None and due < last[1]


def _is_news(policy: Policy, last: tuple[int, int] | None, run: tuple[int, int], *, has_worked: bool) -> bool:
    """Whether a run changes what is due or what people are told."""
    if last is None:
        return has_worked or policy.schedule is not None
    if run == last or run[1] < last[1]:
        return False
    if has_worked or policy.schedule is None:
        return has_worked
    due = cron.next_due(policy.schedule, last[1])
    return due is not None and due <= run[1]


def _now(given: str | int | None, grid: Grid, clock: int) -> int:
    if given is not None:
        return read_now(given, grid)
    if not has_clock(grid):
        raise PolicyNowError(
            f"no clock tells what now is for plain {grid.time_type} time",
            hint="give --now, a whole number as time counts",
        )
    return clock


def _keys_of(policy: str, properties: Mapping[str, str]) -> set[str]:
    return {key_of(policy, part) for part in KEYS} & set(properties)


def _unknown(name: str, policy: str, known: set[str]) -> UnknownPolicyError:
    told = ", ".join(sorted(known)) or "none"
    hint = "name one of them" if known else f"add one with 'materializer policy add {name}'"
    return UnknownPolicyError(f"'{name}' has no policy '{policy}' (known: {told})", hint=hint, name=name, policy=policy)


def _nothing(state: AggregateState) -> RefreshReport:
    """Report of a window that holds no whole bucket."""
    dirty = dirty_below_newest(state)
    outcome = outcome_of((), None, dirty)
    return RefreshReport(state.name, outcome, None, state.cursor, left=dirty, null_times=state.null_times)


def _joined(first: RefreshReport, second: RefreshReport) -> RefreshReport:
    """Return what two refreshes did as one, of the window of the first."""
    runs = (*first.runs, *second.runs)
    return replace(
        second,
        outcome=outcome_of(runs, first.window, second.left),
        window=first.window,
        runs=runs,
        recovered=(*first.recovered, *second.recovered),
        seconds=first.seconds + second.seconds,
        delete=second.delete or first.delete,
        readers=second.readers if second.delete else first.readers,
    )


def options(
    *,
    start_offset: str | int | None = None,
    end_offset: str | int | None = None,
    schedule: str | None = None,
    max_runs: int | None = None,
    order: str | None = None,
    catch_dirt: bool | None = None,
) -> dict[str, str]:
    """Return what is said of a policy as its properties have it; what is None is not said."""
    given: dict[str, Any] = {
        "start_offset": start_offset,
        "end_offset": end_offset,
        "schedule": schedule,
        "max_runs": max_runs,
        "order": order,
        "catch_dirt": None if catch_dirt is None else str(catch_dirt).lower(),
    }
    return {part: str(value) for part, value in given.items() if value is not None}
