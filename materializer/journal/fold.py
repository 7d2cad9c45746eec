"""The state of all aggregates, computed from the journal's events in order.

:func:`apply` defines what each event means. It refuses events that the protocol never writes (a second open plan, an end
without a plan), so that reading a damaged or foreign journal fails before a decision is based on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

from msgspec.structs import replace

from materializer.core.codec import from_json
from materializer.core.quality.canaries import after_sample
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry, InvalidationLog, SourceMark
from materializer.core.refresh.lateness import Lateness
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import NOTHING, JournalError
from materializer.journal.codec import Row, decode
from materializer.journal.events import (
    Aborted,
    Audited,
    BuildClosed,
    BuildOpened,
    BuildStarted,
    Captured,
    Checked,
    Defined,
    Delivered,
    Described,
    Done,
    Dropped,
    Event,
    Frozen,
    Invalidated,
    LeaseReleased,
    LeaseRenewed,
    LeaseTaken,
    Maintained,
    ParentSwitched,
    Planned,
    PolicyRan,
    Registered,
    Repaired,
    Retired,
    Snapshot,
    SourceIdentity,
    Switched,
    SwitchPlanned,
)
from materializer.journal.refused import refuse_definition, refuse_kinds, refuse_names
from materializer.journal.state import AggregateState, Ended, States

MAX_CHANGES: Final = 500
"""How many captures the state has row counts of."""
MAX_CHECKS: Final = 20
"""How many checks of the published rows the state has."""
MAX_WAITS: Final = 50
"""How many captures the state has waiting times of."""
_WITHOUT_LEASE: Final = (Described, Delivered, Registered, Checked)
"""Events that a process appends without a lease. They have no effect after another process dropped the aggregate."""
MAX_ENDED: Final = 50
"""How many ended refreshes the state has; the history table has the older ones."""


def fold(rows: Iterable[Row], states: States | None = None) -> States:
    """Return the living aggregates by id after *rows*, starting from *states*.

    Raises:
        JournalError: If an event cannot be read or cannot follow what came before it.
    """
    result = dict(states or {})
    for row in rows:
        state = folded(result.get(row.aggregate), row)
        if state is None:
            result.pop(row.aggregate, None)
        else:
            result[row.aggregate] = state
    return result


def folded(state: AggregateState | None, row: Row) -> AggregateState | None:
    """Return the state of the aggregate after *row*, None when the row drops it; raises as :func:`fold`."""
    try:
        after = apply(state, row.aggregate, decode(row), at=row.at)
        if after is not None and (state is None or _ids(after) != _ids(state)):
            refuse_names(after)
        if after is not None:
            refuse_kinds(after)
            if state is None or after.spec is not state.spec:
                refuse_definition(after)
        return after
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as exc:
        raise JournalError(
            f"the journal holds a {row.kind!r} event of {row.aggregate} that makes no sense: {exc}",
            hint="'materializer repair NAME' declares everything of it dirty; or restore the journal",
            wrote=NOTHING,
        ) from exc


def _ids(state: AggregateState) -> tuple[Any, ...]:
    return state.name, state.data_version, [id(version) for version in state.previous]


def apply(state: AggregateState | None, aggregate: str, event: Event, *, at: str = "") -> AggregateState | None:
    """Return the state after *event*, or None when the event drops the aggregate."""
    if isinstance(event, Snapshot):
        return from_json(AggregateState, event.state)
    if isinstance(event, Defined):
        return _defined(state, aggregate, event)
    if isinstance(event, BuildStarted) and state is None:
        from materializer.journal.version_fields import fields_of  # noqa: PLC0415 (few journals have a build)

        known = {**fields_of(event.version), "written_n": event.n}
        return AggregateState(id=aggregate, name=event.name, builds=event.builds, last_n=event.n, **known)
    if state is None and isinstance(event, _WITHOUT_LEASE):
        return None
    if state is None:
        msg = f"the journal holds a {type(event).__name__} event of {aggregate}, which is not defined there"
        raise JournalError(msg, hint="restore the journal from a backup", wrote=NOTHING)
    match event:
        case Described():
            return replace(state, spec=event.spec, source=event.source or state.source)
        case ParentSwitched():
            return replace(
                _without_plan(state, "moves the source of"),
                spec=event.spec,
                source=event.source,
                cursor=event.cursor,
                log=_everything(state.threshold, state.discarded, Cause.LOST),
                extent_end=NEG_INF,
                followed_end=POS_INF,
                null_times=None,
                changes=(),
                mark=SourceMark(),  # what is known of the other partials would call these a copy
            )
        case LeaseTaken():
            return replace(state, lease=event.lease)
        case LeaseRenewed():
            lease = state.lease
            if lease is None or lease.owner != event.owner:
                return state
            renewed = replace(lease, until=event.until)
            return replace(state, lease=renewed)
        case LeaseReleased():
            return replace(state, lease=None) if state.lease and state.lease.owner == event.owner else state
        case Captured():
            return _captured(state, event)
        case Invalidated():
            mark = replace(state.mark, reason=event.reason) if event.is_of_source else state.mark
            return replace(state, log=state.log.add(event.entries), mark=mark)
        case Frozen():
            expired = 0 if event.bound == NEG_INF else state.expired_rows
            return replace(state, frozen=event.bound, log=state.log.cut(event.settled).left, expired_rows=expired)
        case Retired():
            return _retired(state, event)
        case Planned():
            return planned(state, event)
        case Audited():
            _open_plan(state, event.n)
            sampled = event.verdict.get("sampled")
            canaries = after_sample(state.canaries, sampled, event.n, at) if sampled else state.canaries
            withheld = SpanSet.union(Span(a, b) for a, b in event.held)
            return replace(state, held=withheld, verdict=event.verdict, canaries=canaries)
        case Done():
            plan = _open_plan(state, event.n)
            back = InvalidationLog(plan.taken).cut(state.held).taken
            ended = Ended(event.n, at, "done", plan.window, event.report, "", state.verdict, state.policy)
            written = event.n if plan.spans else state.written_n
            remembered = {**state.engine, **state.engine_next}
            by = plan.id if plan.spans else state.written_by
            closed = _close(state, ended)
            return replace(closed, log=state.log.add(back), written_n=written, written_by=by, engine=remembered)
        case Aborted():
            plan = _open_plan(state, event.n)
            report = RunReport(plan.source_version, plan.strategy, plan.lane.value)
            ended = Ended(event.n, at, "aborted", plan.window, report, event.reason, state.verdict, state.policy)
            return replace(_close(state, ended), log=state.log.add(plan.taken), written_n=event.n, written_by=plan.id)
        case Delivered():
            return replace(state, delivered=max(event.version, state.delivered or 0))
        case Registered():
            return replace(state, table=event.table, table_problem=event.problem)
        case PolicyRan():
            _, latest = state.policy_runs.get(event.policy, (0, event.clock))
            if event.clock < latest and not event.is_by_clock:
                return state  # a request for an old window moves no schedule
            return replace(state, policy_runs={**state.policy_runs, event.policy: (event.now, event.clock)})
        case Checked():
            return replace(state, checks=(*state.checks, {**event.verdict, "at": at})[-MAX_CHECKS:])
        case Repaired():
            return _repaired(state, event, None if event.source is None else SourceIdentity(**event.source))
        case Maintained():
            return replace(state, maintained={**event.report, "n": state.last_n, "at": at})
        case SwitchPlanned():
            return replace(planned(state, Planned(event.plan, NEG_INF)), switch=event.build)
        case BuildClosed():
            return replace(_without_plan(state, "closes"), is_closed=True, lease=None)
        case BuildOpened():
            return replace(state, is_closed=False)
        case Switched():
            return _switched(state, event, at)
        case BuildStarted():
            msg = f"the journal starts build {aggregate} of {state.name} twice"
            raise JournalError(msg, hint="restore the journal from a backup", wrote=NOTHING)
        case Dropped():
            return None
        case _:
            assert_never(event)


def _defined(state: AggregateState | None, aggregate: str, event: Defined) -> AggregateState:
    if state is None:
        return AggregateState(
            aggregate,
            event.name,
            event.spec,
            event.data_version,
            event.source,
            event.schemas,
            event.tables,
            event.cursor,
        )
    return replace(
        _without_plan(state, "redefines"),
        spec=event.spec,
        data_version=event.data_version,
        source=event.source,
        schemas=event.schemas,
        tables=event.tables,
        cursor=event.cursor,
        threshold=NEG_INF,
        log=InvalidationLog.everything(),
        extent_end=NEG_INF,
        followed_end=POS_INF,
        engine={},
        engine_next={},
        delivered=None,
        policy_runs={},
        canaries={},
        frozen=NEG_INF,
        retired=NEG_INF,
        expired_rows=0,
        written_by="",
    )


def _captured(state: AggregateState, event: Captured) -> AggregateState:
    frozen_below = max(state.frozen, state.discarded)
    exact_at = None if state.plan else state.cursor  # what a plan took is in the log again if the plan is aborted
    log = state.log.add(event.entries).limited(event.max_entries, frozen_below=frozen_below, exact_at=exact_at)
    counted = [c["rows"] for c in event.counts]
    changes = (*state.changes, (event.version, None if None in counted else sum(counted)))
    taken = state.plan.taken if state.plan else ()
    oldest = min((e.after for e in (*log.entries, *taken) if e.after is not None), default=event.version)
    changes = tuple(c for c in changes if c[0] > oldest)
    if len(changes) > MAX_CHANGES:
        (_, first), (version, second), *rest = changes
        changes = ((version, None if first is None or second is None else first + second), *rest)
    return replace(
        state,
        cursor=event.version,
        log=log,
        extent_end=event.extent_end,
        followed_end=event.followed_end,
        null_times=event.null_times,
        changes=changes,
        lateness=state.lateness + Lateness.from_json(event.lateness),
        expired_rows=state.expired_rows + event.expired,
        mark=state.mark if event.mark is None else state.mark.after(event.mark),
        source=replace(state.source, table_id=event.table_id) if event.table_id else state.source,
        waits=(*state.waits, *([] if event.waited is None else [event.waited]))[-MAX_WAITS:],
    )


def _retired(state: AggregateState, event: Retired) -> AggregateState:
    """Return *state* after its first retained edge moved.

    Up: the buckets below the edge will be discarded, so no other cause of theirs stays in the log. An engine's log stays,
    because results above the edge may depend on what is dirty below it. Down: the buckets above the edge are not stored any
    more, so they are dirty as after ``invalidate``.
    """
    if event.bound < state.retired:
        wanted = Span(event.bound, state.retired)
        entry = Entry(wanted, None, Cause.INVALIDATED, gone=ANY_ROWS)
        return replace(state, retired=event.bound, log=state.log.cut(SpanSet.of(wanted)).left.add([entry]))
    if event.bound == state.retired or state.is_engine:
        return replace(state, retired=event.bound)
    gone = state.log.retired | SpanSet.of(Span(state.retired, event.bound))
    _, above = state.log.split(event.bound)
    return replace(state, retired=event.bound, log=above.add(Entry(s, None, Cause.RETIRED) for s in gone))


def planned(state: AggregateState, event: Planned) -> AggregateState:
    """Return the state with an open plan: what the plan takes leaves the log."""
    plan = event.plan
    if state.plan is not None or plan.n <= state.last_n or state.is_closed:
        msg = f"the journal plans refresh {plan.n} of {state.name} after {state.last_n}, open: {state.plan is not None}"
        raise JournalError(msg, hint="restore the journal from a backup", wrote=NOTHING)
    left = state.log.cut(SpanSet.union(e.span for e in plan.taken)).left
    threshold = max(state.threshold, event.threshold)
    return replace(
        state,
        log=left,
        threshold=threshold,
        plan=plan,
        last_n=plan.n,
        held=SpanSet(),
        policy=policy_of(event.options),
        engine_next=dict(event.options.get("engine", {})),
    )


def policy_of(options: Mapping[str, Any]) -> str:
    """Return the refresh policy that a plan with these options was made for, or ""."""
    return str(options.get("policy", {}).get("name", ""))


def _without_plan(state: AggregateState, does: str) -> AggregateState:
    if state.plan:
        msg = f"the journal {does} {state.name} while refresh {state.plan.n} is open"
        raise JournalError(msg, hint="restore the journal from a backup", wrote=NOTHING)
    return state


def _switched(state: AggregateState, event: Switched, at: str) -> AggregateState:
    from materializer.journal.version_fields import fields_of, version_of  # noqa: PLC0415 (as above)

    plan = _open_plan(state, event.n)
    old = version_of(replace(state, written_n=event.n))
    ended = Ended(event.n, at, "switched", EVERYTHING, event.report)
    tables = {**event.version["tables"], "output": state.tables["output"]}  # readers read the same table
    is_same_clock = old["spec"].get("time_type") == event.version["spec"].get("time_type")
    return replace(
        _close(state, ended),
        **(fields_of(event.version) | {"tables": tables, "written_n": event.n}),
        written_by=plan.id,
        engine_next={},
        delivered=None,
        policy_runs=state.policy_runs if is_same_clock else {},
        previous=(old, *(v for v in state.previous if not _is_again(event.version, v)))[: event.keep],
        canaries={},
    )


def _is_again(version: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether *version* is *before*, refreshed further; then *before* is no longer of use for a rollback."""
    return all(version[field] == before[field] for field in ("spec", "source"))


