"""The aggregates of a lake at one version of its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from materializer.errors import LeaseLostError, UnknownAggregateError
from materializer.journal.state import AggregateState, States
from materializer.journal.unreadable import Broken


@dataclass(frozen=True, slots=True)
class View:
    """The journal at one version.

    Args:
        version: Its version, -1 when there is none.
        all: Everything that was not dropped, by id: aggregates, and the builds beside them.
        broken: Aggregates with an unreadable event, by id; *all* has none of them.
    """

    version: int
    all: States
    broken: Mapping[str, Broken] = field(default_factory=dict)
    states: States = field(init=False, repr=False, compare=False)
    """The aggregates by id, without builds."""
    _builds: Mapping[str, AggregateState] = field(init=False, repr=False, compare=False)
    _named: Mapping[str, AggregateState] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        states = {key: state for key, state in self.all.items() if not state.builds}
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "_builds", {s.builds: s for s in self.all.values() if s.builds})
        object.__setattr__(self, "_named", {s.name.lower(): s for s in states.values()})

    def find(self, name: str) -> AggregateState | None:
        """Return the aggregate called *name*, in letters of any case, or None."""
        return self._named.get(name.lower())

    def build_of(self, state: AggregateState) -> AggregateState | None:
        """Return the build beside an aggregate, or None."""
        return self._builds.get(state.id)

    def has_basis_of(self, other: View, name: str) -> bool:
        """Whether what was planned for an aggregate from another view is right for this one; see :attr:`AggregateState.basis`."""
        ours, theirs = self.named(name), other.named(name)
        return ours.basis == theirs.basis and (self.build_of(ours) is None) == (other.build_of(theirs) is None)

    def living(self, aggregate: str, name: str) -> AggregateState:
        """Return the aggregate or build with the id *aggregate*; raises LeaseLostError when it is gone, which stops its writer."""
        state = self.all.get(aggregate)
        if state is None:
            msg = f"'{name}' was dropped, or this version of it was published or given up, while this process worked"
            raise LeaseLostError(
                msg, hint="look with 'materializer status'", wrote="what it wrote is gone or published"
            )
        return state

    def refuse_broken(self, name: str) -> None:
        """Raise JournalError when the aggregate called *name* has an unreadable event."""
        if (broken := self.broken_named(name)) is not None:
            raise broken.error()

    def broken_named(self, name: str) -> Broken | None:
        """Return the broken aggregate called *name* (or with this id), or None."""
        return next((b for b in self.broken.values() if name.lower() in {b.name.lower(), b.id}), None)

    def named(self, name: str) -> AggregateState:
        """Return the aggregate called *name*, or the aggregate or build with the id *name*.

        Raises:
            UnknownAggregateError: If neither exists.
            JournalError: If it has an unreadable event, or may be a broken aggregate whose name cannot be read.
        """
        state = self.find(name) or self.all.get(name)
        if state is None:
            self.refuse_broken(name)
            if nameless := next((b for b in self.broken.values() if not b.name), None):
                raise nameless.error()  # this may be the one that is asked for
            from difflib import get_close_matches  # noqa: PLC0415 (only for this)

            names = sorted(s.name for s in self.states.values())
            near = get_close_matches(name.lower(), [n.lower() for n in names], n=1, cutoff=0.75)
            known = ", ".join(names) or "none"
            raise UnknownAggregateError(
                f"there is no aggregate '{name}' in this lake (known: {known})",
                hint=next(
                    (f"did you mean '{n}'?" for n in names if [n.lower()] == near),
                    "name one of them, or define it with 'materializer apply'",
                ),
                name=name,
            )
        return state
