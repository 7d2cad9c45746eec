from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from materializer.errors import JournalConflictError, JournalError
from materializer.journal import row_files
from materializer.journal import store as store_module
from materializer.journal import walk as walk_module
from materializer.journal.codec import Row
from materializer.journal.ports import JournalSnapshot
from materializer.journal.store import JournalStore
from materializer.lake import places
from materializer.lake.log import read_commit
from materializer.lake.table import open_table
from materializer.lake.write.vacuum import leftovers


def row(n: int, aggregate: str = "a") -> Row:
    return Row(aggregate, "done", "2024-01-01T00:00:00Z", json.dumps({"n": n}))


def numbers(snapshot: JournalSnapshot) -> list[int]:
    return [json.loads(r.payload)["n"] for r in snapshot.rows]


def fill(store: JournalStore, *numbers: int) -> int:
    version = store.read().version
    for n in numbers:
        version = store.append([row(n)], expected_version=version)
    return version


def test_nothing_is_written_by_looking(tmp_path: Path) -> None:
    """
    A journal that does not exist is empty at version -1, and stays away until the first append.
    """
    store = JournalStore(tmp_path)

    assert JournalSnapshot(-1, ()) == store.read()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="at least one"):
        store.append([], expected_version=-1)


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    """
    Whatever appends, whoever reads, warm or cold: the same rows in the order of commits and inside them.
    """
    writer, reader = JournalStore(tmp_path), JournalStore(tmp_path)
    version = writer.append([row(2), row(1), row(3)], expected_version=-1)
    reader.read()
    for n in range(30, 10, -1):
        version = writer.append([row(n), row(-n)], expected_version=version)

    expected = [2, 1, 3, *(m for n in range(30, 10, -1) for m in (n, -n))]
    for store in (writer, reader, JournalStore(tmp_path)):
        assert (version, expected) == (store.read().version, numbers(store.read()))
    assert JournalStore(tmp_path).read() == writer.read() == reader.read()


def test_the_second_of_two_is_refused(tmp_path: Path) -> None:
    """
    An append decided on an older version is refused, by version or by the race itself, and writes nothing.
    """
    one, two = JournalStore(tmp_path), JournalStore(tmp_path)
    version = fill(one, 1)
    assert version == two.read().version
    one.append([row(2)], expected_version=version)
    for store in (two, one, JournalStore(tmp_path)):
        with pytest.raises(JournalConflictError, match="another process"):
            store.append([row(3)], expected_version=version)
        with pytest.raises(JournalConflictError):
            store.snapshot([row(3)], expected_version=version)

    assert [1, 2] == numbers(two.read())


def test_who_is_late_writes_no_file(tmp_path: Path) -> None:
    """
    What was decided on an older version is refused before a file of it is written: a lost race leaves nothing behind.
    """
    one, two = JournalStore(tmp_path), JournalStore(tmp_path)
    fill(one, 1)
    version = fill(one, 2)  # by now it knows the newest version, and has the table open at it
    two.append([row(3)], expected_version=two.read().version)
    before = sorted(Path(one.path).rglob("*"))
    for store in (one, two):
        with pytest.raises(JournalConflictError):
            store.append([row(4)], expected_version=version)

    assert before == sorted(Path(one.path).rglob("*"))


def test_a_journal_without_its_first_commit_is_not_created_again(tmp_path: Path) -> None:
    """
    The log's beginning may have been cleaned away: who saw no journal still comes second.
    """
    late, store = JournalStore(tmp_path), JournalStore(tmp_path)
    late.read()
    store.snapshot([row(2)], expected_version=fill(store, 1))
    Path(store.path, "_delta_log", f"{0:020d}.json").unlink()
    with pytest.raises(JournalConflictError):
        late.append([row(3)], expected_version=-1)


def test_an_append_beyond_the_newest_version_is_refused(tmp_path: Path) -> None:
    """
    Who saw a later version than there is looked at a journal that was put back since.
    """
    store = JournalStore(tmp_path)
    version = fill(store, 1)
    with pytest.raises(JournalConflictError):
        store.append([row(2)], expected_version=version + 3)

    assert [1] == numbers(JournalStore(tmp_path).read())


def test_rows_of_a_later_version_than_the_newest_are_damage(tmp_path: Path) -> None:
    """
    A log that lost its end, and files that did not: what was decided on these rows is gone.
    """
    store = JournalStore(tmp_path)
    fill(store, 1)
    DeltaTable(store.path).alter.set_table_properties({"delta.appendOnly": "false"})  # so that the log is read whole
    fill(store, 2, 3)
    newest = store.read().version
    names = [f"{store.path}/{read_commit(store.path, v).adds[0].path}" for v in (newest - 1, newest)]
    shutil.copyfile(names[1], names[0])
    Path(store.path, "_delta_log", f"{newest:020d}.json").unlink()
    with pytest.raises(JournalError, match=f"is at version {newest - 1}, but holds rows of version {newest}"):
        JournalStore(tmp_path).read()


