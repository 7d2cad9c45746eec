"""The journal as a Delta table to which rows are only appended, by compare-and-swap.

Every row carries the version of its commit and its position in it, so compacting files keeps the order of events. A
commit based on an older version than the newest is refused and never rebased, because it was decided on what that version
says. From time to time :meth:`JournalStore.snapshot` replaces all rows by a few in one commit. The *generation* then changes,
and readers load all rows anew.

```
   version   0        1        2      …     20          21
             create   row,row  row          snapshot    row
   generation        1 ──────────────────▶  20 ───────────▶
```

The first reading of a journal on this machine is one query of the Delta library, which needs no Arrow of Python's; in a store it
goes on from what another process shared (:mod:`.start`). Where that fails, it walks back from the newest commit to the one that
replaced all rows, and reads these few. If one did anything but append rows, the Delta library reads the whole log instead.
"""

# ruff: noqa: PLC0415 - a command with nothing to do reads the journal without pyarrow, whose import would take most of its time

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from materializer.errors import (
    NOTHING,
    JournalConflictError,
    JournalError,
    LogGapError,
    MaterializerError,
    SourceDamagedError,
)
from materializer.journal import read_before, start
from materializer.journal.codec import UNREADABLE, Row
from materializer.journal.ports import JournalSnapshot
from materializer.journal.row_reading import BACKUP, Numbered, queried, rows_of_file
from materializer.journal.walk import REPLACES, added_by, is_plain, note_of, since_replaced
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.links import refuse_around
from materializer.lake.log import Commit, commit_file, forget, is_begun, latest_version, read_commit, tail
from materializer.lake.table import DeltaFolder, current_look, identity, newest_listed, open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from materializer.lake.write.vacuum import Leftover

PROPERTIES: Final = {
    "delta.enableDeletionVectors": "false",
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
    "delta.checkpointInterval": "1000",
    "delta.dataSkippingNumIndexedCols": "1",
}
FOLDER: Final = "_materializer"
RESTORING: Final = "_materializer.restoring"
"""Folder in which ``restore`` prepares a journal."""
_RETENTION: Final = "delta.deletedFileRetentionDuration"
DAY_HOURS: Final = 24


