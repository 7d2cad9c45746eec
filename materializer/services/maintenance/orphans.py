"""Folders of versions that the journal does not know: what a death left of a version that was begun, published or given up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake.table import DeltaFolder
from materializer.lake.write.vacuum import Leftover
from materializer.services.aggregate import made_for

KINDS: Final = {"partials": "partials", "build": "output"}
"""Folders that hold one of each version, and the table that each is of."""


def strays(root: Path, view: View, state: AggregateState) -> Iterator[tuple[str, Path]]:
    """Yield (table, folder) of all that no version needs; somebody who holds the lease may remove them."""
    build = view.build_of(state)
    building = set() if build is None else {build.data_version}
    known = {
        "partials": {state.data_version, *(v["data_version"] for v in state.previous)} | building,
        "build": building,
    }
    for kind, table in KINDS.items():
        folder = root / state.name / kind
        for found in sorted(folder.iterdir()) if folder.is_dir() else ():
            if found.name not in known[kind]:
                yield table, found


def ours(root: Path, view: View, state: AggregateState, table: str) -> list[Leftover]:
    """Return those of *table* that were made for it beyond doubt, as paths with their bytes."""
    found = []
    for which, folder in strays(root, view, state):
        with suppress(MaterializerError):
            if which == table and made_for(DeltaFolder.at(str(folder)), table):
                sizes = (os.path.getsize(f"{at}/{n}") for at, _, names in os.walk(folder) for n in names)  # noqa: PTH202
                found.append(Leftover(str(folder), sum(sizes)))
    return found
