from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.core.policy.compaction import depth
from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import ForeignTableError, RetryableError, WriteFencedError
from materializer.lake.log import read_commit
from materializer.lake.notes import find_notes
from materializer.lake.table import DeltaFolder
from materializer.lake.write import commit as lane
from materializer.lake.write.replace import replace_spans
from materializer.lake.write.rewrite import pieces_of
from tests.lake.tables import HOUR, SCHEMA, forget, rows_of, times_of

APP = "materializer/1"
TS = SliceColumn("ts", holds_end=False, type=TimeType.TIMESTAMP)


def note(n: int, kind: str = "data") -> dict[str, Any]:
    return {"plan": f"p{n}", "n": n, "kind": kind, "source_version": 3}


@pytest.fixture
def bars(tmp_path: Path) -> str:
    """An empty table of ours with the columns of trades."""
    path = str(tmp_path / "bars")
    lane.create_table(path, SCHEMA, name="bars", description="one")
    return path


def replace(path: str, times: list[int], spans: SpanSet, n: int, *, is_end: bool = False) -> lane.CommitResult:
    table = rows_of([(t, "a", n) for t in times])
    column = SliceColumn("ts", is_end, TimeType.TIMESTAMP)
    return replace_spans(path, table, column, spans, APP, n, note(n))


def test_a_table_of_ours(tmp_path: Path) -> None:
    """
    Types given as Spark's texts, explicit properties, no features that others cannot write; a second one is refused.
    """
    path = str(tmp_path / "t")
    columns = [
        ["b", "timestamp"],
        ["p", "binary"],
        ["d", "decimal(38,10)"],
        ["l", "array<bigint>"],
        ["n", "timestamp_ntz"],
    ]
    lane.create_table(path, columns, name="t")
    folder = DeltaFolder(path)

    assert [tuple(c) for c in columns] == folder.schema()
    assert folder.properties().items() >= lane.PROPERTIES.items()
    assert folder.features().names <= {"timestampNtz"}
    with pytest.raises(ForeignTableError):
        lane.create_table(path, columns, name="t")


def test_replacing_spans(bars: str) -> None:
    """
    Rows inside the spans go, new ones come, others stay; the commit carries number and note and says what it did.
    """
    replace(bars, [0, HOUR, 2 * HOUR, 3 * HOUR], SpanSet.of(EVERYTHING), 1)
    found = replace(bars, [HOUR + 1], SpanSet.of(Span(HOUR, 2 * HOUR), Span(3 * HOUR, 4 * HOUR)), 2)

    assert [0, HOUR + 1, 2 * HOUR] == times_of(bars)
    assert (2, 2, 1) == (found.version, found.rows_copied, found.files_removed)
    assert found.bytes > 0
    assert 2 == DeltaFolder(bars).transaction_version(APP)
    assert [("p1", 1), ("p2", 2)] == [(c.plan_id, c.n) for c in find_notes(bars, 0)]
    assert {"plan": "p2", "n": 2, "kind": "data", "source_version": 3} == json.loads(
        read_commit(bars, 2).user_metadata or ""
    )


def test_no_rows_delete_and_no_spans_do_nothing(bars: str) -> None:
    """
    An empty table empties the spans; without spans the commit only records its number.
    """
    replace(bars, [0, HOUR], SpanSet.of(EVERYTHING), 1)
    replace(bars, [], SpanSet.of(Span(0, 1)), 2)
    assert [HOUR] == times_of(bars)
    replace(bars, [], SpanSet(), 3)

    assert [HOUR] == times_of(bars)
    assert 3 == DeltaFolder(bars).transaction_version(APP)


def test_a_number_is_written_once(bars: str) -> None:
    """
    Another commit with the same or a smaller number is refused and changes nothing, whether a write or a fence came first.
    """
    replace(bars, [0], SpanSet.of(EVERYTHING), 5)
    with pytest.raises(WriteFencedError, match="overtaken"):
        replace(bars, [], SpanSet.of(EVERYTHING), 4)
    assert 2 == lane.fence(bars, APP, 6, note(6, "fence"))
    assert lane.fence(bars, APP, 5, note(5, "fence")) is None
    with pytest.raises(WriteFencedError):
        replace(bars, [], SpanSet.of(EVERYTHING), 6)

    assert [0] == times_of(bars)
    assert ["data", "fence"] == [c.kind for c in find_notes(bars, 0)]


