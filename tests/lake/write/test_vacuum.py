from __future__ import annotations

import os
import re
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from msgspec.structs import astuple

from materializer.lake.table import DeltaFolder
from materializer.lake.write.new_files import LOG, OF_PLAN, OTHERS
from materializer.lake.write.vacuum import Leftover, leftovers, log_state, remove, shorten_log
from tests.lake.tables import Trades

NEVER = 0.0


def later() -> float:
    return time.time() + 60


@pytest.fixture
def trades(tmp_path: Path) -> Trades:
    """A table of which each of four commits replaced everything."""
    made = Trades(tmp_path / "trades", feed=False)
    for i in range(4):
        made.append((i, "A", i))
        if i < 3:
            made.table.delete()
    return made


def names(found: list[Leftover]) -> set[str]:
    return {f.name for f in found}


def data_files(trades: Trades) -> set[str]:
    return {p.name for p in Path(trades.path).glob("*.parquet")}


def test_only_what_no_version_needs_goes(trades):
    """
    Without a retention all but the newest version's files go, as the library's own vacuum says; with one nothing does.
    """
    theirs = trades.table.vacuum(retention_hours=0, enforce_retention_duration=False, full=True)

    assert set() == names(leftovers(trades.path, before=NEVER))
    assert (
        set(theirs) == names(leftovers(trades.path, before=later())) == data_files(trades) - set(trades_files(trades))
    )


def test_a_checksum_goes_with_its_file(trades):
    """
    What Spark keeps beside a file of the newest version stays; beside nothing it goes.
    """
    folder = Path(trades.path) / f"{OTHERS}1"
    folder.mkdir()
    table = trades.table.to_pyarrow_table()
    for name in ("part-0.parquet", ".part-0.parquet.crc", ".part-1.parquet.crc"):
        pq.write_table(table, folder / name)
        os.utime(folder / name, (1, 1))

    found = names(leftovers(trades.path, before=later()))
    assert {f"{OTHERS}1/part-0.parquet", f"{OTHERS}1/.part-1.parquet.crc"} == {n for n in found if "/" in n}

    remove(trades.path, leftovers(trades.path, before=later()))
    assert not folder.exists()


def trades_files(trades: Trades) -> list[str]:
    return [Path(uri).name for uri in trades.table.file_uris()]


def test_a_reader_of_an_older_version_keeps_its_files(trades):
    """
    Versions from a given one on stay readable however old they are.
    """
    remove(trades.path, leftovers(trades.path, before=later(), since=5))

    assert [2] == DeltaTable(trades.path, version=5).to_pyarrow_table()["price"].to_pylist()
    with pytest.raises(FileNotFoundError):
        DeltaTable(trades.path, version=3).to_pyarrow_table()
    assert leftovers(trades.path, before=later())


def test_a_version_within_the_retention_keeps_its_files(trades):
    """
    A file that a commit of the retention took out stays, whatever its own age.
    """
    for name in data_files(trades):
        os.utime(Path(trades.path, name), (0, 0))
    before = time.time() - timedelta(hours=1).total_seconds()

    assert [] == leftovers(trades.path, before=before)


def test_files_of_writes_that_failed_go_when_they_are_old(trades):
    """
    A file that no commit knows goes after the retention, with its checksum; the folder of a dead plan at once, and that of a
    dead maintenance of an earlier version.
    """
    orphan, checksum = Path(trades.path, "part-9.parquet"), Path(trades.path, ".part-9.parquet.crc")
    dead, former = Path(trades.path, f"{OF_PLAN}dead"), Path(trades.path, "_maintain-dead")
    other = Path(trades.path, f"{OTHERS}dead", "part-0.parquet")
    for path in (orphan, checksum, dead / LOG / "0.json", dead / "part-0.parquet", former / "part-0.parquet", other):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("rows")
    assert [Leftover(former.name, 4, is_folder=True), Leftover(dead.name, 8, is_folder=True)] == leftovers(
        trades.path, before=NEVER
    )
    for path in (orphan, other):
        os.utime(path, (0, 0))
    found = leftovers(trades.path, before=10.0**9)
    remove(trades.path, found)

    assert {orphan.name, dead.name, former.name, f"{other.parent.name}/{other.name}"} == names(found)
    assert not any(p.exists() for p in (orphan, checksum, dead, former, other.parent))
    assert 1 == trades.table.to_pyarrow_table().num_rows
    remove(trades.path, found)


