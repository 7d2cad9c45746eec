"""The journal as the services use it: folded states, appends by compare-and-swap, and its own upkeep.

Every so many commits one commit replaces the folded rows by one snapshot row an aggregate. Before that, the ends of
refreshes are copied to a history table, so that the journal stays small and nothing that people look up is lost; a crash
in between leaves the same rows in both, and readers of the history take each refresh once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from materializer.errors import JournalConflictError, LeaseLostError, UnknownAggregateError
from materializer.journal.events import Event, Row, Snapshot, encode
from materializer.journal.fold import AggregateState, States, by_name, fold
from materializer.journal.store import JournalStore

FOLDER: Final = "_materializer"
_HISTORY_KINDS: Final = ("done", "aborted", "planned", "switched")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class View:
    """The journal at one version.

    Args:
        version: The version.
        all: Everything that is alive by id: aggregates, and the next versions that are built beside them.
    """

    version: int
    all: States

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

    def named(self, name: str) -> AggregateState:
        """Return the aggregate called *name*, or what has the id *name*: a build has no name of its own.

        Raises:
            UnknownAggregateError: If there is none.
        """
        state = by_name(self.states, name) or self.all.get(name)
        if state is None:
            known = ", ".join(sorted(s.name for s in self.states.values())) or "none"
            raise UnknownAggregateError(
                f"there is no aggregate '{name}' in this lake (known: {known})",
                hint="name one of them, or define it with 'materializer apply'",
                name=name,
            )
        return state


class Journal:
    """The journal of one lake.

    Args:
        root: Root folder of the lake.
        snapshot_every: Commits after which the journal is folded into one file.
        now: Source of the text that stands in ``at``; for people only.
    """

    def __init__(self, root: str | Path, *, snapshot_every: int = 40, now: Callable[[], str] = _now) -> None:
        self._store = JournalStore(root)
        self._history = JournalStore(root, name="history")
        self._snapshot_every = snapshot_every
        self._now = now
        self._view = View(-1, {})
        self._folded = 0
        self._generation = -1

    def view(self) -> View:
        """Return the newest state of everything; a few milliseconds when nothing changed."""
        snapshot = self._store.read()
        if snapshot.version == self._view.version:
            return self._view
        states: States
        if snapshot.generation == self._generation:
            states = fold(_rows(snapshot.rows[self._folded :]), self._view.all)
        else:
            states = fold(_rows(snapshot.rows))
        self._generation, self._folded = snapshot.generation, len(snapshot.rows)
        self._view = View(snapshot.version, states)
        return self._view

    def append(self, version: int, aggregate: str, events: Sequence[Event]) -> None:
        """Append *events* if the journal still has *version*.

        Raises:
            JournalConflictError: If another commit came first; nothing was written.
        """
        self.append_all(version, [(aggregate, e) for e in events])

    def append_all(self, version: int, events: Sequence[tuple[str, Event]]) -> None:
        """Append events of several aggregates, (id, event), in one commit; raises as :meth:`append`."""
        if not events:
            return
        at = self._now()
        self._store.append([encode(aggregate, e, at=at) for aggregate, e in events], expected_version=version)

    def insist(self, events: Sequence[tuple[str, Event]]) -> None:
        """Append events, (id, event), in one commit, whatever others append in the meantime; for who holds the lease."""
        while True:
            try:
                self.append_all(self.view().version, events)
            except JournalConflictError:
                continue
            return

    def tidy(self) -> None:
        """Fold the journal into one file when enough has gathered; harmless when another process is at it."""
        if self._store.commits_since_snapshot() < self._snapshot_every:
            return
        snapshot = self._store.read()
        view = self.view()
        if view.version != snapshot.version:
            return
        ended = [r for r in snapshot.rows if r.kind in _HISTORY_KINDS]
        at = self._now()
        rows = [encode(s.id, Snapshot(s.as_json()), at=at) for s in view.all.values()]
        try:
            if ended:
                self._history.append(ended, expected_version=self._history.read().version)
            self._store.snapshot(rows, expected_version=view.version)
        except JournalConflictError:
            return

    def history(self, aggregate: str) -> list[dict[str, Any]]:
        """Return plans and ends of refreshes that the journal has folded away, oldest first, each row once.

        Shape:
            ``n``, ``kind`` (planned, done, aborted), ``at`` and the event's payload.
        """
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for row in self._history.read().rows:
            if row.aggregate == aggregate:
                payload = json.loads(row.payload)
                n = payload["plan"]["n"] if row.kind == "planned" else payload["n"]
                found[(row.kind, n)] = {"n": n, "kind": row.kind, "at": row.at} | payload
        return sorted(found.values(), key=lambda r: (r["n"], r["kind"] != "planned"))


def _rows(rows: Iterable[Row]) -> list[Row]:
    return list(rows)
