"""A process that stays: it follows the sources of all policies, and refreshes what came due or became dirty.

Each look takes the state of the journal and of the log of each source, and no row. A policy with a schedule runs when it is due; one
without runs when its source has a new version, or its window has something dirty. What fails is tried again, ever later; what a
gate withholds is looked at again when its source or its definition changes. Several
such processes share the work: who finds an aggregate's lease taken leaves it to the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import Any, Final

from msgspec import Struct, field

from materializer.core.policy.policies import policies_of, refresh_window
from materializer.core.printed import Printed, PrintedTable, facts, tables_of
from materializer.core.time.spans import NEG_INF, SpanSet
from materializer.errors import LeaseHeldError, MaterializerError, QualityGateError
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake.table import DeltaFolder, TableHead, one_look
from materializer.services.activity import hearing
from materializer.services.aggregate import timed
from materializer.services.commit.lake import Lake
from materializer.services.definitions import lineage
from materializer.services.observe.dirty import dirty_below_newest
from materializer.services.observe.withheld import withheld
from materializer.services.schedule.health import AT_REST, AT_WORK, Health
from materializer.services.schedule.policies import Policies, PolicyReport, now_to_look, policy_states

MOST_PATIENCE: Final = 300.0
"""The most seconds between two tries of what fails."""
DIRT_PATIENCE: Final = 30.0
"""Seconds until dirt is looked at again that a run has left."""


class Followed(Printed, Struct, frozen=True):
    """A policy that ran.

    Args:
        aggregate: The aggregate.
        done: What the run did.
        lag: Seconds from the look that found something to do to the end of the run.
    """

    aggregate: str
    done: PolicyReport
    lag: float

    def _tables(self) -> list[PrintedTable]:
        return [facts(f"{self.aggregate}: refreshed {self.lag:.2f} s after its work was found"), *tables_of(self.done)]


class Failed(Printed, Struct, frozen=True):
    """A policy that failed.

    Args:
        aggregate: The aggregate; "" if the journal could not be read.
        error: Why.
        again: Seconds until it is tried again; None where a gate published nothing, until the source or the definition changes.
    """

    aggregate: str
    error: MaterializerError
    again: float | None

    def _tables(self) -> list[PrintedTable]:
        then = "when something changes" if self.again is None else f"in {self.again:.0f} s"
        pairs = [("error", str(self.error)), ("remedy", self.error.hint), ("code", self.error.code)]
        return [facts(f"{self.aggregate or 'the journal'}: failed, tried again {then}", pairs)]


class Follower(Struct):
    """Follows the sources of the policies of one lake.

    Args:
        lake: The lake.
        policies: Runs policies.
        every: Seconds between two looks.
        after_failure: Called with each failure before the next work.
        health: Gets how it goes.
    """

    lake: Lake
    policies: Policies
    every: float
    after_failure: Callable[[MaterializerError], None] = lambda _: None
    health: Health = field(default_factory=Health)
    _failures: dict[str, tuple[int, str]] = field(default_factory=dict)
    """How often each failed in a row, and the code of its last error."""
    _again: dict[str, float] = field(default_factory=dict)
    """When each that has to wait is looked at again."""
    _known: tuple[View, list[str]] | None = None
    """The journal when it was last looked at, and the aggregates that had policies then, parents first."""
    _refusing: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The definition of each whose gate withholds something, as it was then."""
    _heads: dict[str, TableHead] = field(default_factory=dict)
    """The sources as they were in this look, since the last refresh in it."""

    def follow(self, name: str | None, stop: Event) -> Iterator[Followed | Failed]:
        """Yield what was done and what failed, until *stop* is set; then the refresh that runs ends.

        Args:
            name: Only this aggregate; None for all.
            stop: Ends it.
        """
        while not stop.is_set():
            began = time.monotonic()
            self.health.lives(self.every + AT_REST)
            yield from self._looked(name, stop, began)
            stop.wait(max(self.every - (time.monotonic() - began), 0.0))

    def followed(self, name: str | None) -> list[str]:
        """Return the aggregates that have policies, parents first.

        Args:
            name: Only this aggregate; None for all.

        Raises:
            UnknownAggregateError: If there is no such aggregate.
        """
        view = self.lake.journal.view()
        if self._known is None or self._known[0] is not view:
            names = [name] if name is not None else lineage.parents_first(self.lake.root, view.states)
            self._known = view, [each for each in names if policies_of(timed(view.named(each)).spec)]
            self.health.followed = self._known[1]
            for gone in {*self._failures, *self._again} - {"", *self._known[1]}:
                self._well(gone)
        return self._known[1]

    def _looked(self, name: str | None, stop: Event, began: float) -> Iterator[Followed | Failed]:
        """Do what is to be done now, parents first, so that a child sees what its parent has published."""
        if self._waits(""):
            return
        try:
            wanted = self.followed(name)
        except MaterializerError as exc:
            yield self._failed("", exc)
            return
        self._well("")
        self._heads.clear()
        with self.lake.journal.listed_once(), self.lake.together(wanted):
            for each in wanted:
                if stop.is_set():
                    return
                if not self._waits(each):
                    yield from self._followed(each, began)

    def _followed(self, name: str, began: float) -> Iterator[Followed | Failed]:
        try:
            state = self.lake.journal.last_view.named(name)
            has_moved = self._has_moved(state)
            due = self._due(state, has_moved=has_moved)
            for policy in due:
                with hearing(lambda _: self.health.lives(AT_WORK)):
                    done = self.policies.run(name, policy)
                self._heads.clear()  # what reads it finds a new version
                self._well(name)
                self._notice(name, is_withheld=bool(done.report.withheld))
                if done.report.runs:
                    yield Followed(name, done, time.monotonic() - began)
                elif not has_moved:  # what cannot be computed, or has no row yet, is looked at now and then
                    self._again[name] = time.monotonic() + DIRT_PATIENCE
            if not due:
                self._well(name)
            self.health.lives(self.every + AT_REST)
        except LeaseHeldError:  # another process works on it
            return
        except QualityGateError as exc:
            yield self._refused(name, exc)
        except MaterializerError as exc:
            yield self._failed(name, exc)

    def _due(self, state: AggregateState, *, has_moved: bool) -> list[str]:
        """Return the policies of an aggregate that are to run now, newest windows first.

        Args:
            state: The aggregate.
            has_moved: Whether its source has a version that it has not looked at.
        """
        if state.is_closed:
            return []
        definition = timed(state)
        grid, policies = definition.grid, policies_of(definition.spec)
        clock = self.policies.clock()
        now = now_to_look(None, state, grid, clock)
        due = [s.policy.name for s in policy_states(state, definition, now, clock, is_by_clock=True) if s.is_due]
        free = [p for p in policies if p.schedule is None]
        if not free:
            return due
        if has_moved or state.extent_end == NEG_INF:  # it has to look at what is new, or was never refreshed
            return [*due, *(p.name for p in free)]
        dirt = dirty_below_newest(state)
        if dirt and self._refusing.get(state.name) == state.spec:  # the same rows would be computed for the same gate
            dirt -= SpanSet.union(span for found in withheld(state) for span in found.spans)
        for policy in free if dirt and now is not None else ():
            window = refresh_window(policy, policies, now or 0, grid)
            if policy.catch_dirt or (window is not None and dirt & SpanSet.of(window)):
                due.append(policy.name)
        return due

    def _has_moved(self, state: AggregateState) -> bool:
        path = state.source.path
        try:
            if path not in self._heads:
                with one_look():
                    self._heads[path] = DeltaFolder.at(path).head()
        except MaterializerError:
            return True  # the refresh says what is wrong, and what to do about it
        head = self._heads[path]
        return head.version != state.cursor or head.table_id != state.source.table_id

    def _notice(self, name: str, *, is_withheld: bool) -> None:
        """Remember by which definition a gate withholds something of an aggregate."""
        if is_withheld:
            self._refusing[name] = self.lake.journal.last_view.named(name).spec
        else:
            self._refusing.pop(name, None)

    def _refused(self, name: str, error: QualityGateError) -> Failed:
        """Tell that a gate published nothing; this process works, and has nothing to do until something changes."""
        self._notice(name, is_withheld=True)
        self._well(name)
        self.health.lives(self.every + AT_REST)
        self.after_failure(error)
        return Failed(name, error, None)

    def _waits(self, name: str) -> bool:
        return self._again.get(name, 0.0) > time.monotonic()

    def _well(self, name: str) -> None:
        self._again.pop(name, None)
        if self._failures.pop(name, None) is not None:
            self.health.fails(self._failures)

    def _failed(self, name: str, error: MaterializerError) -> Failed:
        count = self._failures.get(name, (0, ""))[0] + 1
        again = min(max(self.every, 1.0) * 2 ** min(count - 1, 10), MOST_PATIENCE)
        self._failures[name], self._again[name] = (count, error.code), time.monotonic() + again
        self.health.fails(self._failures)
        self.health.lives(self.every + AT_REST)
        self.after_failure(error)
        return Failed(name, error, again)
