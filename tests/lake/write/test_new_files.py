"""Commits of files that were written elsewhere, as Spark writes them: in a folder of the plan, taken in where they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import create_table_with_add_actions

from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.errors import StorageError, WriteFencedError
from materializer.lake.log import read_commit
from materializer.lake.table import DeltaFolder
from materializer.lake.write import commit
from materializer.lake.write.commit import (
    CommitResult,
    append_to,
    commit_files,
    committed,
    create_table,
    fence,
    stamped,
)
from materializer.lake.write.new_files import OF_PLAN, new_files
from materializer.lake.write.replace import append_files, replace_by_files, replace_spans
from materializer.lake.write.vacuum import leftovers, remove
from materializer.services.definitions.tables import create_tables
from tests.lake.tables import HOUR, SCHEMA, rows_of, times_of

APP = "materializer/1"
TS = SliceColumn("ts", holds_end=False, type=TimeType.TIMESTAMP)


def note(n: int, plan: str = "") -> dict[str, Any]:
    return {"plan": plan or f"p{n}", "n": n, "kind": "data", "source_version": 3}


@pytest.fixture
def bars(tmp_path: Path) -> str:
    """A table of ours with one file for each of four hours."""
    path = str(tmp_path / "bars")
    create_table(path, SCHEMA, name="bars")
    for hour in range(4):
        rows = rows_of([(hour * HOUR + i, "a", hour) for i in (0, 10)])
        write_deltalake(path, rows, mode="append")
    return path


class Writer:
    """Writes new rows, and those of named files that stay, as Spark does; remembers what it was asked for."""

    def __init__(self, path: str, times: Sequence[int], spans: SpanSet) -> None:
        self.path = path
        self.new = rows_of([(t, "new", 9) for t in times])
        self.spans = spans
        self.named: list[int] = []

    def __call__(self, folder: str, names: Sequence[str]) -> None:
        """Write into the table at *folder*."""
        self.named.append(len(names))
        old = [pq.ParquetFile(f"{self.path}/{name}").read().cast(SCHEMA) for name in names]
        stays = [t.filter(pa.array([v.value is None or v.value not in self.spans for v in t["ts"]])) for t in old]
        rows = pa.concat_tables([self.new, *stays])
        if rows.num_rows:
            write_deltalake(folder, rows, mode="append")


def replace(path: str, times: Sequence[int], spans: SpanSet, n: int) -> tuple[CommitResult, Writer]:
    writer = Writer(path, times, spans)
    return replace_by_files(path, writer, TS, spans, APP, n, note(n), rows=len(times)), writer


def folders(path: str) -> list[Path]:
    return sorted(Path(path).glob("plan-*"))


def test_files_inside_the_spans_go_and_only_cut_ones_are_read(bars: str) -> None:
    """
    Two files lie inside the spans, and one is cut: its other row is written again, the last file is left alone.
    """
    spans = SpanSet.of(Span(0, 2 * HOUR + 5))
    found, writer = replace(bars, [7], spans, 1)

    assert [1] == writer.named
    assert (3, 1, 1) == (found.files_removed, found.files_added, found.rows_copied)
    assert [7, 2 * HOUR + 10, 3 * HOUR, 3 * HOUR + 10] == times_of(bars)
    [folder] = folders(bars)
    assert folder.name.startswith(f"{OF_PLAN}p1-")
    assert [p.suffix for p in folder.iterdir()] == [".parquet"], "the folder's own log is gone"
    assert [f"{folder.name}/{p.name}" for p in folder.iterdir()] == [f.path for f in read_commit(bars, 5).adds]
    assert 1 == DeltaFolder(bars).transaction_version(APP)


def test_a_row_without_a_time_stays(bars: str) -> None:
    """
    A file that has one is never taken for one that lies inside the spans.
    """
    write_deltalake(bars, rows_of([(5, "odd", 1), (None, "odd", 2)]), mode="append")
    _, writer = replace(bars, [7], SpanSet.of(Span(0, HOUR)), 1)

    assert [1] == writer.named


def test_nothing_to_write_only_removes(bars: str) -> None:
    """
    Without rows the spans become empty; without spans, too, the commit only records its number. No folder is left.
    """
    found, _ = replace(bars, [], SpanSet.of(Span(0, HOUR)), 1)
    assert (0, 1) == (found.files_added, found.files_removed)
    found, _ = replace(bars, [], SpanSet(), 2)

    assert (0, 0) == (found.files_added, found.files_removed)
    assert 6 == len(times_of(bars))
    assert 2 == DeltaFolder(bars).transaction_version(APP)
    assert [] == folders(bars)


def test_a_commit_in_between_makes_it_write_again(bars: str) -> None:
    """
    Files that came while the new ones were written are replaced as well; of the first attempt nothing is left.
    """
    spans = SpanSet.of(EVERYTHING)
    writer = Writer(bars, [7], spans)

    def late(folder: str, names: Sequence[str]) -> None:
        if not writer.named:
            write_deltalake(bars, rows_of([(5, "late", 1)]), mode="append")
        writer(folder, names)

    found = replace_by_files(bars, late, TS, spans, APP, 1, note(1), rows=1)

    assert [0, 0] == writer.named
    assert (6, 5) == (found.version, found.files_removed)
    assert [7] == times_of(bars)
    assert 1 == len(folders(bars))


def test_a_fence_refuses_the_files(bars: str) -> None:
    """
    A plan that was fenced while its files were written commits nothing, and its files are removed.
    """
    writer = Writer(bars, [7], SpanSet.of(EVERYTHING))

    def fenced(folder: str, names: Sequence[str]) -> None:
        fence(bars, APP, 1, note(1, "another"))
        writer(folder, names)

    with pytest.raises(WriteFencedError):
        replace_by_files(bars, fenced, TS, SpanSet.of(EVERYTHING), APP, 1, note(1), rows=1)

    assert 8 == len(times_of(bars))
    assert [] == folders(bars)


def test_a_writer_that_fails_leaves_nothing(bars: str) -> None:
    """
    The table is as it was, and the folder is gone; so are both after an append that fails.
    """

    def fails(*_: Any) -> None:
        raise StorageError("no room")

    with pytest.raises(StorageError):
        replace_by_files(bars, fails, TS, SpanSet.of(EVERYTHING), APP, 1, note(1), rows=1)
    with pytest.raises(StorageError):
        append_files(bars, fails, APP, 1, note(1))

    assert 8 == len(times_of(bars))
    assert ["_delta_log"] == [p.name for p in Path(bars).iterdir() if p.is_dir()]


def test_an_append_takes_files_in(bars: str) -> None:
    """
    It adds rows and removes none; the same append again is recognised.
    """

    def write(folder: str) -> None:
        write_deltalake(folder, rows_of([(5, "late", 1)]), mode="append")

    first = append_files(bars, write, APP, 1, note(1))

    assert (5, 1, 0) == (first.version, first.files_added, first.files_removed)
    assert first.version == append_files(bars, write, APP, 1, note(1)).version
    assert 9 == len(times_of(bars))


@pytest.mark.parametrize("follows", [False, True], ids=["alone", "before another's"])
def test_a_commit_whose_answer_was_lost_is_recognised(bars: str, follows: bool) -> None:
    """
    The store made the commit and says that it failed: the commit counts, and is not made a second time, also when another
    commit came right after it.
    """
    attempts = []

    def lost(opened: DeltaTable) -> None:
        attempts.append(opened.version())
        append_to(opened, rows_of([(5, "late", 1)]), stamped(APP, 1, note(1)))
        if follows:
            write_deltalake(bars, rows_of([(6, "other", 1)]), mode="append")
        raise CommitFailedError("a version with this number exists already")

    found = committed(bars, APP, 1, lost, note(1), new_rows=1)

    assert ([4], 5) == (attempts, found.version)
    assert 9 + follows == len(times_of(bars))


def test_files_that_may_be_committed_stay(bars: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    When nobody can tell whether a commit was made, its files are not removed: maintenance does that when the plan has ended.
    """
    real = DeltaTable.create_write_transaction

    def lost(self: DeltaTable, *args: Any, **named: Any) -> None:
        real(self, *args, **named)
        monkeypatch.setattr("materializer.lake.write.commit.open_table", gone)
        raise OSError("the answer was lost")

    def gone(*_: Any) -> DeltaTable:
        raise StorageError("the store does not answer")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    with pytest.raises(StorageError) as caught:
        replace(bars, [7], SpanSet.of(EVERYTHING), 1)
    monkeypatch.undo()

    assert "not known" in caught.value.wrote
    assert [7] == times_of(bars)
    assert [] == [f.name for f in leftovers(bars, before=0) if f.name.startswith(OF_PLAN)]
    again, writer = replace(bars, [7], SpanSet.of(EVERYTHING), 1)
    assert (5, []) == (again.version, writer.named), "the next attempt recognises it"