def test_a_race_inside_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A commit that slips in after the last look is still a conflict, and the loser works on afterwards.
    """
    one, two = JournalStore(tmp_path), JournalStore(tmp_path)
    version = fill(one, 1)
    two.read()

    def slow(place: str, data: bytes) -> None:
        monkeypatch.undo()
        one.append([row(2)], expected_version=version)
        places.put(place, data)

    monkeypatch.setattr(places, "put", slow)
    with pytest.raises(JournalConflictError):
        two.append([row(3)], expected_version=version)
    two.append([row(4)], expected_version=two.read().version)

    assert [1, 2, 4] == numbers(JournalStore(tmp_path).read())


def test_a_race_inside_a_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A commit that slips in before all rows are replaced is a conflict, and stays.
    """
    one, two = JournalStore(tmp_path), JournalStore(tmp_path)
    version = fill(one, 1)
    two.read()
    made = row_files.table_of

    def slow(rows: Sequence[Row], at: int) -> pa.Table:
        monkeypatch.undo()
        one.append([row(2)], expected_version=version)
        return made(rows, at)

    monkeypatch.setattr(row_files, "table_of", slow)
    with pytest.raises(JournalConflictError):
        two.snapshot([row(3)], expected_version=version)

    assert [1, 2] == numbers(two.read()) == numbers(JournalStore(tmp_path).read())


def test_no_version_is_left_out(tmp_path: Path) -> None:
    """
    Where an older journal lies in the folder meanwhile, an append is a conflict; it does not go on beyond a hole.
    """
    store = JournalStore(tmp_path)
    fill(store, 1)
    version = fill(store, 2)  # which this object remembers
    log = Path(store.path, "_delta_log")
    (log / f"{version:020d}.json").unlink()
    with pytest.raises(JournalConflictError):
        store.append([row(3)], expected_version=version)

    assert version == len(list(log.glob("*.json")))
    assert [1] == numbers(store.read())


def test_creating_it_twice(tmp_path: Path) -> None:
    """
    Of two first appends one wins; the other is a conflict.
    """
    one, two = JournalStore(tmp_path), JournalStore(tmp_path)
    two.read()
    fill(one, 1)
    with pytest.raises(JournalConflictError):
        two.append([row(2)], expected_version=-1)

    assert [1] == numbers(two.read())


RACER = """
import random, sys, time
from materializer.errors import JournalConflictError
from materializer.journal import row_files
from materializer.journal import store as store_module
from materializer.journal.codec import Row
from materializer.journal.store import JournalStore

store = JournalStore(sys.argv[1])
for n in range(10):
    while True:
        try:
            store.append([Row(sys.argv[2], "done", "", str(n)), Row(sys.argv[2], "done", "", "x")], expected_version=store.read().version)
            break
        except JournalConflictError:
            time.sleep(random.random() / 50)
"""


def test_processes_lose_nothing(tmp_path: Path) -> None:
    """
    Two processes that append, the creation included: every row is there once, each process' in its order.
    """
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path), name]) for name in "ab"]
    assert [0, 0] == [r.wait(120) for r in racers]
    found = JournalStore(tmp_path).read()

    assert 40 == len(found.rows)
    assert 20 == found.version
    for name in "ab":
        mine = [r.payload for r in found.rows if r.aggregate == name]
        assert [p for n in range(10) for p in (str(n), "x")] == mine


def test_a_snapshot_replaces_everything(tmp_path: Path) -> None:
    """
    One commit, one file, new rows; readers see another generation, and appending goes on.
    """
    store, reader = JournalStore(tmp_path), JournalStore(tmp_path)
    version = fill(store, *range(5))
    before = reader.read()
    version = store.snapshot([row(100), row(200)], expected_version=version)
    (added,) = read_commit(store.path, version).adds
    assert 2 == added.rows
    assert 0 == store.commits_since_snapshot() == JournalStore(tmp_path).commits_since_snapshot()
    fill(store, 6)

    for found in (store.read(), reader.read(), JournalStore(tmp_path).read()):
        assert [100, 200, 6] == numbers(found)
        assert found.generation == version != before.generation
    assert 1 == reader.commits_since_snapshot()


