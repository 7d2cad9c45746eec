"""The notes that our own commits carry: which refresh wrote them, by which plan."""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

from materializer.lake.log import json_line, latest_version, lines_of

NEAR: Final = 10
"""So many of the newest commits of a table are read for its number."""


class CommitNote(Struct, frozen=True):
    """The note that a commit of ours carries.

    Args:
        version: Version of the table that the commit made.
        n: Refresh number; 0 for maintenance.
        plan_id: Id of the plan.
        kind: ``data``, ``fence``, ``maintain`` or ``switch``.
        source_version: Source version of the plan, if any.
    """

    version: int
    n: int
    plan_id: str
    kind: str
    source_version: int | None


def find_notes(path: str, after_version: int) -> list[CommitNote]:
    """Return the notes of our own commits after a version, in order; commits of other writers have no note.

    Raises:
        LogGapError: If a commit after *after_version* was cleaned out of the log.
    """
    notes = (note_of(path, version) for version in range(after_version + 1, latest_version(path) + 1))
    return [note for note in notes if note is not None]


def note_of(path: str, version: int) -> CommitNote | None:
    """Return the note of our commit; None for another writer's. The rest of the commit is not parsed.

    Raises:
        LogGapError: If the commit was cleaned out of the log.
    """
    for line in lines_of(path, version):
        if '"commitInfo"' in line:
            info = json_line(path, version, line).get("commitInfo")
            if isinstance(info, dict):
                return _note(version, info.get("userMetadata"))
    return None


def newest_number(path: str, app_id: str) -> tuple[int, str] | None:
    """Return the number of a table under a transaction identifier, and its plan, by its newest commits; no table is opened.

    Returns:
        0 and "" for a table without a number; None if only an older commit, or a checkpoint, has it.

    Raises:
        LogGapError: If one of these commits was cleaned out of the log.
    """
    newest = latest_version(path)
    for version in range(newest, max(newest - NEAR, -1), -1):
        if (found := numbered_in(path, version, app_id)) is not None:
            return found
    return (0, "") if newest < NEAR else None


def numbered_in(path: str, version: int, app_id: str) -> tuple[int, str] | None:
    """Return the number that a commit has under a transaction identifier, and the plan that its note names, or ""; None without one.

    Raises:
        LogGapError: If it was cleaned out of the log.
        SourceDamagedError: If it cannot be read.
    """
    number, note = None, None
    for line in lines_of(path, version):
        if '"txn"' in line:
            action = json_line(path, version, line).get("txn")
            if isinstance(action, dict) and action.get("appId") == app_id and isinstance(action.get("version"), int):
                number = action["version"]
        elif '"commitInfo"' in line:
            info = json_line(path, version, line).get("commitInfo")
            note = _note(version, info.get("userMetadata")) if isinstance(info, dict) else note
    return None if number is None else (number, "" if note is None else note.plan_id)


def _note(version: int, text: object) -> CommitNote | None:
    try:
        data = json.loads(str(text))
        source = data.get("source_version")
        source_version = None if source is None else int(source)
        return CommitNote(version, int(data["n"] or 0), str(data["plan"]), str(data["kind"]), source_version)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
