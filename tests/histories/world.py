"""What lies outside the processes of a history, what is true of it, and the rules that each commit is checked against.

The rules of :mod:`tests.model.exploration` (clean, after, tail, numbers, aborted, finished, lease, held, error) hold after each
commit for an aggregate and for its build, those of :mod:`tests.model.switches` (readers, back, lost) too, and besides:

  prefix     every prefix of the journal folds
  fold       a snapshot of the journal says what the events said
  doubled    a step of a process, or an event without a lease, is in the journal once at most
  own        no process whose commit is in the journal is told that another came first
  forgotten  what was committed, or acknowledged to a process, is in the journal or in its history
  ends       when all have died, undisturbed processes publish the build and leave no dirt, and no lease keeps them waiting for ever
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, cast

from msgspec.structs import replace

from materializer.adapters.memory.lake import (
    AGGREGATE,
    DEFINED,
    MemoryLake,
    MemoryTable,
    appended,
    dirty_buckets,
    folded,
)
from materializer.adapters.memory.log import MemoryLog, MemoryVersion, StoreFaults
from materializer.adapters.memory.store import EMPTY, MemoryStore
from materializer.adapters.memory.switch_ports import NEW, OLD, MemoryVersions, NextVersionLake
from materializer.core.codec import as_json
from materializer.core.refresh.plan import Plan
from materializer.errors import JournalError, LeaseLostError
from materializer.journal import fold
from materializer.journal.codec import Row, decode, encode
from materializer.journal.events import Aborted, BuildStarted, Checked, Event, LeaseTaken, Snapshot, Switched
from materializer.journal.ports import JournalSnapshot
from materializer.journal.state import AggregateState
from materializer.journal.version_fields import version_of
from materializer.journal.view import View
from tests.model.exploration import broken_rules

BUILD: Final = "b1"
TABLES: Final = ("old", "new", "output", "built")
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


class NextHistoryLake(HistoryLake, NextVersionLake):
    """The same as the new version sees it."""

    __slots__ = ()


class HistoryVersions(MemoryVersions):
    """An aggregate and its build, each given as its folded state."""

    __slots__ = ()

    def lake(self, *, is_build: bool, version: str) -> MemoryLake:
        """Return what a process works on."""
        state = self.build if is_build else self.current
        if state is None:
            raise LeaseLostError("the build is gone")
        kind, partials = (NextHistoryLake, self.new) if version == NEW else (HistoryLake, self.old)
        return kind(self.source, state, partials, self.built if is_build else self.output, self.aborted, self.wrong)


class World:
    """Source, journal and tables, and what is true of them.

    Args:
        buckets: How many buckets there are.
        has_build: Whether the next version of the aggregate is being built.
        ignored: Rules that are not checked.
    """

    def __init__(self, buckets: int, *, has_build: bool, ignored: tuple[str, ...] = ()) -> None:
        self.now = 1e9
        self.authors: dict[str, Author] = {}
        self.commits = 0
        self.folded = Folds()
        self.states: dict[str, AggregateState] = {}
        self._ignored = ignored
        self._landed: Counter[Author] = Counter()
        self._checked: Counter[int] = Counter()
        self._ended: list[Row] = []
        empty, nothing = MemoryTable((0,) * buckets), cast("Any", None)
        self.versions = HistoryVersions((), nothing, None, *[empty] * len(TABLES))
        self.tables = {name: MemoryLog(empty, partial(self._in_table, name)) for name in TABLES}
        self.gone = dict.fromkeys(TABLES, 0)
        self.logs = {"journal": MemoryLog(EMPTY, self._in_journal), "history": MemoryLog(EMPTY)}
        self.logs["journal"].put(MemoryVersion(1, "", JournalSnapshot(1, FIRST if has_build else FIRST[:1], 1)))

    # -- what happens --------------------------------------------------------------------------------------------------------

    def change(self, kind: str, bucket: int) -> None:
        """Commit a change to the source."""
        self.versions = self.versions._replace(source=(*self.versions.source, (kind, bucket)))

    def forget_commits(self) -> None:
        """Make the commits of the tables so far unreadable."""
        self.gone = {name: log.newest.number for name, log in self.tables.items()}

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken."""
        if not self.wrong and wrong.partition(":")[0] not in self._ignored:
            self.versions = self.versions._replace(wrong=wrong)

    @property
    def wrong(self) -> str:
        """The first rule that was broken, or ""."""
        return self.versions.wrong

    @property
    def lake(self) -> MemoryLake:
        """The aggregate and its tables."""
        return self.versions.lake(is_build=False, version=self.states[AGGREGATE].data_version)

    def late_logs(self) -> list[MemoryLog[Any]]:
        """Return the logs in which puts are still to be done."""
        return [log for log in (*self.tables.values(), *self.logs.values()) if log.late]

    # -- rules ---------------------------------------------------------------------------------------------------------------

    def _in_table(self, name: str, _: object, new: MemoryVersion[MemoryTable]) -> None:
        self.commits += 1
        commit = new.state.commits[-1]
        if name in ("output", "built") and commit.kind != "fence" and commit.plan in self.versions.aborted:
            self.note(f"aborted: output of {commit.plan} is published")
        self.versions = self.versions._replace(**{name: new.state})
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
        states = {row.aggregate: self.folded(None, row) for row in rows}
        if len(rows) != len(states) or states != self.states:
            self.note("fold: the snapshot is not what the events said")
        for aggregate, state in states.items():
            self._set(aggregate, state)

    def _set(self, aggregate: str, state: AggregateState | None) -> None:
        if state is None:
            self.states.pop(aggregate, None)
        else:
            self.states[aggregate] = state
        known: Any = self.states.get(AGGREGATE), self.states.get(BUILD)
        self.versions = self.versions._replace(current=known[0], build=known[1])

    def _append(self, mark: str, rows: tuple[Row, ...]) -> None:
        author = self.authors.get(mark)
        events = [decode(row) for row in rows]
        if author is not None:
            self._check_author(author, rows[0].aggregate, events[0])
        for row, event in zip(rows, events, strict=True):
            if row.kind in ENDED:
                self._ended.append(row)
            self._check_event(row.aggregate, event)
            try:
                self._set(row.aggregate, self.folded(self.states.get(row.aggregate), row))
            except JournalError as exc:
                self.note(f"prefix: {exc.message}")
                return

    def _check_author(self, author: Author, aggregate: str, event: Event) -> None:
        self._landed[author] += 1
        if self._landed[author] > 1:
            self.note(f"doubled: {type(event).__name__} by process {author.owner or 'without a lease'}")
        if author.owner and not isinstance(event, LeaseTaken) and not self.is_leased(aggregate, author.owner):
            self.note(f"lease: {type(event).__name__} by process {author.owner}, which does not hold it")

    def is_leased(self, aggregate: str, owner: str) -> bool:
        """Whether a process holds the lease of the aggregate or of the build."""
        state = self.states.get(aggregate)
        return state is not None and state.lease is not None and state.lease.owner == owner

    def _check_event(self, aggregate: str, event: Event) -> None:
        state = self.states.get(aggregate)
        match event:
            case Checked():
                self._checked[event.verdict["n"]] += 1
            case Aborted() if state is not None and state.plan is not None:
                self._check_abort(state, state.plan)
            case Switched() if state is not None and (build := self.versions.build) is not None:
                if build.cursor < state.cursor:
                    self.note(f"back: readers go from source version {state.cursor} to {build.cursor}")
                buckets = range(len(self.versions.output.values))
                if lost := dirty_buckets(build, buckets) - dirty_buckets(state, buckets):
                    self.note(f"lost: buckets {sorted(lost)} were published and are not built")
            case _:
                pass

    def _check_abort(self, state: AggregateState, plan: Plan) -> None:
        """Note a plan that is aborted although the table that decides carries it, and all commits since can be read."""
        output = "built" if state.builds else "output"
        partials = "new" if state.data_version == NEW else "old"
        deciding, base = (output, plan.output) if state.switch else (partials, plan.partials)
        is_readable = self.gone[deciding] <= base.version and self.gone[output] <= plan.output.version
        commits = self.tables[deciding].newest.state.commits
        if is_readable and any(c.plan == plan.id and c.kind != "fence" for c in commits):
            self.note(f"finished: {plan.id} is aborted, and {deciding} carries it")
        self.versions = self.versions._replace(aborted=(*self.versions.aborted, plan.id))

    def has_landed(self, author: Author) -> bool:
        """Whether the journal has a commit of this step."""
        return self._landed[author] > 0

    def acknowledge(self, n: int) -> None:
        """Check that an event without a lease, of which its process believes that it is there, is there once."""
        if self._checked[n] != 1:
            self.note(f"{'doubled' if self._checked[n] else 'forgotten'}: check {n} is there {self._checked[n]} times")

    def check(self) -> None:
        """Note the first broken rule about values."""
        if self.wrong:
            return
        lake, build = self.lake, self.versions.build
        if lake.state.switch and build is not None:
            self._check_readers(lake, build)
            lake = lake._replace(output=lake.partials)
        found = [*broken_rules(lake)]
        if build is not None:
            known = replace(build, last_n=max(build.last_n, lake.state.last_n)) if build.is_closed else build
            built = self.versions.lake(is_build=True, version=NEW)._replace(journal=cast("Any", known))
            found += (f"{wrong} (build)" for wrong in broken_rules(built))
        for wrong in found:
            self.note(wrong)

    def _check_readers(self, lake: MemoryLake, build: AggregateState) -> None:
        clean = [b for b in lake.buckets if b not in dirty_buckets(lake.state, lake.buckets)]
        values = [tuple(table.values[b] for b in clean) for table in (lake.output, lake.partials, self.versions.built)]
        if values[0] not in values[1:]:
            self.note(f"readers: while {build.name} is switched, the output is {values[0]}, neither of {values[1:]}")

    def check_end(self, view: View) -> None:
        """Check what must be true when everything has come to rest; *view* is what the last process reads."""
        state, lake = self.states[AGGREGATE], self.lake
        dirt = dirty_buckets(state, lake.buckets)
        if state.plan or dirt or state.cursor != len(lake.source) or self.versions.build is not None:
            self.note(f"ends: an open plan {state.plan}, dirt {dirt}, a build or cursor {state.cursor}")
        for bucket in lake.buckets:
            want = lake.truth(bucket, state.cursor)
            if lake.output.values[bucket] != want:
                self.note(f"ends: bucket {bucket} is published as {lake.output.values[bucket]}, truth is {want}")
        if any(n > 1 for n in self._checked.values()):
            self.note("doubled: a check is there twice")
        if view.all != self.states:
            self.note("prefix: a process that reads the journal anew sees something else")
        stored = {row for log in self.logs.values() for row in log.newest.state.rows}
        if lost := [row for row in self._ended if row not in stored]:
            self.note(f"forgotten: {lost[0].kind} {lost[0].payload[:60]}")
        self.check()


def _first_rows() -> tuple[Row, Row]:
    """Return the rows of an aggregate, and of its build."""
    state = folded(appended(None, DEFINED))
    published = replace(state, data_version=OLD, tables={"partials": "old", "output": "output"})
    fresh = replace(state, data_version=NEW, tables={"partials": "new", "output": "built"})
    build = BuildStarted("bars", AGGREGATE, version_of(fresh), 0)
    return encode(AGGREGATE, Snapshot(as_json(published)), at=""), encode(BUILD, build, at="")


FIRST: Final = _first_rows()
