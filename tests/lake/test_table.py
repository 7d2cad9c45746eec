from __future__ import annotations

import gc
import json
import os
import shutil
import time
import weakref
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from materializer.core.spec.spec import TimeType
from materializer.errors import (
    CatalogManagedError,
    NotADeltaTableError,
    SourceDamagedError,
    StorageError,
    TableNotFoundError,
)
from materializer.lake.reads import Reader, SharedReads
from materializer.lake.statistics import TimeColumn
from materializer.lake.table import DeltaFolder, NotedTable, TableHead, identity
from tests.lake.opened import commits_opened
from tests.tables import with_features

NOBODY = 65534


def test_a_head_follows_commits_of_others(trades) -> None:
    """
    Version and id are the newest, also when another object commits in between.
    """
    table = trades()
    folder = DeltaFolder(table.path)

    assert TableHead(0, table.id) == folder.head()
    table.append((0, "a", 1))
    assert 1 == folder.head().version


def test_a_recreated_table_is_another_one(trades) -> None:
    """
    Dropped and recreated under an open object, at the same version: the new id is seen, not the cached one.
    """
    table = trades()
    folder = DeltaFolder(table.path)
    old = folder.head()
    shutil.rmtree(table.path)
    new = trades()

    assert 0 == folder.head().version == old.version
    assert new.id == folder.head().table_id != old.table_id


