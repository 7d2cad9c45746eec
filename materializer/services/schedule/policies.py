"""Refresh policies of the aggregates in a lake: their states, when they are due, and running them.

A policy is part of the definition. The journal has the time of its last run. A run is recorded only if it refreshed something or
moves the schedule, so listing due policies writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.policy.policies import (
    DEFAULT,
    KEYS,
    MAX_STALENESS,
    NAME,
    OPEN,
    Policy,
    beyond,
    describe_offset,
    has_clock,
    key_of,
    policies_of,
    read_now,
    refresh_window,
    render_now,
    shown_now,
    split_key,
    text_of_now,
)
from materializer.core.printed import Printed, PrintedList, PrintedTable, facts, span_text, tables_of
from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import Grid
from materializer.core.time.instants import Instant, Shown, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import (
    MaterializerError,
    PolicyExistsError,
    PolicyNowError,
    UnknownPolicyError,
    UsageError,
)
from materializer.journal.events import Event, PolicyRan
from materializer.journal.state import AggregateState, spec_of
from materializer.journal.view import View
from materializer.services.activity import log
from materializer.services.aggregate import Timed, timed
from materializer.services.commit.lake import Lake
from materializer.services.definitions import cron, lineage
from materializer.services.observe.clock import wall_clock
from materializer.services.observe.dirty import dirty_below_newest
from materializer.services.planning.options import RefreshOptions
from materializer.services.protocol.decision import RunNote
from materializer.services.refresh.reports import RefreshReport, RunDone, outcome_of
from materializer.services.refresh.service import Refresher

if TYPE_CHECKING:
    from materializer.services.definitions.apply import Definitions
    from materializer.services.definitions.changes import DefinitionChange


class PolicyState(Printed, Struct, frozen=True):
    """The state of a policy at some time.

    Args:
        aggregate: The aggregate.
        policy: The policy.
        grid: The grid of the aggregate.
        window: The whole buckets that it would refresh now; None without any, or when *now* is not known.
        last_now: The *now* of its newest run, or None before the first run.
        next_due: When its schedule is due next, microseconds since the epoch; None without a schedule or a run.
        is_due: Whether it is due: its schedule was due since its newest run, or it has a schedule and never ran.
    """

    aggregate: str
    policy: Policy
    grid: Grid
    window: Span | None
    last_now: int | None
    next_due: int | None
    is_due: bool

    def _tables(self) -> list[PrintedTable]:
        return [facts(f"{self.aggregate}: policy {self.policy.name}", zip(_HEADER[2:], _cells(self)[2:], strict=True))]


_HEADER: Final = ("aggregate", "policy", "covers", "window", "schedule", "due", "last run")


def _cells(state: PolicyState) -> tuple[str, ...]:
    policy, due = state.policy, state.next_due
    offsets = " to ".join(map(describe_offset, (policy.start_offset, policy.end_offset)))
    return (
        state.aggregate,
        policy.name,
        f"{offsets} ago",
        span_text(state.window, state.grid.shown) or "no whole bucket now",
        policy.schedule or "none",
        "now" if state.is_due else "" if due is None else render(due, TimeType.TIMESTAMP),
        "never" if state.last_now is None else shown_now(state.last_now, state.grid),
    )


def listed(states: Iterable[PolicyState]) -> PrintedList[PolicyState]:
    """Return the states of policies as a list that prints as a table."""
    found = list(states)
    return PrintedList(found, lambda: PrintedTable("", _HEADER, [_cells(state) for state in found]))


class PolicyReport(Printed, Struct, frozen=True):
    """What a run of a policy did.

    Args:
        policy: Its name.
        now: The *now* of its window; the same value gives the same window again.
        report: What the refresh did, in the window and, under ``catch_dirt``, outside.
    """

    policy: str
    now: str | int
    report: RefreshReport

    def _tables(self) -> list[PrintedTable]:
        now = render(self.now, self.report.time_type) if isinstance(self.now, int) else self.now
        return [facts(f"policy {self.policy} at {now}"), *tables_of(self.report)]


def policy_states(
    state: AggregateState, definition: Timed, now: int | None, clock: int, *, is_by_clock: bool
) -> tuple[PolicyState, ...]:
    """Return the states of the policies of an aggregate at *now*, newest window first.

    Args:
        state: The aggregate.
        definition: What its definition says of time.
        now: Microseconds since the epoch, an integer for integer time, or None when it is not known.
        clock: The instant at which schedules are evaluated, microseconds since the epoch.
        is_by_clock: Whether *clock* is the wall clock, and not a given *now*.
    """
    grid, policies = definition.grid, policies_of(definition.spec)
    states = []
    for policy in policies:
        last = state.policy_runs.get(policy.name)
        window = None if now is None else refresh_window(policy, policies, now, grid)
        due = cron.next_due(policy.schedule, last[1]) if policy.schedule and last else None
        is_due = policy.schedule is not None and (last is None or (due is not None and due <= clock))
        is_due = is_due or (is_by_clock and _is_ahead(policy, last, clock))
        states.append(PolicyState(state.name, policy, grid, window, last[0] if last else None, due, is_due))
    return tuple(states)


def outside(state: AggregateState, definition: Timed, now: int | None) -> SpanSet | None:
    """Return the dirty spans below the newest row that lie in no policy's window at *now*.

    None when there is no policy, or when *now* is not known.
    """
    policies = policies_of(definition.spec)
    if not policies or now is None:
        return None
    return dirty_below_newest(state) & beyond(policies, now, definition.grid)


def now_to_look(given: Instant, state: AggregateState, grid: Grid, clock: int) -> int | None:
    """Return the *now* for showing an aggregate: the given one, else the clock's, or that of the newest run for integer time."""
    if has_clock(grid):
        return clock if given is None else read_now(given, grid)
    text = text_of_now(given)
    try:
        return read_now(text, grid)
    except PolicyNowError:
        return max((now for now, _ in state.policy_runs.values()), default=None)


