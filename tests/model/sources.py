"""Every order in which refreshes, deaths and takeovers can meet a source whose columns, table or commits become other ones.

As :mod:`tests.model.exploration`; whether the source is the one that was captured is said by the project's own comparison of marks
(:mod:`materializer.services.observe.source_breaks`), over a log in memory. The source swaps the names of two columns, is replaced,
and is put back from a copy, after which it has other commits under the same numbers. The rules that are checked in every state:

  clean     where the source still has the commit that was captured, what is clean has partials = output = truth at the cursor
  after     there a logged bucket whose entry says ``after = a`` has partials = truth at a
  tail, numbers, aborted, finished, lease, error   as in the exploration of one aggregate
  ends      from every state, one undisturbed refresh leaves no dirt, unless the source is shorter than what was captured, or replaced
            by one that does not go on from it, which is an error then
  settles   after it a second look at the source finds nothing
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from materializer.adapters.memory.lake import MemoryLake, appended, forget_folds, spans_of
from materializer.adapters.memory.ports import MemoryPorts
from materializer.core.engines.work import Work
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry, SourceMark
from materializer.core.refresh.plan import Plan
from materializer.core.time.spans import EVERYTHING
from materializer.errors import (
    DataError,
    LeaseLostError,
    SourceReplacedError,
    SourceRolledBackError,
    StorageError,
    TableNotFoundError,
    WriteFencedError,
)
from materializer.journal import fold
from materializer.journal.events import Captured, Event, Lease
from materializer.journal.state import AggregateState
from materializer.lake.capture import source_marks
from materializer.lake.table import TableHead
from materializer.services.observe import source_breaks
from materializer.services.protocol import refresh_steps, steps
from materializer.services.protocol.process import At, OwnTableHead, Process, Which
from tests.model.exploration import BUCKETS, Found, Numbered, broken_rules

READ: Final = ("x",)
"""The column that the aggregate sums; the source has ``x`` and ``y``."""
OTHER: Final = 10
"""What a row is worth in the column that was not called ``x`` when the row was written; there it is worth 1."""
REPLACED: Final = 100
"""What bucket 0 is worth right after the source was replaced."""
WINDOWS: Final = ((0,), (0, 1))
STOPPED: Final = (LeaseLostError, WriteFencedError)
REFUSED: Final = (SourceReplacedError, SourceRolledBackError)
EXPECTED: Final = (*STOPPED, *REFUSED, DataError, StorageError)
GONE: Final = StorageError("the source has no such version any more")
OTHER_TABLE: Final = SourceReplacedError("the source is another table", hint="", found="", expected="")
SHORTER: Final = SourceRolledBackError("the source is shorter", hint="", found=0, expected=0)


class Bounds(NamedTuple):
    """How far to explore: commits at the same time, swaps, replacements, copies put back, leases taken over, refreshes started."""

    commits: int
    swaps: int
    replacements: int
    copies: int
    takeovers: int
    refreshes: int


SMALL: Final = (Bounds(2, 1, 0, 0, 1, 2), Bounds(2, 0, 1, 0, 1, 2), Bounds(2, 0, 0, 1, 0, 2))
FULL: Final = (
    Bounds(3, 1, 0, 0, 1, 2),
    Bounds(3, 0, 1, 0, 1, 2),
    Bounds(2, 0, 0, 1, 1, 2),
    Bounds(2, 1, 1, 1, 0, 2),
)


class SourceLake(MemoryLake):
    """A lake whose ``source`` is a log that may change under the captured numbers: commits (kind, bucket, history)."""

    __slots__ = ()

    def table_id(self, version: int) -> str:
        """Return the id of the table at a version."""
        begun = [(v, history) for v, (kind, _, history) in enumerate(self.source[:version], 1) if kind == "replace"]
        return f"s{begun[-1]}" if begun else "s"

    def columns(self, version: int) -> dict[str, str]:
        """Return what ``x`` and ``y`` are called underneath at a version."""
        found = {"x": "c1", "y": "c2"}
        for at, (kind, _, history) in enumerate(self.source[:version], 1):
            if kind == "swap":
                found = {"x": found["y"], "y": found["x"]}
            elif kind == "replace":
                found = {"x": f"x{at}.{history}", "y": f"y{at}.{history}"}
        return found

    def digest(self, version: int) -> str:
        """Return what stands for the commit of a version; "" if there is none."""
        return "begin" if version == 0 else str(self.source[version - 1]) if version <= len(self.source) else ""

    def truth(self, bucket: int, version: int) -> int:
        """Return what ``x`` of *bucket* sums to at a version."""
        sums = {"x": 0, "y": 0}
        for kind, b, _ in self.source[:version]:
            match kind:
                case "insert" if b == bucket:
                    sums = {"x": sums["x"] + 1, "y": sums["y"] + OTHER}
                case "swap":
                    sums = {"x": sums["y"], "y": sums["x"]}
                case "replace":
                    sums = {"x": 0 if bucket else REPLACED, "y": 0}
        return sums["x"]

    def changes(self, bucket: int, after: int, upto: int) -> list[str]:
        """Return the kinds of change of *bucket* in ``(after, upto]``."""
        return [kind for kind, b, _ in self.source[after:upto] if b == bucket]

    @property
    def is_as_captured(self) -> bool:
        """Whether the source has the commit that was captured last."""
        cursor, known = self.state.cursor, self.state.mark.commits
        return known.get(str(cursor), self.digest(cursor)) == self.digest(cursor) != ""


class MemorySource:
    """The log of a :class:`SourceLake`, as :class:`materializer.lake.table.DeltaFolder` shows one."""

    path: Final = "src"
    lake: SourceLake

    @classmethod
    def at(cls, path: str) -> MemorySource:  # noqa: ARG003 - there is one source
        """Return the one source."""
        return cls()

    def head(self) -> TableHead:
        """See :class:`DeltaFolder`."""
        version = len(self.lake.source)
        return TableHead(version, self.lake.table_id(version))

    def file_of(self, version: int) -> tuple[str, str]:
        """See :class:`DeltaFolder`."""
        return (str(version), self.lake.digest(version))

    def commits(self, after: int, upto: int) -> list[SimpleNamespace]:
        """See :class:`DeltaFolder`."""
        lake = self.lake
        ids = [SimpleNamespace(id=lake.table_id(v)) for v in range(after + 1, upto + 1)]
        return [SimpleNamespace(version=v, digest=lake.digest(v), metadata=of) for v, of in enumerate(ids, after + 1)]

    def schema_json(self) -> str:
        """See :class:`DeltaFolder`."""
        return _schema(self.lake, len(self.lake.source))


def _schema(lake: SourceLake, version: int) -> str:
    called = {name: {"delta.columnMapping.physicalName": of} for name, of in lake.columns(version).items()}
    return json.dumps({"fields": [{"name": n, "type": "long", "metadata": of} for n, of in called.items()]})


def _opened(_: str, version: int) -> SimpleNamespace:
    lake = MemorySource.lake
    if version > len(lake.source):
        raise TableNotFoundError("there is no such version")
    schema = SimpleNamespace(to_json=lambda: _schema(lake, version))
    return SimpleNamespace(schema=lambda: schema, metadata=lambda: SimpleNamespace(id=lake.table_id(version)))


@contextmanager
def in_memory() -> Iterator[None]:
    """Let the comparison of marks read :attr:`MemorySource.lake` inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_breaks, "DeltaFolder", MemorySource)
        patch.setattr(source_marks, "digest", lambda _, version: MemorySource.lake.digest(version))
        patch.setattr(source_marks, "open_table", _opened)
        yield