def test_tables_that_nobody_uses_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of many tables a process keeps those that it asked for last. Whoever uses one keeps it, and all get the same object.
    """
    monkeypatch.setattr("materializer.lake.table.MOST_KEPT", 3)
    used = DeltaFolder.at("/nowhere/used")
    known = [weakref.ref(DeltaFolder.at(f"/nowhere/{n}")) for n in range(5)]
    gc.collect()

    assert [None, None] == [ref() for ref in known[:2]]
    assert all(ref() is DeltaFolder.at(f"/nowhere/{n}") for n, ref in enumerate(known) if n >= 2)
    assert used is DeltaFolder.at("/nowhere/used")


def test_what_another_process_noted_holds_as_long_as_the_commit_is_the_same(trades) -> None:
    """
    It is not opened again: what was noted is answered. After a commit, and after it was recreated at the same version, it is looked at.
    """
    table = trades()
    commit = identity(table.path, 0)
    assert commit is not None

    def from_note() -> TableHead:
        folder = DeltaFolder(table.path)
        folder.start_from(NotedTable(TableHead(0, "noted"), commit))
        return folder.head()

    assert TableHead(0, "noted") == from_note()
    table.append((0, "a", 1))
    assert TableHead(1, table.id) == from_note()
    shutil.rmtree(table.path)
    assert TableHead(0, trades().id) == from_note()
    shutil.rmtree(table.path)
    with pytest.raises(TableNotFoundError):
        from_note()


def test_what_is_noted_of_a_table_is_what_it_has(bucket: str) -> None:
    """
    Version, id, rows and the numbers that were asked for: the same from the note as from the table; another number is looked up.
    """
    path, at = f"{bucket}/trades", {"x": 7, "y": None}
    rows = pa.table({"v": [1, 2, 3]})
    for n in (6, 7):
        number = CommitProperties(app_transactions=[Transaction("x", n), Transaction("z", n)])
        write_deltalake(path, rows, mode="append", commit_properties=number)
    folder = DeltaFolder.at(path)
    assert at == {name: folder.transaction_version(name) for name in at}
    noted = DeltaFolder.noted([bucket])[path]
    other = DeltaFolder(path)
    other.start_from(noted)

    assert (folder.head(), 6, at) == (noted.head, noted.rows, noted.numbers)
    assert (folder.head(), 6, at) == (
        other.head(),
        other.rows(),
        {name: other.transaction_version(name) for name in at},
    )
    assert None is DeltaFolder.noted([path])[path].rows
    assert 7 == other.transaction_version("z")
    write_deltalake(path, rows, mode="append")
    late = DeltaFolder(path)
    late.start_from(noted)
    assert (9, 2, 7) == (late.rows(), late.head().version, late.transaction_version("x"))


def test_looking_at_an_unchanged_table_is_cheap(trades) -> None:
    """
    A repeated look costs far less than 2 ms.
    """
    folder = DeltaFolder(trades().path)
    folder.head()
    started = time.perf_counter()
    for _ in range(100):
        folder.head()

    assert (time.perf_counter() - started) / 100 < 0.002


def test_schema_in_the_words_of_spark(tmp_path: Path) -> None:
    """
    Types come as Spark names them, nested ones included.
    """
    schema = pa.schema(
        [("a", pa.int64()), ("b", pa.decimal128(38, 5)), ("c", pa.timestamp("us")), ("d", pa.list_(pa.int32()))]
    )
    DeltaTable.create(str(tmp_path / "t"), schema)

    found = DeltaFolder(str(tmp_path / "t")).schema()

    assert [("a", "bigint"), ("b", "decimal(38,5)"), ("c", "timestamp_ntz"), ("d", "array<int>")] == found


def test_features_and_properties(tmp_path: Path, trades) -> None:
    """
    Properties are read from the metadata, partition columns are named, nothing is claimed that is not there.
    """
    write_deltalake(str(tmp_path / "p"), pa.table({"d": ["x"], "v": [1]}), partition_by="d")
    plain, parted = DeltaFolder(trades().path), DeltaFolder(str(tmp_path / "p"))

    assert "true" == plain.properties()["delta.enableChangeDataFeed"]
    assert ("d",) == parted.features().partition_columns
    assert not any(getattr(plain.features(), f) for f in ("has_deletion_vectors", "has_column_mapping", "is_clustered"))


def test_transaction_numbers(trades) -> None:
    """
    The largest recorded number, None for an identifier that never wrote.
    """
    table = trades()
    properties = CommitProperties(app_transactions=[Transaction("app", 7)])
    write_deltalake(table.path, table.rows([(0, "a", 1)]), mode="append", commit_properties=properties)
    folder = DeltaFolder(table.path)

    assert 7 == folder.transaction_version("app")
    assert folder.transaction_version("other") is None


def test_what_is_not_there(tmp_path: Path) -> None:
    """
    Nothing at a path, and a folder without a log, are two errors; existence is a plain question.
    """
    (tmp_path / "folder").mkdir()

    with pytest.raises(TableNotFoundError, match="no table at"):
        DeltaFolder(str(tmp_path / "none")).head()
    with pytest.raises(NotADeltaTableError, match="no Delta log"):
        DeltaFolder(str(tmp_path / "folder")).head()
    assert not DeltaFolder(str(tmp_path / "none")).exists()
    assert not DeltaFolder(str(tmp_path / "folder")).exists()


@pytest.mark.parametrize("damage", ["hole", "broken"])
def test_a_damaged_log(trades, damage: str) -> None:
    """
    A hole in the log and a commit that is no JSON are damage, not a crash.
    """
    table = trades()
    for i in range(3):
        table.append((i, "a", 1))
    if damage == "hole":
        table.commit_file(2).unlink()
    else:
        table.commit_file(2).write_text('{"add":')

    with pytest.raises(SourceDamagedError, match="damaged"):
        DeltaFolder(table.path).head()


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_table_of_a_catalog_is_refused_by_the_name_of_its_feature(trades, feature) -> None:
    """
    Commits that only its catalog knows would be missed without a word.
    """
    table = trades()
    with_features(Path(table.path), feature)

    with pytest.raises(CatalogManagedError, match=rf"managed by a catalog .*\(table feature {feature}\)"):
        DeltaFolder(table.path).head()


def test_a_table_without_the_right_to_read_it(trades) -> None:
    """
    It is no table that is missing: nobody may take it for one that was dropped.
    """
    is_root = os.geteuid() == 0  # who may read everything
    with TemporaryDirectory() as folder:  # the folders of pytest are closed to others
        Path(folder).chmod(0o755)
        path = Path(shutil.copytree(trades().path, Path(folder) / "trades"))
        path.chmod(0)
        try:
            if is_root:
                os.seteuid(NOBODY)
            with pytest.raises(StorageError) as caught:
                DeltaFolder(str(path)).head()
        finally:
            if is_root:
                os.seteuid(0)
            path.chmod(0o755)

    assert ("storage.failed", 74) == (caught.value.code, caught.value.exit_status)


def test_a_block_opens_each_commit_once(trades) -> None:
    """
    Whoever reads it, in whatever range, and by whichever column its files are placed: the statistics are there already. Outside of a
    block each range is read.
    """
    table = trades()
    for i in range(4):
        table.append((i, "a", 10 * i))
    folder = DeltaFolder(table.path)
    ts, price = (
        TimeColumn(name, kind, name) for name, kind in (("ts", TimeType.TIMESTAMP), ("price", TimeType.BIGINT))
    )
    with SharedReads().together([Reader("a", table.path, ["ts"])]), commits_opened(table.path) as opened:
        assert [1, 2, 3, 4] == [c.version for c in folder.commits(0, 4)]
        starts = [[c.adds[0].span.start for c in folder.commits(1, 4, column)] for column in (price, ts, price)]
    assert [[10, 20, 30], [0, 0, 0], [10, 20, 30]] == starts
    assert {1: 1, 2: 1, 3: 1, 4: 1} == opened

    with commits_opened(table.path) as opened:
        folder.commits(2, 3)
        folder.commits(2, 3, ts)
    assert {3: 2} == opened


def test_a_long_commit_that_is_looked_at_is_not_opened_again_to_be_read(trades) -> None:
    """
    One that is written over meanwhile is.
    """
    folder = DeltaFolder((table := trades()).path)
    for is_written_over in (False, True):
        before = folder.head().version
        table.append((0, "a", 1))
        commit = Path(table.path, "_delta_log", f"{before + 1:020d}.json")
        text = commit.read_text()
        commit.write_text(text + "\n" + json.dumps({"txn": {"appId": "x" * 20_000, "version": 1}}))
        with commits_opened(table.path) as opened:
            assert before + 1 == folder.head().version
            if is_written_over:
                commit.write_text(text)
            (read,) = folder.commits(before, before + 1)
        assert {before + 1: 3 if is_written_over else 1} == opened, "one is the look, one the test"
        assert len(read.transactions) == (not is_written_over)


def test_commits_of_a_recreated_table_are_read_anew(trades) -> None:
    """
    Also inside of a block, and at the same version.
    """
    table = trades()
    table.append((0, "a", 1))
    folder = DeltaFolder(table.path)
    with SharedReads().together([Reader("a", table.path, ["ts"])]):
        (old,) = folder.commits(0, 1)
        shutil.rmtree(table.path)
        new = trades()
        new.append((0, "b", 2))
        (commit,) = folder.commits(0, 1)

    assert old.adds[0].path != commit.adds[0].path


def test_a_handle_that_was_updated_often_is_opened_anew(trades) -> None:
    """
    The library keeps what it read of each commit, so a process that stays would grow with the commits that it sees. What the handle
    says is the same.
    """
    table = trades()
    folder, handles = DeltaFolder(table.path), []
    for version in range(1, 46):
        table.append((version, "a", 1))
        if version % 2:  # it need not see each
            assert version == folder.head().version
            handles.append(folder.opened())
            assert version == handles[-1].version()

    assert 3 == len({id(handle) for handle in handles})
