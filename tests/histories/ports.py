"""The ports of one process of a history: the real journal and compare-and-swap tables, over a store that fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from materializer.adapters.memory.lake import AGGREGATE, MemoryLake, MemoryTable
from materializer.adapters.memory.log import LogClient, StoreFaults, VersionTakenError
from materializer.adapters.memory.ports import MemoryPorts
from materializer.core.refresh.plan import Plan
from materializer.core.time.spans import SpanSet
from materializer.errors import RetryableError
from materializer.journal.events import Event, Lease
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.services import processes
from materializer.services.protocol.process import Which
from tests.histories.world import World

ATTEMPTS = 5
"""How often a commit of a table is tried again after another came first, as over Delta tables."""


class HistoryPorts(MemoryPorts):
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
    ) -> None:
        self._world = world
        self._clock = clock
        self._order = order
        self._clients = {which: LogClient(log, faults) for which, log in world.tables.items()}
        self.journal = journal
        super().__init__(world.lake, owner, window, merging, fails, holding)

    @property
    def lake(self) -> MemoryLake:
        """The lake as it is; the tables of a process are read by :meth:`table`."""
        return self._world.lake

    @lake.setter
    def lake(self, lake: Any) -> None:
        self._world.lake = lake

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken."""
        self._world.note(wrong)

    # -- journal -------------------------------------------------------------------------------------------------------------

    def read(self) -> tuple[int, AggregateState]:
        """See :class:`Ports`."""
        view = self.journal.view()
        return view.version, view.living(AGGREGATE, "bars")

    def append(self, version: int, events: Sequence[Event]) -> None:
        """See :class:`Ports`; the world checks the commit where it becomes true."""
        self.journal.append(version, AGGREGATE, events)

    def is_dead(self, lease: Lease) -> bool:
        """See :class:`Ports`; every process is on a host of its own."""
        return processes.is_dead(lease, self._clock())

    # -- tables --------------------------------------------------------------------------------------------------------------

    def table(self, which: Which) -> MemoryTable:
        """Return one of the two tables, as far as this process can see."""
        return self._clients[which].newest().state._replace(gone=self._world.gone[which])

    def put(self, which: Which, table: MemoryTable) -> None:
        """Commit the last of the table's commits if it is a new one."""
        version = len(table.commits)
        if version > self._clients[which].seen:
            commit = table.commits[-1]
            self._clients[which].put(version, f"{commit.plan} {commit.kind}", table)

    def fence(self, which: Which, plan: Plan) -> None:
        """See :class:`Ports`."""
        _again(lambda: super(HistoryPorts, self).fence(which, plan))

    def write(self, plan: Plan, result: Any, which: frozenset[Which]) -> None:
        """See :class:`Ports`; one table after the other, in the order of this process."""
        for one in self._order:
            if one in which:
                _again(lambda one=one: super(HistoryPorts, self).write(plan, result, frozenset({one})))

    def publish(self, plan: Plan, withheld: SpanSet) -> None:
        """See :class:`Ports`."""
        _again(lambda: super(HistoryPorts, self).publish(plan, withheld))


def _again(commit: Callable[[], None]) -> None:
    """Commit to a table against its newest version, which shows whether it has the number of the plan already."""
    for _ in range(ATTEMPTS):
        try:
            return commit()
        except VersionTakenError:
            continue
    raise RetryableError(f"other commits came first, {ATTEMPTS} times")
