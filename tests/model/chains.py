"""Every order in which refreshes of a roll-up can meet refreshes, a switch and vacuums of the aggregate whose partials it reads.

As :mod:`tests.model.exploration`; the source of the roll-up is the partials of its parent. These move while a plan of the
roll-up is open: the parent commits to them, it is switched and has another partials table, or files of older versions are removed.
The rules that are checked in every state:

  clean     what is clean in the roll-up has partials = output = truth at the cursor, in the partials that the journal names
  after     a logged bucket whose entry says ``after = a`` has partials = truth at a
  tail      everything at or above the threshold is in the log or in the open plan
  numbers   refresh numbers rise in each table, and none is beyond the journal's last
  aborted, finished, lease, error   as in the exploration of one aggregate
  ends      from every state, one undisturbed refresh follows the parent and leaves no dirt
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from materializer.adapters.memory.lake import DEFINED, MemoryLake, forget_folds, spans_of
from materializer.adapters.memory.ports import MemoryPorts
from materializer.core.engines.work import Work
from materializer.core.refresh.plan import Plan
from materializer.errors import DataError, LeaseLostError, StorageError, WriteFencedError
from materializer.journal import fold
from materializer.journal.events import Event, Lease, LeaseReleased, ParentSwitched, SourceIdentity
from materializer.journal.state import AggregateState
from materializer.services.protocol import refresh_steps, steps
from materializer.services.protocol.process import At, Process, Which
from tests.model.exploration import BUCKETS, Found, Numbered, broken_rules

APART: Final = 100
"""How much more a bucket is worth in each later partials table of the parent, so that it shows which one was read."""
COMMITS: Final = (("insert", 0), ("insert", 1), ("delete", 0), ("switch", -1), ("vacuum", -1))
STOPPED: Final = (LeaseLostError, WriteFencedError)
EXPECTED: Final = (*STOPPED, DataError, StorageError)
VANISHED: Final = StorageError("the files of this version are gone")


class Bounds(NamedTuple):
    """How far to explore: what the parent does, switches and vacuums among it, leases taken over, and refreshes started."""

    commits: int
    switches: int
    vacuums: int
    takeovers: int
    refreshes: int


SMALL: Final = (Bounds(2, 1, 1, 1, 2), Bounds(3, 1, 1, 0, 1))
FULL: Final = (
    Bounds(4, 1, 1, 0, 1),
    Bounds(3, 1, 1, 0, 2),
    Bounds(3, 1, 1, 1, 2),
    Bounds(3, 2, 0, 1, 2),
    Bounds(2, 1, 1, 1, 3),
)


class RollupLake(MemoryLake):
    """A roll-up whose ``source`` is everything that its parent did, up to the end of the partials table that it reads.

    A version is a place in that list, so that each table has its own versions.
    """

    __slots__ = ()

    def truth(self, bucket: int, version: int) -> int:
        """Return what *bucket* is worth at a version of the parent's partials."""
        before = self.source[:version]
        return (
            APART * before.count(("switch", -1)) + before.count(("insert", bucket)) - before.count(("delete", bucket))
        )


class Chain(NamedTuple):
    """Everything outside the processes.

    Args:
        parent: What the parent did; its last partials table begins after the last switch.
        rollup: The roll-up; its source ends where its table ends.
    """

    parent: tuple[tuple[str, int], ...]
    rollup: RollupLake

    def seen(self) -> RollupLake:
        """Return the roll-up with the versions that its partials table has now."""
        begins = int(self.rollup.state.source.table_id)
        ends = self.parent.index(("switch", -1), begins) if self.is_moved else len(self.parent)
        return self.rollup._replace(source=self.parent[:ends])

    @property
    def begins(self) -> int:
        """The first version of the parent's last partials table."""
        return max((i + 1 for i, commit in enumerate(self.parent) if commit[0] == "switch"), default=0)

    @property
    def is_moved(self) -> bool:
        """Whether the parent has another partials table than the roll-up reads."""
        return int(self.rollup.state.source.table_id) != self.begins


def first() -> Chain:
    """Return the chain right after the roll-up was defined."""
    lake = RollupLake(*MemoryLake.first())
    ports = MemoryPorts(lake, "0", ())
    lease = steps.advance(begun("0"), ports).lease
    version, _ = ports.read()
    ports.append(
        version, [ParentSwitched(DEFINED.spec, SourceIdentity("partials", "0"), 0), LeaseReleased(lease.owner)]
    )
    return Chain((), RollupLake(*ports.lake))


