"""Tables that this user's processes opened before: opening one takes longer than a command that has nothing to do.

What a table was is noted by the files of its log, and who knows from the journal what it was last need not open it to see that it still is: no
newer commit exists, and these files are the same. Of a long log only the newest commit file is noted: if such a log was damaged below it,
the next process that has something to read finds that.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from typing import Final

from materializer import noted
from materializer.errors import MaterializerError
from materializer.lake import places
from materializer.lake.hostile import content_beside
from materializer.lake.log import commit_file
from materializer.lake.table import DeltaFolder, NotedTable, TableHead

NAME: Final = "opened-before"
LONG: Final = 10_000
"""Actions of a checkpoint from which on a log is long."""
MOST_FILES: Final = 200
"""Files of a log that are looked at; a table whose log has more, and is not long, is opened."""
_MOST_BYTES: Final = 1 << 18
"""Bytes of what is noted, which each command reads."""


def expect(path: str, head: TableHead) -> None:
    """Let a table on a path be what it was last, without opening it, if this user noted that and no commit came since."""
    folder = DeltaFolder.at(path)
    if not places.is_local(path) or folder.note(counts=False) is not None:
        return
    with suppress(OSError, MaterializerError):
        commit = places.identity(commit_file(path, head.version))
        if commit is not None and _digest(path, head) in noted.noted(NAME):
            folder.start_from(NotedTable(head, commit))


def note(path: str) -> None:
    """Note what a table on a path is, if this process has opened it."""
    known = DeltaFolder.at(path).note(counts=False) if places.is_local(path) else None
    with suppress(OSError, MaterializerError):
        if known is not None and (digest := _digest(path, known.head)):
            noted.note(NAME, [digest], most_bytes=_MOST_BYTES)


def _is_long(path: str) -> bool:
    """Return whether the table says that its newest checkpoint has many actions."""
    with suppress(FileNotFoundError, ValueError, TypeError, AttributeError):
        return int(json.loads(content_beside(f"{path}/_delta_log/_last_checkpoint")).get("size") or 0) >= LONG
    return False


def _digest(path: str, head: TableHead) -> str:
    """Return what tells the table from another one, and from what it was before; "" where that takes too long."""
    log = f"{path}/_delta_log"
    names = [] if _is_long(path) else sorted(places.names(log))
    if len(names) > MOST_FILES:
        return ""
    files = [places.signature(commit_file(path, head.version)), *((n, places.signature(f"{log}/{n}")) for n in names)]
    return sha256(repr((path, head, files)).encode()).hexdigest()