def test_committed_files_beside_their_own_log_stay(bars: str) -> None:
    """
    A process that died right after its commit left the folder's log: maintenance does not take it for a plan that died.
    """
    replace(bars, [7], SpanSet.of(EVERYTHING), 1)
    [folder] = folders(bars)
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / f"{0:020}.json").write_text("{}")

    remove(bars, leftovers(bars, before=time.time()))
    assert [7] == times_of(bars)
    found = leftovers(bars, before=time.time() + 60)
    assert [] == [f for f in found if f.is_folder]


def test_a_table_whose_creation_was_not_answered_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The store made the table and says that it failed: the table counts. One that another process made meanwhile is not taken over.
    """
    real = create_table_with_add_actions

    def lost(*args: Any, **named: Any) -> None:
        real(*args, **named)
        raise CommitFailedError("a version with this number exists already")

    def later(path: str, *args: Any, **named: Any) -> None:
        real(path, *args, **named | {"name": "another's", "commit_properties": None})
        raise CommitFailedError("a version with this number exists already")

    monkeypatch.setattr(commit, "create_table_with_add_actions", lost)
    made = create_table(str(tmp_path / "ours"), SCHEMA, name="bars")
    monkeypatch.setattr(commit, "create_table_with_add_actions", later)
    with pytest.raises(StorageError):
        create_table(str(tmp_path / "theirs"), SCHEMA, name="bars")

    assert ("bars", made) == ((found := DeltaTable(str(tmp_path / "ours")).metadata()).name, str(found.id))


def test_a_table_that_was_created_is_not_opened_for_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Thousands of definitions are applied at once: the id stands in the first commit, and the library opens no table for it.
    """
    real, opened = DeltaTable.__init__, []

    def counted(table: DeltaTable, *args: Any, **named: Any) -> None:
        opened.append(args[0] if args else named["table_uri"])
        real(table, *args, **named)

    monkeypatch.setattr(DeltaTable, "__init__", counted)
    schemas = {"partials": [["slice", "timestamp"]], "output": [["at", "timestamp"]]}
    paths = {which: str(tmp_path / which) for which in schemas}

    made = create_tables(paths, cast("Any", SimpleNamespace(name="bars", comment="")), schemas, "an-id")

    assert [] == opened
    assert made == {which: str(DeltaTable(path).metadata().id) for which, path in paths.items()}