class RollupPorts(MemoryPorts):
    """The outside of one step of a refresh of the roll-up.

    Args:
        chain: The chain.
        owner: The process.
        merging: Buckets that planning merges wherever that is allowed.
    """

    def __init__(self, chain: Chain, owner: str, merging: Sequence[int] = ()) -> None:
        super().__init__(chain.seen(), owner, BUCKETS, merging)
        self.parent = chain.parent

    @property
    def chain(self) -> Chain:
        """The chain after the step."""
        return Chain(self.parent, RollupLake(*self.lake._replace(source=())))

    def is_gone(self, version: int) -> bool:
        """Whether files of a version of the parent's partials were removed: a vacuum leaves those of its newest one."""
        return any(what == "vacuum" and i > version for i, (what, _) in enumerate(self.parent))

    def compute(self, plan: Plan, work: Work | None) -> Any:
        """See :class:`materializer.services.protocol.process.Ports`; reads the version that the plan pins."""
        if self.is_gone(plan.source_version):
            raise VANISHED
        return super().compute(plan, work)

    def follow(self, p: Process) -> None:
        """Go on with the partials that the parent has now, and give the lease back."""
        begins = self.chain.begins
        event = ParentSwitched(DEFINED.spec, SourceIdentity("partials", str(begins)), len(self.parent))
        refresh_steps.commit_leased(p, self, lambda _: [event, LeaseReleased(p.lease.owner)])


class NewestPorts(RollupPorts):
    """Reads the newest version, not the one that the plan pins."""

    def compute(self, plan: Plan, work: Work | None) -> Any:
        """Read what is there now."""
        return super().compute(replace(plan, source_version=len(self.lake.source)), work)


class EmptyPorts(RollupPorts):
    """Takes partials whose files are gone for buckets without rows."""

    def compute(self, plan: Plan, work: Work | None) -> Any:
        """Return nothing for what cannot be read."""
        if self.is_gone(plan.source_version):
            return tuple((b, 0) for b in self.lake.inside(plan.spans))
        return super().compute(plan, work)


class UnleasedPorts(RollupPorts):
    """Follows the parent although the lease was taken over."""

    def follow(self, p: Process) -> None:
        """Take the lease that is there for ours."""
        super().follow(replace(p, lease=self.lake.state.lease or p.lease))


class Member(NamedTuple):
    """A process, and whether it only follows the parent, before its refresh begins."""

    process: Process
    follows: bool


class State(NamedTuple):
    """Chain and processes by their places in the exploration's tables, and what the bounds count."""

    chain: int
    members: tuple[int, ...] = ()
    started: int = 0
    takeovers: int = 0


def begun(owner: str, *, follows: bool = False) -> Process:
    """Return a process before its first step."""
    return Process(Lease(owner, "", 0, 0, 0.0), is_recovery_only=follows)


