"""The journal as the services use it: states, appends by compare-and-swap, and its own maintenance.

After ``snapshot_every`` commits the journal is folded: one commit replaces all rows by one snapshot row for each aggregate.
Before that commit, plans and ends of refreshes are copied to a history table, where people look them up. A crash between the
two commits leaves these rows in both tables; readers of the history take each row once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct

from materializer.core.codec import as_json
from materializer.errors import NOTHING, JournalConflictError, JournalError, MaterializerError
from materializer.journal.codec import UNREADABLE, Row, encode
from materializer.journal.events import Event, Snapshot
from materializer.journal.folds import Folds
from materializer.journal.ports import JournalSnapshot, RowStore
from materializer.journal.probe import LAKE, StoreProbe, probe_of, probed
from materializer.journal.state import forget_specs
from materializer.journal.store import JournalStore
from materializer.journal.transact import transact
from materializer.journal.view import View
from materializer.lake import places

WORTH_FOLDING: Final = 10
"""Maintenance folds this many commits or more into one file."""
_LATER: Final = 5
"""So many times as many commits may come before a fold where many aggregates are refreshed one after the other."""
_LOG: Final = logging.getLogger("materializer")
_HISTORY_KINDS: Final = ("planned", "audited", "done", "aborted", "switched")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _warned() -> Iterator[list[str]]:
    """Yield a list, to which the failure of the block is added as a warning."""
    warnings: list[str] = []
    try:
        yield warnings
    except MaterializerError as exc:
        warnings.append(f"tidying the journal failed: {exc.message} ({exc.code})")
    except Exception as exc:  # noqa: BLE001 - what was published before stays; a bug here must not make the command fail
        warnings.append(f"tidying the journal failed: {type(exc).__name__}: {exc}")


class Gathered(Struct, frozen=True):
    """Size and garbage of one of the journal's two tables.

    Args:
        table: ``journal`` or ``history``.
        rows: Number of its rows.
        files: Number of its files.
        bytes: Size of its files.
        commits: Commits since the last fold.
        leftovers: Number of files that can be removed.
        leftover_bytes: Size of these files.
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
        """Whether maintenance folds the table."""
        return self.commits >= WORTH_FOLDING


