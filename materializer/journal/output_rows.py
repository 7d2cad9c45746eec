"""How many rows the outputs of a lake on a path have, and which commits its refreshes left, as one JSON file beside the journal.

``status`` of very many aggregates reads this file and no table. The file may be deleted at any time. What it says of a
table is believed as long as the newest commit file of the table is the same file. A lake on a store has
:mod:`~materializer.journal.start` for that, and a lake of few aggregates needs neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.hostile import content_beside
from materializer.lake.log import tail
from materializer.lake.table import DeltaFolder

MANY: Final = 100
"""A lake of fewer aggregates has no such file: to open so many outputs takes 0.2 s."""
_FILE: Final = "_materializer/output_rows.json"
_FORMAT: Final = 2
"""A higher number when the content of the file changes its meaning."""


class OutputRows(Struct, frozen=True):
    """What a refresh left.

    Args:
        rows: Number of rows of the output.
        written_n: The number that both tables carry.
        output: Version of the output, and the identity of its commit file.
        partials: The same of the partials.
    """

    rows: int
    written_n: int
    output: tuple[int, places.Identity]
    partials: tuple[int, places.Identity]

    def holds(self, path: str) -> bool:
        """Return whether the output at a path is still at that version, of that file."""
        return _is_at(path, *self.output)

    def is_left(self, state: AggregateState, root: str) -> bool:
        """Return whether the partials of *state* are still at that version, too, and carry the number that *state* says."""
        return self.written_n == state.written_n and _is_at(_partials(state, root), *self.partials)


def read(root: str) -> dict[str, OutputRows]:
    """Return what was noted, by the id of the aggregate; nothing without a file that can be read."""
    if not places.is_local(root):
        return {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        data = json.loads(content_beside(f"{root}/{_FILE}"))
        if data["format"] == _FORMAT:
            return {str(key): _read(*each) for key, each in data["outputs"].items()}
    return {}


def note(root: str, view: View, changed: Iterable[str]) -> None:
    """Note the outputs of some aggregates, and forget those of aggregates that are gone. A failure is ignored."""
    if not places.is_local(root) or len(view.all.ids()) < MANY:
        return
    known = {key: value for key, value in read(root).items() if key in view.all.ids()}
    for key in changed:
        known.pop(key, None)
        state = view.states.get(key)
        if state is not None and (rows := _rows_of(state, root)) is not None:
            known[key] = rows
    outputs = {key: (value.rows, value.written_n, value.output, value.partials) for key, value in known.items()}
    with suppress(OSError):
        places.put(f"{root}/{_FILE}", json.dumps({"format": _FORMAT, "outputs": outputs}).encode())


def _rows_of(state: AggregateState, root: str) -> OutputRows | None:
    with suppress(MaterializerError):
        folder = DeltaFolder.at(f"{root}/{state.name}/output")
        rows, output, partials = folder.rows(), _commit_of(folder), _commit_of(DeltaFolder.at(_partials(state, root)))
        if rows is not None and output is not None and partials is not None:
            return OutputRows(rows, state.written_n, output, partials)
    return None


def _read(rows: int, written_n: int, output: tuple[int, Any], partials: tuple[int, Any]) -> OutputRows:
    commits = [(version, tuple(commit)) for version, commit in (output, partials)]
    if not all(type(each) is int and 0 <= each < 1 << 63 for each in (rows, written_n, *(v for v, _ in commits))):
        raise ValueError("it does not say how many")
    return OutputRows(rows, written_n, *commits)


def _partials(state: AggregateState, root: str) -> str:
    return f"{root}/{state.name}/partials/{state.data_version}"


def _commit_of(folder: DeltaFolder) -> tuple[int, places.Identity] | None:
    version = folder.head().version
    commit = folder.file_of(version)
    return None if commit is None else (version, commit)


def _is_at(path: str, version: int, commit: places.Identity) -> bool:
    return tail(path, version) == [commit]
