"""One history: processes that meet at every request to a store that fails, die, sleep, and are taken for dead.

A process is a greenlet. It runs until its next request to the store, and chance decides which process goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from greenlet import GreenletExit, getcurrent, greenlet
from msgspec.structs import replace

from materializer.adapters.memory.lake import AGGREGATE
from materializer.adapters.memory.log import NoFaults, PutFault, StoreFaults
from materializer.errors import (
    DataError,
    JournalConflictError,
    LeaseLostError,
    MaterializerError,
    NotCoveredError,
    NothingBuiltError,
    RetryableError,
    StorageError,
    WriteFencedError,
)
from materializer.journal import unreadable
from materializer.journal.events import Checked, Lease, LeaseRenewed
from materializer.journal.journal import Journal
from materializer.journal.transact import transact
from materializer.services.protocol import refresh_steps, steps
from materializer.services.protocol.process import At, Process, Which
from tests.histories.chance import Chance, Choices
from tests.histories.ports import HistoryPorts
from tests.histories.world import BUILD, Author, World, stores_of
from tests.model.exploration import BUCKETS, COMMITS, WINDOWS

LEASE_SECONDS: Final = 30
LONGEST_LEASE: Final = 86_400
"""Seconds after which no lease may keep the last process waiting, whatever the clock of its holder said."""
YEAR: Final = 365 * 86_400
TURNS: Final = 60
PROCESSES: Final = 10
EXPECTED: Final = (RetryableError, DataError, StorageError, NotCoveredError, NothingBuiltError)
NO_LEASE: Final = Lease("", "", 0, 0, 0.0)
LAST: Final = (
    (Process(NO_LEASE), False),
    (Process(NO_LEASE), True),
    (Process(NO_LEASE, switches=True), False),
    (Process(NO_LEASE), False),
)
"""What runs undisturbed when all have died, with whether it works on the build: a refresh, a build, a switch and a refresh."""
FAULTS: Final = ((0, 0, 0), (60, 60, 400), (12, 12, 80), (5, 5, 40))
"""Kinds of stores: once in how many a put has a fault, a list is stale, a read is refused; 0 for never."""
SKEWS: Final = (0.0, 0.0, 0.0, 20.0, -20.0, 45.0, -45.0, YEAR, -YEAR)


class Host(StoreFaults):
    """What outlives a process that ends, but not one that dies: the journal as far as it was read.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self.faults: StoreFaults = NoFaults()
        self.journal = Journal("", now=str, stores=stores_of(world.logs, self))

    def before(self, request: str, mark: str = "") -> None:
        """Ask the process that works."""
        self.faults.before(request, mark)

    def put(self) -> PutFault:
        """Ask the process that works."""
        return self.faults.put()

    def hidden(self) -> int:
        """Ask the process that works."""
        return self.faults.hidden()


@dataclass(slots=True, eq=False)
class Member(StoreFaults):
    """One process, and what goes wrong between it and the store.

    Args:
        history: The history.
        owner: Its name.
        host: Its host.
        skew: Seconds that its clock is ahead.
        sleeps: Turns until it goes on.
        step: Number of its present step.
        lease: Its lease, once it has asked for one.
        id: What it works on, the aggregate or its build.
    """

    history: History
    owner: str
    host: Host
    skew: float = 0.0
    sleeps: int = 0
    step: int = 0
    lease: Lease | None = None
    id: str = AGGREGATE
    place: greenlet | None = None
    author: Author = field(default=Author("", 0))

    def clock(self) -> float:
        """Return the time by its clock."""
        return self.history.world.now + self.skew

    def before(self, request: str, mark: str = "") -> None:
        """Let others work."""
        if mark and mark not in self.history.world.authors:
            self.history.world.authors[mark] = self.author
        self.history.pause()
        if request == "read" and self.history.chance.one_in(self.history.store[2]):
            self.history.met("a request that is refused")
            raise StorageError("the store does not answer")

    def put(self) -> PutFault:
        """Return what happens to a put."""
        if not self.history.chance.one_in(self.history.store[0]):
            return PutFault.NONE
        fault = self.history.chance.pick((PutFault.AFTER, PutFault.BEFORE, PutFault.LATE))
        self.history.met(f"a put that is {fault.value}", self.owner)
        return fault

    def hidden(self) -> int:
        """Return how many commits a list lacks."""
        if not self.history.chance.one_in(self.history.store[1]):
            return 0
        self.history.met("a list that lacks commits")
        return 1 + self.history.chance.below(3)


