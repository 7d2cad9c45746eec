"""Every order in which refreshes of an aggregate, runs of its build, switches, deaths and source commits can meet.

As :mod:`tests.model.exploration`, over an aggregate and its next version; the rules that are checked in every state:

  clean     what is clean in the aggregate, or in its build, has partials = output = truth at the cursor
  readers   while a switch is open, the output is whole: all rows of the old version, or all of the new one
  back      a switch never publishes an older source version
  lost      a switch never publishes less than what was clean
  aborted   a plan that was aborted publishes no output afterwards
  numbers   numbers rise in each table, and none is beyond the journal's last
  lease     nobody appends to a stream without holding its lease
  error     nothing looks damaged
  ends      from every state, one undisturbed build publishes the new version, and everything is clean
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from materializer.adapters.memory.lake import MemoryLake, dirty_buckets, folded, forget_folds
from materializer.adapters.memory.switch_ports import NEW, MemorySwitchPorts, MemoryVersions
from materializer.errors import LeaseHeldError, LeaseLostError, NotCoveredError, NothingBuiltError, WriteFencedError
from materializer.journal import fold
from materializer.journal.events import Event, Lease
from materializer.journal.state import AggregateState
from materializer.services.protocol import refresh_steps as protocol
from materializer.services.protocol import steps
from materializer.services.protocol import switch_steps as switching
from materializer.services.protocol.process import At, Process, Which
from tests.model.exploration import BUCKETS, Found, Numbered, OneCall, Paused

COMMITS: Final = (("insert", 0), ("insert", 1))
KINDS: Final = ("refresh", "build", "switch")
EXPECTED: Final = (LeaseHeldError, LeaseLostError, NotCoveredError, NothingBuiltError, WriteFencedError)


class Bounds(NamedTuple):
    """How far to explore: source versions, leases taken over, and processes of each kind that are started.

    With *calls* others may come between any two calls to the outside, not only between two steps.
    """

    versions: int
    takeovers: int
    refreshes: int
    builds: int
    switches: int
    calls: bool = False


SMALL: Final = (Bounds(1, 1, 1, 1, 1), Bounds(0, 1, 1, 1, 2), Bounds(1, 0, 2, 2, 1), Bounds(0, 1, 1, 1, 1, calls=True))
FULL: Final = (
    Bounds(1, 1, 2, 2, 1),
    Bounds(1, 2, 1, 1, 2),
    Bounds(2, 1, 1, 2, 1),
    Bounds(1, 1, 1, 1, 1, calls=True),
    Bounds(0, 1, 1, 1, 2, calls=True),
)


class Member(NamedTuple):
    """A process, what it does, the version that it is bound to, and what the outside answered so far in its step."""

    process: Process
    kind: str
    version: str
    answers: tuple[int, ...] = ()


class State(NamedTuple):
    """MemoryVersions and processes by their places in the exploration's tables, and what the bounds count."""

    lake: int
    members: tuple[int, ...] = ()
    started: tuple[int, int, int] = (0, 0, 0)
    takeovers: int = 0


def begun(kind: str, owner: str) -> Process:
    """Return a process of a kind, before its first step."""
    return Process(Lease(owner, "", 0, 0, 0.0), switches=kind == "switch")


def bound(lake: MemoryVersions, kind: str) -> str:
    """Return the version that a process of a kind works on."""
    return NEW if kind == "build" else folded(lake.current).data_version


