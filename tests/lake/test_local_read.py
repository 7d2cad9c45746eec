"""Rows that the driver reads by itself: which, and what it leaves to Spark because it would read something else."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import HOUR
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import StorageError
from materializer.lake.local_read import read_rows_of_keys, read_small_changes, read_small_rows
from materializer.lake.reads import Reader, SharedReads
from materializer.lake.rows import size_of
from materializer.lake.span_rows import rows_of_spans
from materializer.lake.types import columns_of
from tests.model.strategies import span_sets

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
START = int(FIRST.timestamp()) * 1_000_000
NOBODY = 65534
EVERYTHING = SpanSet.of(Span(NEG_INF, POS_INF))


def rows(hours: range, **more: pa.Array) -> pa.Table:
    """Return one row an hour."""
    times = [FIRST + timedelta(hours=h) for h in hours]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "v": list(hours), **more})


def read(
    path: Path,
    spans: SpanSet = EVERYTHING,
    columns: tuple[str, ...] = ("v",),
    max_rows: int = 100,
    max_bytes: int = 1 << 28,
) -> pa.Table | None:
    version = DeltaTable(str(path)).version()
    return read_small_rows(
        str(path),
        version,
        columns,
        spans,
        time="ts",
        time_type=TimeType.TIMESTAMP,
        max_rows=max_rows,
        max_bytes=max_bytes,
    )


def test_only_files_that_may_matter_are_read_and_counted(tmp_path: Path) -> None:
    """
    Statistics say which; a table of any size is read where a few of its rows are wanted.
    """
    for hours in (range(10), range(10, 20), range(20, 30)):
        write_deltalake(str(tmp_path), rows(hours), mode="append")
    wanted = SpanSet.of(Span(START + 12 * HOUR, START + 13 * HOUR))

    found = read(tmp_path, wanted, max_rows=10)

    assert found is not None
    assert list(range(10, 20)) == found["v"].to_pylist()
    assert read(tmp_path, wanted, max_rows=9) is None
    assert read(tmp_path, max_rows=29) is None
    size = size_of(str(tmp_path))
    assert read(tmp_path, max_bytes=size) is not None
    assert read(tmp_path, max_bytes=size - 1) is None


@given(st.lists(st.one_of(st.none(), st.integers(0, 40)), min_size=1, max_size=30), span_sets())
def test_exactly_the_rows_of_some_spans(
    tmp_path_factory: pytest.TempPathFactory, hours: list[int | None], spans: SpanSet
) -> None:
    """
    Of files and row groups, only rows in the spans are returned; a row without a time is in none.
    """
    path = str(tmp_path_factory.mktemp("rows") / "table")
    numbers = list(range(len(hours)))
    for half in (numbers[::2], numbers[1::2]):
        times = pa.array([hours[i] for i in half], pa.int64())
        write_deltalake(path, pa.table({"at": times, "v": pa.array(half, pa.int64())}), mode="append")

    found = read_small_rows(
        path, 1, ["v"], spans, time="at", time_type=TimeType.BIGINT, max_rows=100, max_bytes=1 << 28, is_exact=True
    )

    assert found is not None
    assert ["v"] == found.column_names
    wanted = [i for i, t in enumerate(hours) if t is not None and any(s.start <= t < s.end for s in spans)]
    assert wanted == sorted(found["v"].to_pylist())


def test_of_other_files_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The library's dataset has a fragment, with its bounds, of every file: it is only made where folders hold values.
    """
    for hour in range(3):
        write_deltalake(str(tmp_path), rows(range(hour, hour + 1)), mode="append")

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a fragment of every file")

    monkeypatch.setattr(DeltaTable, "to_pyarrow_dataset", refused)
    found = read(tmp_path, SpanSet.of(Span(START + HOUR, START + 2 * HOUR)))

    assert found is not None
    assert [1] == found["v"].to_pylist()


def test_an_update_counts_as_the_rows_that_it_changed(tmp_path: Path) -> None:
    """
    It writes whole files again; the change feed has the old and the new image of the changed rows alone.
    """
    path = str(tmp_path / "source")
    rows = pa.table({"id": pa.array(range(1_000)), "v": pa.array([0] * 1_000)})
    write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(path).update(predicate="id = 7", updates={"v": "1"})

    found = read_small_changes(path, 0, 1, ["id", "v"], max_rows=2, max_bytes=1 << 20)
    assert found is not None
    assert [(7, 0), (7, 1)] == sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert read_small_changes(path, 0, 1, ["id", "v"], max_rows=1, max_bytes=1 << 20) is None


