"""How many rows the outputs of a lake on a path have, as one JSON file beside the journal.

``status`` of very many aggregates reads this file and opens no output. The file may be deleted at any time. What it says of an
output is believed as long as the newest commit file of the output is the same file. A lake on a store has
:mod:`~materializer.journal.start` for that, and a lake of few aggregates needs neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from materializer.errors import MaterializerError
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.log import tail
from materializer.lake.table import DeltaFolder

MANY: Final = 100
"""A lake of fewer aggregates has no such file: to open so many outputs takes 0.2 s."""
_FILE: Final = "_materializer/output_rows.json"
_FORMAT: Final = 1
"""A higher number when the content of the file changes its meaning."""


@dataclass(frozen=True, slots=True)
class OutputRows:
    """How many rows an output had.

    Args:
        version: Its version.
        commit: Identity of the commit file of that version.
        rows: Number of its rows.
    """

    version: int
    commit: places.Identity
    rows: int

    def holds(self, path: str) -> bool:
        """Return whether that is still the newest version of the table at a path."""
        return tail(path, self.version) == [self.commit]


def read(root: str) -> dict[str, OutputRows]:
    """Return what was noted, by the id of the aggregate; nothing without a file that can be read."""
    if not places.is_local(root):
        return {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        data = json.loads(places.read(f"{root}/{_FILE}"))
        if data["format"] == _FORMAT:
            return {str(key): OutputRows(int(v), tuple(c), int(n)) for key, (v, c, n) in data["outputs"].items()}
    return {}


def note(root: str, view: View, changed: Iterable[str]) -> None:
    """Note the outputs of some aggregates, and forget those of aggregates that are gone. A failure is ignored."""
    if not places.is_local(root) or len(view.all.ids()) < MANY:
        return
    known = {key: value for key, value in read(root).items() if key in view.all.ids()}
    for key in changed:
        known.pop(key, None)
        state = view.states.get(key)
        if state is not None and (rows := _rows_of(f"{root}/{state.name}/output")) is not None:
            known[key] = rows
    outputs = {key: (value.version, value.commit, value.rows) for key, value in known.items()}
    with suppress(OSError):
        places.put(f"{root}/{_FILE}", json.dumps({"format": _FORMAT, "outputs": outputs}).encode())


def _rows_of(path: str) -> OutputRows | None:
    with suppress(MaterializerError):
        folder = DeltaFolder.at(path)
        rows, version = folder.rows(), folder.head().version
        commit = folder.file_of(version)
        if rows is not None and commit is not None:
            return OutputRows(version, commit, rows)
    return None
