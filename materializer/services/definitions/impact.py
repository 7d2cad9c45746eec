"""What a changed definition means for the data: computed from what is stored, or from the source; and what that costs."""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.parts import normalised
from materializer.core.compiled.definition import SLICE
from materializer.core.compiled.fingerprint import data_fingerprint
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.spec.widening import is_same_type
from materializer.core.time.grid import build as grid_of
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.lake.capture import source_marks
from materializer.lake.extent import files
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import partials_path
from materializer.services.definitions import calendars
from materializer.services.definitions.batch import Awaited
from materializer.services.definitions.coverage import required_start
from materializer.services.definitions.replaced import goes_on


def is_same(
    spec: AggregateSpec, existing: AggregateState, source: SourceIdentity, folder: DeltaFolder | Awaited
) -> bool:
    """Whether *spec* would give what the aggregate gives: same definition, same table, same types, not rolled back.

    Nor are two of its partials one, as earlier releases made them.
    """
    old = AggregateSpec.from_json(existing.spec)
    spec = calendars.as_stored(spec, old, existing.threshold) if spec.is_engine else spec
    types = {name.lower(): kind for name, kind in folder.schema()}
    return (
        is_same_table(source, existing)
        and data_fingerprint(replace(spec, source=old.source)) == data_fingerprint(old)
        and all(is_same_type(types.get(name.lower()), kind) for name, kind in old.read_types)
        and folder.head().version >= existing.cursor
        and (old.is_engine or decompose(old) == decompose(old, {str(name) for name, _ in existing.schemas["partials"]}))
    )


def is_same_table(source: SourceIdentity, existing: AggregateState) -> bool:
    """Whether a name stands for the table that an aggregate reads, which may have another name, place or content since.

    A table that was replaced by a later commit is the same, and so is one that was moved or copied to another folder: there the
    commit at the cursor is the one that was captured.
    """
    before = existing.source
    if not source.table_id:  # the same command makes it
        return False
    if source.path == before.path:
        return source.table_id == before.table_id or goes_on(existing)
    known = existing.mark.commits.get(str(existing.cursor)) or source_marks.digest(before.path, existing.cursor)
    return (
        source.table_id == before.table_id
        and bool(known)
        and known == source_marks.digest(source.path, existing.cursor)
    )


def is_of_partials(
    old: AggregateState, spec: AggregateSpec, source: SourceIdentity, schemas: dict[str, Any], version: int
) -> bool:
    """Return whether all that *spec* shows can be finalised from the partials of *old*, without a row of the source.

    Args:
        old: The aggregate, as it is published.
        spec: The new definition, resolved.
        source: The table it reads.
        schemas: Column names and Spark types of its tables.
        version: Newest version of the source.
    """
    was = AggregateSpec.from_json(old.spec)
    if spec.is_engine or was.is_engine or source != old.source or version < old.cursor or old.threshold == NEG_INF:
        return False
    if _rows_of(was) != _rows_of(spec):
        return False
    stored = {tuple(column) for column in old.schemas["partials"]}
    return {tuple(c) for c in schemas["partials"]} <= stored and set(decompose(spec).partials) <= set(
        decompose(was).partials
    )


def _rows_of(spec: AggregateSpec) -> tuple[object, ...]:
    """Return what decides which rows come into which group."""
    keys = {key.name: normalised(key.sql) for key in spec.keys}
    where = normalised(spec.where) if spec.where else None
    time = (spec.time_column.lower(), spec.time_type, spec.resolution)
    return time, spec.grid, keys, where, spec.lateness


def rows_to_copy(old: AggregateState, root: str) -> tuple[int, int, int]:
    """Return what making another version from the partials of *old* copies: rows, bytes, files, as their log has them.

    Raises:
        MaterializerError: If they cannot be read.
    """
    path = partials_path(root, old.name, old.data_version)
    kind = AggregateSpec.from_json(old.spec).time_type or TimeType.TIMESTAMP
    found = files(path, DeltaFolder.at(path).head().version, SLICE, kind).estimate(SpanSet.of(EVERYTHING))
    return found.rows, found.bytes, found.files


def rows_to_read(
    old: AggregateState | None, spec: AggregateSpec, source: SourceIdentity, version: int, run_rows: int
) -> tuple[int, int, int, int]:
    """Return what building *spec* reads, about: source rows, bytes, files, and the runs that this takes.

    Args:
        old: What is published: nothing before its first clean bucket is built. None builds everything.
        spec: The new definition, resolved.
        source: The table it reads.
        version: Version of the source.
        run_rows: Rows that one run reads.
    """
    if spec.time_type is None:
        msg = f"the definition of {spec.name} was not resolved"
        raise ValueError(msg)
    grid = grid_of(spec.grid, spec.time_type, spec.resolution)
    start = NEG_INF if old is None else required_start(old, spec.time_type, spec.resolution, grid)
    found = files(source.path, version, spec.time_column, spec.time_type).estimate(SpanSet.of(Span(start, POS_INF)))
    return found.likely_rows, found.bytes, found.files, math.ceil(found.likely_rows / run_rows)
