"""The protocol of a refresh: who may write, in which order, and what the next command does after a death.

```
LEASE → RECOVER ──nothing open──▶ PLAN ──▶ COMPUTE ──▶ AUDIT ──▶ WRITE (partials ∥ output) ──▶ DONE ──▶ END
           │                        ▲ └─nothing dirty─▶ END     │ data failed, or the gate refused it
           ├─committed──▶ FINISH ──▶│ FINISHED                     ▼
           └─not────────▶ FENCE ──▶ ABORT ──▶ ABORTED ──▶ PLAN (or the failure is raised)
```

The steps that publish another version of the data (``SWITCH_…``) are in :mod:`materializer.services.protocol.switch_steps`.

:func:`advance` does one step: at most one write to anything outside, everything it decides on read in the same step.
A process may die, sleep or lose its lease between any two steps; the tests explore all of it with this very code over
in-memory tables. Why the order is what it is:

* a plan is made from the aggregate's state without its lease, and is appended by compare-and-swap; a commit that leaves that state and
  the tables as they were does not make it void, or a plan that takes longer than the renewal of its own lease would never be appended;
* the journal holds the plan (and the raised threshold) before anything is materialised, so nothing that was materialised
  is ever unknown to it;
* a finished write is told by the plan's *id* in the table's commits, because the transaction number alone does not tell
  a write from a fence;
* the partials are fenced and looked at again before the output is fenced: a late writer that won in between is finished,
  not aborted;
* the verdict of a gate is in the journal before a table is written, with the spans that are held back: neither table is
  written there, so that they are as dirty as they were; what it shows to be wrong elsewhere is dirty in the same commit;
* recovery finalises what was committed. It never merges again and never audits again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec.structs import replace

from materializer.core.refresh.plan import Plan, TableBase
from materializer.errors import (
    NOTHING,
    ForeignHistoryError,
    ForeignTableError,
    JournalConflictError,
    LeaseHeldError,
    LeaseLostError,
    MaterializerError,
    StorageError,
    TablesAheadError,
    WriteFencedError,
)
from materializer.journal.events import (
    Aborted,
    Audited,
    Done,
    Event,
    Invalidated,
    LeaseReleased,
    LeaseTaken,
)
from materializer.journal.state import AggregateState
from materializer.journal.transact import transact
from materializer.services.protocol.decision import Decision
from materializer.services.protocol.process import (
    ATTEMPTS,
    BOTH,
    PLANS,
    At,
    CommitsGoneError,
    OwnTableHead,
    Ports,
    Process,
    Which,
    plan_of,
)

_Seen: TypeAlias = "tuple[int, AggregateState]"
"""The journal's version and the aggregate."""
_Planned: TypeAlias = "tuple[dict[Which, OwnTableHead], Decision]"
"""The tables that were planned on, and what planning came to."""


def advance(p: Process, ports: Ports) -> Process:
    """Do the next step of a refresh; see :func:`materializer.services.protocol.steps.advance`."""
    match p.at:
        case At.LEASE:
            return _take_lease(p, ports)
        case At.RECOVER:
            return recover(p, ports)
        case At.FENCE:
            ports.fence(Which.PARTIALS, plan_of(p))
            return replace(p, at=At.ABORT)
        case At.ABORT:
            return abort(p, ports)
        case At.ABORTED:
            return _aborted(p, ports)
        case At.FINISH:
            return _finish(p, ports)
        case At.FINISHED:
            plan = plan_of(p)
            if not is_known(Which.OUTPUT, plan, ports):  # a process that could no longer read the commits fenced it
                return replace(p, at=At.ABORTED)
            commit_leased(
                p, ports, lambda _: [Done(plan.n, replace(ports.report(plan, None), extra={"recovered": True}))]
            )
            return after_recovery(p, "finished")
        case At.PLAN:
            return _decide(p, ports)
        case At.COMPUTE:
            return _compute(p, ports)
        case At.AUDIT:
            return _audit(p, ports)
        case At.WRITE:
            return write(p, ports, p.todo)
        case At.DONE:
            plan, report = plan_of(p), ports.report(plan_of(p), p.result)
            commit_leased(p, ports, lambda _: [Done(plan.n, report), LeaseReleased(p.lease.owner)])
            return replace(p, at=At.END, report=report, result=None)
        case At.END:
            return p
        case _:
            msg = f"{p.at} is no step of a refresh"
            raise ValueError(msg)


