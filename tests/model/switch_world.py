"""A lake with an aggregate and its next version, small enough to explore whole.

Both read one source. A value of the old version is the sum of :mod:`tests.model.world`, one of the new version the same
and :data:`APART` more, so that it shows whose rows a table has. :class:`SwitchMemory` is the outside of one of the two:
a process refreshes the tables of the version that it was bound to, as a real one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from materializer.core.codec import as_json
from materializer.core.refresh.plan import Plan
from materializer.errors import JournalConflictError, LeaseLostError, NotCoveredError
from materializer.journal.codec import Row, encode
from materializer.journal.events import BuildStarted, Dropped, Event, Lease, Snapshot, Switched
from materializer.journal.state import AggregateState
from materializer.journal.version_fields import version_of
from materializer.services.protocol.process import OwnTableHead, Which
from tests.model.world import AGGREGATE, BUCKETS, DEFINED, WIDTH, MemoryPorts, Table, World, _appended, _state

APART: Final = 100
OLD, NEW = "d1", "d2"


class NewWorld(World):
    """The world as the new version sees it."""

    __slots__ = ()

    def truth(self, bucket: int, version: int) -> int:
        """Return what *bucket* is worth to the new version."""
        return APART + super().truth(bucket, version)


class Lake(NamedTuple):
    """Everything outside the processes.

    Args:
        source: The change that each version made.
        current: The aggregate, as its snapshot row.
        build: Its next version likewise; None when there is none.
        old: Partials of the old version.
        new: Partials of the new version.
        output: What readers see.
        built: The output of the next version.
        aborted: Ids of plans that were aborted.
        wrong: A rule that a step broke, or "".
    """

    source: tuple[tuple[str, int], ...]
    current: Row
    build: Row | None
    old: Table = Table()
    new: Table = Table()
    output: Table = Table()
    built: Table = Table()
    aborted: tuple[str, ...] = ()
    wrong: str = ""

    @classmethod
    def first(cls) -> Lake:
        """Return the lake right after a changed definition was applied."""
        current = _appended(None, (encode(AGGREGATE, DEFINED, at=""),))
        fresh = version_of(replace(_state(current), data_version=NEW, tables={"partials": "new", "output": "built"}))
        current = _renamed(current)
        build = encode(AGGREGATE, BuildStarted("bars", AGGREGATE, fresh, 0), at="")
        return cls((), current, _appended(None, (build,)))

    def world(self, *, is_build: bool, version: str) -> World:
        """Return what a process works on that is bound to a version of the aggregate, or to the build."""
        kind = NewWorld if version == NEW else World
        row = self.build if is_build else self.current
        if row is None:
            raise LeaseLostError("the build is gone")
        output = self.built if is_build else self.output
        return kind(self.source, row, self.new if version == NEW else self.old, output, self.aborted, self.wrong)

    def with_world(self, world: World, *, is_build: bool, version: str) -> Lake:
        """Return the lake after a process made *world* of what it works on."""
        return self._replace(
            **{
                "build" if is_build else "current": world.journal,
                "new" if version == NEW else "old": world.partials,
                "built" if is_build else "output": world.output,
            },
            aborted=world.aborted,
            wrong=world.wrong,
        )


def _renamed(row: Row) -> Row:
    state = replace(_state(row), tables={"partials": "old", "output": "output"})
    return encode(AGGREGATE, Snapshot(as_json(state)), at="")


def dirty_buckets(state: AggregateState) -> set[int]:
    """Return the buckets that are in the log or in the open plan."""
    taken = [e.span for e in state.plan.taken] if state.plan else []
    return {b for b in BUCKETS if b * WIDTH in state.log.spans or any(b * WIDTH in s for s in taken)}


class SwitchMemory(MemoryPorts):
    """The outside for one step of one process that works on the aggregate, or on its build.

    Args:
        lake: Replaced by what the step makes of it.
        owner: The process.
        version: The version that it is bound to.
        is_build: Whether it works on the build.
        window: Buckets that it refreshes.
    """

    def __init__(self, lake: Lake, owner: str, version: str, window: Sequence[int], *, is_build: bool) -> None:
        self.lake = lake
        self.version = version
        self.is_build = is_build
        self.owner = owner
        self.window = window
        self.merging: Sequence[int] = ()
        self.fails = ""
        self.holding = None

    @property
    def world(self) -> World:
        """What the process works on."""
        return self.lake.world(is_build=self.is_build, version=self.version)

    @world.setter
    def world(self, world: World) -> None:
        self.lake = self.lake.with_world(world, is_build=self.is_build, version=self.version)

    def head(self, which: Which) -> OwnTableHead:
        """Return a table's identity, version and number."""
        ids = {
            Which.PARTIALS: "new" if self.version == NEW else "old",
            Which.OUTPUT: ["output", "built"][self.is_build],
        }
        return replace(super().head(which), table_id=ids[which])

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken, also when the build is gone."""
        self.lake = self.lake._replace(wrong=self.lake.wrong or wrong)

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """Whether a data commit carries the plan's id, or a switch."""
        table, base = self.table(which), plan.partials if which is Which.PARTIALS else plan.output
        return any(c.plan == plan.id and c.kind in ("data", "switch") for c in table.commits[base.version :])

    # -- what a switch touches ---------------------------------------------------------------------------------------------

    def read_both(self) -> tuple[int, AggregateState, AggregateState | None]:
        """Return the journal's version and both states."""
        build = None if self.lake.build is None else _state(self.lake.build)
        return hash((self.lake.current, self.lake.build)), _state(self.lake.current), build

    def append_both(self, version: int, events: Sequence[Event], build: str, build_events: Sequence[Event]) -> None:  # noqa: ARG002 - the port's signature
        """Fold events of both in."""
        found, state, was = self.read_both()
        if version != found or was is None:
            raise JournalConflictError("another process was first")
        for event in events:
            if isinstance(event, Switched):
                self._check_switch(state, was)
        self.append(hash(self.lake.current), events)
        assert self.lake.build is not None
        if any(isinstance(e, Dropped) for e in build_events):
            self.lake = self.lake._replace(build=None)
        else:
            rows = tuple(encode(AGGREGATE, e, at="") for e in build_events)
            self.lake = self.lake._replace(build=_appended(self.lake.build, rows))

    def _check_switch(self, state: AggregateState, build: AggregateState) -> None:
        if build.cursor < state.cursor:
            self.note(f"back: readers go from source version {state.cursor} to {build.cursor}")
        if lost := dirty_buckets(build) - dirty_buckets(state):
            self.note(f"lost: buckets {sorted(lost)} were published and are not built")

    def build_heads(self, build: AggregateState) -> dict[Which, OwnTableHead]:  # noqa: ARG002 - the port's signature
        """Return the heads of the build's tables."""
        return {
            Which.PARTIALS: OwnTableHead("new", len(self.lake.new.commits), self.lake.new.n),
            Which.OUTPUT: OwnTableHead("built", len(self.lake.built.commits), self.lake.built.n),
        }

    def refuse_switch(self, state: AggregateState, build: AggregateState) -> None:
        """Refuse what readers would lose something by."""
        if build.plan or build.cursor < state.cursor or dirty_buckets(build) - dirty_buckets(state):
            raise NotCoveredError("not covered")

    def copy_build(self, plan: Plan, build: AggregateState) -> None:  # noqa: ARG002 - the port's signature
        """Overwrite the output with the rows of the build."""
        before = self.lake.output
        after = before.committed(plan, "switch", dict(zip(BUCKETS, self.lake.built.values, strict=True)))
        if after != before and plan.id in self.lake.aborted:
            self.note(f"aborted: output of {plan.id} is published")
        self.lake = self.lake._replace(output=after)

    def fence_build(self, plan: Plan, build: AggregateState) -> None:  # noqa: ARG002 - the port's signature
        """Record the number in the new partials."""
        self.lake = self.lake._replace(new=self.lake.new.committed(plan, "fence", {}))

    def kept_versions(self, build: AggregateState) -> int:  # noqa: ARG002 - the port's signature
        """Keep none: nobody rolls back here."""
        return 0


def lease_of(owner: str) -> Lease:
    """Return a lease."""
    return Lease(owner, "", 0, 0, 0.0)