def test_the_same_commit_is_recognised(bars: str) -> None:
    """
    A commit that is made again, with the number and the note that the table has already, gives the version that it made then.
    """
    first = replace(bars, [0], SpanSet.of(EVERYTHING), 5)
    lane.fence(bars, "another/1", 9, note(9, "fence"))

    assert first == replace(bars, [0], SpanSet.of(EVERYTHING), 5)
    assert 3 == lane.fence(bars, APP, 6, note(6, "fence")) == lane.fence(bars, APP, 6, note(6, "fence"))
    assert first == replace(bars, [0], SpanSet.of(EVERYTHING), 5)
    assert [0] == times_of(bars)


def test_rows_outside_the_spans_are_a_bug(bars: str) -> None:
    """
    A row that the spans do not take is refused before anything is written.
    """
    with pytest.raises(ValueError, match="1 of 2 rows"):
        replace(bars, [0, HOUR], SpanSet.of(Span(0, HOUR)), 1)

    assert 0 == DeltaFolder(bars).head().version


@pytest.mark.parametrize("is_end", [False, True])
def test_many_spans_against_a_model(bars: str, rng: random.Random, is_end: bool) -> None:
    """
    Hundreds of spans in one commit, far more than a predicate takes: the table holds what a set of instants would.
    """
    held = {rng.randrange(100_000) for _ in range(3_000)}
    replace(bars, sorted(held), SpanSet.of(EVERYTHING), 1, is_end=is_end)
    for n in range(2, 5):
        spans = SpanSet.of(*(Span(s, s + rng.randrange(1, 60)) for s in rng.sample(range(100_000), 400)))
        shift = 1 if is_end else 0
        new = sorted({rng.randrange(s.start, s.end) + shift for s in spans if rng.random() < 0.7})
        replace(bars, new, spans, n, is_end=is_end)
        held = {t for t in held if t - shift not in spans} | set(new)

        assert len(spans) > 300
        assert sorted(held) == times_of(bars)


def test_a_span_by_ends_takes_its_end(bars: str) -> None:
    """
    Also where a file holds nothing else.
    """
    for n, hour in enumerate((1, 3), 1):
        replace(bars, [hour * HOUR], SpanSet.of(Span((hour - 1) * HOUR, hour * HOUR)), n, is_end=True)
    replace(bars, [], SpanSet.of(Span(2 * HOUR, 3 * HOUR)), 3, is_end=True)

    assert [HOUR] == times_of(bars)


def test_new_rows_among_those_of_a_file_are_written_with_them(bars: str) -> None:
    """
    Also where nothing of the file goes: else a file more would lie over the same time.
    """
    replace(bars, [0, 2 * HOUR], SpanSet.of(EVERYTHING), 1)
    replace(bars, [HOUR], SpanSet.of(Span(HOUR, HOUR + 1)), 2)

    assert [0, HOUR, 2 * HOUR] == times_of(bars)
    assert 1 == len(DeltaTable(bars).file_uris())


def test_a_replaced_file_is_as_an_appended_one(tmp_path: Path) -> None:
    """
    Rows that are written beside the table have its columns to the last name inside a map, and statistics of as many.
    """
    path, many = str(tmp_path / "tags"), [f"v{i}" for i in range(40)]
    tags = pa.map_(pa.string(), pa.int64())
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("tags", tags), *((name, pa.int64()) for name in many)])
    rows = pa.Table.from_pylist([{"ts": 0, "tags": [("a", 1)]} | dict.fromkeys(many, 7)], schema=schema)
    lane.create_table(path, schema, name="tags")
    lane.append_rows(path, rows, APP, 1, note(1))
    replace_spans(path, rows, TS, SpanSet.of(EVERYTHING), APP, 2, note(2))
    (before,), (after,) = (read_commit(path, version).adds for version in (1, 2))

    assert before.path != after.path
    assert json.loads(before.stats or "") == json.loads(after.stats or "")
    first, second = ([c.path for c in pq.ParquetFile(f"{path}/{file.path}").schema] for file in (before, after))
    assert first == second


