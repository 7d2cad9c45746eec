"""The aggregates of a lake at one version of its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from materializer.errors import LeaseLostError, UnknownAggregateError
from materializer.journal.state import AggregateState, States, by_name
from materializer.journal.unreadable import Broken


@dataclass(frozen=True, slots=True)
class View:
    """The journal at one version.

    Args:
        version: Its version, -1 when there is none.
        all: Everything that is alive by id: aggregates, and the next versions that are built beside them.
        broken: Those of which an event cannot be read, by id; none of them is among *all*.
    """

    version: int
    all: States
    broken: Mapping[str, Broken] = field(default_factory=dict)

    @property
    def states(self) -> States:
        """The aggregates by id; what is built beside one is no aggregate of its own."""
        return {key: state for key, state in self.all.items() if not state.builds}

    def build_of(self, state: AggregateState) -> AggregateState | None:
        """Return the next version that is built beside an aggregate, or None."""
        return next((s for s in self.all.values() if s.builds == state.id), None)

    def living(self, aggregate: str, name: str) -> AggregateState:
        """Return what has the id *aggregate*; raises LeaseLostError when it is gone, so that who works on it stops."""
        state = self.all.get(aggregate)
        if state is None:
            msg = f"'{name}' was dropped, or this version of it was published or given up, while this process worked"
            raise LeaseLostError(
                msg, hint="look with 'materializer status'", wrote="what it wrote is gone or published"
            )
        return state

    def refuse_broken(self, name: str) -> None:
        """Raise JournalError when an event of the aggregate called *name* cannot be read."""
        if (broken := self.broken_named(name)) is not None:
            raise broken.error()

    def broken_named(self, name: str) -> Broken | None:
        """Return the aggregate called *name* (or with this id) when it cannot be used, else None."""
        return next((b for b in self.broken.values() if name.lower() in {b.name.lower(), b.id}), None)

    def named(self, name: str) -> AggregateState:
        """Return the aggregate called *name*, or what has the id *name*: a build has no name of its own.

        Raises:
            UnknownAggregateError: If there is none.
            JournalError: If one of its events cannot be read, or those of an aggregate whose name is lost with them.
        """
        state = by_name(self.states, name) or self.all.get(name)
        if state is None:
            self.refuse_broken(name)
            if nameless := next((b for b in self.broken.values() if not b.name), None):
                raise nameless.error()  # it may be the one
            known = ", ".join(sorted(s.name for s in self.states.values())) or "none"
            raise UnknownAggregateError(
                f"there is no aggregate '{name}' in this lake (known: {known})",
                hint="name one of them, or define it with 'materializer apply'",
                name=name,
            )
        return state