def test_the_log_of_new_files_does_not_grow(bars: str) -> None:
    """
    The library reads the log of a folder before it writes there, so each file has a log of its own; all of them are committed.
    """
    table = DeltaTable(bars)
    with new_files(bars, "p1") as files:
        log = Path(files.begin(table, by_driver=True)) / "_delta_log"
        versions = []
        for hour in range(5):
            files.write(rows_of([(10 * HOUR + hour, "new", hour)]))
            versions.append(len(list(log.glob("*.json"))))
        commit_files(table, files.adds(5, data_change=True), stamped(APP, 1, note(1)))

    assert [1] * 5 == versions
    assert [10 * HOUR + hour for hour in range(5)] == times_of(bars)[-5:]
    assert [".parquet"] * 5 == [p.suffix for p in folders(bars)[0].iterdir()]


def test_the_driver_does_not_read_files_that_are_replaced_whole(bars: str) -> None:
    """
    Files inside the spans cannot be read, and are replaced all the same; of the last one a row stays.
    """
    known = DeltaTable(bars).file_uris()
    spans = SpanSet.of(Span(0, 3 * HOUR + 5))
    for name in known:
        if pq.read_table(name)["ts"][0].value < 3 * HOUR:
            Path(name).write_bytes(b"damaged")

    replace_spans(bars, rows_of([(7, "new", 9)]), TS, spans, APP, 1, note(1))

    assert [7, 3 * HOUR + 10] == times_of(bars)
