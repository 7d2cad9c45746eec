"""The lease of an aggregate while a command works: what ends its renewal, and what does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import enumerate as threads

import pytest

from materializer.adapters.memory.store import MemoryStore
from materializer.config import Config
from materializer.errors import StorageError
from materializer.journal.codec import Row
from materializer.journal.events import LeaseTaken
from materializer.services import processes
from tests.services.no_spark import Lake, each, view


@dataclass
class Failing(MemoryStore):
    """A journal that fails to append renewals of a lease, as often as it has errors left."""

    errors: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def append(self, rows: Sequence[Row], *, expected_version: int, mark: str = "") -> int:
        """Fail, or append."""
        if self.errors and any(row.kind == "lease_renewed" for row in rows):
            raise self.errors.pop()
        return super().append(rows, expected_version=expected_version, mark=mark)


def comes(true: Callable[[], bool]) -> bool:
    """Whether something becomes true within some seconds."""
    end = time.monotonic() + 20
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def opened(folder: Path, store: MemoryStore) -> Lake:
    """A lake with one aggregate, whose leases last a second."""
    stores = {"journal": store, "history": MemoryStore()}
    lake = Lake(folder, stores=stores.__getitem__, config=Config(lease_seconds=1))
    lake.apply(view("hourly", each("1 hour")))
    return lake


@pytest.mark.parametrize("error", [StorageError("the disk is full"), RuntimeError("a bug")], ids=["storage", "bug"])
def test_a_failure_does_not_end_the_renewal_of_a_lease(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The next one is tried all the same; a warning says what failed.
    """
    store = Failing()
    lake = opened(tmp_path, store)

    with lake.wired.lease("hourly") as lease:
        store.errors.append(error)
        assert comes(lambda: not store.errors)
        failed = lease.state.lease
        assert comes(lambda: lease.state.lease != failed)
    assert f"a lease could not be renewed, which is tried again: {error}" in caplog.messages


def test_a_lost_lease_is_not_renewed(tmp_path: Path) -> None:
    """
    Whoever has it now renews it; the thread that renewed it ends.
    """
    lake = opened(tmp_path, MemoryStore())

    with lake.wired.lease("hourly") as lease:
        theirs = processes.new_lease(time.time(), 60)
        lake.wired.journal.transact(lambda _: [(lease.id, LeaseTaken(theirs))])
        assert comes(lambda: not any(thread.name == "materializer-lease" for thread in threads()))
        assert theirs == lease.state.lease
