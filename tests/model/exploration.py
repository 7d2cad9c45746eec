"""Every order in which refreshes, deaths, takeovers, late writers and source commits can meet, in small bounds.

The code that is explored is the project's own: ``steps.advance`` and ``write`` over ``journal.fold`` and
``core.plan.decide``. A state is a world and the processes in it. The rules that are checked in every state:

  clean     a bucket that is neither in the log nor in an open plan has partials = output = truth at the cursor
  after     a logged bucket whose entry says ``after = a`` has partials = truth at a
  tail      everything at or above the threshold is in the log or in the open plan
  numbers   refresh numbers rise in each table, and none is beyond the journal's last
  aborted   a plan that was aborted publishes no output afterwards
  finished  a plan whose commit is in the partials is finished and not aborted, unless commits can no longer be read
  lease     nobody appends to the journal without holding the lease
  held      nobody stops the refresh of a process that holds the lease, unless commits can no longer be read
  error     nothing looks damaged: no error but a lost lease, a fenced write, or a failure of the data or the disk
  ends      from every state, one undisturbed refresh of everything leaves no dirt, and clean holds; so does one during whose
            plan its lease is renewed and other aggregates commit, however often it plans
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from materializer.adapters.memory.lake import WIDTH, MemoryLake, appended, forget_folds, spans_of
from materializer.adapters.memory.ports import MemoryPorts
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry
from materializer.core.time.spans import POS_INF, Span, SpanSet
from materializer.errors import DataError, LeaseLostError, StorageError, WriteFencedError
from materializer.journal.events import Delivered, Invalidated, Lease, LeaseRenewed
from materializer.journal.state import AggregateState
from materializer.services.protocol import refresh_steps, steps
from materializer.services.protocol.decision import Decision
from materializer.services.protocol.process import At, OwnTableHead, Process, Which

BUCKETS: Final = (0, 1)
WINDOWS: Final = ((0,), (1,), (0, 1))
COMMITS: Final = (("insert", 0), ("insert", 1), ("delete", 0))
LAST: Final = "99"
"""The process that is started to see whether everything ends well."""

STOPPED: Final = (LeaseLostError, WriteFencedError)
EXPECTED: Final = (*STOPPED, DataError, StorageError)


class Bounds(NamedTuple):
    """How far to explore.

    Args:
        versions: Source versions.
        takeovers: Leases taken over from a process that is dead or only believed dead.
        refreshes: Processes started.
        failures: Whether computing and writing may fail.
        cleanings: Times the commits of our tables become unreadable.
        gates: Whether a gate may hold buckets back or refuse everything.
        calls: Whether others may come between any two calls to the outside, not only between two steps.
        besides: Commits to the journal by which no refresh goes on: a renewed lease, another aggregate, a delivery, and a bucket that
            is found to be wrong and declared dirty.
    """

    versions: int
    takeovers: int
    refreshes: int = 3
    failures: bool = False
    cleanings: int = 0
    gates: bool = False
    calls: bool = False
    besides: int = 0


SMALL: Final = (
    Bounds(1, 1),
    Bounds(2, 1, refreshes=2),
    Bounds(1, 1, refreshes=2, failures=True, cleanings=1),
    Bounds(1, 1, refreshes=2, failures=True, calls=True),
    Bounds(1, 1, refreshes=2, cleanings=1, gates=True),
    Bounds(1, 0, refreshes=2, calls=True, besides=1),
)
FULL: Final = (
    Bounds(3, 1),
    Bounds(2, 2),
    Bounds(2, 1, failures=True),
    Bounds(2, 2, calls=True),
    Bounds(1, 1, refreshes=2, failures=True, cleanings=1, calls=True),
    Bounds(2, 1, gates=True),
    Bounds(1, 1, refreshes=2, failures=True, cleanings=1, gates=True, calls=True),
    Bounds(1, 1, refreshes=2, calls=True, besides=1),
    Bounds(1, 0, refreshes=2, calls=True, besides=2),
)


class Member(NamedTuple):
    """A process, the buckets it refreshes, and what the outside answered so far in its present step."""

    process: Process
    window: tuple[int, ...]
    answers: tuple[int, ...] = ()


class State(NamedTuple):
    """MemoryLake and processes by their places in the exploration's tables, and what the bounds count."""

    world: int
    members: tuple[int, ...]
    started: int = 0
    takeovers: int = 0
    cleanings: int = 0
    besides: int = 0


class Found(NamedTuple):
    """How many states were seen, and the shortest way to a broken rule (empty: every rule holds)."""

    states: int
    trace: list[str]