def write(p: Process, ports: Ports, which: frozenset[Which]) -> Process:
    """Commit *which* of the tables that are still to be written; WRITE ends when none is left.

    A full disk or a refused permission aborts the plan like failing data: the tables are whole, the spans stay dirty.

    Raises:
        WriteFencedError: If another process took over, and fenced a table.
    """
    try:
        ports.write(plan_of(p), p.result, which)
    except StorageError as exc:
        return replace(p, at=At.FENCE, failure=exc, result=None)
    except WriteFencedError as exc:
        exc.wrote = "the process that took over finishes or undoes what this refresh wrote"
        raise
    todo = p.todo - which
    return replace(p, todo=todo, at=At.WRITE if todo else At.DONE)


def release(p: Process, ports: Ports) -> None:
    """Give the lease back, if it is still ours; used when a step raised."""

    def decide(state: AggregateState) -> list[Event]:
        is_ours = state.lease is not None and state.lease.owner == p.lease.owner
        return [LeaseReleased(p.lease.owner)] if is_ours else []

    with suppress(JournalConflictError):
        _transact(ports, decide)


def check_lease(p: Process, state: AggregateState) -> None:
    """Raise LeaseLostError when the process no longer holds the lease."""
    if state.lease is None or state.lease.owner != p.lease.owner:
        msg = f"the lease of '{state.name}' was taken over while this process worked"
        raise LeaseLostError(msg, wrote="what this refresh wrote is finished or undone by the process that took over")


def check_plan(p: Process, state: AggregateState) -> None:
    """Raise LeaseLostError when the process no longer holds the lease, or its plan was ended by another."""
    check_lease(p, state)
    if p.plan is not None and (state.plan is None or state.plan.id != p.plan.id):
        msg = f"refresh {p.plan.n} of '{state.name}' was ended by another process"
        raise LeaseLostError(msg, wrote="what this refresh wrote is finished or undone by the process that took over")


def commit_leased(p: Process, ports: Ports, decide: Callable[[AggregateState], Sequence[Event]]) -> None:
    """Append what *decide* says of the newest state; only the lease's holder may, and only for the plan it works on."""

    def checked(state: AggregateState) -> Sequence[Event]:
        check_plan(p, state)
        return decide(state)

    _transact(ports, checked)


def _transact(ports: Ports, decide: Callable[[AggregateState], Sequence[Event]]) -> None:
    """Append what *decide* says of the newest state; no event, no commit."""

    def append(seen: tuple[int, AggregateState], events: Sequence[Event]) -> None:
        if events:
            ports.append(seen[0], events)

    transact(ports.read, lambda seen: decide(seen[1]), append, attempts=ATTEMPTS)


def _take_lease(p: Process, ports: Ports) -> Process:
    def decide(state: AggregateState) -> list[Event]:
        lease = state.lease
        if lease is not None and lease.owner != p.lease.owner and not ports.is_dead(lease):
            msg = f"'{state.name}' is being worked on by process {lease.pid} on {lease.host}"
            hint = "wait until it has ended, then run the same command again"
            raise LeaseHeldError(msg, hint=hint, host=lease.host, pid=lease.pid)
        if state.is_closed:
            msg = f"the next version of '{state.name}' is being published"
            raise LeaseHeldError(msg, hint=f"run 'materializer switch {state.name}', which ends what was begun")
        return [LeaseTaken(p.lease)]

    _transact(ports, decide)
    return replace(p, at=At.RECOVER)