class Journal:
    """The journal of one lake.

    Args:
        root: The lake's root.
        snapshot_every: Commits after which the journal is folded.
        now: Returns the text for ``at``, which only people read.
        on_checkpoint: Called with a name before each commit of a fold.
        stores: Returns the store of each of its two tables, by name; None for Delta tables under *root*.
        single_writer: Whether an object store may have the lake although several writers could make the same file there.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        snapshot_every: int = 20,
        now: Callable[[], str] = _now,
        on_checkpoint: Callable[[str], None] = lambda _: None,
        stores: Callable[[str], RowStore] | None = None,
        single_writer: bool = False,
    ) -> None:
        self.root = places.normalised(root)
        self._stores = stores or partial(JournalStore, self.root)
        self._store, self._history = self._stores("journal"), self._stores("history")
        self._snapshot_every = snapshot_every
        self._single_writer = single_writer
        self._has_no_store = stores is not None or places.is_local(self.root)
        self._is_probed = self._has_no_store
        self._now = now
        self._checkpoint = on_checkpoint
        self._lists_later = self._is_unlisted = False
        self._probe_row: Row | None = None
        self._view = View(-1, Folds({}))
        self._seen: JournalSnapshot | None = None
        self._reading = RLock()  # a second thread renews the lease

    def reopen(self) -> None:
        """Read everything anew, because the folder of the journal was replaced."""
        with self._reading:
            self._store, self._history = self._stores("journal"), self._stores("history")
            self._view, self._seen = View(-1, Folds({})), None
            self._is_probed = self._has_no_store

    def view(self) -> View:
        """Return the newest states; takes a few milliseconds when nothing changed."""
        with self._reading:
            snapshot, seen = self._store.read(), self._seen
            if snapshot is seen:
                return self._view
            folded = 0 if seen is None else snapshot.grown_from(seen)
            if not folded:
                forget_specs()
            before = self._view.all if folded else Folds({})
            rows = (row for row in snapshot.rows[folded:] if row.aggregate != LAKE)
            self._seen, self._view = snapshot, View(snapshot.version, before.after(rows))
            return self._view

    @property
    def last_view(self) -> View:
        """The view that was read last; this property reads nothing."""
        return self._view

    def append(self, version: int, aggregate: str, events: Sequence[Event]) -> None:
        """Append *events* if the journal still has *version*.

        Raises:
            JournalConflictError: If another commit came first; nothing was written.
        """
        self.append_each(version, [(aggregate, e) for e in events])

    def append_each(self, version: int, events: Sequence[tuple[str, Event]]) -> None:
        """Append events of several aggregates, (id, event), in one commit; raises as :meth:`append`."""
        if not events:
            return
        at, mark = self._now(), uuid4().hex
        rows = [*self.missing_probe(), *(encode(a, e, at=at) for a, e in events)]
        try:
            self._store.append(rows, expected_version=version, mark=mark)
        except MaterializerError:
            if not self._has_mark(max(version, 0) + 1, mark):  # else only the answer was lost
                raise

    def _has_mark(self, version: int, mark: str) -> bool:
        try:
            return self._store.mark_of(version) == mark
        except MaterializerError as exc:
            exc.wrote = "whether the journal has the last commit is not known; the next command finds out"
            raise

    def probe(self) -> StoreProbe | None:
        """Return what the object store of the lake answered; None if it was not asked, as for a lake on this machine."""
        return probe_of(self._store.read().rows)

    def missing_probe(self) -> list[Row]:
        """Ask the object store of the lake whether several processes may write to it, unless the journal has its answer.

        Returns:
            The row for the journal; nothing if it has the answer.

        Raises:
            NoCompareAndSwapError: If they may not, and ``single_writer`` was not set.
        """
        self._is_probed = self._is_probed or self.probe() is not None
        return [] if self._is_probed else [self._probe_row or self._probed()]

    def _probed(self) -> Row:
        self._probe_row = probed(self.root, single_writer=self._single_writer, at=self._now())
        return self._probe_row

    def transact(
        self,
        decide: Callable[[View], Sequence[tuple[str, Event]]],
        *,
        holds: Callable[[View, View], bool] = lambda _before, _now: False,
        attempts: int | None = None,
    ) -> Sequence[tuple[str, Event]]:
        """Append in one commit the events that *decide* returns for the newest view, and return them; no event, no commit.

        Args:
            decide: Returns (id of an aggregate, event) pairs. It is called again when another commit came first.
            holds: Whether what was decided for an earlier view is right for the newest one; by default it never is.
            attempts: How many times at most; None for as many as it takes.

        Raises:
            JournalConflictError: If another commit came first at every attempt; nothing was appended.
        """
        return transact(
            self.view,
            decide,
            lambda view, events: self.append_each(view.version, events),
            holds=lambda before, _, now: holds(before, now),
            attempts=attempts,
        )

    def append_if_living(self, aggregate: str, name: str, event: Event) -> None:
        """Append an event of an aggregate or a build without its lease; another process may drop it meanwhile.

        Raises:
            LeaseLostError: If the aggregate is gone; nothing was appended.
        """

        def decide(view: View) -> list[tuple[str, Event]]:
            view.living(aggregate, name)
            return [(aggregate, event)]

        self.transact(decide)

    def tidy(self) -> tuple[str, ...]:
        """Fold the journal if it has enough commits, and write what other processes read in its place; a failure is a warning.

        Two processes may do this at the same time. A journal with an unreadable event is not folded: the event is evidence, and
        a newer release may read it.

        Returns:
            Warnings, for the report of a command: what it wrote before is published, and the next command tries again.
        """
        with _warned() as warnings:
            self._fold_from(self._snapshot_every * (_LATER if self._lists_later else 1))
            if self._lists_later:
                self._is_unlisted = True
            else:
                self._share(self.view())
        return tuple(warnings)

    def _fold_from(self, commits: int) -> None:
        if self._store.commits_since_snapshot() >= commits:
            self._fold()

    def _share(self, view: View) -> None:
        """Write the list of aggregates, and what new processes start from."""
        from materializer.journal import catalog, output_rows  # noqa: PLC0415 (a command without work writes none)

        places_of = ((state.source.path, f"{self.root}/{state.name}") for state in view.all.values())
        commit = self._store.share(view.version, chain.from_iterable(places_of))
        if commit is not None and (changed := catalog.write(self.root, view, commit)):
            output_rows.note(self.root, view, changed)

    @contextmanager
    def listed_once(self) -> Iterator[None]:
        """Fold, and write what other processes read, once after the block and not after each refresh in it: both are of all aggregates."""
        self._lists_later = True
        try:
            yield
        finally:
            self._lists_later = False
            if self._is_unlisted:
                self._is_unlisted = False
                with _warned() as warnings:
                    self._fold_from(self._snapshot_every)
                    self._share(self.view())
                for warning in warnings:
                    _LOG.warning("%s", warning)

    def gathered(self) -> list[Gathered]:
        """Return size and garbage of the journal and of its history."""
        tables = []
        for table, store in (("journal", self._store), ("history", self._history)):
            snapshot, leftovers, sizes = store.read(), store.leftovers(), store.file_sizes()
            commits, leftover_bytes = store.commits_since_snapshot(), sum(f.bytes for f in leftovers)
            tables.append(
                Gathered(table, len(snapshot.rows), len(sizes), sum(sizes), commits, len(leftovers), leftover_bytes)
            )
        return tables

    def clean(self) -> None:
        """Fold the journal and its history, each if it has enough commits, and remove files that no version needs.

        Two processes may do this at the same time.
        """
        self._fold_from(WORTH_FOLDING)
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
        rows = [row for row in snapshot.rows if row.aggregate == LAKE][-1:]
        parts = list(view.all.snapshots())
        if any(row is None and key not in view.all for key, row in parts):
            return  # an event of it cannot be read
        snapshots = {key: row or encode(key, Snapshot(as_json(view.all[key])), at=at) for key, row in parts}
        rows += snapshots.values()
        try:
            self._checkpoint("fold_history")
            if ended:
                self._history.append(ended, expected_version=self._history.version())
            self._checkpoint("fold_journal")
            version = self._store.snapshot(rows, expected_version=view.version)
        except JournalConflictError:
            return
        with self._reading:
            if self._view is view and (seen := self._store.read()).version == version:
                self._seen, self._view = seen, View(version, view.all.replaced_by(snapshots))

    def history(self, aggregate: str) -> list[dict[str, Any]]:
        """Return the plans, verdicts and ends of refreshes of one aggregate from the history table; see :meth:`histories`."""
        return self.histories({aggregate}).get(aggregate, [])

    def histories(self, aggregates: Collection[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the plans, verdicts and ends of refreshes from the history table, which is read once, by aggregate.

        Args:
            aggregates: Ids of the wanted aggregates.

        Shape:
            Each list is oldest first, with each row once: ``n``, ``kind`` (planned, audited, done, aborted, switched), ``at``
            and the event's payload. An aggregate without a row has no list.
        """
        rows: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
        for row in self._history.read().rows:
            if row.aggregate in aggregates:
                if row.kind == UNREADABLE:
                    raise JournalError(row.payload, hint="restore the journal from a backup", wrote=NOTHING)
                payload = json.loads(row.payload)
                n = payload["plan"]["n"] if row.kind == "planned" else payload["n"]
                rows.setdefault(row.aggregate, {})[row.kind, n] = {"n": n, "kind": row.kind, "at": row.at} | payload
        order = _HISTORY_KINDS.index
        return {name: sorted(of.values(), key=lambda r: (r["n"], order(r["kind"]))) for name, of in rows.items()}
