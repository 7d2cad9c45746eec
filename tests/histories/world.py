"""What lies outside the processes of a history, what is true of it, and the rules that each commit is checked against.

The rules of :mod:`tests.model.exploration` (clean, after, tail, numbers, aborted, finished, lease, held, error) hold after each
commit, and besides:

  prefix     every prefix of the journal folds
  fold       a snapshot of the journal says what the events said
  doubled    a step of a process, or an event without a lease, is in the journal once at most
  own        no process whose commit is in the journal is told that another came first
  forgotten  what was committed, or acknowledged to a process, is in the journal or in its history
  ends       when all have died, one undisturbed refresh of everything leaves no dirt, and no lease keeps it waiting for ever
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from materializer.adapters.memory.lake import AGGREGATE, DEFINED, MemoryLake, MemoryTable, dirty_buckets
from materializer.adapters.memory.log import MemoryLog, MemoryVersion, StoreFaults
from materializer.adapters.memory.store import EMPTY, MemoryStore
from materializer.errors import JournalError
from materializer.journal import fold
from materializer.journal.codec import Row, decode, encode
from materializer.journal.events import Aborted, Checked, Event, LeaseTaken
from materializer.journal.ports import JournalSnapshot
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.services.protocol.process import Which
from tests.model.exploration import broken_rules

ENDED: Final = ("planned", "audited", "done", "aborted", "switched")


class Folds:
    """What the pure fold said of each state and row, so that all processes of a history do not compute it again."""

    def __init__(self) -> None:
        self._said: dict[tuple[int, int], tuple[AggregateState | None, Row, AggregateState | None]] = {}

    def __call__(self, state: AggregateState | None, row: Row) -> AggregateState | None:
        """Return what :func:`materializer.journal.fold.folded` returns."""
        said = self._said.get((id(state), id(row)))
        if said is None:  # both stay alive here, so that no other gets their ids
            said = self._said[id(state), id(row)] = state, row, fold.folded(state, row)
        return said[2]


class Author(NamedTuple):
    """Who sent a commit: the owner of the lease that it works under, "" for none, and the number of its step."""

    owner: str
    step: int


def stores_of(
    logs: Mapping[str, MemoryLog[JournalSnapshot]], faults: StoreFaults | None = None
) -> Callable[[str], MemoryStore]:
    """Return what a journal of one process takes as *stores*."""
    return lambda name: MemoryStore(logs[name], faults)


class HistoryLake(MemoryLake):
    """A lake whose journal is given as the folded state of the aggregate."""

    __slots__ = ()

    @property
    def state(self) -> AggregateState:
        """The aggregate as the journal knows it."""
        state: Any = self.journal
        return state


class World:
    """Source, journal and tables, and what is true of them.

    Args:
        buckets: How many buckets there are.
        ignored: Rules that are not checked.
    """

    def __init__(self, buckets: int = 2, ignored: tuple[str, ...] = ()) -> None:
        self.now = 1e9
        self.authors: dict[str, Author] = {}
        self.gone = dict.fromkeys(Which, 0)
        self.commits = 0
        self.folded = Folds()
        self._ignored = ignored
        self._landed: Counter[Author] = Counter()
        self._checked: Counter[int] = Counter()
        self._ended: list[Row] = []
        empty = MemoryTable((0,) * buckets)
        self.journal = MemoryLog(EMPTY, self._in_journal)
        self.history = MemoryLog(EMPTY)
        self.tables = {
            which: MemoryLog(empty, lambda _, new, which=which: self._in_table(which, new)) for which in Which
        }
        first: Any = None
        self.lake = HistoryLake((), first, empty, empty)
        self.logs = {"journal": self.journal, "history": self.history}
        rows = (encode(AGGREGATE, DEFINED, at=""),)
        self.journal.put(MemoryVersion(1, "", JournalSnapshot(1, rows, 1)))

    # -- what happens --------------------------------------------------------------------------------------------------------

    def change(self, kind: str, bucket: int) -> None:
        """Commit a change to the source."""
        self.lake = self.lake._replace(source=(*self.lake.source, (kind, bucket)))

    def forget_commits(self) -> None:
        """Make the commits of the tables so far unreadable."""
        self.gone = {which: log.newest.number for which, log in self.tables.items()}

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken."""
        if not self.lake.wrong and wrong.partition(":")[0] not in self._ignored:
            self.lake = self.lake._replace(wrong=wrong)

    @property
    def wrong(self) -> str:
        """The first rule that was broken, or ""."""
        return self.lake.wrong

    # -- rules ---------------------------------------------------------------------------------------------------------------

    def _in_table(self, which: Which, new: MemoryVersion[MemoryTable]) -> None:
        self.commits += 1
        commit = new.state.commits[-1]
        if which is Which.OUTPUT and commit.kind == "data" and commit.plan in self.lake.aborted:
            self.note(f"aborted: output of {commit.plan} is published")
        is_output = which is Which.OUTPUT
        self.lake = self.lake._replace(output=new.state) if is_output else self.lake._replace(partials=new.state)
        self.check()

    def _in_journal(self, before: MemoryVersion[JournalSnapshot], new: MemoryVersion[JournalSnapshot]) -> None:
        self.commits += 1
        old, rows = before.state, new.state.rows
        is_grown = not old.rows or (len(rows) > len(old.rows) and rows[len(old.rows) - 1] is old.rows[-1])
        if new.state.generation == new.number and old.rows:
            self._check_fold(rows)
        elif not is_grown:
            self.note(f"forgotten: version {new.number} lacks rows of the version before")
        else:
            self._append(new.mark, rows[len(old.rows) :])
        self.check()

    def _check_fold(self, rows: tuple[Row, ...]) -> None:
        state: Any = self.folded(None, rows[0])
        if len(rows) != 1 or state != self.lake.state:
            self.note("fold: the snapshot is not what the events said")
        self.lake = self.lake._replace(journal=state)

    def _append(self, mark: str, rows: tuple[Row, ...]) -> None:
        author = self.authors.get(mark)
        events = [decode(row) for row in rows]
        if author is not None:
            self._check_author(author, events)
        for row, event in zip(rows, events, strict=True):
            if row.kind in ENDED:
                self._ended.append(row)
            if isinstance(event, Aborted):
                self._check_abort(event)
            if isinstance(event, Checked):
                self._checked[event.verdict["n"]] += 1
            try:
                state: Any = self.folded(self.lake.state, row)
            except JournalError as exc:
                self.note(f"prefix: {exc.message}")
                return
            self.lake = self.lake._replace(journal=state)

    def _check_author(self, author: Author, events: list[Event]) -> None:
        self._landed[author] += 1
        if self._landed[author] > 1:
            self.note(f"doubled: {type(events[0]).__name__} by process {author.owner or 'without a lease'}")
        lease = self.lake.state.lease
        is_under_lease = author.owner and not isinstance(events[0], LeaseTaken)
        if is_under_lease and (lease is None or lease.owner != author.owner):
            self.note(f"lease: {type(events[0]).__name__} by process {author.owner}, which does not hold it")

    def _check_abort(self, event: Aborted) -> None:
        plan = self.lake.state.plan
        if plan is None or plan.n != event.n:
            return
        is_readable = not any(self.gone[w] > base.version for w, base in _bases(plan))
        if is_readable and any(c.plan == plan.id and c.kind == "data" for c in self.lake.partials.commits):
            self.note(f"finished: {plan.id} is aborted, and the partials carry it")
        self.lake = self.lake._replace(aborted=(*self.lake.aborted, plan.id))

    def has_landed(self, author: Author) -> bool:
        """Whether the journal has a commit of this step."""
        return self._landed[author] > 0

    def acknowledge(self, n: int) -> None:
        """Check that an event without a lease, of which its process believes that it is there, is there once."""
        if self._checked[n] != 1:
            self.note(f"{'doubled' if self._checked[n] else 'forgotten'}: check {n} is there {self._checked[n]} times")

    def check(self) -> None:
        """Note the first broken rule about values."""
        if not self.lake.wrong:
            for wrong in broken_rules(self.lake):
                self.note(wrong)

    def check_end(self, view: View) -> None:
        """Check what must be true when everything has come to rest; *view* is what the last process reads."""
        state = self.lake.state
        dirt = dirty_buckets(state, self.lake.buckets)
        if state.plan or dirt or state.cursor != len(self.lake.source):
            self.note(
                f"ends: an open plan {state.plan}, dirt {dirt}, or cursor {state.cursor} of {len(self.lake.source)}"
            )
        for bucket in self.lake.buckets:
            want = self.lake.truth(bucket, state.cursor)
            if self.lake.output.values[bucket] != want:
                self.note(f"ends: bucket {bucket} is published as {self.lake.output.values[bucket]}, truth is {want}")
        if any(n > 1 for n in self._checked.values()):
            self.note("doubled: a check is there twice")
        if view.all != {AGGREGATE: state}:
            self.note("prefix: a process that reads the journal anew sees something else")
        stored = {*self.history.newest.state.rows, *self.journal.newest.state.rows}
        if lost := [row for row in self._ended if row not in stored]:
            self.note(f"forgotten: {lost[0].kind} {lost[0].payload[:60]}")
        self.check()


def _bases(plan: Any) -> tuple[tuple[Which, Any], ...]:
    return (Which.PARTIALS, plan.partials), (Which.OUTPUT, plan.output)
