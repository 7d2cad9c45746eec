"""The notes that our own commits carry: which refresh wrote them, by which plan."""

from __future__ import annotations

import json
from dataclasses import dataclass

from materializer.lake.log import json_line, latest_version, lines_of


@dataclass(frozen=True, slots=True)
class CommitNote:
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


def plan_in(text: str | None) -> str:
    """Return the plan that the note of a commit names; "" for another writer's."""
    found = None if text is None else _note(0, text)
    return "" if found is None else found.plan_id


def _note(version: int, text: object) -> CommitNote | None:
    try:
        data = json.loads(str(text))
        source = data.get("source_version")
        source_version = None if source is None else int(source)
        return CommitNote(version, int(data["n"] or 0), str(data["plan"]), str(data["kind"]), source_version)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
