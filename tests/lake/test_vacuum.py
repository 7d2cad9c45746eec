from __future__ import annotations

import os
import shutil
import time
from dataclasses import astuple
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.lake.rearrange import SCRATCH
from materializer.lake.vacuum import Leftover, leftovers, log_state, remove, shorten_log
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
    A file that no commit knows goes after the retention, with its checksum; the folder of a dead maintenance at once.
    """
    orphan, checksum = Path(trades.path, "part-9.parquet"), Path(trades.path, ".part-9.parquet.crc")
    folder = Path(trades.path, f"{SCRATCH}dead")
    for path in (orphan, checksum, folder / "part-0.parquet"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("rows")
    assert [Leftover(folder.name, 4)] == leftovers(trades.path, before=NEVER)
    os.utime(orphan, (0, 0))
    found = leftovers(trades.path, before=10.0**9)
    remove(trades.path, found)

    assert {orphan.name, folder.name} == names(found)
    assert not any(p.exists() for p in (orphan, checksum, folder))
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


def test_a_log_is_shortened_by_its_own_retention(tmp_path):
    """
    A checkpoint is written, and files of the log that are older than the table's property says go.
    """
    trades = Trades(tmp_path / "trades", feed=False, **{"delta.logRetentionDuration": "interval 2 days"})
    for i in range(12):
        trades.append((i, "A", i))
        if i == 7:
            trades.table.create_checkpoint()
    before, old = (time.time() - timedelta(days=d).total_seconds() for d in (2, 9))
    assert (12, 4, 0) == astuple(log_state(trades.path, before=before))
    for file in Path(trades.path, "_delta_log").iterdir():
        if int(file.name[:20] if file.name[0] != "_" else 99) < 10:
            os.utime(file, (old, old))

    assert (12, 4, 8) == astuple(log_state(trades.path, before=before))
    assert shorten_log(trades.path)
    assert (12, 0, 0) == astuple(log_state(trades.path, before=before))
    assert not trades.commit_file(7).exists()
    assert trades.commit_file(8).exists()
    assert 12 == trades.table.to_pyarrow_table().num_rows
