"""What a switch touches, in memory: an aggregate and its next version as one hashable value.

Both read one source. A value of the old version is that of :class:`MemoryLake`, one of the new version the same and
:data:`APART` more, so that it shows whose rows a table has. :class:`MemorySwitchPorts` is the outside of one of the two: a
process refreshes the tables of the version that it was bound to, as a real one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

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
from materializer.adapters.memory.ports import MemoryPorts
from materializer.core.codec import as_json
from materializer.core.refresh.plan import Plan
from materializer.errors import JournalConflictError, LeaseLostError, NotCoveredError, WriteFencedError
from materializer.journal.codec import Row, encode
from materializer.journal.events import BuildStarted, Dropped, Event, Snapshot, Switched
from materializer.journal.state import AggregateState
from materializer.journal.version_fields import version_of
from materializer.services.protocol.process import OwnTableHead, Which
from materializer.services.protocol.switch_steps import SwitchPorts

APART: Final = 100
OLD: Final = "d1"
NEW: Final = "d2"


class NextVersionLake(MemoryLake):
    """The lake as the new version sees it."""

    __slots__ = ()

    def truth(self, bucket: int, version: int) -> int:
        """Return what *bucket* is worth to the new version."""
        return APART + super().truth(bucket, version)


class MemoryVersions(NamedTuple):
    """Everything outside the processes that work on an aggregate or on its next version.

    Args:
        source: The change that each version of the source made.
        current: The aggregate, as its snapshot row.
        build: Its next version, as its snapshot row; None when there is none.
        old: Partials of the old version.
        new: Partials of the new version.
        output: What readers see.
        built: The output of the next version.
        aborted: Ids of plans that were aborted.
        wrong: The first rule of the protocol that a process broke, or "".
    """

    source: tuple[tuple[str, int], ...]
    current: Row
    build: Row | None
    old: MemoryTable
    new: MemoryTable
    output: MemoryTable
    built: MemoryTable
    aborted: tuple[str, ...] = ()
    wrong: str = ""

    @classmethod
    def first(cls, buckets: int = 2) -> MemoryVersions:
        """Return the lake right after a changed definition was applied."""
        state = folded(appended(None, DEFINED))
        fresh = version_of(replace(state, data_version=NEW, tables={"partials": "new", "output": "built"}))
        published = replace(state, tables={"partials": "old", "output": "output"})
        current = encode(AGGREGATE, Snapshot(as_json(published)), at="")
        empty = MemoryTable((0,) * buckets)
        build = appended(None, BuildStarted("bars", AGGREGATE, fresh, 0))
        return cls((), current, build, empty, empty, empty, empty)

    def lake(self, *, is_build: bool, version: str) -> MemoryLake:
        """Return what a process works on that is bound to a version of the aggregate, or to the build."""
        kind = NextVersionLake if version == NEW else MemoryLake
        row = self.build if is_build else self.current
        if row is None:
            raise LeaseLostError("the build is gone")
        output = self.built if is_build else self.output
        return kind(self.source, row, self.new if version == NEW else self.old, output, self.aborted, self.wrong)

    def with_lake(self, lake: MemoryLake, *, is_build: bool, version: str) -> MemoryVersions:
        """Return the versions after a process made *lake* of what it works on."""
        after = self._replace(aborted=lake.aborted, wrong=lake.wrong)
        after = after._replace(new=lake.partials) if version == NEW else after._replace(old=lake.partials)
        if is_build:
            return after._replace(build=lake.journal, built=lake.output)
        return after._replace(current=lake.journal, output=lake.output)


class MemorySwitchPorts(MemoryPorts, SwitchPorts):
    """The outside for one step of a process that works on the aggregate, or on its build; see ``switch_steps.SwitchPorts``.

    Args:
        versions: Replaced by what the step makes of it.
        owner: The process.
        version: The version that it is bound to.
        window: Buckets that it refreshes.
        is_build: Whether it works on the build.
    """

    def __init__(
        self, versions: MemoryVersions, owner: str, version: str, window: Sequence[int], *, is_build: bool
    ) -> None:
        self.versions = versions
        self.version = version
        self.is_build = is_build
        self.owner = owner
        self.window = window
        self.merging = ()
        self.fails = ""
        self.holding = None

    @property
    def lake(self) -> MemoryLake:
        """What the process works on."""
        return self.versions.lake(is_build=self.is_build, version=self.version)

    @lake.setter
    def lake(self, lake: MemoryLake) -> None:
        self.versions = self.versions.with_lake(lake, is_build=self.is_build, version=self.version)

    def head(self, which: Which) -> OwnTableHead:
        """See :class:`Ports`."""
        ids = {
            Which.PARTIALS: "new" if self.version == NEW else "old",
            Which.OUTPUT: ["output", "built"][self.is_build],
        }
        return replace(super().head(which), table_id=ids[which])

    def note(self, wrong: str) -> None:
        """Remember the first rule that was broken, also when the build is gone."""
        self.versions = self.versions._replace(wrong=self.versions.wrong or wrong)

    def has_commit(self, which: Which, plan: Plan) -> bool:
        """See :class:`Ports`; a switch counts as the plan's commit."""
        table, base = self.table(which), plan.partials if which is Which.PARTIALS else plan.output
        return any(c.plan == plan.id and c.kind in ("data", "switch") for c in table.commits[base.version :])

    # -- what a switch touches ---------------------------------------------------------------------------------------------

    def read_both(self) -> tuple[int, AggregateState, AggregateState | None]:
        """See :class:`SwitchPorts`."""
        current, build = self.versions.current, self.versions.build
        return hash((current, build)), folded(current), None if build is None else folded(build)

    def append_both(self, version: int, events: Sequence[Event], build: str, build_events: Sequence[Event]) -> None:  # noqa: ARG002 - the port's signature
        """See :class:`SwitchPorts`; notes a switch by which readers lose something."""
        newest, state, before = self.read_both()
        row = self.versions.build
        if version != newest or before is None or row is None:
            raise JournalConflictError("another process was first")
        if any(isinstance(event, Switched) for event in events):
            self._check_switch(state, before)
        self.append(self.lake.version, events)
        is_dropped = any(isinstance(e, Dropped) for e in build_events)
        self.versions = self.versions._replace(build=None if is_dropped else appended(row, *build_events))

    def _check_switch(self, state: AggregateState, build: AggregateState) -> None:
        if build.cursor < state.cursor:
            self.note(f"back: readers go from source version {state.cursor} to {build.cursor}")
        if lost := self._lost(state, build):
            self.note(f"lost: buckets {sorted(lost)} were published and are not built")

    def _lost(self, state: AggregateState, build: AggregateState) -> set[int]:
        return dirty_buckets(build, self.lake.buckets) - dirty_buckets(state, self.lake.buckets)

    def build_heads(self, build: AggregateState) -> dict[Which, OwnTableHead]:  # noqa: ARG002 - the port's signature
        """See :class:`SwitchPorts`."""
        new, built = self.versions.new, self.versions.built
        return {
            Which.PARTIALS: OwnTableHead("new", len(new.commits), new.n, new.plan),
            Which.OUTPUT: OwnTableHead("built", len(built.commits), built.n, built.plan),
        }

    def refuse_switch(self, state: AggregateState, build: AggregateState) -> None:
        """See :class:`SwitchPorts`."""
        if build.plan or build.cursor < state.cursor or self._lost(state, build):
            raise NotCoveredError("not covered")

    def copy_build(self, plan: Plan, build: AggregateState) -> None:  # noqa: ARG002 - the port's signature
        """See :class:`SwitchPorts`."""
        before = self.versions.output
        after = before.committed(plan, "switch", dict(enumerate(self.versions.built.values)))
        if after != before and plan.id in self.versions.aborted:
            self.note(f"aborted: output of {plan.id} is published")
        self.versions = self.versions._replace(output=after)

    def fence_build(self, plan: Plan, build: AggregateState) -> None:  # noqa: ARG002 - the port's signature
        """See :class:`SwitchPorts`."""
        with suppress(WriteFencedError):
            self.versions = self.versions._replace(new=self.versions.new.committed(plan, "fence", {}))

    def kept_versions(self, build: AggregateState) -> int:  # noqa: ARG002 - the port's signature
        """Return 0: nothing is rolled back here."""
        return 0
