"""What a refresh touches, in memory: one step of one process over a :class:`MemoryLake`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never

from materializer.adapters.memory.lake import AGGREGATE, WIDTH, MemoryLake, MemoryTable, appended, spans_of
from materializer.core.engines.work import Work
from materializer.core.refresh import strategies
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import (
    Estimate,
    Lane,
    Merge,
    Plan,
    Recompute,
    Retract,
    RollUp,
    RunReport,
    Settle,
    Step,
    TableBase,
)
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import DataError, JournalConflictError, StorageError, WriteFencedError
from materializer.journal import fold
from materializer.journal.codec import decode, encode
from materializer.journal.events import Aborted, Captured, Done, Event, Lease, LeaseTaken, Planned
from materializer.journal.state import AggregateState
from materializer.services.protocol.decision import Decision
from materializer.services.protocol.process import Audit, CommitsGoneError, OwnTableHead, Ports, Which

_OPEN: Final = "what it wrote is finished or undone by the next command"
FAILURES: Final = {
    "compute": DataError("the rows fail"),
    "audit": DataError("the gate refuses"),
    "write": StorageError("the disk is full", wrote=_OPEN),
    "answer": StorageError("the answer was lost", wrote=_OPEN),
}
"""One object for each failure, because a process that carries it has to stay comparable."""


class MemoryPorts(Ports):
    """The protocol's outside for one step of one process; see :class:`materializer.services.protocol.process.Ports`.

    It also notes in the lake's ``wrong`` the first rule of the protocol that the process breaks.

    Args:
        lake: Replaced by what the step makes of it.
        owner: The process.
        window: Buckets that it refreshes.
        merging: Buckets that planning merges wherever that is allowed.
        fails: ``compute`` or ``write`` when that fails in this step; ``answer`` when a write is made and its answer is lost.
        holding: Buckets that the gate withholds; it refuses everything when they are all. None when there is no gate.
    """

    def __init__(
        self,
        lake: MemoryLake,
        owner: str,
        window: Sequence[int],
        merging: Collection[int] = (),
        fails: str = "",
        holding: Collection[int] | None = None,
    ) -> None:
        self.lake = lake
        self.owner = owner
        self.window = window
        self.merging = merging
        self.fails = fails
        self.holding = holding

    # -- journal ---------------------------------------------------------------------------------------------------------

    def read(self) -> tuple[int, AggregateState]:
        """See :class:`Ports`."""
        return self.lake.version, self.lake.state

    def append(self, version: int, events: Sequence[Event]) -> None:
        """See :class:`Ports`; notes an append that only the lease's holder may make."""
        if version != self.lake.version:
            raise JournalConflictError("another process was first")
        state = self.lake.state
        if not isinstance(events[0], LeaseTaken) and (state.lease is None or state.lease.owner != self.owner):
            self.note(f"lease: {type(events[0]).__name__} by process {self.owner}, which does not hold it")
        aborted = [state.plan.id for e in events if isinstance(e, Aborted) and state.plan]
        if state.plan and aborted and self.is_to_finish(state.plan):
            self.note(f"finished: {state.plan.id} is aborted, and the partials carry it")
        self.lake = self.lake._replace(
            journal=appended(self.lake.journal, *events), aborted=(*self.lake.aborted, *aborted)
        )

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken."""
        self.lake = self.lake._replace(wrong=self.lake.wrong or wrong)

    def is_to_finish(self, plan: Plan) -> bool:
        """Whether the partials carry a commit of the plan, and the commits of both tables since can be read."""
        try:
            MemoryPorts.has_commit(self, Which.OUTPUT, plan)
            return MemoryPorts.has_commit(self, Which.PARTIALS, plan)  # whatever a subclass makes of it
        except CommitsGoneError:
            return False

    def is_dead(self, lease: Lease) -> bool:  # noqa: ARG002 - the port's signature
        """See :class:`Ports`; a process that asks takes the other for dead, rightly or not."""
        return True

    # -- tables ----------------------------------------------------------------------------------------------------------

    def table(self, which: Which) -> MemoryTable:
        """Return one of the two tables."""
        return self.lake.partials if which is Which.PARTIALS else self.lake.output

    def put(self, which: Which, table: MemoryTable) -> None:
        """Replace one of the two tables."""
        is_output = which is Which.OUTPUT
        self.lake = self.lake._replace(output=table) if is_output else self.lake._replace(partials=table)

    def head(self, which: Which) -> OwnTableHead:
        """See :class:`Ports`."""
        table = self.table(which)
        return OwnTableHead(which.value, len(table.commits), table.n, table.plan)

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """See :class:`Ports`."""
        table, base = self.table(which), plan.partials if which is Which.PARTIALS else plan.output
        if table.gone > base.version:
            raise CommitsGoneError
        return any(c.plan == plan.id and c.kind == "data" for c in table.commits[base.version :])

    def fence(self, which: Which, plan: Plan) -> None:
        """See :class:`Ports`."""
        with suppress(WriteFencedError):
            self.put(which, self.table(which).committed(plan, "fence", {}))

    def write(self, plan: Plan, result: Any, which: frozenset[Which]) -> None:
        """See :class:`Ports`."""
        if self.fails == "write":
            raise FAILURES["write"]
        for table in which:
            self._commit(table, plan, dict(result))
        if self.fails == "answer":
            raise FAILURES["answer"]

    def publish(self, plan: Plan, withheld: SpanSet) -> None:
        """See :class:`Ports`."""
        buckets = self.lake.inside(plan.spans - withheld)
        self._commit(Which.OUTPUT, plan, {b: self.lake.partials.values[b] for b in buckets})

    def _commit(self, which: Which, plan: Plan, values: dict[int, int]) -> None:
        before = self.table(which)
        after = before.committed(plan, "data", values)
        if which is Which.OUTPUT and after != before and plan.id in self.lake.aborted:
            self.note(f"aborted: output of {plan.id} is published")
        self.put(which, after)

    # -- planning --------------------------------------------------------------------------------------------------------

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """See :class:`Ports`; captures, cuts and plans as a refresh of the window does."""
        events = self.captured(state)
        for event in events:
            state = _applied(state, event)
        taken = state.log.cut(spans_of(self.window)).taken
        if not taken:
            return Decision(tuple(events))
        n = self.number(state, heads)
        hull = Span(min(self.window) * WIDTH, (max(self.window) + 1) * WIDTH)
        steps = self._steps(taken, state.cursor)
        partials, output = (TableBase(heads[w].table_id, heads[w].version) for w in Which)
        plan = Plan(f"plan-{n}-{self.owner}", n, state.cursor, hull, taken, steps, Lane.DRIVER, partials, output)
        events.append(Planned(plan, hull.end))
        if not plan.spans:
            events.append(Done(n, self.report(plan, None)))
        return Decision(tuple(events), plan)

    def number(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> int:
        """Return the number of a new plan."""
        return 1 + max(state.last_n, *(head.n for head in heads.values()))

    def captured(self, state: AggregateState) -> list[Event]:
        """Return what the change feed of ``(cursor, newest]`` says; nothing when there is nothing new."""
        newest = len(self.lake.source)
        if newest == state.cursor:
            return []
        changed = [
            (b, self.lake.changes(b, state.cursor, newest)) for b in self.lake.buckets if b * WIDTH < state.threshold
        ]
        entries = tuple(
            Entry(
                Span(b * WIDTH, (b + 1) * WIDTH),
                state.cursor,
                Cause.CHANGE,
                is_insert_only=set(kinds) == {"insert"},
            )
            for b, kinds in changed
            if kinds
        )
        return [Captured(newest, entries)]

    def _steps(self, taken: Sequence[Entry], version: int) -> tuple[Step, ...]:
        """Return the real decision, with costs that make it merge the buckets *merging* wherever merging is allowed."""
        lake = self.lake

        def present(spans: SpanSet) -> SpanSet:
            empty = [
                b
                for b in lake.buckets
                if not (lake.truth(b, version) or lake.partials.values[b] or lake.output.values[b])
            ]
            return spans - spans_of(empty)

        facts = strategies.Facts(
            lambda spans: Estimate(rows=9 if set(lake.inside(spans)) & set(self.merging) else 0),
            lambda _, __: Estimate(rows=1),
            lambda _: Estimate(),
            present,
            feed_from=0,
        )
        return tuple(_plain(step) for step in strategies.decide(taken, facts))

    # -- computing -------------------------------------------------------------------------------------------------------

    def compute(self, plan: Plan, work: Work | None) -> Any:  # noqa: ARG002 (no engine here)
        """See :class:`Ports`; returns (bucket, new value) pairs. A merge adds to the newest partials, pinned or not."""
        if self.fails == "compute":
            raise FAILURES["compute"]
        return tuple((b, x) for step in plan.steps for b, x in self._computed(step, plan))

    def _computed(self, step: Step, plan: Plan) -> list[tuple[int, int]]:
        lake, v, buckets = self.lake, plan.source_version, self.lake.inside(step.spans)
        match step:
            case Settle():
                return []
            case Recompute():
                return [(b, lake.truth(b, v)) for b in buckets]
            case Merge():
                return [(b, lake.partials.values[b] + lake.changes(b, step.after, v).count("insert")) for b in buckets]
            case Retract():
                changed = [(b, lake.changes(b, step.after, v)) for b in buckets]
                return [(b, lake.partials.values[b] + c.count("insert") - c.count("delete")) for b, c in changed]
            case RollUp():
                return [(b, lake.truth(b, v)) for b in buckets]
            case _:
                assert_never(step)

    def audit(self, plan: Plan, result: Any) -> Audit | None:
        """See :class:`Ports`."""
        if self.holding is None:
            return None
        withheld = spans_of(self.holding) & plan.spans
        refused = FAILURES["audit"] if withheld == plan.spans else None
        return Audit(tuple((b, x) for b, x in result if b not in self.holding), withheld, {}, refused)

    def report(self, plan: Plan, result: Any) -> RunReport:  # noqa: ARG002 - the port's signature
        """See :class:`Ports`."""
        return RunReport(plan.source_version)


def _plain(step: Step) -> Step:
    match step:  # what is only said to people would make equal plans differ
        case Settle():
            return step
        case Recompute():
            return Recompute(step.spans, "")
        case Merge():
            return Merge(step.spans, step.after)
        case Retract():
            return Retract(step.spans, step.after)
        case RollUp():
            return RollUp(step.spans, "", step.parent, step.path, step.version, step.keys)
        case _:
            assert_never(step)


def _applied(state: AggregateState, event: Event) -> AggregateState:
    after = fold.apply(state, AGGREGATE, decode(encode(AGGREGATE, event, at="")))
    if after is None:
        msg = f"{event} ended the aggregate"
        raise AssertionError(msg)
    return after