class History:
    """One history.

    Args:
        chance: Its choices.
        ports: The outside; a deliberate mistake may bring its own.
        ignored: Rules that are not checked.
        tells: Called with each thing that happens; None for no one.
    """

    def __init__(
        self,
        chance: Chance,
        ports: type[HistoryPorts] = HistoryPorts,
        ignored: tuple[str, ...] = (),
        tells: Callable[[str], None] | None = None,
    ) -> None:
        self.chance = chance
        self.has_build = chance.one_in(3)
        self.world = World(len(BUCKETS), has_build=self.has_build, ignored=ignored)
        self.store = chance.pick(FAULTS)
        self.cleans = chance.one_in(3) and not self.has_build
        self.seen: set[str] = set()
        self._ports = ports
        self._tells = tells
        self._members: list[Member] = []
        self._idle: list[Host] = []
        self._started = 0
        self._checks = 0
        self._main = getcurrent()

    def say(self, what: str) -> None:
        """Tell what happens."""
        if self._tells is not None:
            self._tells(what)

    def met(self, what: str, owner: str = "") -> None:
        """Remember and tell what happens."""
        self.seen.add(what)
        self.say(f"{owner}: {what}" if owner else what)

    def run(self) -> str:
        """Run the history and return the first rule that was broken, or ""."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unreadable, "folded", self.world.folded)
            for _ in range(TURNS):
                if self.world.wrong or not self.chance.next_turn():
                    break
                self._turn()
            for member in self._members:
                self._kill(member)
            if not self.world.wrong:
                self._end()
        return self.world.wrong

    # -- one turn ------------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        chance = self.chance
        awake = [m for m in self._members if m.sleeps == 0]
        for member in self._members:
            member.sleeps = max(0, member.sleeps - 1)
        self.world.now += chance.pick((1, 1, 1, 5, 15, 40))
        what = chance.below(24)
        if what <= 14 and awake:
            self._go_on(chance.pick(awake), 1 + chance.below(12))
        elif what <= 17 or not self._members:
            self._start()
        elif what in (18, 19):
            self._change()
        elif what == 20 and awake:
            member = chance.pick(awake)
            self.met("a death", member.owner)
            self._kill(member)
        elif what == 21 and awake:
            member = chance.pick(awake)
            member.sleeps = 2 + chance.below(8)
            self.met("a sleep", member.owner)
        elif what == 22:
            self._late()
        elif self._members:
            self._jump(chance.pick(self._members))

    def _change(self) -> None:
        kind, bucket = self.chance.pick(COMMITS)
        rows = [1 if kind == "insert" else -1 for kind, b in self.world.versions.source if b == bucket]
        if kind == "insert" or sum(rows) > 0:
            self.say(f"the source commits {kind} {bucket}")
            self.world.change(kind, bucket)

    def _late(self) -> None:
        if logs := self.world.late_logs():
            self.met("a late put that is done")
            self.chance.pick(logs).put_late()
        elif self.cleans:
            self.met("a clean-up of old commits")
            self.world.forget_commits()

    def _jump(self, member: Member) -> None:
        if self.chance.one_in(3) and member.lease is not None:
            self._begin(f"{member.owner}~", lambda new: self._renew(new, member), member.skew)
            return
        member.skew = self.chance.pick(SKEWS)
        self.met("a clock that jumps", member.owner)
        self.say(f"{member.owner} is {member.skew:.0f} s ahead")

    def _go_on(self, member: Member, requests: int) -> None:
        for _ in range(requests):
            if member.place is None or member.place.dead or self.world.wrong:
                break
            member.place.switch()
        if member.place is not None and member.place.dead and member in self._members:
            self._members.remove(member)
            self._idle.append(member.host)

    def _kill(self, member: Member) -> None:
        if member.place is not None and not member.place.dead:
            member.place.throw()
        self._members = [m for m in self._members if m is not member]

    def pause(self) -> None:
        """Let chance decide who goes on."""
        if getcurrent() is not self._main:
            self._main.switch()

    # -- processes -----------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._started >= PROCESSES:
            return
        self._started += 1
        chance, name = self.chance, str(self._started)
        kind = chance.below(12 if self.has_build else 10)
        skew = chance.pick(SKEWS) if chance.one_in(4) else 0.0
        if kind <= 6:
            options = {
                "window": chance.pick(WINDOWS[::-1]),
                "merging": chance.pick(((), (0,), (1,), (0, 1))),
                "fails": "compute" if chance.one_in(10) else "",
                "holding": chance.pick(((), (0,), (1,), (0, 1))) if chance.one_in(2) else None,
                "order": tuple(Which)[:: 1 - 2 * chance.below(2)],
                "is_build": self.world.versions.build is not None and chance.below(3) > 0,
            }
            self._begin(name, lambda new: self._refresh(new, **options), skew)
        elif kind == 7:
            self._begin(name, self._fold, skew)
        elif kind == 8:
            self._begin(name, self._check, skew)
        else:
            begun = Process(NO_LEASE, is_recovery_only=kind == 9, switches=kind > 9)
            self._begin(name, lambda new: self._refresh(new, begun=begun, window=BUCKETS), skew)

    def _begin(self, owner: str, work: Callable[[Member], None], skew: float = 0.0) -> Member:
        is_new = not self._idle or self.chance.one_in(8)
        host = Host(self.world) if is_new else self._idle.pop()
        member = host.faults = Member(self, owner, host, skew)
        member.place = greenlet(lambda: self._guarded(member, work))
        self._members.append(member)
        return member

    def _guarded(self, member: Member, work: Callable[[Member], None]) -> None:
        try:
            work(member)
        except GreenletExit:
            raise
        except EXPECTED as exc:
            self.say(f"{member.owner}: {type(exc).__name__}: {exc}")
        except Exception as exc:  # noqa: BLE001 - whatever it is, nothing may look damaged
            self.world.note(f"error: {type(exc).__name__}: {exc}")

    def _refresh(
        self, member: Member, faults: StoreFaults | None = None, begun: Process | None = None, **options: Any
    ) -> None:
        ports = self._ports(self.world, member.host.journal, faults or member, member.clock, member.owner, **options)
        lease = Lease(member.owner, f"host-{member.owner}", 1, 1, member.clock() + LEASE_SECONDS)
        process, member.lease, member.id = replace(begun or Process(lease), lease=lease), lease, ports.id
        self.say(f"{member.owner} begins: {options}")
        try:
            while process.at is not At.END:
                process = self._step(member, process, ports)
        except EXPECTED:
            with suppress(MaterializerError):
                self._next(member, "release")
                refresh_steps.release(Process(lease), ports)
            raise
        if process.is_recovery_only:
            self._next(member, "release")
            refresh_steps.release(process, ports)

    def _next(self, member: Member, what: str) -> None:
        member.step += 1
        member.author = Author(member.owner, member.step)
        self.met(what, member.owner)

    def _step(self, member: Member, process: Process, ports: HistoryPorts) -> Process:
        self._next(member, process.at.value)
        try:
            if process.at is not At.LEASE:
                journal, is_read = ports.journal, process.switches or process.recovered
                ports.bind((journal.view() if is_read else journal.last_view).all.get(ports.id))
            return steps.advance(process, ports)
        except (LeaseLostError, WriteFencedError, JournalConflictError) as exc:
            self.seen.add(type(exc).__name__)
            if self.world.has_landed(member.author):
                self.world.note(f"own: {process.at} of process {member.owner} is in the journal, and it failed: {exc}")
            if self.world.is_leased(ports.id, member.owner) and not any(self.world.gone.values()):
                self.world.note(f"held: process {member.owner} holds the lease and was stopped by another: {exc}")
            raise

    def _renew(self, member: Member, of: Member) -> None:
        """Renew the lease of a process, as its second thread does."""
        is_build = of.id == BUILD
        ports = self._ports(self.world, member.host.journal, member, member.clock, of.owner, BUCKETS, is_build=is_build)
        self._next(member, "renew")
        member.author = Author(of.owner, -self.started())

        def decide(seen: Any) -> list[LeaseRenewed]:
            is_ours = seen[1].lease is not None and seen[1].lease.owner == of.owner
            return [LeaseRenewed(of.owner, member.clock() + LEASE_SECONDS)] if is_ours else []

        transact(ports.read, decide, lambda seen, events: events and ports.append(seen[0], events), attempts=20)

    def started(self) -> int:
        """Return a number that was not returned before."""
        self._checks += 1
        return self._checks

    def _fold(self, member: Member) -> None:
        self._next(member, "fold")
        member.host.journal.clean()

    def _check(self, member: Member) -> None:
        for _ in range(3):
            n = self.started()
            self._next(member, "append")
            member.author = Author("", n)
            member.host.journal.append_if_living(AGGREGATE, "bars", Checked({"n": n}))
            self.world.acknowledge(n)

    # -- the end -------------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """All processes are dead; one that nobody disturbs refreshes everything, and only then the last late puts are done."""
        self.say("all have died")
        self.world.now += LONGEST_LEASE + LEASE_SECONDS + 1
        host = Host(self.world)
        try:
            for number, (begun, is_build) in enumerate(LAST if self.has_build else LAST[:1]):
                if self.world.versions.build is not None or not (is_build or begun.switches):
                    last = Member(self, f"last {number}", host)
                    self._refresh(last, NoFaults(), begun=begun, window=BUCKETS, is_build=is_build)
        except Exception as exc:  # noqa: BLE001 - nothing may stop it
            self.world.note(f"ends: {type(exc).__name__}: {exc}")
        while logs := self.world.late_logs():
            logs[0].put_late()
        if not self.world.wrong:
            self.world.check_end(host.journal.view())


def replayed(choices: Choices, **options: Any) -> str:
    """Return the rule that the history of some choices breaks, or ""."""
    return History(Chance(given=choices), **options).run()