class Numbered:
    """Gives each different value a small number, so that a state is a few integers."""

    def __init__(self) -> None:
        self.values: list = []
        self._numbers: dict = {}

    def number(self, value: object, key: object = None) -> int:
        """Return the number of *value*, which *key* stands for where it cannot be compared itself."""
        key = value if key is None else key
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.values)
            self.values.append(value)
        return found


class Paused(Exception):  # noqa: N818 - nothing is wrong
    """A process has done one call and is about to do the next."""


class OneCall:
    """The outside for a step that is done again from its beginning: known answers, one new call, then a pause.

    Args:
        ports: What answers the new call.
        known: Gives each answer a number; an answer is (value, error).
        answers: Numbers of the answers so far.
    """

    def __init__(self, ports: MemoryPorts, known: Numbered, answers: tuple[int, ...]) -> None:
        self._ports = ports
        self._known = known
        self._old = iter(answers)
        self.answers = answers
        self.called = ""

    def __getattr__(self, name: str) -> Any:
        """Return the port's method; reports and guesses about other processes are no calls to the outside."""
        port = getattr(self._ports, name)
        return port if name in ("report", "is_dead") else partial(self._call, name, port)

    def _call(self, name: str, port: Callable[..., Any], *args: Any) -> Any:
        number = next(self._old, None)
        if number is None:
            if self.called:
                raise Paused
            self.called = name
            try:
                answer = port(*args), None
            except Exception as exc:  # noqa: BLE001 - an error is an answer too
                answer = None, exc
            number = self._known.number(answer, key=f"{name} {answer}")
            self.answers = (*self.answers, number)
        value, error = self._known.values[number]
        if error:
            raise error
        return value


class SlowPlan:
    """The outside for a step whose plan takes longer than the renewal of the lease and the commits of others."""

    def __init__(self, ports: MemoryPorts) -> None:
        self._ports = ports

    def __getattr__(self, name: str) -> Any:
        """Return the port's method."""
        return getattr(self._ports, name)

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """Plan; meanwhile everything is committed that is of no importance to the plan."""
        decision = self._ports.decide(state, heads)
        for change in (_renewed, _of_another, _delivered):
            self._ports.lake = change(self._ports.lake)
        return decision


def _renewed(world: MemoryLake) -> MemoryLake:
    lease = world.state.lease
    if lease is None:
        return world
    return world._replace(journal=appended(world.journal, LeaseRenewed(lease.owner, lease.until + 1)))


def _of_another(world: MemoryLake) -> MemoryLake:
    return world._replace(others=world.others + 1)


def _delivered(world: MemoryLake) -> MemoryLake:
    return world._replace(journal=appended(world.journal, Delivered((world.state.delivered or 0) + 1)))


def _found_wrong(world: MemoryLake) -> MemoryLake:
    """Damage a bucket of the partials and declare it dirty, as a process does that lost its lease while it slept."""
    first, *rest = world.partials.values
    dirty = Invalidated((Entry(Span(0, WIDTH), None, Cause.INVALIDATED, gone=ANY_ROWS),))
    partials = world.partials._replace(values=(first + DAMAGE, *rest))
    return world._replace(partials=partials, journal=appended(world.journal, dirty))


DAMAGE: Final = 100
BESIDES: Final = {
    "the lease is renewed": _renewed,
    "another aggregate commits": _of_another,
    "rows are delivered": _delivered,
    "bucket 0 is found to be wrong": _found_wrong,
}


