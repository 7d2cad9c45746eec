"""The quarantine of an engine that refuses late rows: for people; no refresh ever reads it.

It is filled after a refresh, from the change feed, up to the version that was captured. The version is the number of its
commit, so that a refresh that died in between is made up for by the next one, and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from materializer.errors import WriteFencedError
from materializer.journal.fold import AggregateState
from materializer.lake.commit import append_rows, create_table
from materializer.lake.table import DeltaFolder
from materializer.services.definitions import Bound

if TYPE_CHECKING:
    from materializer.spark.engine import Engine


def follow(state: AggregateState, bound: Bound, engine: Callable[[], Engine]) -> int:
    """Bring the quarantine up to the version that was captured; return how many rows it got."""
    path, app_id = bound.paths["quarantine"], bound.app_ids["quarantine"]
    known = (DeltaFolder.at(path).transaction_version(app_id) or 0) - 1 if Path(path).exists() else -1
    if state.cursor <= known:
        return 0
    rows = engine().late_rows(bound.definition, bound.source, known, state.cursor, state.engine)
    if not Path(path).exists():
        create_table(path, rows.schema, name=f"{bound.name}_quarantine", description="rows that came too late")
    note = {"plan": "", "n": state.last_n, "kind": "quarantine", "source_version": state.cursor}
    try:
        append_rows(path, rows, app_id, state.cursor + 1, note)
    except WriteFencedError:
        return 0  # another process was first
    return int(rows.num_rows)
