"""The commits of the journal, from the newest back to the one that replaced all rows."""

from __future__ import annotations

import json
from typing import Any, Final

from materializer.errors import LogGapError, SourceDamagedError
from materializer.lake.log import Commit, read_commit

REPLACES: Final = "replaces"
"""Field of the note of a commit that replaced rows."""
_MAX_WALK: Final = 200
"""How many commits are walked back at most; when all rows were replaced before, the Delta library reads the log."""


def since_replaced(path: str, newest: int) -> list[Commit] | None:
    """Return the commits from the newest back to the one that replaced all rows or created the table; None if it is too far."""
    run = []
    for version in range(newest, max(-1, newest - _MAX_WALK), -1):
        run.append(read_commit(path, version))
        if version == 0 or note_of(run[-1]).get(REPLACES) == "all":
            return run
    return None


def note_of(commit: Commit) -> dict[str, Any]:
    """Return the commit info that the journal's store wrote; empty for a foreign commit."""
    try:
        note = json.loads(commit.user_metadata or "")
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def is_plain(commit: Commit) -> bool:
    """Return whether a commit only appended rows."""
    is_same = commit.metadata is None and commit.protocol is None and not commit.removes
    return is_same and all(f.data_change and not f.has_deletion_vector for f in commit.adds)


def added_by(path: str, name: str, newest: int) -> Commit | None:
    """Return the newest commit that added a file; None where the log does not show it.

    Args:
        path: The table.
        name: The file.
        newest: The commit to begin with.
    """
    try:
        for number in range(newest, -1, -1):
            commit = read_commit(path, number)
            if any(file.path == name for file in commit.adds):
                return commit
    except (LogGapError, SourceDamagedError):
        return None
    return None
