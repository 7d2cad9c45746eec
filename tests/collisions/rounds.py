"""What one process does in a collision; a module of its own, because a new process imports it by name."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from materializer.errors import JournalConflictError, RetryableError
from materializer.journal.events import Lease, LeaseTaken
from materializer.journal.journal import Journal
from materializer.lake.write.commit import append_rows

APP: Final = "materializer/collision"
AGGREGATE: Final = "a1"


def work(root: str, number: int, rounds: int, barrier: Any, failures: Any) -> None:
    """Commit in each round, at the same moment as the others."""
    journal = Journal(root)
    try:
        for at in range(rounds):
            name = f"{number}-{at}"
            barrier.wait(600)
            if at % 2:
                journal.transact(lambda _, name=name: [(AGGREGATE, LeaseTaken(Lease(name, "", 0, 0, 0.0)))])
                continue
            while True:
                try:
                    note = {"plan": name, "n": at + 1, "kind": "data", "source_version": None}
                    append_rows(f"{root}/table", pa.table({"name": [name]}), f"{APP}/{number}", at + 1, note)
                except (RetryableError, JournalConflictError):
                    continue
                break
    except BaseException as exc:
        failures.put(f"process {number}: {type(exc).__name__}: {exc}")
        barrier.abort()
        raise
