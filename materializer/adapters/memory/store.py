"""The journal's store in memory. Two processes are two users of one object; its versions are those of the Delta table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from materializer.errors import JournalConflictError
from materializer.journal.codec import Row
from materializer.journal.ports import JournalSnapshot, RowStore

if TYPE_CHECKING:
    from materializer.lake.write.vacuum import Leftover


class MemoryStore(RowStore):
    """One table of rows; see :class:`materializer.journal.ports.RowStore`."""

    def __init__(self) -> None:
        self._newest = JournalSnapshot(-1, ())
        self._lock = threading.Lock()

    def read(self) -> JournalSnapshot:
        """See :class:`RowStore`."""
        return self._newest

    def append(self, rows: Sequence[Row], *, expected_version: int) -> int:
        """See :class:`RowStore`."""
        if not rows:
            raise ValueError("an append needs at least one row")
        with self._lock:
            version, before = self._next(expected_version), self._newest
            generation = before.generation if before.rows else version
            self._newest = JournalSnapshot(version, (*before.rows, *rows), generation)
            return version

    def snapshot(self, rows: Sequence[Row], *, expected_version: int) -> int:
        """See :class:`RowStore`."""
        with self._lock:
            version = self._next(expected_version)
            self._newest = JournalSnapshot(version, tuple(rows), version)
            return version

    def _next(self, expected: int) -> int:
        if expected != self._newest.version:
            raise JournalConflictError(f"another process committed after version {expected}", expected=expected)
        return max(expected, 0) + 1  # version 0 creates a Delta table

    def commits_since_snapshot(self) -> int:
        """See :class:`RowStore`."""
        newest = self._newest
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