@given(st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=20), span_sets())
def test_lying_in_spans_is_lying_in_one_of_them(times: list[int | None], spans: SpanSet) -> None:
    """
    Open ends reach beyond every 64-bit number; no time lies nowhere.
    """
    found = rows_of_spans(pa.table({"t": pa.array(times, pa.int64())}), spans, "t", TimeType.BIGINT)

    assert [t for t in times if t is not None and any(s.start <= t < s.end for s in spans)] == found["t"].to_pylist()


def test_a_time_that_is_the_name_of_a_folder_is_left_to_spark(tmp_path: Path) -> None:
    """
    Spark reads such names in the time zone of the session, and knows more ways of writing them.
    """
    days = pa.array([date(2024, 1, 1)] * 3, pa.date32())
    write_deltalake(str(tmp_path), rows(range(3), day=days), partition_by=["day"])

    assert read(tmp_path, columns=("v", "day")) is None
    assert read(tmp_path, columns=("v",)) is not None


def test_padded_texts_are_left_to_spark(tmp_path: Path) -> None:
    """
    A CHAR column is a text that Spark fills with blanks when it reads it.
    """
    texts = pa.array(["a", "b", "c"])
    table = rows(range(3), c=texts)
    schema = table.schema.set(2, pa.field("c", pa.string(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}))
    DeltaTable.create(str(tmp_path), schema)
    write_deltalake(str(tmp_path), table.cast(schema), mode="append")

    assert read(tmp_path, columns=("v", "c")) is None
    assert read(tmp_path, columns=("v",)) is not None


@pytest.mark.parametrize(
    ("told", "is_old"),
    [
        ({}, False),
        ({"org.apache.spark.version": "4.1.4"}, False),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyINT96": ""}, True),
    ],
    ids=["another writer", "new", "before 3", "legacy days", "legacy 96 bits"],
)
def test_days_of_the_julian_calendar_are_left_to_spark(tmp_path: Path, told: dict[str, str], is_old: bool) -> None:
    """
    Files say in their footer how they count days before 1582.
    """
    write_deltalake(str(tmp_path), rows(range(3)))
    [part] = tmp_path.glob("*.parquet")
    pq.write_table(rows(range(3)).replace_schema_metadata(told), part)

    assert is_old == (read(tmp_path) is None)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_in_a_block_rows_are_what_they_are_outside(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """
    The same rows in the same order, for whichever columns, spans and versions of a table are read one after the other; files may be
    in folders, gain columns, be rewritten, and fit into the block or not.
    """
    rng = random.Random(seed)
    path = str(tmp_path_factory.mktemp("rows") / "table")
    by = rng.choice([None, ["p"]])
    schema = pa.schema([("ts", pa.int64()), ("v", pa.float64()), ("s", pa.string()), ("p", pa.string())])
    for commit in range(rng.randint(1, 4)):
        count = rng.randint(1, 20)
        times = [rng.choice([None, rng.randrange(100)]) for _ in range(count)]
        texts = [rng.choice([None, "", "ä b"]) for _ in range(count)]
        columns = [times, [float(i) for i in range(count)], texts, [rng.choice(["x y", "z"]) for _ in range(count)]]
        more = {"new": [commit] * count} if commit >= 2 else {}
        rows = pa.table({**dict(zip(schema.names, columns, strict=True)), **more})
        rows = rows.cast(pa.schema([*schema, *([pa.field("new", pa.int64())] if more else [])]))
        write_deltalake(path, rows, mode="append", partition_by=by, schema_mode="merge")
    if rng.random() < 0.3:
        DeltaTable(path).update(predicate="v = 1.0", updates={"v": "-1.0"})
    asked = []
    for _ in range(6):
        version = rng.randint(0, DeltaTable(path).version())
        names = [n for n, _ in columns_of(DeltaTable(path, version=version).schema().to_json())]
        start = rng.randrange(100)
        spans = rng.choice([EVERYTHING, SpanSet.of(Span(start, start + rng.randint(1, 50)))])
        asked.append((version, rng.sample(names, rng.randint(1, len(names))), spans, rng.random() < 0.7))

    def found() -> list[pa.Table | None]:
        options = {"time": "ts", "time_type": TimeType.BIGINT, "max_rows": 1000, "max_bytes": 1 << 28}
        return [read_small_rows(path, v, c, s, is_exact=e, **options) for v, c, s, e in asked]

    expected = found()
    room = rng.choice([SharedReads(), SharedReads(15, 1 << 20), SharedReads(1000, 300), SharedReads(0, 0)])
    with room.together([Reader(name, path, rng.sample(["ts", "v", "s", "gone"], 2)) for name in "ab"]):
        assert expected == found()
    assert None not in expected


def test_old_times_are_left_to_spark_in_a_block_too(tmp_path: Path) -> None:
    """
    Also where another file of the same reading was remembered before.
    """
    write_deltalake(str(tmp_path), rows(range(3)))
    [part] = tmp_path.glob("*.parquet")
    write_deltalake(str(tmp_path), rows(range(3, 6)), mode="append")
    old = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}
    pq.write_table(rows(range(3)).replace_schema_metadata(old), part)
    new = SpanSet.of(Span(START + 3 * HOUR, START + 6 * HOUR))

    with SharedReads().together([Reader(name, str(tmp_path), ["v"]) for name in "ab"]):
        assert read(tmp_path, new) is not None
        assert read(tmp_path) is None
        assert read(tmp_path) is None


