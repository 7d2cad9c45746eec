"""What a Delta table holds, from its log and a sample of its rows: enough to propose how it could be aggregated."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from msgspec.structs import replace

from materializer.core.language.suggest import ColumnFacts, SourceFacts, times
from materializer.core.refresh.lateness import HISTORY, Lateness
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import MaterializerError
from materializer.lake.capture.lateness import histogram
from materializer.lake.extent import files, instants_of
from materializer.lake.failures import translated
from materializer.lake.log import commits
from materializer.lake.rows import row_count
from materializer.lake.table import DeltaFolder

SAMPLED: Final = 50_000
"""Rows of a sample."""
RECENT: Final = 30
"""Commits of which the lateness is looked at."""
_TAIL: Final = 0.005


def profile(path: str) -> SourceFacts:
    """Return what the newest version of a table holds; its rows are sampled, never read whole.

    Raises:
        TableNotFoundError, NotADeltaTableError, SourceDamagedError, StorageError: As of every read of a table.
    """
    folder = DeltaFolder.at(path)
    head, schema = folder.head(), folder.schema()
    rows = row_count(path)
    sample = _sample(folder.opened(), [name for name, _ in schema])
    size = 0 if sample is None else sample.num_rows
    rows = (
        size if sample is not None and size < SAMPLED else rows
    )  # the log also counts rows that are marked as deleted
    columns = tuple(_facts(name, kind, None if sample is None else sample[name]) for name, kind in schema)
    facts = SourceFacts(columns, rows, size)
    if sample is not None and (rows is None or rows > size):
        columns = tuple(_widened(c, facts, path, head.version) for c in columns)
        facts = replace(facts, columns=columns)
    late = {c.column.name: _lateness(path, head.version, c.column) for c in times(facts) if not c.type.is_integer}
    return replace(facts, lateness={name: found for name, found in late.items() if found is not None})


def _sample(table: DeltaTable, names: list[str]) -> pa.Table | None:
    """Return some rows; None if the table has features that cannot be read here."""
    listed = ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
    try:
        with translated(str(table.table_uri), "reading"):
            found = QueryBuilder().register("sampled", table).execute(f"SELECT {listed} FROM sampled LIMIT {SAMPLED}")
            return pa.table(pa.RecordBatchReader.from_stream(found).read_all()).rename_columns(names)
    except (MaterializerError, pa.ArrowInvalid, TypeError):
        return None


def _facts(name: str, kind: str, values: Any) -> ColumnFacts:
    if values is None:
        return ColumnFacts(name, kind)
    nulls = values.null_count
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):  # kernels do not take views
        values = values.cast(pa.large_string() if pa.types.is_string_view(values.type) else pa.large_binary())
    try:
        distinct = pc.count_distinct(values, mode="only_valid").as_py()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return ColumnFacts(name, kind, None, nulls)
    numbers, is_finite = _numbers(values), True
    if numbers is None or len(numbers) == nulls:
        return ColumnFacts(name, kind, distinct, nulls)
    if pa.types.is_floating(numbers.type):
        finite = pc.is_finite(numbers)
        is_finite = bool(pc.all(finite, skip_nulls=True).as_py())
        numbers = numbers.filter(finite)
        if not len(numbers):
            return ColumnFacts(name, kind, distinct, nulls, is_finite=False)
    bounds = pc.min_max(numbers).as_py()
    ordered = numbers.drop_null().sort()
    low, high = (ordered[round(share * (len(ordered) - 1))].as_py() for share in (_TAIL, 1 - _TAIL))
    return ColumnFacts(name, kind, distinct, nulls, bounds["min"], bounds["max"], low, high, is_finite)


def _numbers(values: Any) -> Any:
    """Return numbers as they are, and times as microseconds; None for other types."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    if pa.types.is_date(kind):
        return instants_of(values, TimeType.DATE)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return values
    return None


def _widened(column: ColumnFacts, facts: SourceFacts, path: str, version: int) -> ColumnFacts:
    """Return the facts of a time column with the length that all files cover together, in place of that of the sample."""
    choice = next((c for c in times(facts) if c.column.name == column.name), None)
    if choice is None or column.low is None:
        return column
    extent = files(path, version, column.name, choice.type)
    spans = SpanSet.union(Span(f.start, f.end) for f in extent.files)
    covered = sum(s.end - s.start for s in spans)
    if not covered or extent.unknown.files:
        return column
    return replace(column, high=max(column.high, column.low + covered))


def _lateness(path: str, version: int, column: ColumnFacts) -> Lateness | None:
    """Return how late the rows of the newest commits came, by the times of their files; None if these load history."""
    kind = TimeType(column.type)
    try:
        run = commits(path, max(version - RECENT, -1), version, column=column.name, time_type=kind)
    except MaterializerError:  # cleaned out of the log
        return None
    found = Lateness()
    for commit in run:
        for file in commit.adds:
            if not file.data_change or file.span is None or not commit.timestamp or not file.rows:
                continue
            late = [commit.timestamp * 1_000 - edge for edge in (file.span.start, file.span.end - 1)]
            if late[1] > HISTORY * 1_000_000:
                continue
            found += histogram(np.array(late, dtype=np.float64), np.array([file.rows / 2] * 2))
    return found if found.total else None
