"""The quarantine of an engine that refuses late rows: for people; no refresh ever reads it.

It is filled after a refresh, from the change feed, up to the version that was captured. The version is the number of its
commit, so that a refresh that died in between is made up for by the next one, and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from materializer.core.engines.clock import ClosingClock
from materializer.errors import WriteFencedError
from materializer.journal.state import AggregateState
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import append_rows, create_table
from materializer.services.aggregate import Aggregate

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark


def follow(state: AggregateState, aggregate: Aggregate, engine: Callable[[], Spark]) -> None:
    """Bring the quarantine up to the version that was captured."""
    path, app_id = aggregate.paths["quarantine"], aggregate.app_ids["quarantine"]
    known = (DeltaFolder.at(path).transaction_version(app_id) or 0) - 1 if Path(path).exists() else -1
    if state.cursor <= known:
        return
    at = ClosingClock.of(state.engine)
    schema, rows = engine().windows.late_rows(aggregate.definition, aggregate.source, known, state.cursor, at)
    if not Path(path).exists():
        columns = [(f.name, f.dataType.simpleString()) for f in schema]
        create_table(path, columns, name=f"{aggregate.name}_quarantine", description="rows that came too late")
    note = {"plan": "", "n": state.last_n, "kind": "quarantine", "source_version": state.cursor}
    if not isinstance(rows, pa.Table):
        engine().windows.append(rows, path, app_id=app_id, n=state.cursor + 1, note=note)
        return
    with suppress(WriteFencedError):  # another process was first
        append_rows(path, rows, app_id, state.cursor + 1, note)
