"""Publishing another version of an aggregate's data: the output gets the rows of a build in one commit.

```
SWITCH_PLAN ──▶ SWITCH_WRITE ──▶ SWITCH_FENCE ──▶ SWITCH_DONE ──▶ END
                     │ disk full      ▲ the output carries the plan
                     ▼                │
RECOVER ──not──▶ SWITCH_UNDO ──▶ SWITCH_REFUSE ──▶ SWITCH_UNDONE (looks again) ──▶ PLAN (or the failure is raised)
```

A build is an aggregate of its own (id, lease, cursor, log, plans) until it is published, so both are refreshed at the same
time. Only the journal's one commit that plans the switch meets both: the build has no open plan there, no
live process holds its lease, and is *closed*, so that nothing can change it until the switch has ended. Why the order is what it is:

* the build is closed before its rows are copied, because what the journal takes over has to be what was copied;
* the output is the only table that readers see, so its commit decides: if it carries the plan's id, the next process completes
  the switch, and otherwise undoes it;
* all three tables carry the number before the journal ends the switch: the new partials, because they belong to the
  aggregate from then on and are compared with it; the old ones, so that who wrote to them before is refused if they are
  published again; and the output, so that a late switch is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Lane, Plan, TableBase
from materializer.core.time.spans import EVERYTHING
from materializer.errors import (
    ForeignTableError,
    JournalConflictError,
    LeaseHeldError,
    NothingBuiltError,
    StorageError,
    TablesAheadError,
    WriteFencedError,
)
from materializer.journal.events import (
    Aborted,
    BuildClosed,
    BuildOpened,
    Dropped,
    Event,
    Invalidated,
    LeaseReleased,
    Switched,
    SwitchPlanned,
)
from materializer.journal.state import AggregateState
from materializer.journal.transact import transact
from materializer.journal.version_fields import version_of
from materializer.services.protocol import refresh_steps
from materializer.services.protocol.process import ATTEMPTS, At, OwnTableHead, Ports, Process, Which, plan_of

_Both: TypeAlias = "tuple[int, AggregateState, AggregateState | None]"
"""The journal's version, an aggregate and its build."""


class SwitchPorts(Ports, Protocol):
    """What publishing a build touches besides."""

    def read_both(self) -> tuple[int, AggregateState, AggregateState | None]:
        """Return the journal's version, the aggregate and its build, if there is one."""

    def append_both(self, version: int, events: Sequence[Event], build: str, build_events: Sequence[Event]) -> None:
        """Append events of the aggregate and of its build in one commit; raises as :meth:`Ports.append`."""

    def build_heads(self, build: AggregateState) -> dict[Which, OwnTableHead]:
        """Return identity, version and refresh number of the build's tables."""

    def refuse_switch(self, state: AggregateState, build: AggregateState) -> None:
        """Raise NotCoveredError when readers would lose something by the switch."""

    def copy_build(self, plan: Plan, build: AggregateState) -> None:
        """Commit the rows of the build's output to the output, with the plan's id and number; never silently skipped."""

    def fence_build(self, plan: Plan, build: AggregateState) -> None:
        """Record the plan's number in the partials of the build."""

    def kept_versions(self, build: AggregateState) -> int:
        """Return how many previous versions are retained after the switch."""


def advance(p: Process, ports: SwitchPorts) -> Process:
    """Do the next step of a switch; see :func:`materializer.services.protocol.steps.advance`.

    Raises:
        NothingBuiltError: If there is no build.
        NotCoveredError: If it does not cover what is published.
        LeaseHeldError: If another process works on the build.
    """
    match p.at:
        case At.SWITCH_PLAN:
            return plan_switch(p, ports)
        case At.SWITCH_WRITE:
            return _write(p, ports)
        case At.SWITCH_FENCE:
            build = _build(p, ports)
            ports.fence_build(plan_of(p), build)
            ports.fence(Which.PARTIALS, plan_of(p))
            return replace(p, at=At.SWITCH_DONE)
        case At.SWITCH_DONE:
            return _done(p, ports)
        case At.SWITCH_UNDO:
            _build(p, ports)
            ports.fence(Which.PARTIALS, plan_of(p))
            return replace(p, at=At.SWITCH_REFUSE)
        case At.SWITCH_REFUSE:
            _build(p, ports)
            ports.fence(Which.OUTPUT, plan_of(p))
            return replace(p, at=At.SWITCH_UNDONE)
        case At.SWITCH_UNDONE:
            return _undone(p, ports)
        case _:
            msg = f"{p.at} is no step of a switch"
            raise ValueError(msg)


