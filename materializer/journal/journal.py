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

from materializer.errors import JournalConflictError, UnknownAggregateError
from materializer.journal.events import Event, Row, Snapshot, encode
from materializer.journal.fold import AggregateState, States, by_name, fold
from materializer.journal.store import JournalStore

FOLDER: Final = "_materializer"
_HISTORY_KINDS: Final = ("planned", "audited", "done", "aborted")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class View:
    """The journal at one version."""

    version: int
    states: States

    def named(self, name: str) -> AggregateState:
        """Return the aggregate called *name*.

        Raises:
            UnknownAggregateError: If there is none.
        """
        state = by_name(self.states, name)
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
            states = fold(_rows(snapshot.rows[self._folded :]), self._view.states)
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
        if not events:
            return
        at = self._now()
        self._store.append([encode(aggregate, e, at=at) for e in events], expected_version=version)

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
        rows = [encode(s.id, Snapshot(s.as_json()), at=at) for s in view.states.values()]
        try:
            if ended:
                self._history.append(ended, expected_version=self._history.read().version)
            self._store.snapshot(rows, expected_version=view.version)
        except JournalConflictError:
            return

    def history(self, aggregate: str) -> list[dict[str, Any]]:
        """Return plans, verdicts and ends of refreshes that the journal has folded away, oldest first, each row once.

        Shape:
            ``n``, ``kind`` (planned, audited, done, aborted), ``at`` and the event's payload.
        """
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for row in self._history.read().rows:
            if row.aggregate == aggregate:
                payload = json.loads(row.payload)
                n = payload["plan"]["n"] if row.kind == "planned" else payload["n"]
                found[(row.kind, n)] = {"n": n, "kind": row.kind, "at": row.at} | payload
        return sorted(found.values(), key=lambda r: (r["n"], _HISTORY_KINDS.index(r["kind"])))


def _rows(rows: Iterable[Row]) -> list[Row]:
    return list(rows)