class SourcePorts(MemoryPorts):
    """The outside of one step of a refresh."""

    lake: SourceLake

    def captured(self, state: AggregateState) -> list[Event]:
        """Return what the source did since the cursor, or that it is not the one that was captured.

        Raises:
            SourceReplacedError: If it is another table, which does not go on from the captured one.
            SourceRolledBackError: If it is shorter than what was captured.
        """
        MemorySource.lake = self.lake
        source, newest = MemorySource(), len(self.lake.source)
        if source.head().table_id != state.source.table_id and not source_marks.goes_on(
            source, state.cursor, state.source.table_id, state.mark
        ):
            raise OTHER_TABLE
        if newest < state.cursor:
            raise SHORTER
        if broken := source_breaks.found(state, newest, READ):
            everything = Entry(EVERYTHING, None, Cause.SOURCE, gone=ANY_ROWS)
            mark = source_marks.mark_anew(source, newest, READ, broken.reason, state.mark)
            return [Captured(newest, (everything,), mark=mark, table_id=broken.table_id)]
        mark = source_marks.mark(source, newest, READ)
        return [replace(event, mark=mark) for event in super().captured(state) if isinstance(event, Captured)]

    def compute(self, plan: Plan, work: Work | None) -> Any:
        """See :class:`materializer.services.protocol.process.Ports`; reads the version that the plan pins, whatever it is now."""
        if plan.source_version > len(self.lake.source):
            raise GONE
        return super().compute(plan, work)