class Exploration:
    """One breadth-first exploration.

    Args:
        bounds: How far.
        ports: What stands for the outside; a mistake may bring its own.
    """

    def __init__(self, bounds: Bounds, ports: type[MemorySwitchPorts] = MemorySwitchPorts) -> None:
        forget_folds()
        self.bounds = bounds
        self.ports = ports
        self.lakes = Numbered()
        self.members = Numbered()
        self.answers = Numbered()
        self._steps: dict[tuple[int, int], list[tuple[str, int | None, int]]] = {}
        self._verdicts: dict[int, str] = {}

    def run(self) -> Found:
        """Explore; stop at the first broken rule."""
        first = State(self.lakes.number(MemoryVersions.first()))
        parent: dict[State, tuple[State | None, str]] = {first: (None, "")}
        todo = deque([first])
        while todo:
            state = todo.popleft()
            if why := self.verdict(state.lake):
                return Found(len(parent), [*_trace(parent, state), why])
            for label, then in self.successors(state):
                if then not in parent:
                    parent[then] = (state, label)
                    todo.append(then)
        return Found(len(parent), [])

    def successors(self, s: State) -> Iterator[tuple[str, State]]:
        """Yield (what happens, state after it) for everything that can happen in *s*."""
        lake: MemoryVersions = self.lakes.values[s.lake]
        for commit in COMMITS if len(lake.source) < self.bounds.versions else ():
            grown = lake._replace(source=(*lake.source, commit))
            yield f"the source commits {commit}", s._replace(lake=self.lakes.number(grown))
        for i, (kind, most) in enumerate(zip(KINDS, self.bounds[2:5], strict=True)):
            if s.started[i] < most and (kind != "build" or lake.build is not None):
                yield from self._start(s, lake, kind, i)
        for i, member in enumerate(s.members):
            rest = s.members[:i] + s.members[i + 1 :]
            for label, then, after in self.steps(member, s.lake):
                yield label, s._replace(lake=after, members=rest if then is None else tuple(sorted((*rest, then))))

    def _start(self, s: State, lake: MemoryVersions, kind: str, i: int) -> Iterator[tuple[str, State]]:
        row = lake.build if kind == "build" else lake.current
        assert row is not None
        is_held = folded(row).lease is not None
        if is_held and s.takeovers >= self.bounds.takeovers:
            return
        started = (*s.started[:i], s.started[i] + 1, *s.started[i + 1 :])
        owner = f"{kind} {started[i]}"
        label, then, after = self._step(Member(begun(kind, owner), kind, bound(lake, kind)), lake)
        members = s.members if then is None else tuple(sorted((*s.members, then)))
        told = ", taking the lease over" if is_held else ""
        yield f"{label}{told}", State(after, members, started, s.takeovers + is_held)

    def steps(self, member: int, lake: int) -> list[tuple[str, int | None, int]]:
        """Return (label, process after it or None, lake after it) for each way in which the next step can go."""
        found = self._steps.get((member, lake))
        if found is None:
            m, before = self.members.values[member], self.lakes.values[lake]
            which = sorted(m.process.todo) if m.process.at is At.WRITE else [None]
            found = self._steps[member, lake] = [self._step(m, before, w) for w in which]
        return found

    def _step(self, m: Member, lake: MemoryVersions, which: Which | None = None) -> tuple[str, int | None, int]:
        p = m.process
        is_bound_anew = p.at in (At.RECOVER, At.PLAN, At.SWITCH_PLAN) and not m.answers
        version = bound(lake, m.kind) if is_bound_anew else m.version
        ports = self.ports(lake, p.lease.owner, version, BUCKETS, is_build=m.kind == "build")
        outside: Any = OneCall(ports, self.answers, m.answers) if self.bounds.calls else ports
        label = f"{p.lease.owner}: {p.at}{f' {which}' if which else ''}"
        then: Process | None = None
        try:
            then = protocol.write(p, outside, frozenset({which})) if which else steps.advance(p, outside)
        except Paused:
            paused = Member(p, m.kind, version, outside.answers)
            return f"{label}, {outside.called}", self.members.number(paused), self.lakes.number(ports.versions)
        except EXPECTED as exc:
            label += f" ({type(exc).__name__})"
            try:
                protocol.release(p, ports)
            except LeaseLostError:
                label += ", nothing to release"
        except Exception as exc:  # noqa: BLE001 - whatever it is, the protocol must never meet it
            ports.note(f"error: {type(exc).__name__}: {exc}")
        after = self.lakes.number(ports.versions)
        if then is None or then.at is At.END:
            return label, None, after
        then = replace(then, note=None, report=None, recovered=())
        return label, self.members.number(Member(then, m.kind, version)), after

    def verdict(self, lake: int) -> str:
        """Return the rule that *lake* breaks, or that is broken when it comes to rest; "" when none is."""
        found = self._verdicts.get(lake)
        if found is None:
            value = self.lakes.values[lake]
            found = self._verdicts[lake] = value.wrong or next(broken_rules(value), "") or self._at_rest(value)
        return found

    def _at_rest(self, lake: MemoryVersions) -> str:
        """All processes die; a refresh, then a build and a switch that nobody disturbs must publish the new version."""
        for kind in ("refresh", "build", "switch", "refresh"):
            if kind in ("build", "switch") and lake.build is None:
                continue
            label, member, at = self._step(Member(begun(kind, "last"), kind, bound(lake, kind)), lake)
            for _ in range(60):
                lake = self.lakes.values[at]
                if member is None:
                    break
                label, member, at = self.steps(member, at)[-1]
            if "Error" in label or member is not None:
                return f"ends: {label}"
        state = folded(lake.current)
        if lake.build is not None or state.plan or dirty_buckets(state, BUCKETS) or state.data_version != NEW:
            return f"ends: after everything, version {state.data_version}, dirt {dirty_buckets(state, BUCKETS)}"
        return lake.wrong or next(broken_rules(lake), "")