def test_a_log_that_was_cleaned_keeps_no_file(trades):
    """
    A log that ends within what is asked for tells of all versions that anybody can read: what only older ones had goes, unless
    it was asked for, or a checkpoint can still be read without the commits after it.
    """
    table, log = Path(trades.path), Path(trades.path, "_delta_log")
    first = [Path(uri).name for uri in DeltaTable(trades.path, version=1).file_uris()]
    for name in data_files(trades):
        os.utime(table / name, (0, 0))
    ago = time.time() - timedelta(hours=1).total_seconds()
    trades.table.create_checkpoint()
    for version in range(3):
        trades.commit_file(version).unlink()

    assert set(first) == names(leftovers(trades.path, before=ago))
    assert [] == leftovers(trades.path, before=ago, since=1)
    assert set(first) == names(leftovers(trades.path, before=ago, since=3))
    [checkpoint] = log.glob("*.checkpoint.parquet")
    shutil.copy(checkpoint, log / f"{1:020d}.checkpoint.parquet")
    assert [] == leftovers(trades.path, before=ago)


@pytest.fixture
def long(tmp_path: Path) -> Trades:
    """A table of 12 commits, a checkpoint after the 8th, of which the first 10 are nine days old."""
    made = Trades(tmp_path / "long", feed=False)
    for i in range(12):
        made.append((i, "A", i))
        if i == 7:
            made.table.create_checkpoint()
    Path(made.path, "_delta_log", f"{3:020d}.crc").touch()
    Path(made.path, "_delta_log", f".{3:020d}.json.crc").touch()
    old = time.time() - timedelta(days=9).total_seconds()
    for file in Path(made.path, "_delta_log").iterdir():
        if (match := re.match(r"\.?(\d{20})", file.name)) and int(match[1]) < 10:
            os.utime(file, (old, old))
    return made


def test_a_log_is_shortened(long):
    """
    A checkpoint is written, and what is older than asked goes as far as an older checkpoint, with checksums; once more finds nothing.
    """
    two_days = timedelta(days=2).total_seconds()
    assert (12, 4, 0) == astuple(log_state(long.path, seconds=5 * two_days))
    assert (12, 4, 10) == astuple(log_state(long.path, seconds=two_days))
    assert shorten_log(long.path, seconds=two_days)

    assert (12, 0, 0) == astuple(log_state(long.path, seconds=two_days))
    assert [8, 9, 10, 11, 12] == [v for v in range(13) if long.commit_file(v).exists()]
    assert not list(Path(long.path, "_delta_log").glob("*.crc"))
    assert 12 == long.table.to_pyarrow_table().num_rows
    assert 8 == DeltaTable(long.path, version=8).to_pyarrow_table().num_rows


def test_a_log_of_which_nothing_is_asked_ends_with_its_checkpoint(long):
    """
    Nothing but the newest version is left to read; once more finds nothing.
    """
    assert shorten_log(long.path, seconds=0)

    assert (12, 0, 0) == astuple(log_state(long.path, seconds=0))
    assert [12] == [v for v in range(13) if long.commit_file(v).exists()]
    assert 12 == long.table.to_pyarrow_table().num_rows


@pytest.mark.parametrize(("since", "left"), [(7, 0), (8, 8), (11, 8)])
def test_a_version_that_is_asked_for_keeps_its_log(long, since, left):
    """
    However old: from the checkpoint at it, or the last one before it, on; without one, all of it.
    """
    assert shorten_log(long.path, seconds=0, since=since)

    assert list(range(left, 13)) == [v for v in range(13) if long.commit_file(v).exists()]
    assert since == DeltaTable(long.path, version=since).to_pyarrow_table().num_rows


def test_a_death_while_a_log_is_shortened_leaves_no_hole(long, monkeypatch):
    """
    The oldest go first.
    """
    removed: list[str] = []

    def remove(path: str) -> None:
        if len(removed) == 5:
            raise OSError
        removed.append(path)
        Path(path).unlink()

    monkeypatch.setattr("os.remove", remove)
    assert not shorten_log(long.path, seconds=0)

    left = [v for v in range(13) if long.commit_file(v).exists()]
    assert left == list(range(left[0], 13))
    assert 0 < left[0] < 8
    assert 12 == long.table.to_pyarrow_table().num_rows


def test_a_table_that_is_open_outlives_the_shortening_of_its_log(long):
    """
    Whoever opened the table before, in another process say, looks at it on, also when it has moved on since.
    """
    folders = [DeltaFolder(long.path), DeltaFolder(long.path)]
    heads = [folder.head() for folder in folders]
    assert shorten_log(long.path, seconds=0)

    assert heads == [folder.head() for folder in folders]
    assert folders[0].transaction_version("app") is None
    long.append((12, "A", 12))
    assert shorten_log(long.path, seconds=0)
    long.append((13, "A", 13))
    assert [14, 14] == [folder.head().version for folder in folders]
    assert folders[1].transaction_version("app") is None