class MarkFirst(SourcePorts):
    """Stores the mark in a commit of its own, before what is dirty."""

    def decide(self, state: AggregateState, heads: dict[Which, OwnTableHead]) -> Any:
        """Note what the source is now, and plan then."""
        found = self.captured(state)
        if found and isinstance(found[0], Captured) and found[0].mark:
            noted = Captured(state.cursor, (), mark=found[0].mark, table_id=found[0].table_id)
            self.lake = self.lake._replace(journal=appended(self.lake.journal, noted))
        return super().decide(state, heads)


class Member(NamedTuple):
    """A process, and the buckets that it refreshes."""

    process: Process
    window: tuple[int, ...]


class State(NamedTuple):
    """Lake and processes by their places in the exploration's tables, and what the bounds count."""

    lake: int
    members: tuple[int, ...] = ()
    started: int = 0
    takeovers: int = 0
    swaps: int = 0
    replacements: int = 0
    copies: int = 0


class Exploration:
    """One breadth-first exploration.

    Args:
        bounds: How far.
        ports: What stands for the outside; a mistake may bring its own.
    """

    def __init__(self, bounds: Bounds, ports: type[SourcePorts] = SourcePorts) -> None:
        forget_folds()
        self.bounds = bounds
        self.ports = ports
        self.lakes = Numbered()
        self.members = Numbered()
        self._steps: dict[tuple[int, int], list[tuple[str, int | None, int]]] = {}
        self._verdicts: dict[int, str] = {}

    def run(self) -> Found:
        """Explore; stop at the first broken rule."""
        start = State(self.lakes.number(SourceLake(*MemoryLake.first())))
        parent: dict[State, tuple[State | None, str]] = {start: (None, "")}
        todo = deque([start])
        while todo:
            state = todo.popleft()
            if why := self.verdict(state.lake):
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
        lake: SourceLake = self.lakes.values[s.lake]
        for label, source, counts in self._changes(s, lake.source):
            grown = self.lakes.number(lake._replace(source=source))
            yield f"the source: {label}", s._replace(lake=grown, **counts)
        is_held = lake.state.lease is not None
        if s.started < self.bounds.refreshes and (not is_held or s.takeovers < self.bounds.takeovers):
            for window in WINDOWS:
                label, then, after = self._start(str(s.started + 1), window, lake)
                members = s.members if then is None else tuple(sorted((*s.members, then)))
                began = s._replace(lake=after, members=members, started=s.started + 1, takeovers=s.takeovers + is_held)
                yield f"{label}, {window}", began
        for i, member in enumerate(s.members):
            rest = s.members[:i] + s.members[i + 1 :]
            for label, then, after in self.steps(member, s.lake):
                yield label, s._replace(lake=after, members=rest if then is None else tuple(sorted((*rest, then))))

    def _changes(self, s: State, source: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...], dict[str, int]]]:
        """Yield (label, source after it, counts after it)."""
        bounds = self.bounds
        if len(source) < bounds.commits:
            yield from ((f"insert {b}", (*source, ("insert", b, s.copies)), {}) for b in BUCKETS)
            if s.swaps < bounds.swaps:
                yield "swap x and y", (*source, ("swap", -1, s.copies)), {"swaps": s.swaps + 1}
            if s.replacements < bounds.replacements:
                yield "replace", (*source, ("replace", -1, s.copies)), {"replacements": s.replacements + 1}
        if s.copies < bounds.copies:
            for length in range(len(source)):
                yield f"put back to version {length}", source[:length], {"copies": s.copies + 1}

    def _start(self, owner: str, window: tuple[int, ...], lake: SourceLake) -> tuple[str, int | None, int]:
        return self._step(Member(Process(Lease(owner, "", 0, 0, 0.0)), window), lake, ())

    def steps(self, member: int, lake: int) -> list[tuple[str, int | None, int]]:
        """Return (label, process after it or None, lake after it) for each way in which the next step can go."""
        found = self._steps.get((member, lake))
        if found is None:
            m, before = self.members.values[member], self.lakes.values[lake]
            ways: list[Any] = [()]
            if m.process.at is At.PLAN:
                ways = [(0, 1), ()]
            elif m.process.at is At.WRITE:
                ways = sorted(m.process.todo)
            found = self._steps[member, lake] = [self._step(m, before, way) for way in ways]
        return found

    def _step(self, m: Member, lake: SourceLake, way: Any) -> tuple[str, int | None, int]:
        p, which = m.process, way if isinstance(way, Which) else None
        ports = self.ports(lake, p.lease.owner, m.window, () if which else way)
        label = f"process {p.lease.owner}: {' '.join(filter(None, [p.at, which]))}"
        then: Process | None = None
        try:
            then = refresh_steps.write(p, ports, frozenset({which})) if which else steps.advance(p, ports)
        except EXPECTED as exc:
            label += f" ({type(exc).__name__})"
            refresh_steps.release(p, ports)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the protocol must never meet it
            ports.note(f"error: {type(exc).__name__}: {exc}")
        if then is None or then.at is At.END:
            return label, None, self.lakes.number(ports.lake)
        if then.at is At.COMPUTE and then.plan:
            label += f" {then.plan.n} at version {then.plan.source_version}: {then.plan.strategy}"
        then = replace(then, note=None, report=None, recovered=())
        return label, self.members.number(Member(then, m.window)), self.lakes.number(ports.lake)

    def verdict(self, lake: int) -> str:
        """Return the rule that *lake* breaks, or that is broken when it comes to rest; "" when none is."""
        found = self._verdicts.get(lake)
        if found is None:
            value = self.lakes.values[lake]
            found = self._verdicts[lake] = _broken(value) or self._at_rest(value)
        return found

    def _at_rest(self, lake: SourceLake) -> str:
        """All processes die; one undisturbed refresh must end clean, and find nothing when it looks again."""
        label, member, at = self._start("99", BUCKETS, lake)
        for _ in range(60):
            if member is None:
                break
            label, member, at = self.steps(member, at)[-1]
        end: SourceLake = self.lakes.values[at]
        if "Error" in label:
            is_shorter = len(end.source) < end.state.cursor
            is_other = end.table_id(len(end.source)) != end.state.source.table_id and not end.is_as_captured
            is_refused = any(error.__name__ in label for error in REFUSED) and (is_shorter or is_other)
            return "" if is_refused else f"ends: {label}"
        dirt = end.state.log.spans & spans_of(BUCKETS)
        if member is not None or end.state.plan or dirt or end.state.cursor != len(end.source):
            return f"ends: after a refresh there is dirt {dirt.as_json()}, an open plan, an older source or no end"
        if not end.is_as_captured:
            return "ends: the refresh does not see that the source is another one"
        try:
            again: Any = self.ports(end, "99", BUCKETS).captured(end.state)
        except REFUSED as exc:
            again = exc
        return f"settles: a second look finds {again!r}" if again else _broken(end)


