"""The list of aggregates, as one JSON file beside the journal.

A process that needs only definitions reads this file and opens no Delta table. Airflow needs that: it starts a process for
each file in ``dags/`` every few seconds. The file may be deleted at any time. It names the version of the journal that it was
made from, and the identity of that version's commit file. It is also valid at a newer version if no commit since has an event
that changes the list. Each aggregate has a line of its own, and only lines of aggregates that changed are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from materializer.core.codec import as_json, from_json
from materializer.journal import appended
from materializer.journal.appended import UNUSABLE, changing
from materializer.lake import places
from materializer.lake.log import commit_file, tail

if TYPE_CHECKING:
    from materializer.journal.state import AggregateState
    from materializer.journal.view import View

_FILE: Final = "_materializer/listing.json"
_JOURNAL: Final = "_materializer/journal"
_FORMAT: Final = 3
"""A higher number when the content of the file changes its meaning."""
_CHANGES_NO_LIST: Final = frozenset(
    {
        "lease_taken",
        "lease_renewed",
        "lease_released",
        "captured",
        "invalidated",
        "frozen",
        "retired",
        "planned",
        "audited",
        "delivered",
        "policy_ran",
        "checked",
        "maintained",
        "build_started",
        "switch_planned",
        "build_closed",
        "build_opened",
        "snapshot",
        "probed",
    }
)
"""Events that change neither the name, definition and source of an aggregate nor its last refresh."""


class Listed(Struct, frozen=True):
    """One aggregate in the list.

    Args:
        name: Its name.
        spec: Its definition as JSON; empty when one of its events cannot be read.
        source: Absolute path of its source.
        last: Its last refresh in a few words, or empty.
    """

    name: str
    spec: Mapping[str, Any]
    source: str
    last: str


def listed(view: View) -> list[Listed]:
    """Return the list, computed from the journal, by name."""
    rows = [Listed(broken.name or broken.id, {}, "", "") for broken in view.broken.values()]
    return _sorted([*rows, *map(_listed, view.states.values())])


def _listed(state: AggregateState) -> Listed:
    last = ""
    if state.ended:
        ended, did = state.ended[-1], state.ended[-1].report
        last = (
            f"refresh {ended.n} {ended.outcome} at {ended.at}: {did.strategy or 'nothing'}, {did.buckets} buckets, "
            f"{did.rows_read} rows read, {did.seconds:.1f} s, source version {did.source_version}"
        )
    return Listed(state.name, state.spec, state.source.path, last)


def _sorted(rows: Iterable[Listed]) -> list[Listed]:
    return sorted(rows, key=lambda row: (row.name.lower(), row.name))


def write(root: str | Path, view: View, commit: places.Identity) -> set[str]:
    """Write the list for :func:`read`, and return the ids of aggregates that commits since the last list may have changed.

    A failure is ignored: readers then read the journal. Nothing is returned where these commits do not say what they changed.

    Args:
        root: The lake's root.
        view: The journal.
        commit: Identity of the commit file of its version.
    """
    with suppress(OSError), changing(f"{root}/{_FILE}") as file:
        if file is None:
            return set()
        changed: set[str] | None = None
        with suppress(*UNUSABLE):
            if file.header is not None:
                changed = _changed_since(root, _checked(file.header))
        if changed is not None and not changed:
            return changed
        anew = view.all.ids() if changed is None else changed
        if any(map(view.all.is_broken, anew)):
            return set()
        states = {key: view.states.get(key) for key in anew}
        lines = {key: None if state is None else json.dumps(as_json(_listed(state))) for key, state in states.items()}
        header = {"format": _FORMAT, "version": view.version, "commit": commit}
        file.put(header, lines, None if changed is None else view.all.ids().__contains__)
        return changed or set()
    return set()


def read(root: str | Path) -> list[Listed] | None:
    """Return the list that was written, or None when the journal may have changed it since."""
    with suppress(*UNUSABLE):
        header, lines = appended.read(f"{root}/{_FILE}")
        if _changed_since(root, _checked(header)) != set():
            return None
        try:
            rows = [from_json(Listed, json.loads(line)) for line in lines.values()]
            if all(type(text) is str for row in rows for text in (row.name, row.source)):
                return _sorted(rows)
        except UNUSABLE:
            appended.forget(f"{root}/{_FILE}")
    return None


def _checked(header: Mapping[str, Any]) -> Mapping[str, Any]:
    if header["format"] != _FORMAT:
        raise ValueError("the list is that of another release")
    return header


def _changed_since(root: str | Path, header: Mapping[str, Any]) -> set[str] | None:
    """Return the ids of the aggregates that commits since the list was written may have changed; None if that is not known.

    Raises:
        OSError, ValueError, KeyError: If a commit cannot be read, or does not say what it did.
    """
    journal, version = f"{root}/{_JOURNAL}", header["version"]
    run = tail(journal, version)
    if not run or header["commit"] != list(run[0]):
        return None
    changed = set[str]()
    for note in (_note(commit_file(journal, version + i)) for i in range(1, len(run))):
        if not _CHANGES_NO_LIST.issuperset(note["kinds"]):
            if "aggregate" not in note:
                return None
            changed.add(note["aggregate"])
    return changed


def _note(commit: str) -> dict[str, Any]:
    """Return what a commit says of itself.

    Raises:
        ValueError, KeyError: If it says nothing.
    """
    lines = (json.loads(line) for line in places.read(commit).decode().splitlines())
    [info] = (line["commitInfo"] for line in lines if "commitInfo" in line)
    note: dict[str, Any] = json.loads(info["userMetadata"])
    return note