class JournalStore:
    """One journal table; may be used from several threads.

    Args:
        root: The lake's root.
        name: Name of the table under ``_materializer``.
    """

    def __init__(self, root: str | Path, name: str = "journal") -> None:
        self._name = name
        self.path = f"{places.normalised(root)}/{FOLDER}/{name}"
        self._restoring = f"{places.normalised(root)}/{RESTORING}"
        self._table: DeltaTable | None = None
        self._cached = JournalSnapshot(-1, ())
        self._known: list[places.Identity | None] = []  # of the commits from the one that was looked at last on
        self._shared: start.Start | None = None
        self._may_start = name == "journal"
        self._is_shared = self._may_start and not places.is_local(self.path)
        self._look: object = None
        self._at = -1
        """The version that was looked at last without its rows."""
        self._lock = threading.RLock()

    def read(self) -> JournalSnapshot:
        """Return all rows; costs two ``stat`` calls, or one listing of a store, when nothing changed.

        Raises:
            JournalError: If the table is damaged, or is not a journal.
            StorageError: If it cannot be read.
        """
        with self._lock:
            look = current_look(self.path)
            if look is None or look is not self._look:
                self._look = None
                snapshot = self._newest()
                self._look = look if snapshot.version >= 0 else None
            return self._cached

    def version(self) -> int:
        """Return the newest version without reading rows; costs as much as :meth:`read` when nothing changed, and raises as it."""
        with self._lock:
            run = tail(self.path, self._at) if self._at >= 0 else []
            if not run and not is_begun(self.path):
                return self.read().version
            self._at = self._at + len(run) - 1 if run else latest_version(self.path)
            return self._at

    def _newest(self) -> JournalSnapshot:
        cached, known = (self._cached, self._known) if self._cached.version >= 0 else self._started()
        run = tail(self.path, cached.version) if known else []
        if run and run[0] == known[-1]:
            newest: tuple[int, places.Identity] | None = (cached.version + len(run) - 1, run[-1])
            if (followed := self._extended(cached, cached.version + len(run) - 1)) is not None:
                return self._remember(followed, run[-1:])
        elif (newest := newest_listed(self.path)) is None and not is_begun(self.path):
            if self._cached.version >= 0:
                raise JournalError(f"the journal at '{self.path}' is gone", hint=BACKUP, wrote=NOTHING)
            if places.is_folder(self._restoring):
                message = f"the journal at '{self.path}' is being restored, or that was interrupted"
                raise JournalError(message, hint="run the same 'materializer restore' again", wrote=NOTHING)
            return self._cached
        snapshot = self._loaded(newest and newest[0])
        return self._remember(snapshot, [newest[1]] if newest and newest[0] == snapshot.version else ())

    def _started(self) -> tuple[JournalSnapshot, list[places.Identity | None]]:
        """Return the rows that another process shared, or one of this user read, and the identity of their commit; it is asked for them once."""
        if places.is_local(self.path):
            before, self._may_start = read_before.read(self.path) if self._may_start else None, False
            return (self._cached, []) if before is None else (before[0], [before[1]])
        self._shared, self._may_start = start.read(self.path) if self._may_start else None, False
        if self._shared is None:
            return self._cached, []
        forget(self.path)
        for path, noted in self._shared.tables.items():
            DeltaFolder.at(path).start_from(noted)
        return self._shared.journal, [self._shared.commit]

    def share(self, version: int, tables: Iterable[str]) -> places.Identity | None:
        """Let new processes start from *version*, if it is what was read or appended last (:mod:`~materializer.journal.start`).

        Args:
            version: The version.
            tables: Paths of tables and of folders of tables; what is known of these is shared as well.

        Returns:
            The identity of the commit file of *version*; None if the commits are not those any more that were read and appended.
        """
        with self._lock:
            cached, known = self._cached, self._known
            first = version - len(known) + 1
            if version != cached.version or not known or tail(self.path, first)[: len(known)] != known:
                return None
            commit = known[-1]
            if commit is not None and self._is_shared and all(row.kind != UNREADABLE for row in cached.rows):
                shared = start.Start(cached, commit, DeltaFolder.noted(frozenset(tables)))
                if shared != self._shared:
                    start.write(self.path, shared)
                    self._shared = shared
            elif places.is_local(self.path):
                read_before.write(self.path, cached)
            return commit

    def append(self, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        """Append rows in one commit, if the journal still has *expected_version*, and return the new version.

        Args:
            rows: At least one, in their order.
            expected_version: The version that :meth:`read` returned; -1 creates the table.
            mark: What :meth:`mark_of` recognises the commit by.

        Raises:
            JournalConflictError: If the journal has another version.
            StorageError: If it cannot be written.
        """
        if not rows:
            raise ValueError("an append needs at least one row")
        refuse_around(self.path)
        with self._lock:
            if expected_version < 0:
                expected_version = self._created()
            version, seen = self._write(rows, expected_version, mode="append", mark=mark)
            if self._cached.version == expected_version:
                generation = self._cached.generation if self._cached.rows else version
                self._remember(JournalSnapshot(version, (*self._cached.rows, *rows), generation), [*self._known, seen])
            return version

    def snapshot(self, rows: Sequence[Row], *, expected_version: int) -> int:
        """Replace all rows by *rows*, in one file and one commit, and return the new version; raises as :meth:`append`."""
        refuse_around(self.path)
        with self._lock:
            version, _ = self._write(rows, expected_version, mode="overwrite")
            self._remember(JournalSnapshot(version, tuple(rows), version))
            table, self._table = self._table, None  # the library forgets nothing of the commits that it read
            if table is not None:
                from deltalake.exceptions import DeltaError

                with suppress(
                    DeltaError, OSError
                ):  # a checkpoint only makes opening quicker; the next snapshot tries again
                    table.create_checkpoint()
                    table.cleanup_metadata()
            return version

    def mark_of(self, version: int) -> str:
        """Return the mark of the commit that made *version*; "" if there is no such version, or its commit has no mark."""
        if not places.is_file(commit_file(self.path, version)):
            return ""
        return str(note_of(read_commit(self.path, version)).get("mark", ""))

    def commits_since_snapshot(self) -> int:
        """Return how many commits followed the last one that replaced all rows."""
        newest = self.read()
        return max(0, newest.version - newest.generation)

    def file_sizes(self) -> list[int]:
        """Return the size of each file with rows."""
        if self.read().version < 0:
            return []
        import pyarrow as pa

        actions = pa.RecordBatchReader.from_stream(open_table(self.path).get_add_actions()).read_all()
        return list(actions["size_bytes"].to_pylist())

    def leftovers(self) -> list[Leftover]:
        """Return the files that no version within the table's retention needs."""
        if self.read().version < 0:
            return []
        from materializer.lake.write.vacuum import leftovers, retention_of

        hours = retention_of(dict(open_table(self.path).metadata().configuration), _RETENTION, DAY_HOURS)
        return leftovers(self.path, before=time.time() - hours * 3600)

    def remove(self, files: Sequence[Leftover]) -> None:
        """Remove files that :meth:`leftovers` returned."""
        from materializer.lake.write.vacuum import remove

        remove(self.path, files)

    # -- writing -----------------------------------------------------------------------------------------------------------

    def _created(self) -> int:
        if is_begun(self.path):
            raise self._conflict(-1)
        from deltalake.exceptions import DeltaError

        from materializer.journal.row_files import create

        with translated(self.path, "creating", wrote="nothing was committed"):
            places.make_folder(self.path)
            try:
                create(self.path, PROPERTIES)
            except DeltaError as exc:
                if places.is_file(commit_file(self.path, 0)):
                    raise self._conflict(-1) from exc
                raise
        return 0

    def _write(
        self, rows: Sequence[Row], expected: int, *, mode: Any, mark: str = ""
    ) -> tuple[int, places.Identity | None]:
        """Commit rows, and return the new version, and the identity of its commit file if it is known."""
        version = expected + 1
        owners = {r.aggregate for r in rows}
        note: dict[str, Any] = {"kinds": sorted({r.kind for r in rows})}
        note |= {"aggregate": owners.pop()} if len(owners) == 1 else {}
        note |= {REPLACES: "all"} if mode == "overwrite" else {}
        note |= {"mark": mark} if mark else {}
        if mode == "append":
            return version, self._put(rows, expected, json.dumps(note))
        from deltalake.exceptions import CommitFailedError

        from materializer.journal.row_files import write

        table = self._opened(expected)
        with translated(self.path, "writing to", wrote="nothing was committed"):
            try:
                write(table, rows, version, mode, json.dumps(note))
            except CommitFailedError as exc:
                self._table = None
                raise self._conflict(expected) from exc
            except Exception:
                self._table = None
                raise
        return version, None

    def _put(self, rows: Sequence[Row], expected: int, note: str) -> places.Identity | None:
        """Append by two files, the rows and the commit; the library reads the log around each commit, in a store by five requests.

        Raises:
            JournalConflictError: If the journal is not at *expected*; nothing was committed.
        """
        from materializer.journal.row_files import append_of, file_of

        version = expected + 1
        is_looked_at = places.is_local(self.path) or self._cached.version != expected  # a store would be asked for it
        if is_looked_at and len(tail(self.path, expected)) != 1:
            raise self._conflict(expected)
        name, content = f"part-{uuid4()}.snappy.parquet", file_of(rows, version)
        commit = append_of(name, len(content), len(rows), version, note)
        with translated(self.path, "writing to", wrote="nothing was committed"):
            places.put(f"{self.path}/{name}", content)
            made = places.put_if_absent(commit_file(self.path, version), commit)
        if made is None:
            raise self._conflict(expected)
        return made

    def _opened(self, expected: int) -> DeltaTable:
        """Return the table at *expected*; raises JournalConflictError when another version is the newest."""
        run = tail(self.path, expected)
        if len(run) > 1:
            raise self._conflict(expected)
        is_same = self._cached.version == expected and run[:1] == self._known[-1:]
        if self._table is None or not is_same:
            self._table = open_table(self.path)
        elif self._table.version() != expected:
            with translated(self.path, "reading"):
                self._table.update_incremental()
        if self._table.version() != expected:
            raise self._conflict(expected)
        return self._table

    def _conflict(self, expected: int) -> JournalConflictError:
        self._look = None
        return JournalConflictError(
            f"another process committed to '{self.path}' after version {expected}", path=self.path, expected=expected
        )

    # -- reading -----------------------------------------------------------------------------------------------------------

    def _remember(self, snapshot: JournalSnapshot, known: Sequence[places.Identity | None] = ()) -> JournalSnapshot:
        self._cached = snapshot
        self._known = list(known) or [identity(self.path, snapshot.version)]
        return snapshot

    def _extended(self, cached: JournalSnapshot, upto: int) -> JournalSnapshot | None:
        """Return *cached*, with the rows of the commits since; None when all rows have to be loaded."""
        if upto == cached.version:
            return cached
        if not cached.rows:
            return None
        run = []
        for version in range(cached.version + 1, upto + 1):
            try:
                run.append(read_commit(self.path, version))
            except LogGapError:
                return None
            except SourceDamagedError as exc:
                message = f"version {version} of the journal cannot be read: {exc.message}"
                raise JournalError(message, hint=BACKUP, wrote=NOTHING) from exc
        if any(f.data_change for commit in run for f in commit.removes):
            return None  # checked before a file is read, because the replaced files may have been removed
        rows = [row for commit in run for row in self._added(commit)]
        return JournalSnapshot(upto, (*cached.rows, *rows), cached.generation)

    def _added(self, commit: Commit) -> list[Row]:
        numbered = [r for f in commit.adds if f.data_change for r in self._numbered_or_lost(f.path, commit)]
        return [row for _, _, row in sorted(numbered, key=lambda r: r[:2])]

    def _numbered_or_lost(self, name: str, commit: Commit | None = None) -> list[Numbered]:
        """Return the rows of one file; for an unreadable file of one aggregate's events, one row of kind ``unreadable``.

        Raises:
            JournalError: If the file cannot be read, and its commit does not name one aggregate.
        """
        import pyarrow as pa

        try:
            return rows_of_file(self.path, name)
        except JournalError as exc:
            commit = commit or added_by(self.path, name, -1 if self._table is None else self._table.version())
            if commit is None or not isinstance(exc.__cause__, (OSError, pa.ArrowException)):
                raise
            try:
                owner = note_of(commit)["aggregate"]
            except KeyError:
                raise exc from exc.__cause__
            return [(commit.version, 0, Row(str(owner), UNREADABLE, "", exc.message))]

    def _loaded(self, newest: int | None) -> JournalSnapshot:
        forget(self.path)
        return self._queried() or self._walked_back(newest) or self._opened_whole()

    def _queried(self) -> JournalSnapshot | None:
        """Return all rows by a query of the Delta library; None if it fails, and in a store, where walking back reads less."""
        if not places.is_local(self.path):
            return None
        try:
            table = open_table(self.path)
        except MaterializerError:
            return None  # the other ways say what is wrong
        rows = queried(table)
        if rows is None:
            return None
        self._table = table
        snapshot = self._of_numbered(rows, table.version())
        if self._name == "journal":
            read_before.write(self.path, snapshot, table.file_uris())
        return snapshot

    def _walked_back(self, newest: int | None) -> JournalSnapshot | None:
        """Return all rows by walking back through the log, or None when the Delta library has to read it."""
        try:
            run = since_replaced(self.path, latest_version(self.path) if newest is None else newest)
        except MaterializerError:
            return None  # the library's error says what is wrong
        if run is None or not all(map(is_plain, run[:-1])):
            return None
        self._table = None
        rows = [row for commit in reversed(run) for row in self._added(commit)]
        generation = next((c.version for c in reversed(run) if c.adds), run[0].version)
        return JournalSnapshot(run[0].version, tuple(rows), generation)

    def _opened_whole(self) -> JournalSnapshot:
        import pyarrow as pa

        try:
            self._table = open_table(self.path)
            version = self._table.version()
            with translated(self.path, "reading"):
                actions = pa.RecordBatchReader.from_stream(self._table.get_add_actions()).read_all()["path"].to_pylist()
        except SourceDamagedError as exc:
            message = f"the journal at '{self.path}' is damaged: {exc.message}"
            raise JournalError(message, hint=BACKUP, wrote=NOTHING) from exc
        return self._of_numbered([r for name in actions for r in self._numbered_or_lost(name)], version)

    def _of_numbered(self, numbered: list[Numbered], version: int) -> JournalSnapshot:
        """Return rows with their versions and positions as those of a version of the journal."""
        numbered.sort(key=lambda r: r[:2])
        if (newest := numbered[-1][0] if numbered else 0) > version:
            message = f"the journal at '{self.path}' is at version {version}, but holds rows of version {newest}"
            raise JournalError(message, hint=BACKUP, wrote=NOTHING)
        return JournalSnapshot(version, tuple(row for _, _, row in numbered), numbered[0][0] if numbered else version)