def _broken(lake: SourceLake) -> str:
    found = (why for why in broken_rules(lake) if lake.is_as_captured or why.split(":")[0] not in ("clean", "after"))
    return lake.wrong or next(found, "")


# -- mistakes ------------------------------------------------------------------------------------------------------------


class Mistake(NamedTuple):
    """One deliberate mistake: what is wrong, the rule that catches it, and how it is made."""

    says: str
    caught_by: str
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    ports: type[SourcePorts] = SourcePorts
    bounds: Bounds = SMALL[0]


def explore(bounds: Bounds, mistake: str | None = None) -> Found:
    """Explore the project's code, or what a mistake makes of it."""
    m = MISTAKES[mistake] if mistake else Mistake("", "")
    with in_memory(), pytest.MonkeyPatch.context() as patch:
        m.patch(patch)
        return Exploration(bounds, m.ports).run()


def _not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source_breaks, "found", lambda *_: None)


def _by_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source_marks, "has_other_commit", lambda *_: False)


def _by_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source_marks, "names_underneath", lambda _: {"x": "x", "y": "y"})


def _other_id(patch: pytest.MonkeyPatch) -> None:
    apply = fold.apply

    def forgetting(state: Any, aggregate: str, event: Event, *, at: str = "") -> AggregateState | None:
        return apply(state, aggregate, replace(event, table_id="") if isinstance(event, Captured) else event, at=at)

    patch.setattr(fold, "apply", forgetting)


def _marks_joined(patch: pytest.MonkeyPatch) -> None:
    after = SourceMark.after
    patch.setattr(
        SourceMark, "after", lambda old, new: replace(after(old, new), commits={**new.commits, **old.commits})
    )


MISTAKES: Final = {
    "not-compared": Mistake("the mark is not compared", "clean", _not_compared),
    "mark-first": Mistake("the mark is stored before what is dirty", "clean", ports=MarkFirst),
    "by-name": Mistake("columns are compared by their names", "clean", _by_name),
    "by-number": Mistake("a commit is compared by its number", "ends", _by_number, bounds=SMALL[2]),
    "other-id": Mistake("the id of a source that was replaced is forgotten", "settles", _other_id, bounds=SMALL[1]),
    "marks-joined": Mistake(
        "an older commit of the same number stays the known one", "ends", _marks_joined, bounds=SMALL[2]
    ),
}