def test_a_column_that_cannot_be_read_harms_no_other(tmp_path: Path) -> None:
    """
    A file whose column is not what the table says fails those that read the column, and no other reader of the block.
    """
    write_deltalake(str(tmp_path), rows(range(3), w=pa.array([1, 2, 3])))
    [part] = tmp_path.glob("*.parquet")
    pq.write_table(rows(range(3), w=pa.array(["a", "b", "c"])), part)

    with SharedReads().together([Reader(name, str(tmp_path), [name]) for name in "vw"]):
        found = read(tmp_path)
        assert found is not None
        assert [0, 1, 2] == found["v"].to_pylist()
        assert read(tmp_path, columns=("w",)) is None


@contextmanager
def without_rights(file: Path) -> Iterator[None]:
    """Refuse to this process, even to root, to read a file during the block."""
    is_root, mode = os.geteuid() == 0, file.stat().st_mode
    file.chmod(0)
    try:
        if is_root:
            os.seteuid(NOBODY)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        file.chmod(mode)


@pytest.mark.parametrize("many", [1, 2], ids=["alone", "in a block"])
def test_what_the_disk_refuses_is_not_left_to_spark(many: int) -> None:
    """
    Spark could not read it either, and would only say so later; a file that is no Parquet is left to it.
    """
    with TemporaryDirectory() as folder, SharedReads().together([Reader(n, folder, ["v"]) for n in "ab"[:many]]):
        Path(folder).chmod(0o755)
        write_deltalake(folder, rows(range(3)), configuration={"delta.enableChangeDataFeed": "true"})
        [part] = Path(folder).glob("*.parquet")
        keys = {"time": "ts", "time_type": TimeType.TIMESTAMP, "max_rows": 9, "max_bytes": 1 << 20, "max_opened": 9}
        with without_rights(part):
            for reading in (
                lambda: read(Path(folder)),
                lambda: read_small_changes(folder, -1, 0, ["v"], max_rows=9, max_bytes=1 << 20),
                lambda: read_rows_of_keys(folder, 0, ["v"], EVERYTHING, [(1,)], ["v"], **keys),
            ):
                with pytest.raises(StorageError) as caught:
                    reading()
                assert ("storage.failed", 74) == (caught.value.code, caught.value.exit_status)
        part.write_bytes(b"no Parquet" * 100)
        assert read(Path(folder)) is None
        part.unlink()
        assert read(Path(folder)) is None


def test_files_whose_rows_are_all_final_are_not_opened_for_those_that_are_open(tmp_path: Path) -> None:
    """
    Rows that are not final are wanted wherever they lie; the statistics of a file say whether it may have one.
    """
    path = str(tmp_path)
    for day, finals in enumerate(([True, True], [True, False], [True, True])):
        more = {"k": pa.array([1, 1]), "is_final": pa.array(finals)}
        write_deltalake(path, rows(range(24 * day, 24 * day + 2), **more), mode="append")
    last = SpanSet.of(Span(START + 48 * HOUR, POS_INF))

    def found(max_opened: int) -> list[int] | None:
        limits = {"max_rows": 9, "max_bytes": 1 << 20, "max_opened": max_opened, "open_column": "is_final"}
        read_ = read_rows_of_keys(
            path, 2, ["v"], last, [(1,)], ["k"], time="ts", time_type=TimeType.TIMESTAMP, **limits
        )
        return None if read_ is None else sorted(read_["v"].to_pylist())

    assert [25, 48, 49] == found(4)
    assert found(3) is None
