"""Rows of a change feed, read once by a command: capture looks at their times, and merges then aggregate their values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from materializer.lake.arrow import plain
from materializer.lake.log import Commit
from materializer.lake.reads import table_at
from materializer.lake.types import columns_of

MOST_ROWS: Final = 50_000
"""Maximum number of changed rows of a run that are remembered for one reader; more readers remember what fits into their block."""
_VERSION: Final = "_commit_version"


def is_remembered(path: str, rows: int) -> bool:
    """Return whether up to so many changed rows would be remembered, so that columns for later uses are worth reading."""
    table = table_at(path)
    return table is not None and table.has_room(rows, 0) and (rows <= MOST_ROWS or table.is_shared)


def changed_rows(table: DeltaTable, path: str, run: Sequence[Commit], columns: Sequence[str], most: int) -> pa.Table:
    """Return the changed rows of a run of versions; a block reads those of each version once.

    Args:
        table: The source, opened at the last version of the run.
        path: Its path.
        run: Neighbouring commits.
        columns: Columns of the source, ``_change_type`` and ``_commit_version``.
        most: The most rows that the run may have.

    Raises:
        DeltaError: If the library cannot read the feed.
        OSError: If a file cannot be read.
        ArrowInvalid: If the rows do not fit the schema.
    """
    shared, changed = table_at(path), [c for c in run if c.is_data_change]
    if shared is None or not changed:
        return _feed(table, run, columns).select(list(columns))
    schema = table.schema().to_json()
    keys = {c.version: _key(str(table.metadata().id), schema, c) for c in changed}
    known = {v: rows for v, key in keys.items() if (rows := shared.rows(key, columns)) is not None}
    missing = [c for c in changed if c.version not in known]
    if missing:
        others = shared.columns if shared.is_shared and shared.has_room(most, 0) else []
        rows = _widely(table, missing, columns, [name for name, _ in columns_of(schema) if name in others])
        is_worth_it = shared.is_shared or rows.num_rows <= MOST_ROWS
        for commit in missing:
            part = rows if len(missing) == 1 else rows.filter(pc.equal(rows[_VERSION], commit.version))
            known[commit.version] = part
            if is_worth_it:
                shared.remember(keys[commit.version], part)
    return pa.concat_tables([known[c.version].select(list(columns)) for c in changed])


def with_images(rows: pa.Table, images: Sequence[str]) -> pa.Table:
    """Return the changed rows of some images."""
    return rows.filter(pc.is_in(rows["_change_type"], pa.array(images)))


def _widely(table: DeltaTable, run: Sequence[Commit], columns: Sequence[str], others: Sequence[str]) -> pa.Table:
    """Return the changed rows of a run, with the columns of other readers if these can be read."""
    with suppress(DeltaError, pa.ArrowException):  # caused by a column of another reader, or raised again below
        return _feed(table, run, [*columns, *others])
    return _feed(table, run, columns)


def _feed(table: DeltaTable, run: Sequence[Commit], columns: Sequence[str]) -> pa.Table:
    wanted = list(dict.fromkeys([*columns, "_change_type", _VERSION]))
    feed = table.load_cdf(starting_version=run[0].version, ending_version=run[-1].version, columns=wanted)
    return plain(pa.RecordBatchReader.from_stream(feed).read_all())  # pa.table() would import pandas


def _key(table_id: str, schema: str, commit: Commit) -> Hashable:
    """Return a name for the changed rows of a commit, as they are read by a schema."""
    files = [f.path for f in (*commit.adds, *commit.removes)] + [f.path for f in commit.change_files]
    return table_id, schema, commit.version, commit.timestamp, *files