class Exploration:
    """One breadth-first exploration.

    Args:
        bounds: How far.
        ports: What stands for the outside; a mistake may bring its own.
    """

    def __init__(self, bounds: Bounds, ports: type[RollupPorts] = RollupPorts) -> None:
        forget_folds()
        self.bounds = bounds
        self.ports = ports
        self.chains = Numbered()
        self.members = Numbered()
        self._steps: dict[tuple[int, int], list[tuple[str, int | None, int]]] = {}
        self._verdicts: dict[int, str] = {}

    def run(self) -> Found:
        """Explore; stop at the first broken rule."""
        start = State(self.chains.number(first()))
        parent: dict[State, tuple[State | None, str]] = {start: (None, "")}
        todo = deque([start])
        while todo:
            state = todo.popleft()
            if why := self.verdict(state.chain):
                labels = []
                before, label = parent[state]
                while before is not None:
                    labels.append(label)
                    before, label = parent[before]
                return Found(len(parent), [*labels[::-1], why])
            for label, then in self.successors(state):
                if then not in parent:
                    parent[then] = (state, label)
                    todo.append(then)
        return Found(len(parent), [])

    def successors(self, s: State) -> Iterator[tuple[str, State]]:
        """Yield (what happens, state after it) for everything that can happen in *s*."""
        chain: Chain = self.chains.values[s.chain]
        for commit in COMMITS if len(chain.parent) < self.bounds.commits else ():
            if self._may(chain, commit):
                grown = chain._replace(parent=(*chain.parent, commit))
                yield f"the parent: {commit}", s._replace(chain=self.chains.number(grown))
        is_held = chain.rollup.state.lease is not None
        if s.started < self.bounds.refreshes and (not is_held or s.takeovers < self.bounds.takeovers):
            label, then, after = self._start(str(s.started + 1), chain)
            members = s.members if then is None else tuple(sorted((*s.members, then)))
            yield label, State(after, members, s.started + 1, s.takeovers + is_held)
        for i, member in enumerate(s.members):
            rest = s.members[:i] + s.members[i + 1 :]
            for label, then, after in self.steps(member, s.chain):
                yield label, s._replace(chain=after, members=rest if then is None else tuple(sorted((*rest, then))))

    def _may(self, chain: Chain, commit: tuple[str, int]) -> bool:
        match commit:
            case ("switch", _):
                return chain.parent.count(commit) < self.bounds.switches
            case ("vacuum", _):
                return chain.parent.count(commit) < self.bounds.vacuums
            case ("delete", bucket):
                return chain.parent.count(("insert", bucket)) > chain.parent.count(commit)
            case _:
                return True

    def _start(self, owner: str, chain: Chain) -> tuple[str, int | None, int]:
        follows = chain.is_moved
        return self._step(Member(begun(owner, follows=follows), follows), chain, ())

    def steps(self, member: int, chain: int) -> list[tuple[str, int | None, int]]:
        """Return (label, process after it or None, chain after it) for each way in which the next step can go."""
        found = self._steps.get((member, chain))
        if found is None:
            m, before = self.members.values[member], self.chains.values[chain]
            ways: list[Any] = [()]
            if m.process.at is At.PLAN:
                ways = [(0, 1), ()]
            elif m.process.at is At.WRITE:
                ways = sorted(m.process.todo)
            found = self._steps[member, chain] = [self._step(m, before, way) for way in ways]
        return found

    def _step(self, m: Member, chain: Chain, way: Any) -> tuple[str, int | None, int]:
        p, which = m.process, way if isinstance(way, Which) else None
        ports = self.ports(chain, p.lease.owner, () if which else way)
        label = f"process {p.lease.owner}{' follows' if m.follows else ''}: {' '.join(filter(None, [p.at, which]))}"
        then: Process | None = None
        try:
            if m.follows and p.at is At.END:
                ports.follow(p)
                return (
                    f"{label}, parent",
                    self.members.number(Member(begun(p.lease.owner), follows=False)),
                    self._of(ports),
                )
            then = refresh_steps.write(p, ports, frozenset({which})) if which else steps.advance(p, ports)
        except EXPECTED as exc:
            label += f" ({type(exc).__name__})"
            refresh_steps.release(p, ports)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the protocol must never meet it
            ports.note(f"error: {type(exc).__name__}: {exc}")
        if then is None or (then.at is At.END and not m.follows):
            return label, None, self._of(ports)
        if then.at is At.COMPUTE and then.plan:
            label += f" {then.plan.n} at version {then.plan.source_version}: {then.plan.strategy}"
        then = replace(then, note=None, report=None, recovered=())
        return label, self.members.number(Member(then, m.follows)), self._of(ports)

    def _of(self, ports: RollupPorts) -> int:
        return self.chains.number(ports.chain)

    def verdict(self, chain: int) -> str:
        """Return the rule that *chain* breaks, or that is broken when it comes to rest; "" when none is."""
        found = self._verdicts.get(chain)
        if found is None:
            value = self.chains.values[chain]
            found = self._verdicts[chain] = _broken(value) or self._at_rest(value)
        return found

    def _at_rest(self, chain: Chain) -> str:
        """All processes die; one undisturbed refresh must end clean, in the parent's newest partials."""
        label, member, at = self._start("99", chain)
        for _ in range(60):
            if member is None:
                break
            label, member, at = self.steps(member, at)[-1]
            if member is None and "Error" in label:
                return f"ends: {label}"
        end: Chain = self.chains.values[at]
        state = end.rollup.state
        dirt = state.log.spans & spans_of(BUCKETS)
        if member is not None or state.plan or dirt or end.is_moved or state.cursor != len(end.parent):
            return f"ends: after a refresh there is dirt {dirt.as_json()}, an open plan, an older source or no end"
        return _broken(end)


def _broken(chain: Chain) -> str:
    return chain.rollup.wrong or next(broken_rules(chain.seen()), "")


# -- mistakes ------------------------------------------------------------------------------------------------------------


class Mistake(NamedTuple):
    """One deliberate mistake: what is wrong, the rule that catches it, and how it is made."""

    says: str
    caught_by: str
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    ports: type[RollupPorts] = RollupPorts
    bounds: Bounds = SMALL[0]


def explore(bounds: Bounds, mistake: str | None = None) -> Found:
    """Explore the project's code, or what a mistake makes of it."""
    m = MISTAKES[mistake] if mistake else Mistake("", "")
    with pytest.MonkeyPatch.context() as patch:
        m.patch(patch)
        return Exploration(bounds, m.ports).run()


def _clean_after_a_switch(patch: pytest.MonkeyPatch) -> None:
    apply = fold.apply

    def keeping(state: Any, aggregate: str, event: Event, *, at: str = "") -> AggregateState | None:
        after = apply(state, aggregate, event, at=at)
        return replace(after, log=state.log) if isinstance(event, ParentSwitched) and after else after

    patch.setattr(fold, "apply", keeping)


MISTAKES: Final = {
    "newest": Mistake("a plan reads the newest partials, not those that it pins", "clean", ports=NewestPorts),
    "empty": Mistake("partials whose files are gone count as no rows", "clean", ports=EmptyPorts, bounds=SMALL[1]),
    "unleased": Mistake("the roll-up follows its parent without the lease", "lease", ports=UnleasedPorts),
    "clean-switch": Mistake("a switch of the parent makes nothing dirty", "clean", _clean_after_a_switch),
}
