"""The journal as the services use it: folded states, appends by compare-and-swap, and its own upkeep.

Every so many commits one commit replaces the folded rows by one snapshot row an aggregate. Before that, the ends of
refreshes are copied to a history table, so that the journal stays small and nothing that people look up is lost; a crash
in between leaves the same rows in both, and readers of the history take each refresh once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Final

from materializer.core.codec import as_json
from materializer.errors import JournalConflictError, JournalError
from materializer.journal import catalog
from materializer.journal.codec import UNREADABLE, encode
from materializer.journal.events import Event, Snapshot
from materializer.journal.store import JournalSnapshot, JournalStore
from materializer.journal.transact import transact
from materializer.journal.unreadable import fold_each
from materializer.journal.view import View

WORTH_FOLDING: Final = 10
"""Commits that maintenance folds into one file; fewer are not worth it."""
_HISTORY_KINDS: Final = ("planned", "audited", "done", "aborted", "switched")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
        on_checkpoint: Told the names of the points between the commits of a fold.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        snapshot_every: int = 20,
        now: Callable[[], str] = _now,
        on_checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.root = Path(root)
        self._store = JournalStore(root)
        self._history = JournalStore(root, name="history")
        self._snapshot_every = snapshot_every
        self._now = now
        self._checkpoint = on_checkpoint
        self._view = View(-1, {})
        self._seen: JournalSnapshot | None = None
        self._reading = RLock()  # a lease is renewed by a thread of its own

    def reopen(self) -> None:
        """Forget what was read; another journal, or none, stands there now."""
        with self._reading:
            self._store, self._history = JournalStore(self.root), JournalStore(self.root, name="history")
            self._view, self._seen = View(-1, {}), None

    def view(self) -> View:
        """Return the newest state of everything; a few milliseconds when nothing changed."""
        with self._reading:
            snapshot, seen = self._store.read(), self._seen
            if snapshot is seen:
                return self._view
            folded = 0 if seen is None else snapshot.grown_from(seen)
            before = self._view if folded else View(-1, {})
            states, broken = fold_each(snapshot.rows[folded:], before.all, before.broken)
            self._seen, self._view = snapshot, View(snapshot.version, states, broken)
            return self._view

    @property
    def last_view(self) -> View:
        """The view that was read last; nothing is read."""
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

    def transact(
        self, decide: Callable[[View], Sequence[tuple[str, Event]]], *, attempts: int | None = None
    ) -> Sequence[tuple[str, Event]]:
        """Append in one commit what *decide* returns for the newest view, and return that; no event, no commit.

        Args:
            decide: Returns (id of an aggregate, event) pairs. It is called again when another commit came first.
            attempts: How many times at most; None for as many as it takes.

        Raises:
            JournalConflictError: If another commit came first at every attempt; nothing was appended.
        """
        return transact(
            self.view, decide, lambda view, events: self.append_all(view.version, events), attempts=attempts
        )

    def insist(self, events: Sequence[tuple[str, Event]]) -> None:
        """Append events, (id, event), in one commit, whatever others append meanwhile; the caller holds the lease."""
        self.transact(lambda _: events)

    def tell(self, aggregate: str, name: str, event: Event) -> None:
        """Append an event of an aggregate or a build that others may drop meanwhile; for who holds no lease of it.

        Raises:
            LeaseLostError: If it is gone; nothing was appended.
        """

        def decide(view: View) -> list[tuple[str, Event]]:
            view.living(aggregate, name)
            return [(aggregate, event)]

        self.transact(decide)

    def tidy(self) -> View:
        """Fold the journal into one file when enough has gathered, keep the list of what there is, and return the newest view.

        Harmless when another process is at it. Not folded while an event cannot be read: what stands there is evidence,
        and a newer release may read it.
        """
        if self._store.commits_since_snapshot() >= self._snapshot_every:
            self._fold()
        view = self.view()
        catalog.write(self.root, view)
        return view

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
        if view.version != snapshot.version or view.broken:
            return
        ended = [r for r in snapshot.rows if r.kind in _HISTORY_KINDS]
        at = self._now()
        rows = [encode(s.id, Snapshot(as_json(s)), at=at) for s in view.all.values()]
        try:
            self._checkpoint("fold_history")
            if ended:
                self._history.append(ended, expected_version=self._history.read().version)
            self._checkpoint("fold_journal")
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
                if row.kind == UNREADABLE:
                    raise JournalError(row.payload, hint="restore the journal from a backup")
                payload = json.loads(row.payload)
                n = payload["plan"]["n"] if row.kind == "planned" else payload["n"]
                found[(row.kind, n)] = {"n": n, "kind": row.kind, "at": row.at} | payload
        return sorted(found.values(), key=lambda r: (r["n"], _HISTORY_KINDS.index(r["kind"])))
