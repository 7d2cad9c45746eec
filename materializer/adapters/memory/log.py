"""The commits of a table in an object store in memory, and a client whose requests fail as those to a real store do.

A commit is a put that succeeds only if its version does not exist. A put may be refused before it is done, or be done without an
answer, or be done long after its client has given up. The client repeats a put without an answer; the store then refuses the
repetition, also if the first put was done: the client cannot tell its own commit from another's, and its caller has to look.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from materializer.errors import StorageError

_State = TypeVar("_State")

PUTS: Final = 3
"""How often a client sends a put that has no answer."""


class PutFault(Enum):
    """What happens to one put."""

    NONE = "answered"
    BEFORE = "refused before it is done"
    AFTER = "done, and the answer is lost"
    LATE = "done later, if at all"


class StoreFaults(Protocol):
    """What goes wrong between one process and the store."""

    def before(self, request: str, mark: str = "") -> None:
        """Called before each request, ``read`` or ``put``; other processes may work meanwhile.

        Raises:
            StorageError: If the store refuses to be read.
        """

    def put(self) -> PutFault:
        """Return what happens to the next put."""

    def hidden(self) -> int:
        """Return how many of the newest commits the next list lacks."""


class NoFaults(StoreFaults):
    """A store that always answers."""

    def before(self, request: str, mark: str = "") -> None:
        """Do nothing."""

    def put(self) -> PutFault:
        """Return that the put is answered."""
        return PutFault.NONE

    def hidden(self) -> int:
        """Return 0."""
        return 0


class VersionTakenError(Exception):
    """The version of a put exists already; the put itself may have made it."""


class MemoryVersion(NamedTuple, Generic[_State]):
    """One version of a table.

    Args:
        number: The version.
        mark: What its writer recognises its commit by.
        state: The whole table at the version.
    """

    number: int
    mark: str
    state: _State


class MemoryLog(Generic[_State]):
    """All versions of one table, version 0 first.

    Args:
        first: The table at version 0.
        on_commit: Called with the version before and the new one at each commit.
    """

    def __init__(
        self,
        first: _State,
        on_commit: Callable[[MemoryVersion[_State], MemoryVersion[_State]], None] = lambda _before, _after: None,
    ) -> None:
        self.versions = [MemoryVersion(0, "", first)]
        self.late: list[MemoryVersion[_State]] = []
        self._on_commit = on_commit
        self._lock = threading.Lock()

    @property
    def newest(self) -> MemoryVersion[_State]:
        """The newest version."""
        return self.versions[-1]

    def put(self, version: MemoryVersion[_State]) -> bool:
        """Add a version if it is the next one, and return whether it was."""
        with self._lock:
            before = self.versions[-1]
            if version.number != before.number + 1:
                return False
            self.versions.append(version)
        self._on_commit(before, version)
        return True

    def put_late(self) -> None:
        """Do the oldest put that is still to be done."""
        self.put(self.late.pop(0))


class LogClient(Generic[_State]):
    """What one process does with a log.

    Args:
        log: The log.
        faults: What goes wrong meanwhile.
    """

    def __init__(self, log: MemoryLog[_State], faults: StoreFaults) -> None:
        self._log = log
        self._faults = faults
        self.seen = 0

    def newest(self) -> MemoryVersion[_State]:
        """Return the newest version: a list may lack it, so the versions after the listed ones are asked for."""
        self._faults.before("read")
        listed = self._log.newest.number - self._faults.hidden()
        self.seen = self.last_after(max(self.seen, listed))
        return self._log.versions[self.seen]

    def last_after(self, version: int) -> int:
        """Return the last version that exists without a gap after *version*."""
        while version < self._log.newest.number:
            version += 1
        return version

    def mark_of(self, version: int) -> str:
        """Return the mark of a version, "" if there is no such version."""
        self._faults.before("read")
        return self._log.versions[version].mark if version <= self._log.newest.number else ""

    def put(self, number: int, mark: str, state: _State) -> None:
        """Commit a version, unless it exists.

        Raises:
            VersionTakenError: If the store says that it exists.
            StorageError: If the store did not answer; the commit may have been done, or be done later.
        """
        version = MemoryVersion(number, mark, state)
        for _ in range(PUTS):
            self._faults.before("put", mark)
            match self._faults.put():
                case PutFault.NONE:
                    if self._log.put(version):
                        return
                    raise VersionTakenError
                case PutFault.AFTER:
                    self._log.put(version)
                case PutFault.LATE:
                    self._log.late.append(version)
                case PutFault.BEFORE:
                    pass
        raise StorageError(
            f"the store did not answer {PUTS} puts of version {number}",
            hint="run the same command again",
            wrote="it is not known whether the commit was made",
        )
