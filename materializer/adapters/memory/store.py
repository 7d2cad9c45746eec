"""The journal's store in memory. Two processes are two users of one log; its versions are those of the Delta table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from materializer.adapters.memory.log import LogClient, MemoryLog, NoFaults, StoreFaults, VersionTakenError
from materializer.errors import JournalConflictError
from materializer.journal.codec import Row
from materializer.journal.ports import JournalSnapshot, RowStore

if TYPE_CHECKING:
    from materializer.lake.write.vacuum import Leftover

EMPTY = JournalSnapshot(-1, ())
"""A journal that does not exist yet."""


class MemoryStore(RowStore):
    """One table of rows; see :class:`materializer.journal.ports.RowStore`.

    Args:
        log: Its commits; None for a table of its own.
        faults: What goes wrong between this process and the store.
    """

    def __init__(self, log: MemoryLog[JournalSnapshot] | None = None, faults: StoreFaults | None = None) -> None:
        self._client = LogClient(log or MemoryLog(EMPTY), faults or NoFaults())

    def read(self) -> JournalSnapshot:
        """See :class:`RowStore`."""
        return self._client.newest().state

    def version(self) -> int:
        """See :class:`RowStore`."""
        return self.read().version

    def append(self, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        """See :class:`RowStore`."""
        if not rows:
            raise ValueError("an append needs at least one row")
        before, version = self._expected(expected_version)
        generation = before.generation if before.rows else version
        return self._put(JournalSnapshot(version, (*before.rows, *rows), generation), mark)

    def snapshot(self, rows: Sequence[Row], *, expected_version: int) -> int:
        """See :class:`RowStore`."""
        _, version = self._expected(expected_version)
        return self._put(JournalSnapshot(version, tuple(rows), version))

    def mark_of(self, version: int) -> str:
        """See :class:`RowStore`."""
        return self._client.mark_of(version)

    def _expected(self, expected: int) -> tuple[JournalSnapshot, int]:
        """Return the rows so far and the version of the next commit, which creates a Delta table as version 0 first."""
        before = self.read()
        if expected != before.version:
            raise self._conflict(expected)
        return before, max(expected, 0) + 1

    def _put(self, snapshot: JournalSnapshot, mark: str = "") -> int:
        try:
            self._client.put(snapshot.version, mark, snapshot)
        except VersionTakenError as exc:
            raise self._conflict(snapshot.version - 1) from exc
        return snapshot.version

    def _conflict(self, expected: int) -> JournalConflictError:
        return JournalConflictError(f"another process committed after version {expected}", expected=expected)

    def share(self, version: int, tables: Iterable[str]) -> None:
        """Do nothing: there are no files."""

    def commits_since_snapshot(self) -> int:
        """See :class:`RowStore`."""
        newest = self.read()
        return max(0, newest.version - newest.generation)

    def file_sizes(self) -> list[int]:
        """Return nothing: there are no files."""
        return []

    def leftovers(self) -> list[Leftover]:
        """Return nothing: there are no files."""
        return []

    def remove(self, found: Sequence[Leftover]) -> None:
        """Do nothing: there are no files."""


def memory_stores() -> Callable[[str], MemoryStore]:
    """Return a function that gives each name a store of its own, the same one at each call; a journal takes it as *stores*."""
    return cache(lambda _: MemoryStore())
