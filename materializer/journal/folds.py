"""The aggregates of a journal, each folded when it is first asked for.

A command about one aggregate decodes the events of that aggregate only. What is known of the others without decoding is the name and
whether they are the next version of another aggregate: both stand in their first event. An aggregate whose events are not of that
plain form (unreadable, dropped, replaced by a later snapshot) is folded at once. What an event says is refused as by
:func:`~materializer.journal.unreadable.fold_each`, when its aggregate is folded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from materializer.journal.codec import Row
from materializer.journal.state import AggregateState, NamedStates, States
from materializer.journal.unreadable import Broken, fold_each

_NAMED: Final = {
    "defined": re.compile(r'\{"name":"(\w+)",', re.ASCII),
    "snapshot": re.compile(r'\{"state":\{"id":"\w+","name":"(\w+)",', re.ASCII),
}
"""How an event begins that makes an aggregate known, by its kind."""
_BUILDS_NOTHING: Final = '"builds":""'
_MAKES_KNOWN: Final = frozenset({"snapshot", "build_started"})
"""Later events after which an aggregate may have another name, or be another aggregate's next version."""


class Fold:
    """The events of one aggregate or build; may be used from several threads.

    Args:
        rows: The events that are not folded yet.
        before: The fold of the events before them; None if there are none.
        name: Its name if that is known without folding, and it is no build; else "".
    """

    __slots__ = ("_before", "_broken", "_is_done", "_rows", "_state", "_written", "name")

    def __init__(self, rows: tuple[Row, ...], before: Fold | None = None, name: str = "") -> None:
        self._rows, self._before, self.name = rows, before, name
        self._state: AggregateState | None = None
        self._broken: Broken | None = None
        self._written: Row | None = None
        self._is_done = False

    @classmethod
    def of(cls, state: AggregateState | None, *, written: Row | None = None) -> Fold:
        """Return the fold of an aggregate that is known, perhaps with the snapshot that says so."""
        fold = cls((), name="" if state is None or state.builds else state.name)
        fold._state, fold._written, fold._is_done = state, written, True
        return fold

    def followed_by(self, row: Row) -> Fold:
        """Return the fold with one more event."""
        rows, before = self._rows, self._before  # read before the mark, which is set before they are forgotten
        name = self.name if row.kind not in _MAKES_KNOWN else ""
        return Fold((row,), self, name) if self._is_done else Fold((*rows, row), before, name)

    @property
    def state(self) -> AggregateState | None:
        """The aggregate; None if it was dropped, or has an unreadable event."""
        if not self._is_done:
            self._fold()
        return self._state

    @property
    def broken(self) -> Broken | None:
        """What is wrong with its first unreadable event; None if all can be read."""
        self._fold()
        return self._broken

    @property
    def snapshot(self) -> Row | None:
        """Its only event, if that is a snapshot which was not decoded, or was written by this process."""
        rows, before = self._rows, self._before
        if self._written is not None:
            return self._written
        return rows[0] if self.name and before is None and len(rows) == 1 and rows[0].kind == "snapshot" else None

    def replaced_by(self, row: Row) -> Fold:
        """Return the fold after a snapshot took the place of its events."""
        if not self._is_done:
            return Fold((row,), name=_name_in(row))
        return Fold.of(self._state, written=row)

    def mentions(self, texts: Iterable[str]) -> bool:
        """Return whether its events may have all of some texts: each stands in one, or they were folded."""
        rows, before = self._rows, self._before
        is_raw = before is None and bool(rows)
        return not is_raw or all(any(text in row.payload for row in rows) for text in texts)

    def _fold(self) -> None:
        rows, before = self._rows, self._before
        if self._is_done:
            return
        last = None if before is None else before.state
        wrong = None if before is None else before.broken
        known = {} if last is None else {last.id: last}
        states, broken = fold_each(rows, known, {} if wrong is None else {wrong.id: wrong})
        state, why = next(iter(states.values()), None), next(iter(broken.values()), None)
        if state is not None and self.name and (state.name != self.name or state.builds):
            why = Broken(state.id, self.name, "its first event gives it two names", state, is_too_new=False)
        self._state, self._broken = None if why else state, why
        self._is_done = True
        self._rows, self._before = (), None


