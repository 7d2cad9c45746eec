"""Deliberate mistakes in the project's own code, each of which some history must catch; those of the exploration are added.

Where the code has a second guard against the consequence, the mistake comes with that guard taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from materializer.adapters.memory.lake import MemoryCommit, MemoryTable
from materializer.adapters.memory.log import LogClient
from materializer.adapters.memory.ports import MemoryPorts
from materializer.adapters.memory.store import MemoryStore
from materializer.core.refresh.plan import Plan
from materializer.errors import JournalConflictError, StorageError, WriteFencedError
from materializer.journal import journal as journals
from materializer.journal import transact as transacting
from materializer.journal.codec import Row
from materializer.services import processes
from materializer.services.protocol import refresh_steps
from materializer.services.protocol.process import At, Process
from tests.histories.chance import Chance
from tests.histories.history import History
from tests.histories.ports import HistoryPorts
from tests.model import switches
from tests.model.mutations import MUTATIONS


class Mistake(NamedTuple):
    """One mistake.

    Args:
        says: What is wrong.
        patch: Makes it in the project's modules.
        ports: Makes it in the outside.
        ignored: Rules that would only repeat the mistake's name.
    """

    says: str
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    ports: type[HistoryPorts] = HistoryPorts
    ignored: tuple[str, ...] = ()


class Caught(NamedTuple):
    """The seed that caught a mistake, and the rule that it broke."""

    seed: int
    wrong: str


def caught(name: str, seeds: Iterable[int]) -> Caught | None:
    """Return the first of the seeds whose history breaks a rule with a mistake; None if none does."""
    mistake = MISTAKES[name]
    with pytest.MonkeyPatch.context() as patch:
        mistake.patch(patch)
        for seed in seeds:
            if wrong := History(Chance(seed), mistake.ports, mistake.ignored).run():
                return Caught(seed, wrong)
    return None


def _blind_tables(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(refresh_steps, "check_heads", lambda *_: None)


def _no_marks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "mark_of", lambda *_: "")


def _any_mark(patch: pytest.MonkeyPatch) -> None:
    append = MemoryStore.append

    def appending(self: MemoryStore, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        try:
            return append(self, rows, expected_version=expected_version, mark=mark)
        except JournalConflictError:
            return expected_version + 1

    patch.setattr(MemoryStore, "append", appending)


def _unanswered_is_undone(patch: pytest.MonkeyPatch) -> None:
    put = LogClient.put

    def repeating(self: LogClient, number: int, mark: str, state: Any) -> None:
        try:
            put(self, number, mark, state)
        except StorageError:
            self.put(number, mark, state)

    patch.setattr(LogClient, "put", repeating)
    _no_marks(patch)


def _no_compare(patch: pytest.MonkeyPatch) -> None:
    append = MemoryStore.append

    def appending(self: MemoryStore, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        return append(self, rows, expected_version=self.read().version, mark=mark)

    patch.setattr(MemoryStore, "append", appending)


def _fold_without_compare(patch: pytest.MonkeyPatch) -> None:
    snapshot = MemoryStore.snapshot

    def replacing(self: MemoryStore, rows: Sequence[Row], *, expected_version: int) -> int:
        return snapshot(self, rows, expected_version=self.read().version)

    patch.setattr(MemoryStore, "snapshot", replacing)


def _decided_once(patch: pytest.MonkeyPatch) -> None:
    def transact(read: Any, decide: Any, append: Any, *, attempts: int | None = None, **_: Any) -> Any:
        first = decide(read())

        def same(_: Any) -> Any:
            return first

        return transacting.transact(read, same, append, attempts=attempts)

    patch.setattr(refresh_steps, "transact", transact)
    patch.setattr(journals, "transact", transact)


def _list_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogClient, "last_after", lambda _, version: max(0, version))
    _blind_tables(patch)


def _no_history(patch: pytest.MonkeyPatch) -> None:
    append = MemoryStore.append

    def appending(self: MemoryStore, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        if not mark:
            return expected_version + 1
        return append(self, rows, expected_version=expected_version, mark=mark)

    patch.setattr(MemoryStore, "append", appending)


def _endless_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(processes, "LONGEST_LEASE", float("inf"))


def _no_lease_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(refresh_steps, "check_lease", lambda *_: None)


def _abort_unfenced(patch: pytest.MonkeyPatch) -> None:
    recover = refresh_steps.recover
    _blind_tables(patch)

    def aborting(p: Process, ports: Any) -> Process:
        after = recover(p, ports)
        return replace(after, at=At.ABORTED) if after.at is At.FENCE else after

    patch.setattr(refresh_steps, "recover", aborting)


def _committed_again(patch: pytest.MonkeyPatch) -> None:
    def committed(self: MemoryTable, plan: Plan, kind: str, values: Mapping[int, int]) -> MemoryTable:
        new = tuple(values.get(b, x) for b, x in enumerate(self.values))
        return self._replace(values=new, commits=(*self.commits, MemoryCommit(plan.n, plan.id, kind)))

    patch.setattr(MemoryTable, "committed", committed)


def _own_table(patch: pytest.MonkeyPatch) -> None:
    committed = MemoryTable.committed

    def refusing(self: MemoryTable, plan: Plan, kind: str, values: Mapping[int, int]) -> MemoryTable:
        after = committed(self, plan, kind, values)
        if after is self:
            raise WriteFencedError("another commit has this number")
        return after

    patch.setattr(MemoryTable, "committed", refusing)


LEFT_OUT: Final = ("recover-unleased", "abort-unseen", "finish-unseen", "any-commit-voids", "stale-plan")
"""Mistakes of the exploration: two patch the code during one step, in the middle of which other processes work here; what the
third one breaks was not met in 3,000 histories, and is met by the exploration only where commits become unreadable. The last two
need a commit of others in every plan, or a process that declares spans dirty without a lease, and no history has these."""


def _mixed(ports: type[MemoryPorts]) -> type[HistoryPorts]:
    """Return the ports of a history with a mistake of the exploration."""
    return HistoryPorts if issubclass(HistoryPorts, ports) else type(ports.__name__, (ports, HistoryPorts), {})


MISTAKES: Final = {
    "no-marks": Mistake("an append whose answer was lost is taken for another's commit", _no_marks),
    "any-mark": Mistake("another's commit is taken for an append whose answer was lost", _any_mark),
    "no-compare": Mistake("the journal is appended to without compare-and-swap", _no_compare),
    "fold-without-compare": Mistake("the journal is folded without compare-and-swap", _fold_without_compare),
    "decided-once": Mistake("what was decided is appended although another commit came first", _decided_once),
    "list-alone": Mistake("the newest version is what a list says", _list_alone),
    "no-history": Mistake("what a fold takes from the journal is not in its history", _no_history),
    "endless-lease": Mistake("a clock that is a year ahead keeps the lease for a year", _endless_lease),
    "abort-unfenced": Mistake("a plan is aborted without a fence", _abort_unfenced),
    "no-lease-check": Mistake("nobody looks whether the lease is still its own", _no_lease_check),
    "unanswered-undone": Mistake("a put that was not answered is repeated until it is", _unanswered_is_undone),
    "own-table": Mistake("a commit to a table whose answer was lost is taken for another's", _own_table),
    "committed-again": Mistake("a table is written without a look at its number", _committed_again),
    **{n: Mistake(m.says, m.patch, _mixed(m.ports), m.ignored) for n, m in MUTATIONS.items() if n not in LEFT_OUT},
    **{f"switch-{name}": Mistake(m.says, m.patch, _mixed(m.ports)) for name, m in switches.MISTAKES.items()},
}
