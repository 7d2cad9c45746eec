"""Folders of versions that the journal does not know, left by a process that died while it changed a version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.lake.write.vacuum import Leftover
from materializer.services.aggregate import made_for

KINDS: Final = {"partials": "partials", "build": "output"}
"""The kinds of folders that each version has one of, and the table in each."""


def orphans(root: str, view: View, state: AggregateState) -> Iterator[tuple[str, str]]:
    """Yield (table, folder) of the folders that no version needs; they may be removed under the lease."""
    build = view.build_of(state)
    building = set() if build is None else {build.data_version}
    known = {
        "partials": {state.data_version, *(v["data_version"] for v in state.previous)} | building,
        "build": building,
    }
    for kind, table in KINDS.items():
        folder = f"{root}/{state.name}/{kind}"
        for name in sorted(places.names(folder)):
            if name not in known[kind]:
                yield table, f"{folder}/{name}"


def ours(root: str, view: View, state: AggregateState, table: str) -> list[Leftover]:
    """Return the orphans of *table* that were certainly made for it, as paths with their bytes."""
    own = []
    for which, folder in orphans(root, view, state):
        with suppress(MaterializerError):
            if which == table and made_for(DeltaFolder.at(folder), table):
                own.append(Leftover(folder, sum(file.bytes for file in places.files(folder))))
    return own