class Folds(NamedStates):
    """What was not dropped: aggregates, and the builds beside them, by id and in the order of their last events.

    Args:
        folds: By id.
        index: Of these, if it is known.
    """

    def __init__(self, folds: Mapping[str, Fold], index: _Index | None = None) -> None:
        self._folds, self._known = folds, index

    @classmethod
    def of(cls, states: States) -> Folds:
        """Return folds of aggregates that are known."""
        return cls({key: Fold.of(state) for key, state in states.items()})

    def after(self, rows: Iterable[Row]) -> Folds:
        """Return the folds after more events."""
        folds, index = dict(self._folds), self._known
        for row in rows:
            before = folds.pop(row.aggregate, None)
            fold = Fold((row,), name=_name_in(row)) if before is None else before.followed_by(row)
            folds[row.aggregate] = fold
            if before is None or not fold.name:
                index = None
        return Folds(folds, index)

    def replaced_by(self, snapshots: Mapping[str, Row]) -> Folds:
        """Return the folds after snapshots, by id, took the place of all events."""
        return Folds({key: self._folds[key].replaced_by(row) for key, row in snapshots.items()})

    def __getitem__(self, key: str) -> AggregateState:
        state = self._folds[key].state
        if state is None:
            raise KeyError(key)
        return state

    def __iter__(self) -> Iterator[str]:
        return (key for key, fold in self._folds.items() if fold.state is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def ids(self) -> Collection[str]:
        """Return the ids of all that may be there; nothing is folded."""
        return self._folds.keys()

    def is_broken(self, key: str) -> bool:
        """Return whether the aggregate with an id has an unreadable event."""
        return key in self._folds and self._folds[key].broken is not None

    @property
    def broken(self) -> dict[str, Broken]:
        """Aggregates with an unreadable event, by id."""
        return {key: fold.broken for key, fold in self._folds.items() if fold.broken is not None}

    def snapshots(self) -> Iterator[tuple[str, Row | None]]:
        """Yield the id of each, with its event if that is a snapshot which was not decoded; a broken one has None."""
        for key, fold in self._folds.items():
            row = fold.snapshot
            if row is not None or fold.state is not None or fold.broken is not None:
                yield key, row

    def find(self, name: str) -> AggregateState | None:
        """Return the aggregate called *name*, in letters of any case, or None."""
        found = (self._folds[key].state for key in reversed(self._index.named.get(name.lower(), ())))
        return next((state for state in found if state is not None), None)

    def build_of(self, state: AggregateState) -> AggregateState | None:
        """Return the build beside an aggregate, or None."""
        key = self._index.builds.get(state.id)
        return None if key is None else self._folds[key].state

    def broken_named(self, name: str) -> Broken | None:
        """Return the broken aggregate called *name* (or with this id), or None."""
        index = self._index
        keys = [*index.named.get(name.lower(), ()), *index.others, *({name} & self._folds.keys())]
        found = filter(None, (self._folds[key].broken for key in keys))
        return next((b for b in found if name.lower() in {b.name.lower(), b.id}), None)

    def mentioning(self, *texts: str) -> Iterator[AggregateState]:
        """Yield the aggregates and builds whose events may have all of some texts, as JSON writes them; those of the newest events first."""
        for fold in reversed([*self._folds.values()]):
            if fold.mentions(texts) and (state := fold.state) is not None:
                yield state

    @property
    def aggregates(self) -> NamedStates:
        """The aggregates without builds."""
        return _Aggregates(self)

    def without_builds(self) -> Iterator[str]:
        """Yield the ids of the aggregates without builds."""
        for key, fold in self._folds.items():
            if (state := fold.state) is not None and not state.builds:
                yield key

    @property
    def _index(self) -> _Index:
        if self._known is None:
            index = _Index({}, {}, [])
            for key, fold in self._folds.items():
                name = fold.name
                if not name:
                    index.others.append(key)
                    if (state := fold.state) is None:
                        continue
                    if state.builds:
                        index.builds[state.builds] = key
                        continue
                    name = state.name
                index.named.setdefault(name.lower(), []).append(key)
            self._known = index
        return self._known


class _Aggregates(NamedStates):
    """The aggregates of some folds, without builds."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds

    def __getitem__(self, key: str) -> AggregateState:
        state = self._folds[key]
        if state.builds:
            raise KeyError(key)
        return state

    def __iter__(self) -> Iterator[str]:
        return self._folds.without_builds()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: str) -> AggregateState | None:
        """Return the aggregate called *name*, in letters of any case, or None."""
        return self._folds.find(name)

    def mentioning(self, *texts: str) -> Iterator[AggregateState]:
        """Yield the aggregates whose events may have all of some texts, as JSON writes them; those of the newest events first."""
        return (state for state in self._folds.mentioning(*texts) if not state.builds)


class _Index(Struct, frozen=True):
    """Where aggregates and builds are found.

    Args:
        named: The ids of aggregates, by name in small letters.
        builds: The ids of builds, by the id of their aggregate.
        others: The ids of those whose first events do not tell their name.
    """

    named: dict[str, list[str]]
    builds: dict[str, str]
    others: list[str]


def _name_in(row: Row) -> str:
    """Return the name of an aggregate that is no build, from its first event; "" if that does not tell."""
    begin = _NAMED.get(row.kind)
    found = begin.match(row.payload) if begin is not None else None
    if found is None or (row.kind == "snapshot" and _BUILDS_NOTHING not in row.payload):
        return ""
    return found[1]