def test_a_generation_means_a_growing_prefix(tmp_path: Path) -> None:
    """
    While the generation stays, what was read before is a prefix of what is read now.
    """
    store, reader = JournalStore(tmp_path), JournalStore(tmp_path)
    last = reader.read()
    for n in range(40):
        version = fill(store, n)
        if n % 7 == 3:
            store.snapshot([row(-n)] if n != 10 else [], expected_version=version)
        if n % 3 == 0:
            found = reader.read()
            if found.generation == last.generation:
                assert last.rows == found.rows[: len(last.rows)]
            last = found
    assert last == JournalStore(tmp_path).read()


def test_compaction_by_somebody_else(tmp_path: Path) -> None:
    """
    Files that were compacted, a checkpoint and a vacuum change neither rows nor order.
    """
    store, reader = JournalStore(tmp_path), JournalStore(tmp_path)
    fill(store, *range(12))
    reader.read()
    table = DeltaTable(store.path)
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    expected = numbers(JournalStore(tmp_path).read())
    fill(store, 12)

    assert list(range(12)) == expected
    assert list(range(13)) == numbers(reader.read()) == numbers(store.read()) == numbers(JournalStore(tmp_path).read())


def test_a_journal_put_back_from_a_backup(tmp_path: Path) -> None:
    """
    A folder that is another one, at the same version, is read again; one that vanished is an error, not an empty journal.
    """
    store = JournalStore(tmp_path / "a")
    fill(store, 1, 2)
    fill(JournalStore(tmp_path / "b"), 7, 8)
    shutil.rmtree(tmp_path / "a")
    shutil.copytree(tmp_path / "b", tmp_path / "a")
    assert [7, 8] == numbers(store.read())
    fill(store, 9)
    assert [7, 8, 9] == numbers(JournalStore(tmp_path / "a").read())
    shutil.rmtree(tmp_path / "a")

    with pytest.raises(JournalError, match="is gone"):
        store.read()


DAMAGES = ("other columns", "null", "broken commit")


@pytest.mark.parametrize(
    ("damage", "is_warm"),
    [*((d, False) for d in (*DAMAGES, "hole")), *((d, True) for d in DAMAGES)],  # a warm reader stops before a hole
)
def test_damage_is_named(tmp_path: Path, damage: str, is_warm: bool) -> None:
    """
    Foreign columns, a hole in the log: an error that names file or version, never fewer rows.
    """
    store, reader = JournalStore(tmp_path), JournalStore(tmp_path)
    fill(store, 1, 2)
    if is_warm:
        reader.read()
    fill(store, 3, 4)
    file = Path(store.path) / read_commit(store.path, 3).adds[0].path
    log = Path(store.path) / "_delta_log" / f"{3:020d}.json"
    match damage:
        case "other columns":
            pq.write_table(pa.table({"x": [1]}), file)
        case "null":
            table = pq.read_table(file)
            pq.write_table(table.set_column(6, "payload", pa.nulls(1, pa.string())), file)
        case "broken commit":
            log.write_text('{"add":')
        case "hole":
            log.unlink()
    with pytest.raises(JournalError) as caught:
        reader.read()
    assert file.name in str(caught.value) or "version 3" in str(caught.value) or "damaged" in str(caught.value)


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("damage", ["gone", "cut short", "words"])
def test_a_lost_file_is_the_loss_of_one_aggregate(tmp_path: Path, damage: str, is_warm: bool) -> None:
    """
    A file of events that cannot be read leaves a row that names it, in its place and of its aggregate; the rest is read.
    """
    store, reader = JournalStore(tmp_path), JournalStore(tmp_path)
    version = fill(store, 1)
    if is_warm:
        reader.read()
    version = store.append([row(2, "b"), row(3, "b")], expected_version=version)
    store.append([row(4)], expected_version=version)
    harm(Path(store.path) / read_commit(store.path, version).adds[0].path, damage)

    for found in (reader.read(), JournalStore(tmp_path).read()):
        assert [("a", "done"), ("b", "unreadable"), ("a", "done")] == [(r.aggregate, r.kind) for r in found.rows]
        assert "cannot be read" in found.rows[1].payload


def harm(file: Path, damage: str) -> None:
    match damage:
        case "gone":
            file.unlink()
        case "cut short":
            file.write_bytes(file.read_bytes()[:200])
        case _:
            file.write_bytes(b"words")


def test_a_lost_file_of_several_aggregates_is_the_loss_of_all(tmp_path: Path) -> None:
    """
    When nobody can tell whose events were lost, nothing is read.
    """
    store = JournalStore(tmp_path)
    version = store.snapshot([row(1), row(2, "b")], expected_version=fill(store, 1))
    harm(Path(store.path) / read_commit(store.path, version).adds[0].path, "gone")

    with pytest.raises(JournalError, match="cannot be read") as caught:
        JournalStore(tmp_path).read()
    assert "materializer restore" in caught.value.hint