def recover(p: Process, ports: Ports) -> Process:
    """Look at what a dead process left: finish it, abort it, or go on when there is nothing."""
    _, state = ports.read()
    check_lease(p, state)  # or a process that slept would fence the plan of the process that took over
    if state.plan is None:
        return after_recovery(p, None)
    plan = state.plan
    _check_base(state, plan, Which.OUTPUT, plan.output, ports)
    p = replace(p, plan=plan)
    if state.switch:
        return replace(p, at=At.SWITCH_FENCE if is_known(Which.OUTPUT, plan, ports) else At.SWITCH_UNDO)
    _check_base(state, plan, Which.PARTIALS, plan.partials, ports)
    return replace(p, at=At.FINISH if is_known(Which.PARTIALS, plan, ports) else At.FENCE)


def _check_base(state: AggregateState, plan: Plan, which: Which, base: TableBase, ports: Ports) -> None:
    head = ports.head(which)
    if head.table_id != base.table_id or head.version < base.version:
        raise TablesAheadError(
            f"the {which} table of '{state.name}' is not the one refresh {plan.n} was planned on",
            hint=state.mend,
            found=f"{head.table_id} at {head.version}",
            expected=f"{base.table_id} at {base.version} or later",
            wrote=NOTHING,
        )
    check_history(state, which, head)


def is_known(which: Which, plan: Plan, ports: Ports) -> bool:
    """Whether the plan's commit is provably there."""
    try:
        return ports.has_commit(which, plan)
    except CommitsGoneError:
        return False


def is_absent(which: Which, plan: Plan, ports: Ports) -> bool:
    """Whether the plan's commit is provably not there."""
    try:
        return not ports.has_commit(which, plan)
    except CommitsGoneError:
        return False


def abort(p: Process, ports: Ports) -> Process:
    """Fence the output of a plan; where its partials have landed after all, finish it instead."""
    plan = plan_of(p)
    _, state = ports.read()
    check_plan(p, state)  # the process that took over may have seen a commit that can no longer be read now
    if is_known(Which.PARTIALS, plan, ports):
        return replace(p, at=At.FINISH, failure=None)
    ports.fence(Which.OUTPUT, plan)
    return replace(p, at=At.ABORTED)


def _aborted(p: Process, ports: Ports) -> Process:
    plan = plan_of(p)
    events: list[Event] = [Aborted(plan.n, str(p.failure) if p.failure else "the process that planned it died")]
    if not is_absent(Which.PARTIALS, plan, ports):
        forgotten = tuple(replace(e, after=None, keys=None, is_insert_only=False) for e in plan.taken)
        events.append(Invalidated(forgotten, "the partials carry the plan, or nobody can tell any more"))
    if p.failure:
        events.append(LeaseReleased(p.lease.owner))
    commit_leased(p, ports, lambda _: events)
    if p.failure:
        raise p.failure
    return after_recovery(p, "aborted")


def _finish(p: Process, ports: Ports) -> Process:
    plan = plan_of(p)
    _, state = ports.read()
    if ports.head(Which.OUTPUT).n < plan.n:
        ports.publish(plan, state.held)
    return replace(p, at=At.FINISHED)


def after_recovery(p: Process, how: str | None) -> Process:
    """Return the process where it goes on after recovery; *how* an open plan was ended, if there was one."""
    recovered = p.recovered if how is None else (*p.recovered, (plan_of(p).n, how))
    at = At.END if p.is_recovery_only else At.SWITCH_PLAN if p.switches else At.PLAN
    return replace(p, at=at, plan=None, recovered=recovered)


