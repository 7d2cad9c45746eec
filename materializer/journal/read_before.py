"""Rows of journals on paths that this user's processes read before: the library that reads them is loaded by no command without work.

They are in a folder of the user's cache, with what tells the files that they were read from (the commits since all rows were replaced, and
what these added) from what the files were before. If one of them has changed, or a commit has followed, the journal is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from materializer import noted
from materializer.errors import MaterializerError
from materializer.journal.codec import UNREADABLE, Row
from materializer.journal.ports import JournalSnapshot
from materializer.journal.walk import is_plain, since_replaced
from materializer.lake import places
from materializer.lake.log import commit_file, latest_version, tail

FOLDER: Final = "journals"
MOST_FILES: Final = 200
"""Files of a journal that are looked at; one of more is read."""
MOST_LENGTH: Final = 1 << 20
"""Characters of rows that are written."""
MOST_JOURNALS: Final = 50
"""Journals of which the cache has rows."""


class _ReadJournal(Struct, frozen=True, array_like=True):
    path: str
    files: tuple[tuple[str, tuple[int, ...]], ...]
    version: int
    generation: int
    rows: tuple[Row, ...]


def read(path: str) -> tuple[JournalSnapshot, places.Identity] | None:
    """Return the rows of the journal at a path, and the identity of its newest commit; None if it has to be read."""
    with suppress(OSError, RuntimeError, ValueError, msgspec.MsgspecError, MaterializerError, IndexError):
        found = msgspec.json.decode(noted.own_file(FOLDER, _name(path)), type=_ReadJournal)
        is_same = found.path == path and all(places.signature(file) == was for file, was in found.files)
        if is_same and latest_version(path) == found.version:  # also where a commit in between is missing
            return JournalSnapshot(found.version, found.rows, found.generation), tail(path, found.version)[0]
    return None


def write(path: str, snapshot: JournalSnapshot, files: Sequence[str] = ()) -> None:
    """Write the rows of the newest version of the journal at a path, if they are few. A failure is ignored: they are then read.

    Args:
        path: The journal.
        snapshot: Its rows.
        files: The files that they were read from; without them, those that the commits since all rows were replaced have added.
    """
    rows = snapshot.rows
    if not rows or sum(len(row.payload) for row in rows) > MOST_LENGTH or any(row.kind == UNREADABLE for row in rows):
        return
    with suppress(OSError, RuntimeError, ValueError, MaterializerError):
        names = [*(files or _added(path, snapshot.version))]
        names += [commit_file(path, version) for version in range(snapshot.generation, snapshot.version + 1)]
        if len(names) <= MOST_FILES:
            known = tuple((name, places.signature(name)) for name in names)
            content = msgspec.json.encode(_ReadJournal(path, known, snapshot.version, snapshot.generation, rows))
            noted.write_own_file(FOLDER, _name(path), content, most=MOST_JOURNALS)


def _added(path: str, version: int) -> list[str]:
    """Return the files that were added since all rows were replaced.

    Raises:
        ValueError: If that was long ago, or if something else was done to the table since.
    """
    run = since_replaced(path, version)
    if run is None or not all(map(is_plain, run[:-1])):
        raise ValueError("the log does not tell which files have the rows")
    return [f"{path}/{file.path}" for commit in run for file in commit.adds]


def _name(path: str) -> str:
    return f"{sha256(path.encode()).hexdigest()}.json"
