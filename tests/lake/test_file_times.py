"""Files by time, as columns, against a loop over one file after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.lake.extent import Extent, Unknown, file_bounds, files, time_column
from materializer.lake.file_times import FileStat, FileTimes
from tests.counting import grows_by

INSTANTS = (
    st.integers(-60, 60)
    | st.integers(-60, 60).map(lambda i: i * 86_400_000_000)
    | st.sampled_from([-(1 << 63), (1 << 63) - 1, -(1 << 62), 1 << 62, (1 << 62) - 1])
)
EDGES = INSTANTS | st.sampled_from([NEG_INF, POS_INF, 1 << 63, -(1 << 63) - 1])


def spans_of(edges: st.SearchStrategy[int]) -> st.SearchStrategy[Span]:
    pairs = st.tuples(edges, edges).filter(lambda pair: pair[0] != pair[1])
    return pairs.map(lambda pair: Span(*sorted(pair)))


@st.composite
def held(draw: st.DrawFn) -> list[FileStat]:
    """Files in the order of their starts."""
    counts = st.integers(0, 1_000) | st.just((1 << 63) - 1)
    found = draw(st.lists(st.tuples(counts, counts, spans_of(INSTANTS)), max_size=12))
    return sorted((FileStat(rows, size, s.start, s.end) for rows, size, s in found), key=lambda f: (f.start, f.end))


ASKED = st.lists(spans_of(EDGES), max_size=6).map(SpanSet.union)


@given(held(), ASKED, EDGES)
def test_columns_say_what_one_file_after_the_other_says(known: list[FileStat], asked: SpanSet, edge: int) -> None:
    """
    Also of integers that 64 bits cannot add, and of spans without an end.
    """
    times, extent = FileTimes.of(known), Extent(1, tuple(known))
    parts = [(f, sum(c.end - c.start for c in SpanSet.of(Span(f.start, f.end)) & asked)) for f in known]
    met = [(f, part) for f, part in parts if part]
    found = extent.estimate(asked)
    newest = [f.end - 1 if f.end <= edge else f.start for f in known if f.start < edge]
    later = [replace(f, start=max(f.start, edge)) for f in known if f.end > edge]
    likely = sum((Fraction(f.rows * part, f.end - f.start) for f, part in met), Fraction())

    assert tuple(known) == times
    assert [len(known), known[:2]] == [len(times), list(times[:2])]
    assert [known[-1]] == [times[-1]] if known else not times
    assert (sum(f.rows for f in known), sum(f.bytes for f in known)) == (extent.rows, extent.bytes)
    assert extent.hull == (Span(known[0].start, max(f.end for f in known)) if known else None)
    assert SpanSet.union(Span(f.start, f.end) for f in known) == times.spans
    assert max(newest, default=None) == extent.newest_before(edge)
    assert tuple(later) == extent.since(edge).files
    assert SpanSet.union(Span(f.start, f.end) for f in known) & asked == extent.present(asked)
    assert (sum(f.rows for f, _ in met), sum(f.bytes for f, _ in met), len(met)) == (
        found.rows,
        found.bytes,
        found.files,
    )
    assert abs(likely - found.likely_rows) <= max(1, likely / (1 << 50))
    assert found.is_exact == all(part == f.end - f.start for f, part in met)


def one_by_one(version: int, table: DeltaTable, column: str, kind: TimeType) -> Extent:
    """Return the extent of a table by a loop over the bounds of its files."""
    known: list[FileStat] = []
    unknown, nulls, are_known = Unknown(), 0, True
    for _, size, bounds in file_bounds(table, time_column(table, column, kind)):
        are_known = are_known and (bounds.nulls is not None or bounds.rows == 0)
        nulls += bounds.nulls or 0
        if bounds.span is not None and bounds.rows is not None:
            known.append(FileStat(bounds.rows, size, bounds.span.start, bounds.span.end))
        elif not bounds.is_known or bounds.span is not None:
            rows = 1 if bounds.rows is None else bounds.rows
            unknown = Unknown(unknown.files + 1, unknown.rows + rows, unknown.bytes + size)
    return Extent(version, tuple(sorted(known, key=lambda f: (f.start, f.end))), unknown, nulls if are_known else None)


def written(path: str, told: Sequence[dict[str, Any] | None]) -> DeltaTable:
    """Add files with what is told of each to the log of a table; there are none."""
    lines = []
    for number, stats in enumerate(told):
        add = {"path": f"{number}.parquet", "partitionValues": {}, "size": number, "modificationTime": 0}
        lines.append({"add": {**add, "dataChange": True, **({} if stats is None else {"stats": json.dumps(stats)})}})
    log = Path(path) / "_delta_log" / f"{1:020d}.json"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return DeltaTable(path)


def whole(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw all that can be told of a file with times."""
    return st.tuples(st.lists(values, min_size=2, max_size=2).map(sorted), st.integers(0, 9), st.integers(0, 9)).map(
        lambda drawn: {
            "numRecords": drawn[1],
            "minValues": {"t": drawn[0][0]},
            "maxValues": {"t": drawn[0][1]},
            "nullCount": {"t": drawn[2]},
        }
    )