def _decide(p: Process, ports: Ports) -> Process:
    def decide(seen: _Seen) -> _Planned:
        version, state = seen
        check_lease(p, state)
        heads = {which: ports.head(which) for which in Which}
        try:
            check_heads(state, heads)
        except (ForeignTableError, TablesAheadError) as exc:
            if ports.read()[0] != version:  # the tables moved on together with the journal, after it was read
                raise JournalConflictError(exc.message) from exc
            raise
        return heads, ports.decide(state, heads)

    def append(seen: _Seen, planned: _Planned) -> None:
        _, decision = planned
        ports.append(seen[0], [*decision.events, *([LeaseReleased(p.lease.owner)] if _is_over(decision) else [])])

    def holds(before: _Seen, planned: _Planned, now: _Seen) -> bool:
        check_lease(p, now[1])
        return is_planned_still(before[1], planned[0], now[1], ports)

    _, decision = transact(ports.read, decide, append, holds=holds, attempts=ATTEMPTS, decisions=PLANS)
    done = next((e.report for e in decision.events if isinstance(e, Done)), None)
    at = At.END if _is_over(decision) else At.COMPUTE
    return replace(p, at=at, plan=decision.plan, work=decision.work, note=decision.note, report=done)


def is_planned_still(
    before: AggregateState, heads: dict[Which, OwnTableHead], now: AggregateState, ports: Ports
) -> bool:
    """Whether a plan made of the state *before* and the tables at *heads* is right for the state *now*.

    Whatever else was committed (renewed leases, other aggregates, delivery, checks) could as well have been committed after the plan.
    """
    return before.basis == now.basis and heads == {which: ports.head(which) for which in Which}


def _is_over(decision: Decision) -> bool:
    """Whether a decision leaves nothing to compute: there is no plan, or it ends where it was made."""
    return decision.plan is None or any(isinstance(e, Done) for e in decision.events)


def check_heads(state: AggregateState, heads: dict[Which, OwnTableHead]) -> None:
    """Refuse to plan over tables that are not as the journal left them."""
    for which, head in heads.items():
        if head.table_id != state.tables[which]:
            raise ForeignTableError(
                f"the {which} table of '{state.name}' is not the one that was created for it",
                hint=state.mend,
                found=head.table_id,
                expected=state.tables[which],
                wrote=NOTHING,
            )
        if head.n != state.written_n:
            raise TablesAheadError(
                f"the {which} table of '{state.name}' carries refresh {head.n}, the journal left it at {state.written_n}",
                hint=f"one of the two was restored from an old copy: {state.mend}",
                found=head.n,
                expected=state.written_n,
                wrote=NOTHING,
            )
        check_history(state, which, head)


def check_history(state: AggregateState, which: Which, head: OwnTableHead) -> None:
    """Refuse a table that carries the number that the journal has, but by the plan of another history.

    Raises:
        ForeignHistoryError: If it does.
    """
    if head.n == state.written_n and state.is_other_plan(head.plan):
        raise ForeignHistoryError(
            f"the {which} table of '{state.name}' carries refresh {head.n} of another history: plan {head.plan} wrote it",
            hint=f"the table or the journal is of a copy that went on by itself: {state.mend}",
            found=head.plan,
            expected=state.written_by,
            wrote=NOTHING,
        )


def _compute(p: Process, ports: Ports) -> Process:
    try:
        result = ports.compute(plan_of(p), p.work)
    except MaterializerError as exc:  # nothing was written yet: the plan is ended here, not by who comes next
        return replace(p, at=At.FENCE, failure=exc)
    return replace(p, at=At.AUDIT, result=result, todo=BOTH)


def _audit(p: Process, ports: Ports) -> Process:
    plan = plan_of(p)
    try:
        audit = ports.audit(plan, p.result)
    except MaterializerError as exc:  # a gate that cannot look lets nothing through
        return replace(p, at=At.FENCE, failure=exc, result=None)
    if audit is None:
        return replace(p, at=At.WRITE)
    withheld = tuple((s.start, s.end) for s in audit.held)
    dirt = [Invalidated(audit.dirt, "the audit found it wrong")] if audit.dirt else []
    commit_leased(p, ports, lambda _: [Audited(plan.n, withheld, audit.verdict), *dirt])
    if audit.failure is not None:
        return replace(p, at=At.FENCE, failure=audit.failure, result=None)
    return replace(p, at=At.WRITE, result=audit.result)