class Policies(Struct):
    """Adds, removes and runs refresh policies in one lake.

    Args:
        lake: The lake.
        definitions: Changes definitions.
        refresher: Refreshes.
        clock: Returns the time when none is given.
    """

    lake: Lake
    definitions: Definitions
    refresher: Refresher
    clock: Callable[[], int] = field(default=wall_clock)

    def states(self, name: str | None = None, now: Instant = None) -> list[PolicyState]:
        """Return the states of the policies at *now*, of one aggregate or of all, parents first."""
        view = self.lake.journal.view()
        states: list[PolicyState] = []
        for each in [name] if name is not None else lineage.parents_first(self.lake.root, view.states):
            state = view.named(each)
            if not policies_of(spec_of(state)):
                continue
            definition = timed(state)
            clock = self.clock()
            instant = now_to_look(now, state, definition.grid, clock)
            is_clock = instant is not None and has_clock(definition.grid)
            schedule_clock = instant if instant is not None and is_clock else clock
            states += policy_states(state, definition, instant, schedule_clock, is_by_clock=now is None)
        return states

    def add(
        self, name: str, policy: str, given: Mapping[str, str], *, max_staleness: str | None = None
    ) -> DefinitionChange:
        """Add a policy to an applied definition; no bucket is computed.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            given: Its properties, by :data:`~materializer.core.policy.policies.KEYS`.
            max_staleness: The new promise of the definition; ``none`` removes the promise.

        Raises:
            PolicyExistsError: If there is a policy of that name.
            UsageError: If the name is unfit, or no property is given.
            DefinitionError: If a property is malformed, or does not fit the aggregate or its other policies.
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
            promise = {MAX_STALENESS: max_staleness} if max_staleness is not None else {}
            edited = {**properties, **{key_of(policy, part): value for part, value in given.items()}, **promise}
            return {k: v for k, v in edited.items() if k != MAX_STALENESS or v.lower() not in OPEN}

        return self.definitions.edit_properties(name, edit, lease=self.lake.lease)

    def remove(self, name: str, policy: str = DEFAULT) -> DefinitionChange:
        """Remove a policy from an applied definition; refreshed buckets stay.

        Raises:
            UnknownPolicyError: If there is no policy of that name.
        """
        policy = policy.lower()

        def edit(properties: Mapping[str, str]) -> Mapping[str, str]:
            keys = _keys_of(policy, properties)
            if not keys:
                raise _unknown(name, policy, {split[0] for k in properties if (split := split_key(k))})
            return {k: v for k, v in properties.items() if k not in keys}

        return self.definitions.edit_properties(name, edit, lease=self.lake.lease)

    def due(self, name: str | None = None, now: Instant = None) -> list[tuple[str, str]]:
        """Return (aggregate, policy) of every due policy, parents first and newest windows first."""
        return [(s.aggregate, s.policy.name) for s in self.states(name, now) if s.is_due]

    def run(
        self,
        name: str,
        policy: str = DEFAULT,
        now: Instant = None,
        *,
        on_plan: Callable[[Plan, RunNote], None] = lambda _plan, _note: None,
        on_run: Callable[[RunDone], None] = lambda _: None,
    ) -> PolicyReport:
        """Refresh the window that a policy has at *now*, and record the run.

        Args:
            name: The aggregate.
            policy: Name of the policy.
            now: ISO text, a ``datetime`` or a ``date``, or an integer for integer time; None for the clock.
            on_plan: Called with each plan before it is carried out.
            on_run: Called with each run when it is done.

        Raises:
            UnknownPolicyError: If there is no policy of that name.
            PolicyNowError: If *now* cannot be read, or has to be given.
            MaterializerError: If the refresh fails.
        """
        state = self.lake.journal.view().named(name)
        grid = self.lake.aggregate(state).definition.grid
        policies = policies_of(spec_of(state))
        chosen = next((p for p in policies if p.name == policy.lower()), None)
        if chosen is None:
            raise _unknown(state.name, policy, {p.name for p in policies})
        clock = self.clock()
        instant = _now(now, grid, clock)
        window = refresh_window(chosen, policies, instant, grid)
        shown = render_now(instant, grid)
        note = {"name": chosen.name, "now": shown, "window": None if window is None else window.as_json()}
        options = RefreshOptions(
            run_rows=self.lake.config.run_rows,
            is_newest_first=chosen.order == "newest",
            plan_note={"policy": note},
        )

        def refresh(span: Span, max_runs: int | None) -> RefreshReport:
            part = replace(
                options,
                start=None if span.start == NEG_INF else span.start,
                end=None if span.end == POS_INF else span.end,
                max_runs=max_runs,
            )
            return self.refresher.refresh(name, part, on_plan=on_plan, on_run=on_run)

        report = _nothing(state, grid.shown) if window is None else refresh(window, chosen.max_runs)
        if chosen.catch_dirt:
            report = self._caught(chosen, policies, instant, grid, report, refresh)
        try:
            self._record(chosen, instant, instant if has_clock(grid) else clock, report, is_by_clock=now is None)
        except MaterializerError as exc:  # what it refreshed is published; a run that had nothing to do has done that
            warning = f"that policy '{chosen.name}' ran could not be recorded, so it may be due again: {exc.message} ({exc.code})"
            report = replace(report, warnings=(*report.warnings, warning))
        return PolicyReport(chosen.name, shown, report)

    def _caught(
        self,
        policy: Policy,
        policies: tuple[Policy, ...],
        now: int,
        grid: Grid,
        report: RefreshReport,
        refresh: Callable[[Span, int | None], RefreshReport],
    ) -> RefreshReport:
        """Refresh the dirty spans in no policy's window, too, as long as runs are left; clean buckets between them stay."""
        gaps = beyond(policies, now, grid)
        for gap in reversed(gaps.spans) if policy.order == "newest" else gaps.spans:
            left = None if policy.max_runs is None else policy.max_runs - len(report.runs)
            dirt = dirty_below_newest(self.lake.journal.view().named(report.name)) & SpanSet.of(gap)
            if dirt.hull is not None and left != 0:
                report = _joined(report, refresh(dirt.hull, left))
        return report

    def _record(self, policy: Policy, now: int, clock: int, report: RefreshReport, *, is_by_clock: bool) -> None:
        """Append that a policy ran, if that changes its schedule or its last run."""

        def decide(view: View) -> list[tuple[str, Event]]:
            state = view.named(report.name)
            last = state.policy_runs.get(policy.name)
            was_ahead = is_by_clock and _is_ahead(policy, last, clock)
            if not was_ahead and not _is_news(policy, last, (now, clock), has_worked=bool(report.runs)):
                return []
            return [(state.id, PolicyRan(policy.name, now, clock, was_ahead))]

        if self.lake.journal.transact(decide):
            log(self.lake.journal.tidy())


