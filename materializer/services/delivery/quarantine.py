"""The quarantine: a table of the late rows that an engine refused. People read it; no refresh does.

After a refresh it gets the late rows up to the captured source version, from the change feed. Its commit carries that version
as its number. So the next refresh adds what a refresh that died did not, and no row is added twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from materializer.core.compiled.definition import Definition
from materializer.core.engines.clock import ClosingClock
from materializer.errors import WriteFencedError
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.rows import row_count
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import append_rows, create_table
from materializer.lake.write.replace import append_files
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal
from materializer.services.aggregate import Aggregate

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.spark.run.spark import Spark


def follow(state: AggregateState, aggregate: Aggregate, spark: Callable[[], Spark], local: LocalExecutor | None) -> int:
    """Bring the quarantine up to the captured source version, and return how many rows it got.

    Args:
        state: The aggregate.
        aggregate: It, with its tables.
        spark: Starts Spark on first use.
        local: What finds the rows in this process; None if Spark does.
    """
    path, app_id = aggregate.paths["quarantine"], aggregate.app_ids["quarantine"]
    known = (DeltaFolder.at(path).transaction_version(app_id) or 0) - 1 if places.exists(path) else -1
    if state.cursor <= known:
        return 0
    of_rows = aggregate.definition, aggregate.source, known, state.cursor, ClosingClock.of(state.engine)
    found = None if local is None or aggregate.source.name else _found_here(local, *of_rows)
    if found is None:
        schema, rows, is_fetched = spark().windows.late_rows(*of_rows)
        columns = [(f.name, f.dataType.simpleString()) for f in schema]
    else:
        columns, rows, is_fetched = *found, True
    if not places.exists(path):
        create_table(path, columns, name=f"{aggregate.name}_quarantine", description="rows that came too late")
    note = {"plan": "", "n": state.last_n, "kind": "quarantine", "source_version": state.cursor}
    with suppress(WriteFencedError):  # another process was first
        if is_fetched:
            fetched = cast("pa.Table", rows)
            append_rows(path, fetched, app_id, state.cursor + 1, note)
            return len(fetched)
        before = row_count(path) or 0
        append_files(path, lambda folder: spark().append(rows, folder), app_id, state.cursor + 1, note)
        return (row_count(path) or 0) - before
    return 0


def _found_here(
    local: LocalExecutor, definition: Definition, source: SourceIdentity, after: int, upto: int, at: ClosingClock
) -> tuple[list[tuple[str, str]], pa.Table] | None:
    """Return the columns and the late rows; None if Spark has to find them."""
    with suppress(NotLocal):
        columns, rows = local.late_rows(definition, source, after, upto, at)
        return [*columns, ("_reason", "string"), ("_version", "bigint")], rows
    return None