def test_rows_of_a_file_without_statistics_are_replaced(bars: str) -> None:
    """
    Nobody knows where they lie, so they are looked at; what lies elsewhere stays.
    """
    write_deltalake(bars, rows_of([(0, "a", 1), (HOUR, "a", 1)]), mode="append")
    forget(bars, 1)
    replace(bars, [1], SpanSet.of(Span(0, HOUR)), 1)

    assert [1, HOUR] == times_of(bars)


def test_rows_without_a_time_stay(bars: str) -> None:
    """
    A row without a time, which only another writer can have brought, survives few spans and many.
    """
    write_deltalake(bars, rows_of([(None, "a", 1), (0, "a", 1)]), mode="append")
    replace(bars, [], SpanSet.of(Span(0, HOUR)), 1)
    replace(bars, [], SpanSet.of(*(Span(i * 10, i * 10 + 5) for i in range(200))), 2)

    assert [None] == times_of(bars)


def test_instants_closer_than_the_statistics(bars: str) -> None:
    """
    Statistics are cut to milliseconds; replacing single microseconds still finds the rows.
    """
    replace(bars, [0, 999, 1_999], SpanSet.of(EVERYTHING), 1)
    replace(bars, [], SpanSet.of(Span(1_500, 2_000)), 2)
    assert [0, 999] == times_of(bars)
    replace(bars, [], SpanSet.of(*(Span(i, i + 1) for i in range(990, 1_300, 2)), Span(999, 1_000)), 3)

    assert [0] == times_of(bars)


D = date.fromisoformat
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("time_type", "kind", "values", "span", "left"),
    [
        (
            TimeType.DATE,
            pa.date32(),
            [D("0001-01-01"), D("2024-02-29"), D("9999-12-31")],
            Span(19_782 * DAY, POS_INF),
            1,
        ),
        (TimeType.DATE, pa.date32(), [D("0001-01-01"), D("9999-12-31")], Span(NEG_INF, 0), 1),
        (TimeType.DATE, pa.date32(), [D("9999-12-31")], Span(2_932_896 * DAY, 2_932_897 * DAY), 0),
        (
            TimeType.TIMESTAMP,
            pa.timestamp("us", "UTC"),
            [-62_135_596_800_000_000, 0],
            Span(-62_135_596_800_000_000, 0),
            1,
        ),
        (
            TimeType.TIMESTAMP,
            pa.timestamp("us", "UTC"),
            [253_402_300_799_999_999],
            Span(253_402_214_400_000_000, 253_402_300_800_000_000),
            0,
        ),
        (TimeType.TIMESTAMP_NTZ, pa.timestamp("us"), [-1, 0], Span(-1, 0), 1),
        (TimeType.TIMESTAMP_NTZ, pa.timestamp("us"), [-1, 0], Span(NEG_INF, POS_INF), 0),
        (TimeType.BIGINT, pa.int64(), [-(2**63), 2**63 - 1], Span(2**63 - 1, 2**63), 1),
        (TimeType.BIGINT, pa.int64(), [-(2**63), 2**63 - 1], Span(-(2**63) - 5, 0), 1),
        (TimeType.INT, pa.int32(), [-(2**31), 2**31 - 1], Span(5, 2**40), 1),
        (TimeType.SMALLINT, pa.int16(), [-5, 5], Span(-32_768, 5), 1),
    ],
)
def test_every_time_type_to_its_ends(
    tmp_path: Path, time_type: TimeType, kind, values: list, span: Span, left: int
) -> None:
    """
    Spans reach the first and the last value of each type, with ends beyond it.
    """
    path = str(tmp_path / "t")
    rows = pa.table({"Slice `x`": pa.array(values, kind)})
    lane.create_table(path, rows.schema, name="t")
    column = SliceColumn("Slice `x`", holds_end=False, type=time_type)
    replace_spans(path, rows, column, SpanSet.of(EVERYTHING), APP, 1, note(1))
    replace_spans(path, rows.slice(0, 0), column, SpanSet.of(span), APP, 2, note(2))

    assert left == DeltaTable(path).to_pyarrow_table().num_rows


