"""The ports of one process of a history: the real journal and compare-and-swap tables, over a store that fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from materializer.adapters.memory.lake import AGGREGATE, MemoryTable
from materializer.adapters.memory.log import LogClient, StoreFaults, VersionTakenError
from materializer.adapters.memory.switch_ports import NEW, OLD, MemorySwitchPorts, MemoryVersions
from materializer.core.refresh.plan import Plan
from materializer.core.time.spans import SpanSet
from materializer.errors import MaterializerError, RetryableError, WriteFencedError
from materializer.journal.events import Event, Lease
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.services import processes
from materializer.services.protocol.decision import Decision
from materializer.services.protocol.process import CommitsGoneError, OwnTableHead, Which
from tests.histories.world import BUILD, World

PLAN_REQUESTS = 3
"""Requests between the state that a plan is made of and its append: others, and the renewal of its lease, come in between."""
ATTEMPTS = 5
"""How often a commit of a table is tried again after another came first, as over Delta tables."""


class HistoryPorts(MemorySwitchPorts):
    """The outside of one process.

    Args:
        world: What all processes share.
        journal: The journal as its host knows it.
        faults: What goes wrong between this process and the store.
        clock: Returns the time by the clock of its host.
        owner: The process.
        window: Buckets that it refreshes.
        merging: Buckets that planning merges where it may.
        fails: ``compute`` if that fails.
        holding: Buckets that the gate withholds; None without a gate.
        order: The order in which it commits to the tables.
        is_build: Whether it works on the build.
    """

    def __init__(
        self,
        world: World,
        journal: Journal,
        faults: StoreFaults,
        clock: Callable[[], float],
        owner: str,
        window: Sequence[int],
        *,
        merging: Collection[int] = (),
        fails: str = "",
        holding: Collection[int] | None = None,
        order: Sequence[Which] = tuple(Which),
        is_build: bool = False,
    ) -> None:
        self._world = world
        self._clock = clock
        self._faults = faults
        self._order = order
        self._clients = {name: LogClient(log, faults) for name, log in world.tables.items()}
        self.journal = journal
        self.id = BUILD if is_build else AGGREGATE
        super().__init__(world.versions, owner, NEW if is_build else OLD, window, is_build=is_build)
        self.merging = merging
        self.fails = fails
        self.holding = holding

    @property
    def versions(self) -> MemoryVersions:
        """The lake as it is; the tables of a process are read by :meth:`table`."""
        return self._world.versions

    @versions.setter
    def versions(self, versions: Any) -> None:
        self._world.versions = versions

    def bind(self, state: AggregateState | None) -> None:
        """Work on the version that is published now."""
        if state is not None:
            self.version = state.data_version

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken."""
        self._world.note(wrong)

    # -- journal -------------------------------------------------------------------------------------------------------------

    def read(self) -> tuple[int, AggregateState]:
        """See :class:`Ports`."""
        view = self.journal.view()
        return view.version, view.living(self.id, "bars")

    def append(self, version: int, events: Sequence[Event]) -> None:
        """See :class:`Ports`; the world checks the commit where it becomes true."""
        self.journal.append(version, self.id, events)

    def read_both(self) -> tuple[int, AggregateState, AggregateState | None]:
        """See :class:`SwitchPorts`."""
        view = self.journal.view()
        state = view.living(self.id, "bars")
        return view.version, state, view.build_of(state)

    def append_both(self, version: int, events: Sequence[Event], build: str, build_events: Sequence[Event]) -> None:
        """See :class:`SwitchPorts`."""
        self.journal.append_each(version, [*((self.id, e) for e in events), *((build, e) for e in build_events)])

    def is_dead(self, lease: Lease) -> bool:
        """See :class:`Ports`; every process is on a host of its own."""
        return processes.is_dead(lease, self._clock())

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Decision:
        """See :class:`Ports`; takes some time."""
        for _ in range(PLAN_REQUESTS):
            self._faults.before("plan")
        return super().decide(state, heads)

    # -- tables --------------------------------------------------------------------------------------------------------------

    def _name(self, which: Which) -> str:
        if which is Which.PARTIALS:
            return "new" if self.version == NEW else "old"
        return "built" if self.is_build else "output"

    def _newest(self, name: str) -> MemoryTable:
        return self._clients[name].newest().state._replace(gone=self._world.gone[name])

    def _put(self, name: str, table: MemoryTable) -> None:
        """Commit the last of the table's commits if it is a new one."""
        if len(table.commits) > self._clients[name].seen:
            commit = table.commits[-1]
            self._clients[name].put(len(table.commits), f"{commit.plan} {commit.kind}", table)

    def table(self, which: Which) -> MemoryTable:
        """Return one of the two tables, as far as this process can see."""
        return self._newest(self._name(which))

    def put(self, which: Which, table: MemoryTable) -> None:
        """Commit to one of the two tables."""
        self._put(self._name(which), table)

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """See :class:`Ports`; a switch counts as the plan's commit."""
        table, base = self.table(which), plan.partials if which is Which.PARTIALS else plan.output
        if table.gone > base.version:
            raise CommitsGoneError
        return any(c.plan == plan.id and c.kind != "fence" for c in table.commits[base.version :])

    def fence(self, which: Which, plan: Plan) -> None:
        """See :class:`Ports`."""
        _again(partial(super().fence, which, plan))

    def write(self, plan: Plan, result: Any, which: frozenset[Which]) -> None:
        """See :class:`Ports`; one table after the other in the order of this process, and the second also if the first fails."""
        failures = []
        for one in self._order:
            if one in which:
                try:
                    _again(partial(super().write, plan, result, frozenset({one})))
                except MaterializerError as exc:
                    failures.append(exc)
        for failure in sorted(failures, key=lambda exc: isinstance(exc, WriteFencedError)):
            raise failure

    def publish(self, plan: Plan, withheld: SpanSet) -> None:
        """See :class:`Ports`."""
        _again(partial(super().publish, plan, withheld))

    def build_heads(self, build: AggregateState) -> dict[Which, OwnTableHead]:
        """See :class:`SwitchPorts`."""
        tables = {which: self._newest(build.tables[which.value]) for which in Which}
        return {w: OwnTableHead(build.tables[w.value], len(t.commits), t.n) for w, t in tables.items()}

    def copy_build(self, plan: Plan, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""

        def copy() -> None:
            rows = dict(enumerate(self._newest(build.tables["output"]).values))
            self.put(Which.OUTPUT, self.table(Which.OUTPUT).committed(plan, "switch", rows))

        _again(copy)

    def fence_build(self, plan: Plan, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        name = build.tables["partials"]
        with suppress(WriteFencedError):
            _again(lambda: self._put(name, self._newest(name).committed(plan, "fence", {})))


def _again(commit: Callable[[], None]) -> None:
    """Commit to a table against its newest version, which shows whether it has the number of the plan already."""
    for _ in range(ATTEMPTS):
        try:
            return commit()
        except VersionTakenError:
            continue
    raise RetryableError(f"other commits came first, {ATTEMPTS} times")
