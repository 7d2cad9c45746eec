"""The journal as the services use it: folded states, appends by compare-and-swap, and its own upkeep.

Every so many commits one commit replaces the folded rows by one snapshot row an aggregate. Before that, the ends of
refreshes are copied to a history table, so that the journal stays small and nothing that people look up is lost; a crash
in between leaves the same rows in both, and readers of the history take each refresh once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from materializer.errors import JournalConflictError, UnknownAggregateError
from materializer.journal.events import Event, Row, Snapshot, encode
from materializer.journal.fold import AggregateState, States, by_name, fold
from materializer.journal.store import JournalStore

FOLDER: Final = "_materializer"
WORTH_FOLDING: Final = 10
"""Commits that maintenance folds into one file; fewer are not worth it."""
_HISTORY_KINDS: Final = ("done", "aborted", "planned")


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


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one of the journal's two tables has gathered.

    Args:
        table: ``journal`` or ``history``.
        rows: Its rows.
        files: Its files.
        bytes: Their size.
        commits: Commits since all rows were last put into one file.
        leftovers: Files that nobody needs any more.
        leftover_bytes: Their size.
    """

    table: str
    rows: int
    files: int
    bytes: int
    commits: int
    leftovers: int
    leftover_bytes: int

    @property
    def is_worth_folding(self) -> bool:
        """Whether folding it is worth a commit."""
        return self.commits >= WORTH_FOLDING


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
        if self._store.commits_since_snapshot() >= self._snapshot_every:
            self._fold()

    def gathered(self) -> list[Gathered]:
        """Return what the journal and its history have gathered since they were last cleaned."""
        found = []
        for table, store in (("journal", self._store), ("history", self._history)):
            read, left, sizes = store.read(), store.leftovers(), store.file_sizes()
            commits, gone = store.commits_since_snapshot(), sum(f.bytes for f in left)
            found.append(Gathered(table, len(read.rows), len(sizes), sum(sizes), commits, len(left), gone))
        return found

    def clean(self) -> None:
        """Fold the journal and its history into one file each where there are more, and remove what nobody needs.

        A process that is at it too comes first or second; neither harms the other.
        """
        if self._store.commits_since_snapshot() >= WORTH_FOLDING:
            self._fold()
        if self._history.commits_since_snapshot() >= WORTH_FOLDING:
            snapshot = self._history.read()
            with suppress(JournalConflictError):
                self._history.snapshot(list(dict.fromkeys(snapshot.rows)), expected_version=snapshot.version)
        for store in (self._store, self._history):
            store.remove(store.leftovers())

    def _fold(self) -> None:
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
