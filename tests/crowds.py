"""Lakes of very many aggregates, made without computing each of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec.structs import replace

from materializer.core.codec import as_json
from materializer.journal.codec import encode
from materializer.journal.events import Snapshot
from materializer.journal.journal import Journal
from materializer.journal.store import JournalStore


def copy_aggregate(root: Path, name: str, count: int) -> list[str]:
    """Add copies of an aggregate with tables, ``NAME_00001`` and so on, and return their names; none of them may be refreshed."""
    made, store = Journal(root).view().named(name), JournalStore(root)
    names = [f"{name}_{number:05d}" for number in range(1, count + 1)]
    rows = []
    for number, copy in enumerate(names, 1):
        shutil.copytree(root / name, root / copy, copy_function=os.link)
        state = replace(made, id=f"{number:032x}", name=copy, spec={**made.spec, "name": copy})
        for commit in (root / copy / "output" / "_delta_log").glob("*.json"):
            if made.id in (text := commit.read_text()):
                commit.unlink()  # else it would be written into the one that it is a link to
                commit.write_text(text.replace(made.id, state.id))
        rows.append(encode(state.id, Snapshot(as_json(state)), at=""))
    store.append(rows, expected_version=store.read().version)
    return names