def doubtful(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any] | None]:
    """Draw what is told of a file: some of it, or nothing, or a maximum below the minimum."""
    count, value = st.integers(0, 9), st.none() | values
    told = {"numRecords": count, "minValues": value, "maxValues": value, "nullCount": st.none() | count}
    parts = {name: drawn if name == "numRecords" else drawn.map(lambda v: {"t": v}) for name, drawn in told.items()}
    return st.none() | st.fixed_dictionaries({}, optional=parts) | st.fixed_dictionaries(parts)


def off(drawn: tuple[dict[str, Any], str]) -> dict[str, Any]:
    """Return what is told of a file without one of it, or with minimum and maximum the wrong way round."""
    told, what = drawn
    if what == "turned":
        return {**told, "minValues": told["maxValues"], "maxValues": told["minValues"]}
    return {name: value for name, value in told.items() if name != what}


KINDS = {
    TimeType.BIGINT: (pa.int64(), st.integers(-100, 100) | st.sampled_from([(1 << 63) - 1, -(1 << 63), 1 << 62])),
    TimeType.INT: (pa.int32(), st.integers(-100, 100)),
    TimeType.DATE: (
        pa.date32(),
        st.sampled_from(["1969-12-30", "1970-01-01", "2024-02-29", "0001-01-01", "9999-12-31"]),
    ),
    TimeType.TIMESTAMP: (
        pa.timestamp("us", "UTC"),
        st.sampled_from(["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.001Z", "2024-02-29T12:00:00.123456Z"]),
    ),
    TimeType.TIMESTAMP_NTZ: (
        pa.timestamp("us"),
        st.sampled_from(["1969-12-31T23:59:59.999", "1970-01-01T00:00:00.001", "2024-02-29T12:00:00.123456"]),
    ),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_log_says_what_its_files_say_one_by_one(tmp_path_factory, kind: TimeType) -> None:
    """
    Whatever of their statistics is missing, the wrong way round, or too large.
    """
    arrow, values = KINDS[kind]
    path = str(tmp_path_factory.mktemp("table"))
    write_deltalake(path, pa.table({"t": pa.array([], arrow)}))
    each = whole(values)
    one_off = st.tuples(each, st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount", "turned"])).map(off)
    logs = (
        st.lists(each, max_size=8)
        | st.lists(each | doubtful(values), max_size=8)
        | st.lists(one_off | each, max_size=3)
    )

    @given(logs)
    def compared(told: list[dict[str, Any] | None]) -> None:
        table = written(path, told)

        assert one_by_one(1, table, "t", kind) == files(path, 1, "t", kind)

    compared()


def test_many_files_are_not_looked_at_one_by_one(tmp_path: Path) -> None:
    """
    A list of a thousand files, and every question about it, calls as many functions as one of a hundred.
    """

    def asked(count: int) -> None:
        path = str(tmp_path / str(count))
        found = files(path, 1, "t", TimeType.BIGINT)
        late = SpanSet.of(Span(10, 11), Span(20, 25))
        assert count == found.estimate(SpanSet.of(Span(-1, count))).files
        assert (found.present(late), found.estimate(late).rows) == (late, 6)
        assert (found.rows, found.newest_before(12)) == (count, 11)

    for count in (100, 1_000):
        path = str(tmp_path / str(count))
        write_deltalake(path, pa.table({"t": pa.array([], pa.int64())}))
        told = [
            {"numRecords": 1, "minValues": {"t": n}, "maxValues": {"t": n}, "nullCount": {"t": 0}} for n in range(count)
        ]
        written(path, told)
        asked(count)

    assert grows_by(asked, 100, 1_000) < 1.2
