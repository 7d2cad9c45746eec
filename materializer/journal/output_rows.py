"""How many rows the outputs of a lake on a path have, and which commits its refreshes left, in one file beside the journal.

``status`` of very many aggregates reads this file and no table. The file may be deleted at any time. What it says of a
table is believed as long as the newest commit file of the table is the same file. A lake on a store has
:mod:`~materializer.journal.start` for that, and a lake of few aggregates needs neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, encode

from materializer.errors import MaterializerError
from materializer.journal import appended
from materializer.journal.appended import UNUSABLE, changing
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.log import tail
from materializer.lake.table import DeltaFolder

MANY: Final = 100
"""A lake of fewer aggregates has no such file: to open so many outputs takes 0.2 s."""
_FILE: Final = "_materializer/output_rows.json"
_FORMAT: Final = 3
"""A higher number when the content of the file changes its meaning."""
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class OutputRows(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a refresh left.

    Args:
        rows: Number of rows of the output.
        written_n: The number that both tables carry.
        output: Version of the output, and the identity of its commit file.
        partials: The same of the partials.
    """

    rows: _Number
    written_n: _Number
    output: tuple[_Number, places.Identity]
    partials: tuple[_Number, places.Identity]

    def holds(self, path: str) -> bool:
        """Return whether the output at a path is still at that version, of that file."""
        return _is_at(path, *self.output)

    def is_left(self, state: AggregateState, root: str) -> bool:
        """Return whether the partials of *state* are still at that version, too, and carry the number that *state* says."""
        return self.written_n == state.written_n and _is_at(_partials(state, root), *self.partials)


_VALUE: Final = Decoder(OutputRows)


def read(root: str) -> dict[str, OutputRows]:
    """Return what was noted, by the id of the aggregate; nothing of a file or a value that cannot be read."""
    found = {}
    with suppress(*UNUSABLE):
        header, values = appended.read(f"{root}/{_FILE}") if places.is_local(root) else ({}, {})
        for key, value in values.items() if header.get("format") == _FORMAT else ():
            with suppress(MsgspecError, ValueError, RecursionError):
                found[key] = _VALUE.decode(value)
    return found


def note(root: str, view: View, changed: Iterable[str]) -> None:
    """Note the outputs of some aggregates, and that others of them are gone. A failure is ignored."""
    living = view.all.ids()
    if not places.is_local(root) or len(living) < MANY:
        return
    values: dict[str, str | None] = {}
    for key in changed:
        state = view.states.get(key)
        rows = None if state is None else _rows_of(state, root)
        values[key] = None if rows is None else encode(rows).decode()
    with suppress(OSError), changing(f"{root}/{_FILE}") as file:
        if file is not None:
            is_ours = file.header is not None and file.header.get("format") == _FORMAT
            file.put({"format": _FORMAT}, values, living.__contains__ if is_ours else None)


def _rows_of(state: AggregateState, root: str) -> OutputRows | None:
    with suppress(MaterializerError):
        folder = DeltaFolder.at(f"{root}/{state.name}/output")
        rows, output, partials = folder.rows(), _commit_of(folder), _commit_of(DeltaFolder.at(_partials(state, root)))
        if rows is not None and output is not None and partials is not None:
            return OutputRows(rows, state.written_n, output, partials)
    return None


def _partials(state: AggregateState, root: str) -> str:
    return f"{root}/{state.name}/partials/{state.data_version}"


def _commit_of(folder: DeltaFolder) -> tuple[int, places.Identity] | None:
    version = folder.head().version
    commit = folder.file_of(version)
    return None if commit is None else (version, commit)


def _is_at(path: str, version: int, commit: places.Identity) -> bool:
    return tail(path, version) == [commit]
