from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.core.codec import as_json
from materializer.core.refresh.invalidation import ANY_ROWS
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.errors import SourceDamagedError, SourceReplacedError, SourceRolledBackError
from materializer.lake.capture.capture import (
    CaptureResult,
    NeedsSpark,
    Rung,
    Segment,
    capture_by_files,
    capture_without_spark,
)
from materializer.lake.capture.context import CaptureContext
from materializer.lake.log import DataFile
from materializer.lake.rows import size_of
from materializer.lake.statistics import TimeColumn
from materializer.lake.table import DeltaFolder
from tests import tables
from tests.lake.opened import commits_opened
from tests.lake.tables import HOUR, Trades, rows_of

GRID: dict[str, Any] = {"floor": lambda t: t // HOUR * HOUR, "next_edge": lambda e: e + HOUR}


def capture(table: Trades, after: int, **options: Any) -> CaptureResult | NeedsSpark:
    asked = {
        "after": after,
        "upto": table.version,
        "table_id": table.id,
        "time_column": "ts",
        "time_type": TimeType.TIMESTAMP,
        "keys": ("sym",),
        "max_rows": 10_000,
        "max_bytes": 1 << 28,
    }
    return capture_without_spark(table.path, **(asked | GRID | options))


def captured(table: Trades, after: int, **options: Any) -> CaptureResult:
    found = capture(table, after, **options)
    assert isinstance(found, CaptureResult)
    return found


def hours(found: CaptureResult) -> list[int]:
    """Return the dirty hours, as numbers."""
    spans = SpanSet.union(s for p in found.pieces for s in p.times)
    assert all(s.is_bounded for s in spans), found.reasons
    return [h for s in spans for h in range(s.start // HOUR, s.end // HOUR)]


def rungs(found: CaptureResult) -> set[Rung]:
    return {p.rung for p in found.pieces}


def test_inserts_name_bucket_and_key(trades) -> None:
    """
    Two inserted rows are two buckets with their keys, insert-only; a row without a time is counted and dirties nothing.
    """
    table = trades()
    table.append((0, "a", 1), (3 * HOUR + 5, "b", 1), (None, "c", 1))
    found = captured(table, 0)

    assert [0, 3] == hours(found)
    assert {Rung.FEED} == rungs(found)
    assert all(p.is_insert_only for p in found.pieces)
    assert {frozenset({("a",)}), frozenset({("b",)})} == {p.keys for p in found.pieces}
    assert [{"version": 1, "rung": "feed", "inserted": 3, "null_time": 1}] == [as_json(c) for c in found.per_version]
    assert () == found.reasons


def test_a_moved_row_dirties_both_buckets(trades) -> None:
    """
    An update of the time or of the key dirties where the row was and where it is, with both keys.
    """
    table = trades()
    table.append((0, "a", 1), (HOUR, "b", 1))
    table.table.update(updates={"ts": "ts + interval '5 hours'", "sym": "'z'"}, predicate="sym = 'a'")
    found = captured(table, 1)

    assert [0, 5] == hours(found)
    assert {frozenset({("a",)}), frozenset({("z",)})} == {p.keys for p in found.pieces}
    assert not any(p.is_insert_only for p in found.pieces)
    (count,) = found.per_version
    assert (1, 1) == (count.updated_pre, count.updated_post)


def test_deletes_overwrites_and_maintenance(trades) -> None:
    """
    A delete dirties its buckets, an overwrite the old rows' and the new rows'; compaction and properties dirty nothing.
    """
    table = trades()
    table.append((0, "a", 1), (HOUR, "b", 1))
    table.append((2 * HOUR, "c", 1))
    table.table.delete("sym = 'b'")
    assert [1] == hours(captured(table, 2))
    before = table.version
    table.table.optimize.compact()
    table.table.alter.set_table_properties({"delta.checkpointInterval": "17"})
    assert CaptureResult() == captured(table, before, upto=table.version - 1)
    assert () == captured(table, before).pieces
    before = table.version
    write_deltalake(table.path, rows_of([(9 * HOUR, "z", 1)]), mode="overwrite")

    assert [0, 2, 9] == hours(captured(table, before))
    assert {Rung.FEED} == rungs(captured(table, before))


def test_many_keys_and_keys_that_json_does_not_carry(trades) -> None:
    """
    More than 64 keys in a bucket are any key; so are keys of a type that is not recorded exactly.
    """
    table = trades()
    table.append(*((0, f"s{i}", 1) for i in range(65)), *((HOUR, f"s{i}", 1) for i in range(64)))
    by_hour = {p.times.spans[0].start // HOUR: p for p in captured(table, 0).pieces}

    assert (None, 64) == (by_hour[0].keys, len(by_hour[1].keys))
    assert (65, 64) == (by_hour[0].rows, by_hour[1].rows)
    assert (None, 64) == tuple(p.keys and len(p.keys) for p in captured(table, 0, keys=("sym", "ts")).pieces)
    assert {None} == {p.keys for p in captured(table, 0, keys=None).pieces}
    assert {None} == {p.keys for p in captured(table, 0, evaluate=lambda _: None).pieces}
    assert {frozenset({("s1", 1)})} <= {
        p.keys & {("s1", 1)} for p in captured(table, 0, keys=("sym", "price")).pieces if p.keys
    }
    before = table.version
    table.append((0, "x" * 300, 1), (HOUR, "x", 1))
    assert {None, frozenset({("x",)})} == {p.keys for p in captured(table, before).pieces}


def test_against_a_naive_model(trades, rng: random.Random) -> None:
    """
    After random commits, the feed names exactly the buckets and keys of all changed rows, whatever version one starts at.
    """
    table = trades()
    dirty: list[set[tuple[int, str]]] = [set()]
    held: list[tuple[int, str]] = []
    for _ in range(12):
        if held and rng.random() < 0.4:
            sym = rng.choice(held)[1]
            table.table.delete(f"sym = '{sym}'")
            dirty.append({(t // HOUR, s) for t, s in held if s == sym})
            held = [(t, s) for t, s in held if s != sym]
        else:
            new = [(rng.randrange(-50 * HOUR, 50 * HOUR), f"s{rng.randrange(5)}") for _ in range(rng.randrange(1, 6))]
            table.append(*((t, s, 1) for t, s in new))
            dirty.append({(t // HOUR, s) for t, s in new})
            held += new
    assert len(dirty) == table.version + 1
    for after in range(table.version):
        found = captured(table, after)
        expected = set().union(*dirty[after + 1 :])

        assert {Rung.FEED} == rungs(found)
        assert sorted({h for h, _ in expected}) == hours(found)
        for piece in found.pieces:
            inside = {(s,) for h, s in expected if h * HOUR in piece.times}
            assert inside == piece.keys


def test_without_a_feed_files_bound_the_change(trades) -> None:
    """
    Added files by their statistics, removed ones by the statistics of their add, before the run or in it.
    """
    table = trades(feed=False)
    table.append((0, "a", 1), (3 * HOUR, "b", 1))
    table.append((9 * HOUR, "c", 1))
    table.table.delete("sym = 'c'")
    table.append((None, "d", 1))
    removed, all_of_it = captured(table, 2), captured(table, 0)

    assert [9] == hours(removed)
    assert [0, 1, 2, 3, 9] == hours(all_of_it)
    assert {Rung.FILES} == rungs(all_of_it)
    assert {None} == {p.keys for p in all_of_it.pieces}
    assert not any(p.is_insert_only for p in all_of_it.pieces)
    assert "the change feed was off" in all_of_it.reasons[0]


def test_the_feed_switched_on_and_off(trades) -> None:
    """
    Each run of versions takes the best rung that it has by itself.
    """
    table = trades(feed=False)
    table.append((0, "a", 1), (3 * HOUR, "b", 1))
    table.feed(on=True)
    table.append((10 * HOUR, "a", 1), (13 * HOUR, "b", 1))
    table.feed(on=False)
    table.append((20 * HOUR, "a", 1), (23 * HOUR, "b", 1))
    found = captured(table, 0)

    assert [0, 1, 2, 3, 10, 13, 20, 21, 22, 23] == hours(found)
    assert [Rung.FILES, Rung.FEED, Rung.FILES] == [c.rung for c in found.per_version]
    assert [2, 4] == [v for v, _ in found.schemas]
    assert [Rung.FEED] == [c.rung for c in captured(table, 2, upto=3).per_version]


def test_many_rows_are_left_to_spark(trades) -> None:
    """
    More changed rows than allowed are a segment for Spark; what stands on another rung is captured all the same.
    """
    table = trades(feed=False)
    table.append((0, "a", 1))
    table.feed(on=True)
    table.append(*((i * HOUR, "a", 1) for i in range(20)))
    table.table.delete("sym = 'a'")
    found = capture(table, 0, max_rows=30)

    assert isinstance(found, NeedsSpark)
    assert [(3, 4)] == [(s.from_version, s.to_version) for s in found.segments]
    assert "41 changed rows" in found.reason
    assert [0] == hours(found.captured)
    assert {Rung.FEED, Rung.FILES} == rungs(captured(table, 0, max_rows=41))


def test_large_files_are_left_to_spark(trades) -> None:
    """
    Few changed rows in files of more bytes than allowed, too.
    """
    table = trades()
    table.append((0, "a", 1))
    size = size_of(table.path)

    assert {Rung.FEED} == rungs(captured(table, 0, max_bytes=size))
    assert f"1 changed rows of {size} bytes" in capture(table, 0, max_bytes=size - 1).reason


def test_a_segment_by_files(trades) -> None:
    """
    A segment that Spark could not read either is bounded by files, with removes looked up before the whole run.
    """
    table = trades()
    table.append((0, "a", 1))
    table.append((5 * HOUR, "b", 1))
    table.table.delete("sym = 'a'")
    column = {"time_column": "ts", "time_type": TimeType.TIMESTAMP}
    found = capture_by_files(table.path, after=1, from_version=3, to_version=3, reason="too old", **column, **GRID)

    assert [0] == hours(found)
    assert "too old" in found.reasons[0]


@pytest.mark.parametrize("gone", ["data", "change"])
def test_vacuumed_files(trades, gone: str) -> None:
    """
    A missing data or change file makes the feed unreadable: that run is bounded by files.
    """
    table = trades()
    table.append((0, "a", 1), (HOUR, "b", 1))
    table.table.update(updates={"price": "7"}, predicate="sym = 'a'")
    files = table.data_files()[:1] if gone == "data" else list(Path(table.path).glob("_change_data/*"))
    added = DeltaTable(table.path, version=1).file_uris()[0]
    for file in files if gone == "change" else [Path(added)]:
        file.unlink()
    found = captured(table, 0)

    assert {Rung.FILES} == rungs(found)
    assert [0, 1] == hours(found)
    assert "could not be read" in found.reasons[0]


def test_a_feed_that_lacks_rows(trades) -> None:
    """
    Rows that the log counts and the feed does not have are a lower rung: nothing is forgotten.
    """
    table = trades()
    table.append((0, "a", 1), (HOUR, "b", 1))
    text = table.commit_file(1).read_text()
    table.commit_file(1).write_text(text.replace('\\"numRecords\\":2', '\\"numRecords\\":3'))
    found = captured(table, 0)

    assert {Rung.FILES} == rungs(found)
    assert "does not have the rows" in found.reasons[0]


def test_an_updated_row_that_equals_another_is_left_out_of_the_feed(trades) -> None:
    """
    delta-rs writes no new row to the feed where an equal one was there before: the files tell which buckets changed.
    """
    table = trades()
    table.append((0, "b", 1), (3 * HOUR, "c", 1))
    table.table.update(predicate="sym = 'b'", updates={"ts": "TIMESTAMP '1970-01-01T03:00:00Z'", "sym": "'c'"})
    found = captured(table, 1)

    assert {0, 3} <= set(hours(found))
    assert {Rung.FILES} == rungs(found)
    assert "1 rows for 1 updated ones" in found.reasons[0]


def test_nothing_known_is_everything(trades, tmp_path: Path) -> None:
    """
    A cleaned log, or a file without statistics and without a feed, dirties everything, with the reason.
    """
    table = trades()
    for i in range(3):
        table.append((i * HOUR, "a", 1))
    table.table.create_checkpoint()
    for version in (0, 1):
        table.commit_file(version).unlink()
    lost = captured(table, 0)

    assert SpanSet.of(EVERYTHING) == lost.pieces[0].times
    assert Rung.LOST == lost.pieces[0].rung
    assert "no longer in its log" in lost.reasons[0]
    assert [2] == hours(captured(table, 2))

    wide = str(tmp_path / "wide")
    for n in range(2):
        write_deltalake(wide, pa.table({f"c{i}": pa.array([n], pa.int64()) for i in range(40)}), mode="append")
    options = {"table_id": str(DeltaTable(wide).metadata().id), "time_column": "c39", "time_type": TimeType.BIGINT}
    found = capture_without_spark(wide, after=0, upto=1, keys=None, max_rows=10, max_bytes=1 << 28, **options, **GRID)
    assert isinstance(found, CaptureResult)
    assert {Rung.LOST} == rungs(found)
    assert "says nothing about its times" in found.reasons[0]


def test_a_log_that_begins_where_we_left_off(trades) -> None:
    """
    Where the log was cleaned of the version that was captured last, but of none after it, the feed still says what changed.
    """
    table = trades()
    table.append((0, "a", 1), (HOUR, "b", 1))
    table.append((5 * HOUR, "a", 1))
    table.table.delete("sym = 'b'")
    table.append((7 * HOUR, "a", 1))
    table.table.create_checkpoint()
    for version in range(3):
        table.commit_file(version).unlink()
    found = captured(table, 2)

    assert [1, 7] == hours(found)
    assert {Rung.FEED} == rungs(found)
    assert {frozenset({("a",)}), frozenset({("b",)})} == {p.keys for p in found.pieces}


def test_a_hole_is_damage(trades) -> None:
    """
    A missing version with older ones left is not "lost": it stops.
    """
    table = trades()
    for i in range(4):
        table.append((i, "a", 1))
    table.table.create_checkpoint()
    asked = {"table_id": table.id, "upto": 4}
    table.commit_file(2).unlink()

    with pytest.raises(SourceDamagedError, match="hole"):
        capture_without_spark(
            table.path,
            after=1,
            time_column="ts",
            time_type=TimeType.TIMESTAMP,
            keys=None,
            max_rows=10,
            max_bytes=1 << 28,
            **asked,
            **GRID,
        )


def test_another_table_or_an_older_copy(trades) -> None:
    """
    A recreated table, an older copy under the same id, and a version that never was are three refusals, not changes.
    """
    table = trades()
    table.append((0, "a", 1))
    old_id = table.id
    shutil.copytree(table.path, table.path + "-copy")
    table.append((HOUR, "a", 1))
    newest = table.version
    shutil.rmtree(table.path)
    shutil.move(table.path + "-copy", table.path)
    with pytest.raises(SourceRolledBackError, match="is at version 1"):
        capture(table, newest, upto=newest)
    shutil.rmtree(table.path)
    recreated = trades()
    recreated.append((0, "a", 1))

    with pytest.raises(SourceReplacedError, match="recreated"):
        capture(recreated, 0, table_id=old_id)


def test_an_older_copy_is_refused_whatever_is_asked_for(trades) -> None:
    """
    A table that lies behind what was seen of it lost commits, also where the version that is asked for is still there.
    """
    table = trades()
    table.append((0, "a", 1))

    for seen, wanted in ((2, 1), (0, 2)):
        with pytest.raises(SourceRolledBackError, match="is at version 1, but version 2 was seen"):
            capture(table, seen, upto=wanted)


def test_a_table_that_was_another_one_meanwhile(trades) -> None:
    """
    The id is looked at in every version of the run, not only in the newest.
    """
    table = trades()
    for on in (True, False, True):
        table.feed(on=on)
    log = table.commit_file(2)
    log.write_text(log.read_text().replace(table.id, "00000000-0000-0000-0000-000000000000"))
    table.append((0, "a", 1))

    with pytest.raises(SourceReplacedError, match="00000000"):
        capture(table, 0)


def test_files_that_only_moved_rows_are_no_change(trades) -> None:
    """
    By files, a compaction beside an insert makes nothing dirty where it moved rows.
    """
    table = trades(feed=False)
    for hour in (0, 1):
        table.append((hour * HOUR, "a", hour))
    table.table.optimize.compact()
    table.append((5 * HOUR, "a", 5))

    assert [5] == hours(captured(table, 2))


def test_rows_that_no_statistics_count_are_counted_in_the_file(trades) -> None:
    """
    A file that came without statistics is opened to know how many rows the feed must have.
    """
    table = trades()
    table.append((0, "a", 1), (HOUR, "b", 2))
    table.forget(1)
    found = capture(table, 0)

    assert isinstance(found, CaptureResult)
    assert {Rung.FEED} == {p.rung for p in found.pieces}
    assert 2 == found.per_version[0].inserted


def test_a_file_that_went_without_a_count_may_have_held_any_number(trades) -> None:
    """
    Where nothing else is known either, nobody can tell how many rows are missing.
    """
    table = trades(feed=False)
    for hour in (0, 1):
        table.append((hour * HOUR, "a", hour))
    table.forget(1)
    table.table.delete("price = 0")
    found = capture(table, 1)

    assert isinstance(found, CaptureResult)
    assert [(Rung.LOST, ANY_ROWS)] == [(p.rung, p.rows) for p in found.pieces]


def test_what_a_remove_leaves_out_is_known_from_its_add(trades) -> None:
    """
    Writers may name a file that went with its times and without its rows.
    """
    table = trades()
    told = DataFile("f", 1, 5, 0, Span(0, HOUR), True, True, False)
    look = CaptureContext(DeltaFolder(table.path), 0, TimeColumn("ts", TimeType.TIMESTAMP, "ts"), None, *GRID.values())
    look.files["f"] = told

    assert told == look.original(replace(told, rows=None))


def test_added_columns_and_changed_types(trades) -> None:
    """
    An added column leaves the feed readable and is reported; a column that places rows and changes its type does not.
    """
    table = trades()
    table.append((0, "a", 1))
    wider = rows_of([(HOUR, "b", 1)]).append_column("extra", pa.array([1.5]))
    write_deltalake(table.path, wider, mode="append", schema_mode="merge")
    found = captured(table, 0)
    assert ({Rung.FEED}, [0, 1]) == (rungs(found), hours(found))
    assert [2] == [v for v, _ in found.schemas]
    assert "extra" in found.schemas[0][1]

    changed = pa.table({"ts": rows_of([(5 * HOUR, "b", 1)])["ts"], "sym": pa.array([7]), "price": pa.array([1])})
    write_deltalake(table.path, changed, mode="overwrite", schema_mode="overwrite")
    found = captured(table, 2)
    assert {Rung.FILES} == rungs(found)
    assert "changed" in found.reasons[0]


@pytest.mark.parametrize(
    ("kind", "time_type", "values", "width"),
    [
        (pa.date32(), TimeType.DATE, [0, 40], 30 * 86_400_000_000),
        (pa.timestamp("us"), TimeType.TIMESTAMP_NTZ, [-1, 3 * HOUR], HOUR),
        (pa.int64(), TimeType.BIGINT, [-(2**63) + 100, 2**63 - 1], 100),
        (pa.int16(), TimeType.SMALLINT, [-32_768, 32_767], 10),
    ],
)
def test_every_time_type(tmp_path: Path, kind: Any, time_type: TimeType, values: list[int], width: int) -> None:
    """
    Buckets of every time type, up to the ends of 64 bits, by feed and by files; the file's bound holds the feed's buckets.
    """
    path = str(tmp_path / "t")
    rows = pa.table({"t": pa.array(values, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)})
    tables.create(path, rows.schema)
    tables.append(path, rows)
    floor: Callable[[int], int] = lambda t: t // width * width  # noqa: E731
    asked: dict[str, Any] = {
        "time_column": "t",
        "time_type": time_type,
        "floor": floor,
        "next_edge": lambda e: e + width,
    }
    fed = capture_without_spark(
        path,
        after=0,
        upto=1,
        table_id=str(DeltaTable(path).metadata().id),
        keys=None,
        max_rows=9,
        max_bytes=1 << 28,
        **asked,
    )
    filed = capture_by_files(path, after=0, from_version=1, to_version=1, reason="asked", **asked)
    scale = 86_400_000_000 if kind == pa.date32() else 1

    assert isinstance(fed, CaptureResult)
    expected = SpanSet.of(*(Span(floor(v * scale), floor(v * scale) + width) for v in values))
    assert expected == SpanSet.union(s for p in fed.pieces for s in p.times)
    assert not expected - SpanSet.union(s for p in filed.pieces for s in p.times)


def test_a_partitioned_source(tmp_path: Path) -> None:
    """
    Paths with partition values in them are found again: a removed file of a partitioned table is bounded exactly.
    """
    path = str(tmp_path / "t")
    rows = rows_of([(0, "a b=c", 1), (5 * HOUR, "é%", 1)])
    write_deltalake(path, rows, partition_by="sym")
    DeltaTable(path).delete("sym = 'é%'")
    found = capture_without_spark(
        path,
        after=0,
        upto=1,
        table_id=str(DeltaTable(path).metadata().id),
        time_column="ts",
        time_type=TimeType.TIMESTAMP,
        keys=None,
        max_rows=10,
        max_bytes=1 << 28,
        **GRID,
    )

    assert isinstance(found, CaptureResult)
    assert ({Rung.FILES}, [5]) == (rungs(found), hours(found))


def test_a_small_change_is_cheap(trades) -> None:
    """
    Capturing one row reads one commit, however long the history.
    """
    table = trades()
    for i in range(30):
        table.append((i, "a", 1))
    with commits_opened(table.path) as opened:
        capture(table, table.version - 1)

    assert {table.version: 1} == opened


def test_segments_are_values() -> None:
    """
    Equal segments give one reason.
    """
    assert "why" == NeedsSpark((Segment(1, 2, "why"), Segment(4, 5, "why")), CaptureResult()).reason