def plan_switch(p: Process, ports: SwitchPorts) -> Process:
    """Plan the switch and close the build, in the one commit that meets both."""

    def decide(seen: _Both) -> Plan | None:
        version, state, build = seen
        refresh_steps.check_lease(p, state)
        if build is None:
            if any(how == "finished" for _, how in p.recovered):  # a dead process had begun what was asked for
                return None
            msg = f"no next version of '{state.name}' is being built"
            raise NothingBuiltError(msg, hint="apply a changed definition, or roll back to the previous one")
        if build.lease is not None and not ports.is_dead(build.lease):
            msg = f"process {build.lease.pid} on {build.lease.host} is building the next version of '{state.name}'"
            raise LeaseHeldError(msg, hint="wait until it has ended, then run the same command again")
        ports.refuse_switch(state, build)
        output, heads = ports.head(Which.OUTPUT), ports.build_heads(build)
        try:
            refresh_steps.check_heads(state, {Which.OUTPUT: output})
            refresh_steps.check_heads(build, heads)
        except (ForeignTableError, TablesAheadError) as exc:
            if ports.read_both()[0] != version:  # the build moved on together with the journal, after it was read
                raise JournalConflictError(exc.message) from exc
            raise
        n = 1 + max(state.last_n, build.last_n, output.n, *(h.n for h in heads.values()))
        return Plan(
            f"switch-{n}-{p.lease.owner}",
            n,
            build.cursor,
            EVERYTHING,
            (),
            (),
            Lane.DRIVER,
            TableBase(heads[Which.PARTIALS].table_id, heads[Which.PARTIALS].version),
            TableBase(output.table_id, output.version),
        )

    def append(seen: _Both, plan: Plan | None) -> None:
        version, _, build = seen
        if plan is None or build is None:
            ports.append(version, [LeaseReleased(p.lease.owner)])
        else:
            ports.append_both(version, [SwitchPlanned(plan, build.id)], build.id, [BuildClosed()])

    plan = transact(ports.read_both, decide, append, attempts=ATTEMPTS)
    return replace(p, at=At.END) if plan is None else replace(p, at=At.SWITCH_WRITE, plan=plan, is_own=True)


def _build(p: Process, ports: SwitchPorts) -> AggregateState:
    """Return the build that the process publishes, if it still may."""
    _, state, build = ports.read_both()
    refresh_steps.check_plan(p, state)
    if build is None or build.id != state.switch:
        msg = f"build {state.switch} of '{state.name}' is gone"
        raise ValueError(msg)
    return build


def _write(p: Process, ports: SwitchPorts) -> Process:
    build = _build(p, ports)
    try:
        ports.copy_build(plan_of(p), build)
    except StorageError as exc:
        return replace(p, at=At.SWITCH_UNDO, failure=exc)
    except WriteFencedError as exc:
        exc.wrote = "whoever took over finishes or undoes the switch"
        raise
    return replace(p, at=At.SWITCH_FENCE)


def _done(p: Process, ports: SwitchPorts) -> Process:
    plan = plan_of(p)
    report = replace(ports.report(plan, None), strategy="switch")
    ends: list[Event] = [LeaseReleased(p.lease.owner)] if p.is_own else []

    def events(build: AggregateState) -> tuple[list[Event], list[Event]]:
        keep = ports.kept_versions(build)
        return [Switched(plan.n, version_of(build), keep, report), *ends], [Dropped()]

    _commit_both(p, ports, events)
    if p.is_own:
        return replace(p, at=At.END, report=report)
    return refresh_steps.after_recovery(p, "finished")


def _undone(p: Process, ports: SwitchPorts) -> Process:
    plan = plan_of(p)
    _build(p, ports)
    if refresh_steps.is_known(Which.OUTPUT, plan, ports):
        return replace(p, at=At.SWITCH_FENCE, failure=None)
    reason = str(p.failure) if p.failure else "the process that switched died"
    events: list[Event] = [Aborted(plan.n, reason)]
    if not refresh_steps.is_absent(Which.OUTPUT, plan, ports):  # it is unknown whose rows the output has
        events.append(Invalidated((Entry(EVERYTHING, None, Cause.LOST),), "the end of a switch is not known"))
    if p.failure:
        events.append(LeaseReleased(p.lease.owner))
    _commit_both(p, ports, lambda _: (events, [BuildOpened()]))
    if p.failure:
        raise p.failure
    return refresh_steps.after_recovery(p, "aborted")


def _commit_both(
    p: Process, ports: SwitchPorts, decide: Callable[[AggregateState], tuple[Sequence[Event], Sequence[Event]]]
) -> None:
    """Append what *decide* says of the build, for both; only the lease's holder may, and only while the plan is open."""

    def decide_both(seen: _Both) -> tuple[str, Sequence[Event], Sequence[Event]]:
        _, state, build = seen
        refresh_steps.check_plan(p, state)
        if build is None:
            msg = f"build {state.switch} of '{state.name}' is gone"
            raise ValueError(msg)
        return (build.id, *decide(build))

    def append(seen: _Both, decided: tuple[str, Sequence[Event], Sequence[Event]]) -> None:
        build, events, build_events = decided
        ports.append_both(seen[0], events, build, build_events)

    transact(ports.read_both, decide_both, append, attempts=ATTEMPTS)
