"""How many rows the outputs of a lake on a path have, and which commits its refreshes left, as one JSON file beside the journal.

``status`` of very many aggregates reads this file and no table. The file may be deleted at any time. What it says of a
table is believed as long as the newest commit file of the table is the same file. A lake on a store has
:mod:`~materializer.journal.start` for that, and a lake of few aggregates needs neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, MsgspecError, Raw, Struct
from msgspec.json import Decoder, encode

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


class _Noted(Struct, frozen=True):
    """The content of the file; a refresh decodes no value but those that it replaces."""

    format: int
    outputs: dict[str, Raw]


_CONTENT: Final = Decoder(_Noted)
_VALUE: Final = Decoder(OutputRows)


def read(root: str) -> dict[str, OutputRows]:
    """Return what was noted, by the id of the aggregate; nothing of a file or a value that cannot be read."""
    found = {}
    for key, value in _values(root).items():
        with suppress(MsgspecError, ValueError, RecursionError):
            found[key] = _VALUE.decode(value)
    return found


def note(root: str, view: View, changed: Iterable[str]) -> None:
    """Note the outputs of some aggregates, and forget those of aggregates that are gone. A failure is ignored."""
    living = view.all.ids()
    if not places.is_local(root) or len(living) < MANY:
        return
    known = {key: value for key, value in _values(root).items() if key in living}
    for key in changed:
        known.pop(key, None)
        state = view.states.get(key)
        if state is not None and (rows := _rows_of(state, root)) is not None:
            known[key] = Raw(encode(rows))
    with suppress(OSError):
        places.put(f"{root}/{_FILE}", encode(_Noted(_FORMAT, known)))


def _values(root: str) -> dict[str, Raw]:
    """Return the values of the file, which were not read yet."""
    with suppress(OSError, MsgspecError, ValueError, RecursionError):
        noted = _CONTENT.decode(content_beside(f"{root}/{_FILE}")) if places.is_local(root) else None
        if noted is not None and noted.format == _FORMAT:
            return noted.outputs
    return {}


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