def test_rows_of_a_stranger(tmp_path: Path) -> None:
    """
    A commit with other columns than ours stops the reader.
    """
    store = JournalStore(tmp_path)
    fill(store, 1)
    table = pq.read_table(DeltaTable(store.path).file_uris()[0], partitioning=None).append_column("new", pa.array([1]))
    write_deltalake(store.path, table, mode="append", schema_mode="merge")

    for reader in (store, JournalStore(tmp_path)):
        with pytest.raises(JournalError, match="has columns"):
            reader.read()


def test_what_reading_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Unchanged: nothing. Warm: what was committed since. Cold: the table, once, also where somebody else compacted; and what was
    committed since all rows were replaced where a file cannot be read.
    """
    store = JournalStore(tmp_path)
    version = fill(store, *range(30))
    version = store.snapshot([row(n) for n in range(200)], expected_version=version)
    fill(store, 1, 2)
    opened: list[int] = []
    for module in (store_module, walk_module):
        monkeypatch.setattr(
            module, "read_commit", lambda path, version: opened.append(version) or commit(path, version)
        )
    monkeypatch.setattr(store_module, "open_table", lambda path: opened.append(-1) or table(path))
    commit, table = read_commit, open_table

    def opens(reader: JournalStore) -> list[int]:
        opened.clear()
        reader.read()
        return list(opened)

    cold = JournalStore(tmp_path)
    assert [-1] == opens(cold)
    assert [] == opens(cold)
    fill(JournalStore(tmp_path), 3)
    assert [version + 3] == opens(cold)
    DeltaTable(store.path).optimize.compact()
    assert [-1] == opens(JournalStore(tmp_path))
    assert [*range(200), 1, 2, 3] == numbers(JournalStore(tmp_path).read())

    last = store.append([row(4)], expected_version=store.read().version)
    version = store.snapshot([row(n) for n in range(3)], expected_version=last)
    last = fill(store, 5)
    harm(Path(store.path) / commit(store.path, last).adds[0].path, "gone")
    assert [-1, last, version] == opens(JournalStore(tmp_path))


ACTS = ("append", "append", "append", "fold", "fold to nothing", "compact", "checkpoint", "forget", "vacuum")


@given(acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=14))
def test_whatever_happens_to_it(tmp_path_factory: pytest.TempPathFactory, acts: list[str]) -> None:
    """
    After any sequence of appends, folds, and compactions, checkpoints, clean-ups and vacuums by whoever: who knows
    nothing, who read before and the Delta library read the same rows, and who read before tells what is new.
    """
    root = tmp_path_factory.mktemp("journal")
    writer, reader = JournalStore(root), JournalStore(root)
    expected, version = [0], fill(writer, 0)
    for n, act in enumerate(acts, 1):
        match act:
            case "append":
                version = writer.append([row(n), row(-n)], expected_version=writer.read().version)
                expected += [n, -n]
            case "fold" | "fold to nothing":
                expected = expected[-1:] if act == "fold" else []
                version = writer.snapshot([row(m) for m in expected], expected_version=writer.read().version)
            case "compact":
                DeltaTable(writer.path).optimize.compact()
            case "checkpoint":
                DeltaTable(writer.path).create_checkpoint()
            case "forget":
                DeltaTable(writer.path).create_checkpoint()
                for file in (Path(writer.path) / "_delta_log").glob("*.json"):
                    if int(file.stem) < DeltaTable(writer.path).version():
                        file.unlink()
            case "vacuum":
                writer.remove(leftovers(writer.path, before=time.time() + 60))
        before = reader.read()
        cold = JournalStore(root).read()
        assert expected == numbers(cold) == numbers(before) == numbers(writer.read())
        assert cold.version == DeltaTable(writer.path).version() >= version
        assert sorted(expected) == sorted(
            json.loads(p)["n"] for p in DeltaTable(writer.path).to_pyarrow_table()["payload"].to_pylist()
        )


def test_a_journal_for_which_there_was_no_room(tmp_path: Path) -> None:
    """
    A full disk may leave a log without a commit: that is no journal yet, and the next commit begins it.
    """
    (tmp_path / "_materializer" / "journal" / "_delta_log").mkdir(parents=True)
    store = JournalStore(tmp_path)
    assert -1 == store.read().version
    store.append([Row("a1", "delivered", "", '{"version":1}')], expected_version=-1)
    assert 1 == JournalStore(tmp_path).read().version
