from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.errors import SourceDamagedError, TableNotFoundError
from materializer.lake.extent import Extent, Unknown, files
from materializer.lake.file_times import FileStat
from materializer.lake.local_read import read_small_changes, read_small_rows
from materializer.lake.statistics import column_bounds
from materializer.lake.write.rewrite import pieces_of
from tests.lake.tables import HOUR

DAY = 86_400_000_000


def test_files_of_a_version(trades) -> None:
    """
    Each file lies where its rows lie, an end excluded; rows without a time are counted, files without any lie nowhere.
    """
    table = trades()
    table.append((0, "a", 1), (5_999, "a", 1), (None, "a", 1))
    table.append((20_000, "a", 1))
    table.append((None, "a", 1))

    early, late = (files(table.path, v, "ts", TimeType.TIMESTAMP) for v in (1, 3))

    assert [(0, 6_000, 3)] == [(f.start, f.end, f.rows) for f in early.files]
    assert [(0, 6_000), (20_000, 21_000)] == [(f.start, f.end) for f in late.files]
    assert Span(0, 21_000) == late.hull
    assert (1, 2) == (early.null_times, late.null_times)
    assert not late.unknown.files


@pytest.mark.parametrize(
    ("values", "kind", "time_type", "expected"),
    [
        ([date(1969, 12, 31), date(1970, 1, 2)], pa.date32(), TimeType.DATE, (-DAY, 2 * DAY)),
        ([-5, 2**63 - 1], pa.int64(), TimeType.BIGINT, (-5, 2**63)),
        ([1, 2], pa.int16(), TimeType.SMALLINT, (1, 3)),
        ([-1, 1_500], pa.timestamp("us"), TimeType.TIMESTAMP_NTZ, (-1_000, 2_000)),
    ],
)
def test_time_types(tmp_path: Path, values, kind, time_type: TimeType, expected: tuple[int, int]) -> None:
    """
    The exclusive end lies one day, one unit or one millisecond behind the largest value.
    """
    write_deltalake(str(tmp_path), pa.table({"t": pa.array(values, kind)}))
    (found,) = files(str(tmp_path), 0, "t", time_type).files

    assert expected == (found.start, found.end)


def test_a_partition_column(tmp_path: Path) -> None:
    """
    A partition value bounds its file by itself; the null partition holds no times.
    """
    rows = pa.table({"d": pa.array([date(1970, 1, 2), date(1970, 1, 5), None], pa.date32()), "v": [1, 2, 3]})
    write_deltalake(str(tmp_path), rows, partition_by="d")

    found = files(str(tmp_path), 0, "d", TimeType.DATE)

    assert [(DAY, 2 * DAY), (4 * DAY, 5 * DAY)] == [(f.start, f.end) for f in found.files]
    assert 1 == found.null_times


def test_a_column_without_statistics(tmp_path: Path) -> None:
    """
    Beyond the 32nd column nothing is known: such a file may be everywhere and is counted in every estimate.
    """
    names = [f"c{i}" for i in range(40)]
    write_deltalake(str(tmp_path), pa.table({n: pa.array([1, 2], pa.int64()) for n in names}))

    found = files(str(tmp_path), 0, "c39", TimeType.BIGINT)
    asked = SpanSet.of(Span(100, 200))

    assert (1, 2) == (found.unknown.files, found.unknown.rows)
    assert found.hull is None
    assert asked == found.present(asked)
    assert (2, False) == (found.estimate(asked).rows, found.estimate(asked).is_exact)
    assert found.null_times is None


def test_an_empty_table_and_no_table(trades, tmp_path: Path) -> None:
    """
    No rows is an extent without a hull; a version that does not exist and a missing table are errors.
    """
    table = trades()
    found = files(table.path, 0, "ts", TimeType.TIMESTAMP)

    assert (None, SpanSet()) == (found.hull, found.present(SpanSet.of(EVERYTHING)))
    assert 0 == found.null_times
    with pytest.raises(SourceDamagedError):
        files(table.path, 7, "ts", TimeType.TIMESTAMP)
    with pytest.raises(TableNotFoundError):
        files(str(tmp_path / "none"), 0, "ts", TimeType.TIMESTAMP)


def spans() -> st.SearchStrategy[Span]:
    return st.tuples(st.integers(-50, 50), st.integers(1, 20)).map(lambda p: Span(p[0], p[0] + p[1]))


@given(st.lists(spans(), max_size=8), st.lists(spans(), max_size=5), st.booleans())
def test_estimates_against_counting(held: list[Span], asked: list[Span], has_unknown: bool) -> None:
    """
    An estimate counts exactly the files that meet the spans, and with a row an instant the likely rows are exact.
    """
    extent = Extent(
        1,
        tuple(sorted((FileStat(s.end - s.start, 10, s.start, s.end) for s in held), key=lambda f: f.start)),
        Unknown(1, 5, 7) if has_unknown else Unknown(),
    )
    wanted = SpanSet.of(*asked)
    found = extent.estimate(wanted)
    met = [s for s in held if SpanSet.of(s) & wanted]
    extra = 5 if has_unknown and asked else 0

    assert sum(s.end - s.start for s in met) + extra == found.rows
    assert len(met) + bool(extra) == found.files
    assert sum(i in wanted for s in held for i in range(s.start, s.end)) + extra == found.likely_rows
    assert found.is_exact == (not extra and all(wanted.covers(s) for s in met))
    assert extent.present(wanted) == (wanted if has_unknown else SpanSet.of(*held) & wanted)


@pytest.mark.parametrize("names", [(), ("numRecords",)], ids=["no statistics", "no row count"])
def test_files_that_do_not_count_their_rows(trades, names: tuple[str, ...]) -> None:
    """
    Such a file may be everywhere, and has a row at least; whoever has to count leaves it alone.
    """
    table = trades()
    table.append((0, "a", 1), (HOUR, "b", 2))
    table.forget(1, *names)
    found = files(table.path, 1, "ts", TimeType.TIMESTAMP)

    assert ((), 1, 1) == (found.files, found.unknown.files, found.unknown.rows)
    assert (1, [], 1) == pieces_of(table.path, "ts", TimeType.TIMESTAMP)
    everything = SpanSet.of(EVERYTHING)
    asked = {"time": "ts", "time_type": TimeType.TIMESTAMP, "max_rows": 100, "max_bytes": 1 << 28}
    assert read_small_rows(table.path, 1, ["sym"], everything, **asked) is None
    assert read_small_changes(table.path, 0, 1, ["sym"], max_rows=100, max_bytes=1 << 28) is None


def test_a_file_that_tells_nothing_is_not_known_to_be_empty() -> None:
    """
    Without times a file is empty where it has no rows, or as many as have no time; not where neither is told.
    """
    expected = {(0, None): True, (3, 3): True, (3, 2): False, (3, None): False, (None, None): False}
    assert expected == {n: column_bounds(*n, None, None, TimeType.BIGINT).is_known for n in expected}
