"""A lake small enough to explore whole: one source, one journal, two tables, all of it one hashable value.

Two buckets, ``[0, 10)`` and ``[10, 20)``; a value is a sum of inserted minus deleted rows, so merging twice shows.
:class:`MemoryPorts` is the protocol's outside over such a world. The journal is one snapshot row: every append goes
through the real ``encode``, ``decode`` and ``fold``, and what cannot matter (the ended refreshes) is dropped again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple, assert_never

from materializer.core.codec import as_json
from materializer.core.refresh import plan as planning
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import (
    Estimate,
    Facts,
    Lane,
    Merge,
    Plan,
    Recompute,
    RunReport,
    Settle,
    Step,
    TableBase,
)
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import DataError, JournalConflictError, StorageError
from materializer.journal import fold
from materializer.journal.codec import Row, decode, encode
from materializer.journal.events import (
    Aborted,
    Captured,
    Defined,
    Done,
    Event,
    Lease,
    LeaseTaken,
    Planned,
    Snapshot,
    SourceIdentity,
)
from materializer.journal.state import AggregateState
from materializer.services.protocol.decision import Decision
from materializer.services.protocol.process import Audit, CommitsGoneError, OwnTableHead, Which

AGGREGATE: Final = "a1"
BUCKETS: Final = (0, 1)
WIDTH: Final = 10
DEFINED: Final = Defined("bars", {}, "d1", SourceIdentity("src", "s"), 0, {}, {w.value: w.value for w in Which})
FAILURES: Final = {
    "compute": DataError("the rows fail"),
    "audit": DataError("the gate refuses"),
    "write": StorageError("the disk is full"),
}
"""One object for each failure, because a process that carries it has to stay comparable."""


class Commit(NamedTuple):
    """One commit of a table of ours; its version is its place, counted from 1."""

    n: int
    plan: str
    kind: str


class Table(NamedTuple):
    """A table of ours: its commits, how many of them can no longer be read, and a value for each bucket."""

    commits: tuple[Commit, ...] = ()
    gone: int = 0
    values: tuple[int, ...] = (0,) * len(BUCKETS)

    @property
    def n(self) -> int:
        """Largest refresh number recorded."""
        return self.commits[-1].n if self.commits else 0

    def committed(self, plan: Plan, kind: str, values: dict[int, int]) -> Table:
        """Return the table after a commit of *plan*; unchanged when it already has that number or a higher one."""
        if self.n >= plan.n:
            return self
        new = tuple(values.get(b, x) for b, x in zip(BUCKETS, self.values, strict=True))
        return self._replace(commits=(*self.commits, Commit(plan.n, plan.id, kind)), values=new)


class World(NamedTuple):
    """Everything outside the processes.

    Args:
        source: The change (kind, bucket) that each version made, from version 1 on.
        journal: The folded journal, as its snapshot row.
        aborted: Ids of plans that were aborted.
        wrong: A rule that a step broke, or "".
    """

    source: tuple[tuple[str, int], ...]
    journal: Row
    partials: Table = Table()
    output: Table = Table()
    aborted: tuple[str, ...] = ()
    wrong: str = ""

    @classmethod
    def first(cls) -> World:
        """Return the world right after the aggregate was defined."""
        return cls((), _appended(None, (encode(AGGREGATE, DEFINED, at=""),)))

    @property
    def state(self) -> AggregateState:
        """The aggregate as the journal knows it."""
        return _state(self.journal)

    def truth(self, bucket: int, version: int) -> int:
        """Return what *bucket* is worth at a source version."""
        return sum(1 if kind == "insert" else -1 for kind, b in self.source[:version] if b == bucket)

    def changes(self, bucket: int, after: int, upto: int) -> list[str]:
        """Return the kinds of change of *bucket* in ``(after, upto]``."""
        return [kind for kind, b in self.source[after:upto] if b == bucket]


@cache
def _state(journal: Row) -> AggregateState:
    return fold.fold([journal])[AGGREGATE]


@cache
def _appended(journal: Row | None, rows: tuple[Row, ...]) -> Row:
    state = fold.fold(rows if journal is None else (journal, *rows))[AGGREGATE]
    return encode(AGGREGATE, Snapshot(as_json(replace(state, ended=()))), at="")


def forget_folds() -> None:
    """Empty the caches; to be called when the code under exploration was changed."""
    _state.cache_clear()
    _appended.cache_clear()


def bucket_span(bucket: int) -> Span:
    """Return the time of *bucket*."""
    return Span(bucket * WIDTH, (bucket + 1) * WIDTH)


def spans_of(buckets: Sequence[int]) -> SpanSet:
    """Return the time of several buckets."""
    return SpanSet.of(*map(bucket_span, buckets))


def buckets_of(spans: SpanSet) -> list[int]:
    """Return the buckets that begin inside *spans*."""
    return [b for b in BUCKETS if b * WIDTH in spans]


def capture(world: World, state: AggregateState) -> list[Event]:
    """Return what the change feed of ``(cursor, newest]`` says; nothing when there is nothing new."""
    newest = len(world.source)
    if newest == state.cursor:
        return []
    found = [(b, world.changes(b, state.cursor, newest)) for b in BUCKETS if b * WIDTH < state.threshold]
    entries = tuple(
        Entry(bucket_span(b), state.cursor, Cause.CHANGE, is_insert_only=set(kinds) == {"insert"})
        for b, kinds in found
        if kinds
    )
    return [Captured(newest, entries)]


def steps_for(world: World, taken: Sequence[Entry], version: int, merging: Sequence[int]) -> tuple[Step, ...]:
    """Return the real decision, with costs that make it merge the buckets *merging* wherever merging is allowed."""

    def present(spans: SpanSet) -> SpanSet:
        empty = [
            b for b in BUCKETS if not (world.truth(b, version) or world.partials.values[b] or world.output.values[b])
        ]
        return spans - spans_of(empty)

    facts = Facts(
        raw=lambda spans: Estimate(rows=9 if set(buckets_of(spans)) & set(merging) else 0),
        changed=lambda _, __: Estimate(rows=1),
        kept=lambda _: Estimate(),
        present=present,
        feed_from=0,
    )
    return tuple(_plain(step) for step in planning.decide(taken, facts))


def _plain(step: Step) -> Step:
    match step:  # what is only said to people would make equal plans differ
        case Settle():
            return step
        case Recompute():
            return Recompute(step.spans, "")
        case Merge():
            return Merge(step.spans, step.after)
        case _:
            assert_never(step)


class MemoryPorts:
    """The protocol's outside for one step of one process.

    Args:
        world: Replaced by what the step makes of it.
        owner: The process.
        window: Buckets that it refreshes.
        merging: Buckets that planning merges wherever that is allowed.
        fails: ``compute`` or ``write`` when that fails in this step.
        holding: Buckets that the gate holds back, and everything when they are all; None when there is no gate.
    """

    def __init__(
        self,
        world: World,
        owner: str,
        window: Sequence[int],
        merging: Sequence[int] = (),
        fails: str = "",
        holding: Sequence[int] | None = None,
    ) -> None:
        self.world = world
        self.owner = owner
        self.window = window
        self.merging = merging
        self.fails = fails
        self.holding = holding

    def read(self) -> tuple[int, AggregateState]:
        """Return the folded state; equal journals have equal versions, which allows more than a real journal does."""
        return hash(self.world.journal), self.world.state

    def append(self, version: int, events: Sequence[Event]) -> None:
        """Fold *events* in, and note an append that only the lease's holder may make."""
        if version != hash(self.world.journal):
            raise JournalConflictError("another process was first")
        lease = self.world.state.lease
        if not isinstance(events[0], LeaseTaken) and (lease is None or lease.owner != self.owner):
            self.note(f"lease: {type(events[0]).__name__} by process {self.owner}, which does not hold it")
        plan = self.world.state.plan
        aborted = [plan.id for e in events if isinstance(e, Aborted) and plan]
        if plan and aborted and self.is_to_finish(plan):
            self.note(f"finished: {plan.id} is aborted, and the partials carry it")
        rows = tuple(encode(AGGREGATE, e, at="") for e in events)
        self.world = self.world._replace(
            journal=_appended(self.world.journal, rows), aborted=(*self.world.aborted, *aborted)
        )

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken."""
        self.world = self.world._replace(wrong=self.world.wrong or wrong)

    def note_stopped(self, owner: str) -> None:
        """Note that a process was told of a takeover although it holds the lease; unreadable commits excuse it."""
        lease = self.world.state.lease
        if lease and lease.owner == owner and not any(self.table(which).gone for which in Which):
            self.note(f"held: process {owner} holds the lease and was stopped by another")

    def is_to_finish(self, plan: Plan) -> bool:
        """Whether the partials carry a commit of the plan, and everybody can read the commits of both tables since."""
        try:
            MemoryPorts.has_commit(self, Which.OUTPUT, plan)
            return MemoryPorts.has_commit(self, Which.PARTIALS, plan)  # whatever a mutation makes of it
        except CommitsGoneError:
            return False

    def table(self, which: Which) -> Table:
        """Return one of the two tables."""
        return self.world.partials if which is Which.PARTIALS else self.world.output

    def put(self, which: Which, table: Table) -> None:
        """Replace one of the two tables."""
        self.world = self.world._replace(**{which.value: table})

    def head(self, which: Which) -> OwnTableHead:
        """Return a table's identity, version and number."""
        table = self.table(which)
        return OwnTableHead(which.value, len(table.commits), table.n)

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """Whether a data commit carries the plan's id."""
        table, base = self.table(which), plan.partials if which is Which.PARTIALS else plan.output
        if table.gone > base.version:
            raise CommitsGoneError
        return any(c.plan == plan.id and c.kind == "data" for c in table.commits[base.version :])

    def fence(self, which: Which, plan: Plan) -> None:
        """Record the number in an empty commit."""
        self.put(which, self.table(which).committed(plan, "fence", {}))

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """Capture, cut and plan, as a refresh of the window does."""
        events = capture(self.world, state)
        for event in events:
            state = _applied(state, event)
        taken = state.log.cut(spans_of(self.window)).taken
        if not taken:
            return Decision(tuple(events))
        n = self.number(state, heads)
        hull = Span(min(self.window) * WIDTH, (max(self.window) + 1) * WIDTH)
        steps = steps_for(self.world, taken, state.cursor, self.merging)
        bases = [TableBase(heads[w].table_id, heads[w].version) for w in Which]
        plan = Plan(f"plan-{n}-{self.owner}", n, state.cursor, hull, taken, steps, Lane.DRIVER, *bases)
        events.append(Planned(plan, hull.end))
        if not plan.spans:
            events.append(Done(n, self.report(plan, None)))
        return Decision(tuple(events), plan)

    def number(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> int:
        """Return the number of a new plan."""
        return 1 + max(state.last_n, *(head.n for head in heads.values()))

    def compute(self, plan: Plan, work: object) -> Any:  # noqa: ARG002 (no engine here)
        """Return (bucket, new value) for each step; kept partials are the newest ones, pinned or not."""
        if self.fails == "compute":
            raise FAILURES["compute"]
        return tuple((b, x) for step in plan.steps for b, x in self._computed(step, plan))

    def _computed(self, step: Step, plan: Plan) -> list[tuple[int, int]]:
        world, v, buckets = self.world, plan.source_version, buckets_of(step.spans)
        match step:
            case Settle():
                return []
            case Recompute():
                return [(b, world.truth(b, v)) for b in buckets]
            case Merge():
                return [
                    (b, world.partials.values[b] + world.changes(b, step.after, v).count("insert")) for b in buckets
                ]
            case _:
                assert_never(step)

    def audit(self, plan: Plan, result: Any) -> Audit | None:
        """Hold some buckets back, or refuse everything."""
        if self.holding is None:
            return None
        held = spans_of(self.holding) & plan.spans
        refused = FAILURES["audit"] if held == plan.spans else None
        return Audit(tuple((b, x) for b, x in result if b not in self.holding), held, {}, refused)

    def write(self, plan: Plan, result: Any, which: frozenset[Which]) -> None:
        """Commit to the tables."""
        if self.fails == "write":
            raise FAILURES["write"]
        for table in which:
            self._commit(table, plan, dict(result))

    def publish(self, plan: Plan, held: SpanSet) -> None:
        """Commit the output from what the partials hold."""
        buckets = buckets_of(plan.spans - held)
        self._commit(Which.OUTPUT, plan, {b: self.world.partials.values[b] for b in buckets})

    def _commit(self, which: Which, plan: Plan, values: dict[int, int]) -> None:
        before = self.table(which)
        after = before.committed(plan, "data", values)
        if which is Which.OUTPUT and after != before and plan.id in self.world.aborted:
            self.note(f"aborted: output of {plan.id} is published")
        self.put(which, after)

    def report(self, plan: Plan, result: Any) -> RunReport:  # noqa: ARG002 - the port's signature
        """Return a report; nobody explores it."""
        return RunReport(plan.source_version)

    def is_dead(self, lease: Lease) -> bool:  # noqa: ARG002 - the port's signature
        """Whoever asks has decided that the other is dead, rightly or not."""
        return True


def _applied(state: AggregateState, event: Event) -> AggregateState:
    after = fold.apply(state, AGGREGATE, decode(encode(AGGREGATE, event, at="")))
    if after is None:
        msg = f"{event} ended the aggregate"
        raise AssertionError(msg)
    return after