def _trace(parent: dict[State, tuple[State | None, str]], state: State) -> list[str]:
    labels = []
    before, label = parent[state]
    while before is not None:
        labels.append(label)
        before, label = parent[before]
    return labels[::-1]


def broken_rules(lake: MemoryVersions) -> Iterator[str]:
    """Yield a sentence for each rule about values that *lake* breaks."""
    state = folded(lake.current)
    version = state.data_version
    world = lake.lake(is_build=False, version=version)
    yield from _unclean("the aggregate", state, world, is_open=bool(state.switch))
    if state.switch and lake.build is not None:
        old = [b for b in BUCKETS if b not in dirty_buckets(state, BUCKETS)]
        whole = [tuple(t.values[b] for b in old) for t in (lake.old, lake.built)]
        if tuple(lake.output.values[b] for b in old) not in whole:
            yield f"readers: the output is {lake.output.values}, neither of {whole}"
    if lake.build is not None:
        yield from _unclean("the build", folded(lake.build), lake.lake(is_build=True, version=NEW), is_open=False)
    for name in ("old", "new", "output", "built"):
        numbers = [c.n for c in getattr(lake, name).commits]
        last = max(s.last_n for s in [state, *([folded(lake.build)] if lake.build else [])])
        if numbers != sorted(set(numbers)) or (numbers and numbers[-1] > last):
            yield f"numbers: {numbers} in {name}, the journal's last is {last}"


def _unclean(what: str, state: AggregateState, world: MemoryLake, *, is_open: bool) -> Iterator[str]:
    for b in BUCKETS:
        if b in dirty_buckets(state, BUCKETS):
            continue
        want = world.truth(b, state.cursor)
        found = world.partials.values[b], want if is_open else world.output.values[b]
        if found != (want, want):
            yield f"clean: bucket {b} of {what} has partial {found[0]}, output {found[1]}, truth is {want}"


# -- mistakes ------------------------------------------------------------------------------------------------------------


class Mistake(NamedTuple):
    """One deliberate mistake: what is wrong, the rule that catches it, and how it is made."""

    says: str
    caught_by: str
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    ports: type[MemorySwitchPorts] = MemorySwitchPorts
    bounds: Bounds = SMALL[0]


def explore(bounds: Bounds, mistake: str | None = None) -> Found:
    """Explore the project's code, or what a mistake makes of it."""
    m = MISTAKES[mistake] if mistake else Mistake("", "")
    with pytest.MonkeyPatch.context() as patch:
        m.patch(patch)
        return Exploration(bounds, m.ports).run()


def _blind_tables(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "check_heads", lambda *_: None)


