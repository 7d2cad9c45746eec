"""The rows of Arrow tables whose time is in some spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import SpanSet
from materializer.lake.arrow import mask
from materializer.lake.extent import instants_of
from materializer.lake.predicates import SpanIndex

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)
GATHERED: Final = 50_000
"""Rows that are looked at together, which have batches of their own."""


class ReadLimitError(Exception):
    """A read returns more rows or bytes than it may."""


class ReadLimit(NamedTuple):
    """The most rows that a read returns, and the most bytes that they have in memory."""

    rows: int
    bytes: int


def scan_spans(
    dataset: ds.FileSystemDataset,
    columns: Sequence[str],
    spans: SpanSet | None,
    time: str,
    time_type: TimeType,
    most: ReadLimit | None,
) -> pa.Table:
    """Return the rows in *spans*, of which most files of a refresh have few; some batches are in memory beside them.

    Without *spans* all rows are returned, also those without a time.

    Raises:
        ReadLimitError: If they are more than *most*.
    """
    wanted = list(dict.fromkeys([*columns, time]))
    scanner = dataset.scanner(columns=wanted, batch_readahead=1, fragment_readahead=1)
    index, shape = None if spans is None else SpanIndex.of(spans), scanner.projected_schema
    parts: list[pa.Table] = []
    rows, size = 0, 0
    for batches in _gathered(scanner.to_batches()):
        part = pa.Table.from_batches(batches, shape)
        parts.append(part if index is None else rows_of_spans(part, index, time, time_type))
        rows, size = rows + parts[-1].num_rows, size + parts[-1].nbytes
        if most is not None and (rows > most.rows or size > most.bytes):
            raise ReadLimitError
    return (pa.concat_tables(parts) if parts else shape.empty_table()).select(list(columns))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches in lists of about ``GATHERED`` rows: thousands of small files have a batch each."""
    rows, found = 0, list[pa.RecordBatch]()
    for batch in batches:
        rows += batch.num_rows
        found.append(batch)
        if rows >= GATHERED:
            yield found
            rows, found = 0, []
    if found:
        yield found


def rows_of_spans(rows: _Rows, spans: SpanSet | SpanIndex, time: str, time_type: TimeType) -> _Rows:
    """Return the rows whose time is in *spans*; a row without a time is in none."""
    times = rows.column(time)
    index = spans if isinstance(spans, SpanIndex) else SpanIndex.of(spans)
    instants = instants_of(times, time_type)
    if times.null_count == 0 and len(rows):
        ends = pc.min_max(instants).as_py()
        if index.holds(ends["min"], ends["max"]):
            return rows
    is_inside = index.inside(instants.fill_null(0))
    return rows.filter(pc.and_(mask(is_inside), times.is_valid()))