def _open_plan(state: AggregateState, n: int) -> Plan:
    if state.plan is None or state.plan.n != n:
        open_n = state.plan and state.plan.n
        msg = f"the journal ends refresh {n} of {state.name}, but the open one is {open_n}"
        raise JournalError(msg, hint="restore the journal from a backup", wrote=NOTHING)
    return state.plan


def _close(state: AggregateState, ended: Ended) -> AggregateState:
    ends = (*state.ended, ended)[-MAX_ENDED:]
    return replace(state, plan=None, switch="", held=SpanSet(), verdict={}, policy="", ended=ends)


def _repaired(state: AggregateState, event: Repaired, source: SourceIdentity | None) -> AggregateState:
    """Return *state* after a repair.

    The threshold stays above all stored rows, so that a refresh also computes buckets in which the source has no rows. Buckets
    below the first retained edge are not computed again.

    Args:
        state: The aggregate; no plan of it is open.
        event: The repair.
        source: The source from here on, None if it did not change.
    """
    if state.plan is not None:
        msg = f"{state.name} is repaired while refresh {state.plan.n} is open"
        raise ValueError(msg)
    state = replace(
        state,
        data_version=event.data_version,
        tables=event.tables,
        source=source or state.source,
        last_n=max(state.last_n, event.n),
        written_n=event.n,
        written_by="",
        delivered=state.delivered if state.tables["output"] == event.tables["output"] else None,
    )
    if not event.is_everything_dirty:
        return state
    threshold = state.threshold if event.threshold is None else max(state.threshold, event.threshold)
    return replace(
        state,
        cursor=state.cursor if event.cursor is None else event.cursor,
        threshold=threshold,
        log=_everything(threshold, state.discarded, Cause.REPAIRED),
        extent_end=NEG_INF,
        null_times=None,
        changes=(),
        engine={},
        engine_next={},
    )


def _everything(threshold: int, discarded: int, cause: Cause) -> InvalidationLog:
    """Return a log in which everything is dirty; below *discarded* the cause is RETIRED, so that rows there are removed.

    Args:
        threshold: The end of what was materialised, which is dirty for *cause*.
        discarded: The first retained edge.
        cause: Why.
    """
    entries = []
    if discarded != NEG_INF:
        entries.append(Entry(Span(NEG_INF, discarded), None, Cause.RETIRED))
    if discarded < threshold:
        gone = ANY_ROWS if cause is Cause.LOST else 0
        entries.append(Entry(Span(discarded, threshold), None, cause, gone=gone))
    return InvalidationLog((*entries, Entry(Span(max(discarded, threshold), POS_INF))))
