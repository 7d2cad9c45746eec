"""What happens to the flights after they were loaded: corrections, deletes, OPTIMIZE and a corrupted day, by ``deltalake``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from deltalake import CommitProperties
from msgspec import Struct

from materializer.lake.table import open_table

COMPACTED: Final = 2_000_000
"""File size in bytes for OPTIMIZE; otherwise a year of flights would be one file, and pruning could skip nothing."""
CORRECTIONS: Final = (
    (
        "JetBlue's long delays of 12 July were 10 minutes shorter",
        "flight_id LIKE '2013-07-12/B6%' AND dep_delay > 60",
        {"dep_delay": "dep_delay - 10"},
    ),
    (
        "some JetBlue flights of 29 November were three hours later",
        "flight_id LIKE '2013-11-29/B67%'",
        {"event_time": "event_time + INTERVAL '3 hours'"},
    ),
)
WITHDRAWN: Final = (
    "ExpressJet withdraws flights cancelled on 8 February",
    "flight_id LIKE '2013-02-08/EV%' AND cancelled",
)
CORRUPTED: Final = (
    "a broken clock adds 5,000 minutes to delays of 29 November",
    "flight_id LIKE '2013-11-29/%' AND dep_delay IS NOT NULL",
    "dep_delay + 5000",
    "dep_delay - 5000",
)
_NOTE: Final = CommitProperties(custom_metadata={"userMetadata": "correction"})


class Edit(Struct, frozen=True):
    """One UPDATE or DELETE of the flights.

    Args:
        what: What it does, in words.
        rows: Number of rows that it changed.
        version: The table's version after it.
    """

    what: str
    rows: int
    version: int


def correct(path: str) -> Iterator[Edit]:
    """Update what airlines reported wrongly, one commit a correction."""
    for what, where, updates in CORRECTIONS:
        yield _update(path, what, where, updates, _NOTE)


def withdraw(path: str) -> Edit:
    """Delete the flights that an airline withdraws."""
    table, (what, where) = open_table(path), WITHDRAWN
    rows = table.delete(where, commit_properties=_NOTE)["num_deleted_rows"]
    return Edit(what, rows, table.version())


def optimize(path: str) -> tuple[int, int, int]:
    """Write small files together, and return how many files became how many, and the table's version."""
    table = open_table(path)
    packed = table.optimize.compact(target_size=COMPACTED)
    return packed["numFilesRemoved"], packed["numFilesAdded"], table.version()


def corrupt(path: str) -> Edit:
    """Make the delays of one day impossible."""
    what, where, corrupted, _ = CORRUPTED
    return _update(path, what, where, {"dep_delay": corrupted})


def mend(path: str) -> Edit:
    """Undo :func:`corrupt`."""
    _, where, _, corrected = CORRUPTED
    return _update(path, "corrected", where, {"dep_delay": corrected})


def _update(path: str, what: str, where: str, updates: Mapping[str, str], note: CommitProperties | None = None) -> Edit:
    table = open_table(path)
    rows = table.update(predicate=where, updates=dict(updates), commit_properties=note)["num_updated_rows"]
    return Edit(what, rows, table.version())