class Exploration:
    """One breadth-first exploration.

    Args:
        bounds: How far.
        ports: What stands for the outside; a mutation may bring its own.
        ignored: Rules that are not checked while they run (see :data:`tests.model.mutations.MUTATIONS`).
    """

    def __init__(self, bounds: Bounds, ports: type[MemoryPorts] = MemoryPorts, ignored: tuple[str, ...] = ()) -> None:
        forget_folds()
        self.bounds = bounds
        self.ports = ports
        self.ignored = ignored
        self.worlds = Numbered()
        self.members = Numbered()
        self.answers = Numbered()
        self._steps: dict[tuple[int, int], list[tuple[str, int | None, int]]] = {}
        self._verdicts: dict[int, str] = {}

    def run(self) -> Found:
        """Explore; stop at the first broken rule."""
        first = State(self.worlds.number(MemoryLake.first()), ())
        parent: dict[State, State | None] = {first: None}
        todo = deque([first])
        while todo:
            state = todo.popleft()
            why = self.verdict(state.world)
            if why:
                return Found(len(parent), [*self._trace(parent, state), why])
            for _, then in self.successors(state):
                if then not in parent:
                    parent[then] = state
                    todo.append(then)
        return Found(len(parent), [])

    def _trace(self, parent: dict[State, State | None], state: State) -> list[str]:
        labels = []
        before = parent[state]
        while before is not None:
            labels.append(next(label for label, then in self.successors(before) if then == state))
            state, before = before, parent[before]
        return labels[::-1]

    def successors(self, s: State) -> Iterator[tuple[str, State]]:
        """Yield (what happens, state after it) for everything that can happen in *s*."""
        world: MemoryLake = self.worlds.values[s.world]
        for commit in COMMITS if len(world.source) < self.bounds.versions else ():
            if commit[0] == "insert" or world.truth(commit[1], len(world.source)) > 0:
                grown = world._replace(source=(*world.source, commit))
                yield f"the source commits {commit}", s._replace(world=self.worlds.number(grown))
        if s.cleanings < self.bounds.cleanings:
            yield "old commits are cleaned up", s._replace(world=self._cleaned(world), cleanings=s.cleanings + 1)
        for label, change in BESIDES.items() if s.besides < self.bounds.besides else ():
            yield label, s._replace(world=self.worlds.number(change(world)), besides=s.besides + 1)
        if s.started < self.bounds.refreshes:
            yield from self._starts(s, world)
        for i, member in enumerate(s.members):
            rest = s.members[:i] + s.members[i + 1 :]
            for label, then, after in self.steps(member, s.world):
                yield label, s._replace(world=after, members=rest if then is None else tuple(sorted((*rest, then))))

    def _cleaned(self, world: MemoryLake) -> int:
        tables = {w.value: t._replace(gone=len(t.commits)) for w in Which for t in [getattr(world, w.value)]}
        return self.worlds.number(world._replace(**tables))

    def _starts(self, s: State, world: MemoryLake) -> Iterator[tuple[str, State]]:
        is_held = world.state.lease is not None
        if is_held and s.takeovers >= self.bounds.takeovers:
            return
        for window in WINDOWS:
            pid = str(s.started + 1)
            then, after = self._start(pid, window, world)
            label = f"process {pid} refreshes {window}{', taking the lease over' if is_held else ''}"
            members = tuple(sorted((*s.members, then)))
            yield label, State(after, members, s.started + 1, s.takeovers + is_held, s.cleanings, s.besides)

    def _start(self, pid: str, window: tuple[int, ...], world: MemoryLake) -> tuple[int, int]:
        ports = self.ports(world, pid, window)
        process = steps.advance(Process(Lease(pid, "", 0, 0, 0.0)), ports)
        return self.members.number(Member(process, window)), self.worlds.number(ports.lake)

    def steps(self, member: int, world: int) -> list[tuple[str, int | None, int]]:
        """Return (label, process after it or None, world after it) for each way in which the next step can go."""
        found = self._steps.get((member, world))
        if found is None:
            before: MemoryLake = self.worlds.values[world]
            ways = {self._step(self.members.values[member], before, **way): None for way in self._ways(member)}
            found = self._steps[member, world] = list(ways)
        return found

    def _ways(self, member: int) -> list[dict]:
        """Return the choices in a step, the undisturbed one last."""
        p: Process = self.members.values[member].process
        match p.at:
            case At.PLAN:
                return [{"merging": m} for m in ((), (0,), (1,), (0, 1))]
            case At.COMPUTE:
                return [{"fails": "compute"}, {}] if self.bounds.failures else [{}]
            case At.AUDIT if self.bounds.gates:
                return [*({"holding": h} for h in ((0, 1), (0,), (1,))), {}]
            case At.WRITE:
                tables = [{"which": which} for which in sorted(p.todo)]
                lost = [{"fails": "answer", **table} for table in tables]
                return [*([{"fails": "write"}, *lost] if self.bounds.failures else []), *tables]
            case _:
                return [{}]

    def _step(
        self,
        member: Member,
        world: MemoryLake,
        *,
        merging: tuple[int, ...] = (),
        fails: str = "",
        holding: tuple[int, ...] | None = None,
        which: Which | None = None,
        is_slow: bool = False,
    ) -> tuple[str, int | None, int]:
        p = member.process
        ports = self.ports(world, p.lease.owner, member.window, merging, fails, holding)
        outside: Any = OneCall(ports, self.answers, member.answers) if self.bounds.calls else ports
        outside = SlowPlan(ports) if is_slow else outside
        held = f"holds {holding} back" if holding else ""
        label = f"process {p.lease.owner}: {' '.join(filter(None, [p.at, which, held, fails and f'{fails} fails']))}"
        then: Process | None = None
        try:
            then = refresh_steps.write(p, outside, frozenset({which})) if which else steps.advance(p, outside)
        except Paused:
            member = member._replace(answers=outside.answers)
            return f"{label}, {outside.called}", self.members.number(member), self.worlds.number(ports.lake)
        except EXPECTED as exc:
            label += f" ({type(exc).__name__})"
            if isinstance(exc, STOPPED):
                note_stopped(ports)
            refresh_steps.release(p, ports)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the protocol must never meet it
            ports.note(f"error: {type(exc).__name__}: {exc}")
        if then is None or then.at is At.END:
            return label, None, self.worlds.number(ports.lake)
        if then.at is At.COMPUTE and then.plan:
            label += f" {then.plan.n} at version {then.plan.source_version}: {then.plan.strategy}"
        then = replace(then, note=None, report=None, recovered=())
        return label, self.members.number(Member(then, member.window)), self.worlds.number(ports.lake)

    def verdict(self, world: int) -> str:
        """Return the rule that *world* breaks, or that is broken when it comes to rest; "" when none is."""
        found = self._verdicts.get(world)
        if found is None:
            value = self.worlds.values[world]
            found = self._verdicts[world] = self._broken(value) or self._at_rest(value)
        return found

    def _broken(self, world: MemoryLake) -> str:
        if world.wrong.split(":")[0] not in ("", *self.ignored):
            return world.wrong
        return next(broken_rules(world), "")

    def _at_rest(self, world: MemoryLake) -> str:
        """All processes die; one refresh of everything must end clean, if it is undisturbed and if its plan is slow."""
        return self._ends(world, is_slow=False) or (self._ends(world, is_slow=True) if self.bounds.besides else "")

    def _ends(self, world: MemoryLake, *, is_slow: bool) -> str:
        member: int | None
        member, at = self._start(LAST, BUCKETS, world)
        for _ in range(100):
            if member is None:
                break
            before: Member = self.members.values[member]
            label, member, at = (
                self._step(before, self.worlds.values[at], merging=BUCKETS, is_slow=True)
                if is_slow
                else self.steps(member, at)[-1]
            )
            if member is None and "Error" in label:
                return f"ends: {label}"
        end: MemoryLake = self.worlds.values[at]
        if is_slow and end.wrong.startswith("error: JournalConflictError"):
            return f"ends: the refresh gives up, because others commit while it plans: {end.wrong}"
        dirt = end.state.log.spans & spans_of(BUCKETS)
        if member is not None or end.state.plan or dirt:
            return f"ends: after a refresh of everything there is dirt {dirt.as_json()}, an open plan or no end"
        return self._broken(end)


