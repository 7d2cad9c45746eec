"""Where our tables hold rows, told by their files; no JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from msgspec.structs import replace

from materializer.core.aggregates.layout import Layout
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.language.define import define
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from materializer.core.time.instants import DAY
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.rows import newest_rows
from materializer.services.aggregate import Aggregate
from materializer.services.observe import stored_extent

LAYOUT = Layout((), (), None, (), None, (), (), ())
TYPES = {
    TimeType.BIGINT: (10, pa.int64()),
    TimeType.DATE: (DAY, pa.date32()),
    TimeType.TIMESTAMP: (1_500, pa.timestamp("us", "UTC")),
}
"""The width of a bucket, and the type of columns that hold its edges; statistics of timestamps are cut to milliseconds."""


def lake(root: Path, time_type: TimeType, buckets: list[list[int]], *, ends: bool) -> Aggregate:
    """Return an aggregate with an output and partials of some buckets, a file for each list of their places."""
    width, kind = TYPES[time_type]
    step = 1 if time_type is TimeType.DATE else width
    text = {TimeType.BIGINT: "10", TimeType.DATE: "1 day", TimeType.TIMESTAMP: "1500 microseconds"}[time_type]
    spec = define("v", "t", time="ts", width=text, align="window", measures={"n": "count(*)"})
    column = "until" if ends else "bucket"
    spec = replace(
        spec, time_type=time_type, bucket_start=None if ends else column, bucket_end=column if ends else None
    )
    for places in buckets:
        for which, name, later in (("partials", SLICE, 0), ("output", column, ends)):
            edges = pa.array([(at + later) * step for at in places], pa.int32() if step == 1 else kind).cast(kind)
            write_deltalake(str(root / which), pa.table({name: edges}), mode="append")
    definition = Definition(spec, LAYOUT, build(spec.grid, time_type, spec.resolution), (), ())
    paths = {which: str(root / which) for which in ("partials", "output")}
    return Aggregate("v", "a", definition, SourceIdentity("/t", "t"), paths, {})


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("time_type", TYPES)
def test_a_table_of_ends_holds_the_buckets_before_them(tmp_path: Path, time_type: TimeType, ends: bool) -> None:
    """
    Whichever edge is kept, rows lie in the same buckets, and the newest of them ends where it ends.
    """
    bound, (width, _) = lake(tmp_path, time_type, [[0, 1], [4]], ends=ends), TYPES[time_type]

    published = bound.definition.grid.cover_set(stored_extent.published(bound, 1))
    assert SpanSet.union([Span(0, 2 * width), Span(4 * width, 5 * width)]) == published
    assert 5 * width == stored_extent.end_of(bound)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("time_type", TYPES)
def test_buckets_of_a_window_are_shown(tmp_path: Path, time_type: TimeType, ends: bool) -> None:
    """
    Whole buckets, also where a file begins with the last of them or ends with the first.
    """
    bound, (width, _) = lake(tmp_path, time_type, [[0], [1, 2], [3], [4, 5]], ends=ends), TYPES[time_type]

    def shown(start: int | None, end: int | None) -> list[int]:
        edges: dict[str, Any] = {"start": start, "end": end}
        rows = newest_rows(bound.paths["output"], bound.slice_column("output"), limit=9, **edges)[1]
        found = pa.array([row[0] for row in rows], TYPES[time_type][1])
        return [at // (1 if time_type is TimeType.DATE else width) - ends for at in ints(found)]

    for first in range(7):
        for last in range(first, 7):
            assert list(range(first, min(last, 6)))[::-1] == shown(first * width, last * width)
    assert [5, 4, 3, 2, 1, 0] == shown(None, None)


def ints(values: pa.Array) -> list[int]:
    """Return what a column counts."""
    found: list[int] = values.cast(pa.int32() if values.type == pa.date32() else pa.int64()).to_pylist()
    return found