def _left_open(patch: pytest.MonkeyPatch) -> None:
    apply, planned = fold.apply, fold.planned

    def opening(state: Any, aggregate: str, event: Event, *, at: str = "") -> Any:
        after = apply(state, aggregate, event, at=at)
        return after and replace(after, is_closed=False)

    patch.setattr(fold, "apply", opening)
    patch.setattr(fold, "planned", planned)


class Uncovered(MemorySwitchPorts):
    """Publishes whatever is there."""

    def refuse_switch(self, state: AggregateState, build: AggregateState) -> None:
        """Refuse an open plan only."""
        super().refuse_switch(replace(state, cursor=0, log=build.log), build)


class Behind(MemorySwitchPorts):
    """Does not compare source versions."""

    def refuse_switch(self, state: AggregateState, build: AggregateState) -> None:
        """Refuse what is not built."""
        super().refuse_switch(replace(state, cursor=0), build)


class Unfenced(MemorySwitchPorts):
    """Undoes a switch without telling the output."""

    def fence(self, which: Which, plan: Any) -> None:
        """Fence partials only."""
        if which is Which.PARTIALS:
            super().fence(which, plan)


class NewUnfenced(MemorySwitchPorts):
    """Leaves the new partials with the build's numbers."""

    def fence_build(self, plan: Any, build: AggregateState) -> None:
        """Do nothing."""


def _always_completed(patch: pytest.MonkeyPatch) -> None:
    recover = protocol.recover
    _blind_tables(patch)

    def completing(p: Process, ports: Any) -> Process:
        after = recover(p, ports)
        return replace(after, at=At.SWITCH_FENCE) if after.at is At.SWITCH_UNDO else after

    patch.setattr(protocol, "recover", completing)


def _never_completed(patch: pytest.MonkeyPatch) -> None:
    recover = protocol.recover
    known = protocol.is_known
    _blind_tables(patch)

    def undoing(p: Process, ports: Any) -> Process:
        after = recover(p, ports)
        return replace(after, at=At.SWITCH_UNDO) if after.at is At.SWITCH_FENCE else after

    patch.setattr(protocol, "recover", undoing)
    patch.setattr(protocol, "is_known", lambda which, plan, ports: bool(plan.taken) and known(which, plan, ports))
    patch.setattr(protocol, "is_absent", lambda which, plan, ports: not known(which, plan, ports) or not plan.taken)


def _ignores_the_builder(patch: pytest.MonkeyPatch) -> None:
    closed = fold.apply

    def keeping(state: Any, aggregate: str, event: Event, *, at: str = "") -> Any:
        after = closed(state, aggregate, event, at=at)
        if after is not None and after.is_closed:
            return replace(after, lease=state.lease)
        return after

    patch.setattr(fold, "apply", keeping)
    _left_open(patch)


def _copies_nothing(patch: pytest.MonkeyPatch) -> None:
    plan = switching.plan_switch
    _blind_tables(patch)

    def copying(p: Process, ports: Any) -> Process:
        after = plan(p, ports)
        if after.plan is not None:
            return replace(after, at=At.SWITCH_FENCE)
        return after

    patch.setattr(switching, "plan_switch", copying)


MISTAKES: Final = {
    "uncovered": Mistake("what is not built is published", "lost", ports=Uncovered),
    "behind": Mistake("an older source version is published", "back", ports=Behind),
    "unfenced": Mistake("a switch is undone without fencing the output", "aborted", _blind_tables, Unfenced, SMALL[3]),
    "new-unfenced": Mistake("the new partials do not get the number", "error", ports=NewUnfenced),
    "left-open": Mistake("a build is refreshed while it is published", "clean", _ignores_the_builder),
    "always-completed": Mistake(
        "a switch is completed without its commit", "clean", _always_completed, bounds=Bounds(0, 1, 1, 1, 1)
    ),
    "never-completed": Mistake(
        "a switch that readers see is undone", "clean", _never_completed, bounds=Bounds(0, 1, 2, 1, 1)
    ),
    "copies-nothing": Mistake("the journal switches, and the output does not", "clean", _copies_nothing),
}