def test_other_columns_are_refused(tmp_path: Path) -> None:
    """
    Another decimal scale, a missing or an unknown column: refused, where the library would cast; order does not matter.
    """
    path = str(tmp_path / "t")
    lane.create_table(path, [["b", "bigint"], ["d", "decimal(20,5)"]], name="t")

    def write(n: int, **columns: Any) -> None:
        column = SliceColumn("b", holds_end=False, type=TimeType.BIGINT)
        replace_spans(path, pa.table(columns), column, SpanSet.of(EVERYTHING), APP, n, note(n))

    good = pa.array([Decimal("1.00001")], pa.decimal128(20, 5))
    for wrong in ({"d": pa.array([Decimal("1.0")], pa.decimal128(20, 1))}, {}, {"d": good, "x": pa.array([1])}):
        with pytest.raises(ForeignTableError, match="other columns"):
            write(1, b=pa.array([1], pa.int64()), **wrong)
    write(1, d=good, b=pa.array([1], pa.int64()))

    assert [{"b": 1, "d": Decimal("1.00001")}] == DeltaTable(path).to_pyarrow_table().to_pylist()


def test_a_commit_in_between_is_seen(bars: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Another commit between opening and writing: a fence with our number wins, anything else is tried again, not for ever.
    """
    replace(bars, [0], SpanSet.of(EVERYTHING), 1)
    real: Callable[[DeltaFolder], DeltaTable] = DeltaFolder.taken
    hooks: list[Callable[[], Any]] = []

    def interleaved(folder: DeltaFolder) -> DeltaTable:
        opened = real(folder)
        if hooks:
            hooks.pop()()
        return opened

    monkeypatch.setattr(DeltaFolder, "taken", interleaved)
    hooks.append(lambda: write_deltalake(bars, rows_of([(5, "z", 1)]), mode="append"))
    replace(bars, [1], SpanSet.of(Span(0, 2)), 2)
    assert [1, 5] == times_of(bars)

    hooks.append(lambda: lane.fence(bars, APP, 3, note(3, "fence")))
    with pytest.raises(WriteFencedError):
        replace(bars, [], SpanSet.of(EVERYTHING), 3)
    assert [1, 5] == times_of(bars)

    hooks += [lambda: write_deltalake(bars, rows_of([(5, "z", 1)]), mode="append")] * 50
    with pytest.raises(RetryableError, match="came first"):
        replace(bars, [], SpanSet.of(EVERYTHING), 4)


def test_large_tables_come_in_several_files(bars: str) -> None:
    """
    A sorted table is cut into files of some ten thousand rows that hardly overlap in time.
    """
    count = 800_000
    table = pa.table(
        [
            pa.array(range(count), pa.int64()).cast(SCHEMA.field("ts").type),
            pa.array(["a"] * count),
            pa.array(range(count), pa.int64()),
        ],
        schema=SCHEMA,
    )
    replace_spans(bars, table, TS, SpanSet.of(EVERYTHING), APP, 1, note(1))
    added = read_commit(bars, 1).adds

    assert 16 <= len(added) <= 64
    assert count == sum(f.rows or 0 for f in added)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("is_end", [False, True])
def test_late_rows_leave_a_table_laid_out_in_time(bars: str, rng: random.Random, is_end: bool) -> None:
    """
    However often rows come late into a few hours anywhere, no file lies over another, and none grows or shrinks away.
    """
    days = [range(day * 24 * HOUR, (day + 1) * 24 * HOUR, HOUR // 1_200) for day in range(12)]
    for n, day in enumerate(days):
        replace(bars, [t + is_end for t in day], SpanSet.of(Span(day.start, day.stop)), n + 1, is_end=is_end)
    held = {t + is_end for day in days for t in day}
    files = len(DeltaTable(bars).file_uris())
    for n in range(13, 18):
        spans = SpanSet.of(*(Span(h * HOUR, (h + 1) * HOUR) for h in rng.sample(range(12 * 24), 6)))
        new = [t + is_end for s in spans for t in range(s.start, s.end, HOUR // 1_300)]
        found = replace(bars, new, spans, n, is_end=is_end)
        held = {t for t in held if t - is_end not in spans} | set(new)

        assert found.files_removed <= 2 * 6, "an hour may lie in two files"
        _, pieces, _ = pieces_of(bars, "ts", TimeType.TIMESTAMP)
        assert (1, True) == (depth(pieces), all(p.rows < 50_000 for p in pieces))
        assert len(pieces) <= files
    assert sorted(held) == times_of(bars)


def test_new_rows_go_where_their_neighbours_lie(bars: str) -> None:
    """
    A span that no file holds rows of makes a file of its own; what lies among touched files goes into them.
    """
    for n, hour in enumerate((2, 4, 8), 1):
        replace(bars, [hour * HOUR, hour * HOUR + 1], SpanSet.of(Span(hour * HOUR, (hour + 1) * HOUR)), n)
    found = replace(
        bars, [0, 3 * HOUR, 9 * HOUR], SpanSet.of(Span(0, 1), Span(3 * HOUR, 4 * HOUR), Span(9 * HOUR, POS_INF)), 4
    )
    assert (3, 0) == (found.files_added, found.files_removed)
    found = replace(bars, [2 * HOUR, 5 * HOUR], SpanSet.of(Span(HOUR, 8 * HOUR)), 5)
    assert (1, 3) == (found.files_added, found.files_removed)
    assert [0, 2 * HOUR, 5 * HOUR, 8 * HOUR, 8 * HOUR + 1, 9 * HOUR] == times_of(bars)


def test_checkpoints_come_by_themselves(bars: str) -> None:
    """
    Every tenth version leaves a checkpoint, written after the commit so that its failure cannot look like the commit's.
    """
    for n in range(1, 12):
        lane.append_rows(bars, rows_of([(n, "a", n)]), APP, n, note(n))

    assert 1 == len(list((Path(bars) / "_delta_log").glob("*010.checkpoint*.parquet")))
    assert 11 == len(times_of(bars))


def test_a_new_schema(bars: str) -> None:
    """
    Columns and rows are replaced in one commit with the number; id and place stay, and a late one is refused.
    """
    replace(bars, [0], SpanSet.of(EVERYTHING), 4)
    before = DeltaFolder(bars).head().table_id

    def batches(shape: pa.Schema) -> list[pa.RecordBatch]:
        return pa.table({"x": [1.5, 2.5], "b": [b"1", b"2"]}, schema=shape).to_batches()

    lane.replace_all(bars, [["x", "double"], ["b", "binary"]], batches, APP, 5, note(5, "switch"))
    folder = DeltaFolder(bars)

    assert [("x", "double"), ("b", "binary")] == folder.schema()
    assert (before, 5) == (folder.head().table_id, folder.transaction_version(APP))
    assert [1.5, 2.5] == DeltaTable(bars).to_pyarrow_table()["x"].to_pylist()
    assert "switch" == find_notes(bars, 1)[0].kind
    with pytest.raises(WriteFencedError):
        lane.replace_all(bars, [["x", "double"]], batches, APP, 4, note(4, "switch"))


FULL_DISK = """
import resource, signal, sys
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.core.spec.spec import TimeType
from materializer.errors import StorageError
from materializer.lake.write.replace import replace_spans
from tests.lake.tables import rows_of

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rows = rows_of([(t * 7919 % 100_003, str(t), t) for t in range(20_000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    column = SliceColumn("ts", False, TimeType.TIMESTAMP)
    replace_spans(sys.argv[1], rows, column, SpanSet.of(EVERYTHING), "materializer/1", 2, {"plan": "p2"})
except StorageError as exc:
    print(exc.wrote)
"""


def test_a_full_disk(bars: str) -> None:
    """
    A file that cannot be written to its end is an error of storage; the table is as it was and says so.
    """
    replace(bars, [0], SpanSet.of(EVERYTHING), 1)
    done = subprocess.run([sys.executable, "-c", FULL_DISK, bars], capture_output=True, text=True, check=True)

    assert "nothing was committed" in done.stdout
    assert [0] == times_of(bars)
    assert 1 == DeltaFolder(bars).transaction_version(APP)