def _is_ahead(policy: Policy, last: tuple[int, int] | None, clock: int) -> bool:
    """Whether the clock was ahead at the last run: by *clock* the schedule is due before that run."""
    if policy.schedule is None or last is None:
        return False
    due = cron.next_due(policy.schedule, clock)
    return due is not None and due < last[1]


def _is_news(policy: Policy, last: tuple[int, int] | None, run: tuple[int, int], *, has_worked: bool) -> bool:
    """Whether a run changes what is due or what is shown."""
    if last is None:
        return has_worked or policy.schedule is not None
    if run == last or run[1] < last[1]:
        return False
    if has_worked or policy.schedule is None:
        return has_worked
    due = cron.next_due(policy.schedule, last[1])
    return due is not None and due <= run[1]


def _now(given: Instant, grid: Grid, clock: int) -> int:
    if given is not None:
        return read_now(given, grid)
    if not has_clock(grid):
        hint = "give --now, a whole number as time counts"
        raise PolicyNowError(f"no clock tells what now is for plain {grid.time_type} time", hint=hint)
    return clock


def _keys_of(policy: str, properties: Mapping[str, str]) -> set[str]:
    return {key_of(policy, part) for part in KEYS} & set(properties)


def _unknown(name: str, policy: str, known: set[str]) -> UnknownPolicyError:
    known_names = ", ".join(sorted(known)) or "none"
    hint = (
        "name one of them"
        if known
        else f"add it with 'materializer policy add {name} --policy {policy} --start-offset LENGTH'"
    )
    return UnknownPolicyError(
        f"'{name}' has no policy '{policy}' (known: {known_names})", hint=hint, name=name, policy=policy
    )


def _nothing(state: AggregateState, kind: Shown) -> RefreshReport:
    """Return the report of a window without a whole bucket."""
    dirty = dirty_below_newest(state)
    outcome = outcome_of((), None, dirty)
    return RefreshReport(
        state.name, outcome, None, state.cursor, left=dirty, null_times=state.null_times, time_type=kind
    )


def _joined(first: RefreshReport, second: RefreshReport) -> RefreshReport:
    """Return the reports of two refreshes as one, with the window of the first."""
    runs = (*first.runs, *second.runs)
    return replace(
        second,
        outcome=outcome_of(runs, first.window, second.left),
        window=first.window,
        runs=runs,
        recovered=(*first.recovered, *second.recovered),
        seconds=first.seconds + second.seconds,
        warnings=(*first.warnings, *second.warnings),
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
    """Return the properties of a policy by their keys, without those that are None."""
    given: dict[str, Any] = {
        "start_offset": start_offset,
        "end_offset": end_offset,
        "schedule": schedule,
        "max_runs": max_runs,
        "order": order,
        "catch_dirt": None if catch_dirt is None else str(catch_dirt).lower(),
    }
    return {part: str(value) for part, value in given.items() if value is not None}
