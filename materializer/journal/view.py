"""The aggregates of a lake at one version of its journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from materializer.errors import LeaseLostError, UnknownAggregateError
from materializer.journal.folds import Folds
from materializer.journal.state import AggregateState, NamedStates, States
from materializer.journal.unreadable import Broken

_NAMED: Final = 20
"""Names that an error tells."""


class View(Struct, frozen=True):
    """The journal at one version.

    Args:
        version: Its version, -1 when there is none.
        all: Everything that was not dropped, by id: aggregates, and the builds beside them. Each is folded when it is asked for.
    """

    version: int
    all: Folds

    @classmethod
    def of(cls, version: int, states: States) -> View:
        """Return the view of aggregates and builds that are known, by id."""
        return cls(version, Folds.of(states))

    @property
    def states(self) -> NamedStates:
        """The aggregates by id, without builds."""
        return self.all.aggregates

    @property
    def broken(self) -> Mapping[str, Broken]:
        """Aggregates with an unreadable event, by id; *all* has none of them. To know them, all are folded."""
        return self.all.broken

    def find(self, name: str) -> AggregateState | None:
        """Return the aggregate called *name*, in letters of any case, or None."""
        return self.all.find(name)

    def build_of(self, state: AggregateState) -> AggregateState | None:
        """Return the build beside an aggregate, or None."""
        return self.all.build_of(state)

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
        return self.all.broken_named(name)

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
            more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            known = ", ".join(names[:_NAMED]) + more or "none"
            raise UnknownAggregateError(
                f"there is no aggregate '{name}' in this lake (known: {known})",
                hint=(
                    "'--all' takes every aggregate"
                    if name.lower() == "all"
                    else next(
                        (f"did you mean '{n}'?" for n in names if [n.lower()] == near),
                        "name one of them, or define it with 'materializer apply'",
                    )
                ),
                name=name,
            )
        return state
