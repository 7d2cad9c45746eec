"""The list of aggregates, as one JSON file beside the journal.

A process that needs only definitions reads this file and opens no Delta table. Airflow needs that: it starts a process for
each file in ``dags/`` every few seconds. The file may be deleted at any time. It names the version of the journal that it was
made from, and the identity of that version's commit file. It is also valid at a newer version if no commit since has an event
that changes the list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from materializer.core.codec import as_json, from_json
from materializer.lake import places
from materializer.lake.log import commit_file, tail

if TYPE_CHECKING:
    from materializer.journal.view import View

_FILE: Final = "_materializer/listing.json"
_JOURNAL: Final = "_materializer/journal"
_FORMAT: Final = 1
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


@dataclass(frozen=True, slots=True)
class Listed:
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
    """Return the list, computed from the journal."""
    rows = [Listed(broken.name or broken.id, {}, "", "") for broken in view.broken.values()]
    for state in view.states.values():
        last = ""
        if state.ended:
            ended, did = state.ended[-1], state.ended[-1].report
            last = (
                f"refresh {ended.n} {ended.outcome} at {ended.at}: {did.strategy or 'nothing'}, {did.buckets} buckets, "
                f"{did.rows_read} rows read, {did.seconds:.1f} s, source version {did.source_version}"
            )
        rows.append(Listed(state.name, state.spec, state.source.path, last))
    return rows


def write(root: str | Path, view: View, commit: places.Identity) -> None:
    """Write the list for :func:`read`. A failure is ignored: readers then read the journal.

    Args:
        root: The lake's root.
        view: The journal.
        commit: Identity of the commit file of its version.
    """
    if view.broken:
        return
    rows = [as_json(row) for row in listed(view)]
    text = json.dumps({"format": _FORMAT, "version": view.version, "commit": commit, "rows": rows})
    file, content = f"{root}/{_FILE}", text.encode()
    with suppress(OSError):
        if places.is_local(file) and places.read(file) == content:  # on a store, to look costs what writing does
            return
    with suppress(OSError):
        places.put(file, content)


def read(root: str | Path) -> list[Listed] | None:
    """Return the list that was written, or None when the journal may have changed it since."""
    with suppress(OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        stored = json.loads(places.read(f"{root}/{_FILE}"))
        if stored["format"] != _FORMAT:
            return None
        journal, version = f"{root}/{_JOURNAL}", stored["version"]
        run = tail(journal, version)
        if not run or stored["commit"] != list(run[0]):
            return None
        if not all(_kinds(commit_file(journal, version + i)) <= _CHANGES_NO_LIST for i in range(1, len(run))):
            return None
        rows = [from_json(Listed, row) for row in stored["rows"]]
        if all(type(text) is str for row in rows for text in (row.name, row.source)):
            return rows
    return None


def _kinds(commit: str) -> set[str]:
    """Return the kinds of events in a commit, from its commit info.

    Raises:
        ValueError, KeyError: If the commit info does not list them.
    """
    lines = (json.loads(line) for line in places.read(commit).decode().splitlines())
    [info] = (line["commitInfo"] for line in lines if "commitInfo" in line)
    return set(json.loads(info["userMetadata"])["kinds"])