def note_stopped(ports: MemoryPorts) -> None:
    """Note that a process was told of a takeover although it holds the lease; unreadable commits excuse it."""
    lease = ports.lake.state.lease
    if lease and lease.owner == ports.owner and not any(ports.table(which).gone for which in Which):
        ports.note(f"held: process {ports.owner} holds the lease and was stopped by another")


def broken_rules(world: MemoryLake) -> Iterator[str]:
    """Yield a sentence for each rule about values that *world* breaks."""
    state = world.state
    planned = SpanSet.union(e.span for e in state.plan.taken) if state.plan else SpanSet()
    dirty = state.log.spans | planned
    for b in BUCKETS:
        values, want = (world.partials.values[b], world.output.values[b]), world.truth(b, state.cursor)
        if b * WIDTH not in dirty and values != (want, want):
            yield f"clean: bucket {b} has partial {values[0]}, output {values[1]}, truth at the cursor is {want}"
    for entry in state.log.entries:
        for b in BUCKETS if entry.after is not None else ():
            value, want = world.partials.values[b], world.truth(b, entry.after or 0)
            if b * WIDTH in entry.span and b * WIDTH not in planned and value != want:
                yield f"after: bucket {b} has partial {value}, truth at {entry.after} is {want}"
    if not dirty.covers(Span(state.threshold, POS_INF)):
        yield f"tail: above the threshold {state.threshold} not all is logged"
    for table in (world.partials, world.output):
        numbers = [c.n for c in table.commits]
        if numbers != sorted(set(numbers)) or table.n > state.last_n:
            yield f"numbers: {numbers} in a table, the journal's last is {state.last_n}"
