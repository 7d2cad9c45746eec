"""Rows of a journal that a process of this user read before are not read again, as long as nothing changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from materializer.journal.codec import Row
from materializer.journal.store import JournalStore
from tests.paths import ROOT

CODE = """
import json, sys
from materializer.errors import MaterializerError
from materializer.journal.store import JournalStore
try:
    read = JournalStore(sys.argv[1]).read()
    print(json.dumps([read.version, read.generation, [json.loads(row.payload)["n"] if row.kind == "done" else row.kind for row in read.rows], "deltalake" in sys.modules]))
except MaterializerError as exc:
    print(json.dumps(exc.code))
"""


def row(n: int, text: str = "") -> Row:
    """A row of one aggregate."""
    return Row("a", "done", "2024-01-01T00:00:00Z", json.dumps({"n": n, "text": text}))


class Lake:
    """A journal of some rows, and a user with a cache of their own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.caches = folder / "lake", folder / "caches"
        self.store = JournalStore(self.root)
        self.store.append([row(1)], expected_version=-1)
        self.store.append([row(2), row(3)], expected_version=1)
        self.folder = self.root / "_materializer" / "journal"

    def files(self, pattern: str) -> list[Path]:
        """Files of the journal."""
        return sorted(self.folder.glob(pattern))

    def read(self) -> tuple[list[int | str], bool] | str:
        """Return the numbers of the rows, or of what kind another row is, that a new process reads, and whether it needed the library; or the code of its error."""
        env = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(self.caches)}
        command = [sys.executable, "-c", CODE, str(self.root)]
        read = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)
        return read if isinstance(read, str) else (read[2], read[3])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A journal that was read once."""
    lake = Lake(tmp_path)
    assert ([1, 2, 3], True) == lake.read()
    assert ([1, 2, 3], False) == lake.read()
    return lake


def test_a_commit_is_seen(lake: Lake) -> None:
    """
    The journal is read then, and what it has now is remembered; also when all its rows were replaced.
    """
    lake.store.append([row(4)], expected_version=2)
    assert [([1, 2, 3, 4], True), ([1, 2, 3, 4], False)] == [lake.read(), lake.read()]

    lake.store.snapshot([row(9)], expected_version=3)
    assert [([9], True), ([9], False)] == [lake.read(), lake.read()]


def same_times(file: Path, change: Callable[[], object]) -> None:
    """Change a file, and set back its time."""
    stat = file.stat()
    change()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("*.parquet", "unreadable"),
        ("_delta_log/*1.json", "journal.corrupt"),
        ("_delta_log/*2.json", "journal.corrupt"),
    ],
)
def test_a_file_that_was_written_again_is_seen(lake: Lake, pattern: str, told: str) -> None:
    """
    Also with its old size and time; what is wrong with it is told as ever.
    """
    file = lake.files(pattern)[-1]
    content = file.read_bytes()
    same_times(file, lambda: file.write_bytes(content))
    assert ([1, 2, 3], True) == lake.read()
    assert ([1, 2, 3], False) == lake.read()

    same_times(file, lambda: file.write_bytes(b"?" * len(content)))
    assert told in str(lake.read())


def test_a_journal_that_is_gone_or_put_in_place_of_another_is_seen(lake: Lake, tmp_path: Path) -> None:
    """
    Its rows are not those of the one before.
    """
    shutil.copytree(lake.root, tmp_path / "copy")
    shutil.rmtree(lake.root)
    assert ([], False) == lake.read()

    shutil.copytree(tmp_path / "copy", lake.root)
    assert ([1, 2, 3], True) == lake.read()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x00", b'["", [], 2, 1, []]'])
def test_what_is_no_content_of_ours_is_not_believed(lake: Lake, content: bytes) -> None:
    """
    The journal is read.
    """
    [file] = (lake.caches / "materializer" / "journals").iterdir()
    file.write_bytes(content)

    assert ([1, 2, 3], True) == lake.read()


def test_what_others_may_write_is_not_believed(lake: Lake) -> None:
    """
    Neither a file nor a folder.
    """
    folder = lake.caches / "materializer" / "journals"
    [file] = folder.iterdir()
    file.chmod(0o666)
    assert ([1, 2, 3], True) == lake.read()
    assert ([1, 2, 3], False) == lake.read()  # it was written anew

    folder.chmod(0o777)
    assert ([1, 2, 3], True) == lake.read()
    assert ([1, 2, 3], True) == lake.read()


def test_many_rows_are_read_each_time(tmp_path: Path) -> None:
    """
    To write them with each command would take longer than to read them.
    """
    lake = Lake(tmp_path)
    lake.store.append([row(4, "x" * (1 << 20))], expected_version=2)

    assert [([1, 2, 3, 4], True)] * 2 == [lake.read(), lake.read()]
