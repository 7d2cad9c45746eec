"""Tables are opened once by each user, as long as nothing changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.lake.opened_before import LONG, MOST_FILES
from tests.lake.tables import Trades
from tests.paths import ROOT

CODE = """
import sys
from materializer.errors import MaterializerError
from materializer.lake.opened_before import expect, note
from materializer.lake.table import DeltaFolder, TableHead
path, version, table_id = sys.argv[1:]
expect(path, TableHead(int(version), table_id))
try:
    found = DeltaFolder.at(path).head().version
    note(path)
except MaterializerError:
    found = "refused"
print(found, "deltalake" in sys.modules)
"""


class Log:
    """A table with a checkpoint that says how many actions it has."""

    def __init__(self, table: Trades, caches: Path) -> None:
        self.table, self.caches, self.id = table, caches, table.id
        self.folder = Path(table.path) / "_delta_log"
        self.was_opened = ""

    def asked(self, *, user: str = "own", table_id: str | None = None, version: int = 2) -> str:
        """Return what a process of a user says of the newest version, which expects one, or that it was refused."""
        env = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(self.caches / user)}
        command = [sys.executable, "-c", CODE, self.table.path, str(version), table_id or self.id]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        found, self.was_opened = ran.stdout.split()
        return found

    def damage(self) -> None:
        """Let nobody open the table."""
        for file in self.folder.glob("*.checkpoint.parquet"):
            file.write_bytes(b"none")
        (self.folder / f"{1:020d}.json").write_text("none")


@pytest.fixture
def log(trades, tmp_path: Path) -> Log:
    """A table of two commits, with a checkpoint of many actions, that was opened once."""
    table = trades()
    table.append((0, "a", 1))
    table.append((1, "a", 1))
    DeltaTable(table.path).create_checkpoint()
    found = Log(table, tmp_path)
    last = found.folder / "_last_checkpoint"
    last.write_text(json.dumps(json.loads(last.read_text()) | {"size": LONG}))
    assert "2" == found.asked()
    return found


def test_an_unchanged_table_is_not_opened(log: Log) -> None:
    """
    What it was is enough; another user opens it, and so does who expects another table.
    """
    log.damage()

    assert "2" == log.asked()
    assert "refused" == log.asked(user="other")
    assert "refused" == log.asked(table_id="another")
    assert "refused" == log.asked(version=1)


def test_a_newer_commit_is_seen(log: Log) -> None:
    """
    The table is opened then.
    """
    log.table.append((2, "a", 1))

    assert "3" == log.asked()
    log.damage()
    assert "refused" == log.asked()
    assert "3" == log.asked(version=3)


def test_a_newest_commit_that_was_written_again_is_seen(log: Log) -> None:
    """
    Also with its old size and time.
    """
    newest = log.folder / f"{2:020d}.json"
    stat, content = newest.stat(), newest.read_bytes()
    newest.write_bytes(content)
    os.utime(newest, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    log.damage()

    assert "refused" == log.asked()


@pytest.fixture(params=[json.dumps({"version": 2, "size": LONG - 1}), "[]", "none", None])
def short(trades, tmp_path: Path, request: pytest.FixtureRequest) -> Log:
    """A table of two commits whose log is short, or does not say how long it is."""
    table = trades()
    table.append((0, "a", 1))
    table.append((1, "a", 1))
    log = Log(table, tmp_path)
    if request.param is not None:
        DeltaTable(table.path).create_checkpoint()
        (log.folder / "_last_checkpoint").write_text(request.param)
    assert ("2", "True") == (log.asked(), log.was_opened)
    return log


def test_any_change_of_a_short_log_is_seen(short: Log) -> None:
    """
    Of one that is as it was, nothing is opened; it is where a file below the newest commit is damaged, has gone, or has come.
    """
    assert ("2", "False") == (short.asked(), short.was_opened)

    (short.folder / "another.json").write_text("{}")
    assert ("2", "True") == (short.asked(), short.was_opened)
    assert ("2", "False") == (short.asked(), short.was_opened)

    (short.folder / "another.json").unlink()
    assert ("2", "False") == (short.asked(), short.was_opened)  # as it was before
    (short.folder / f"{0:020d}.json").rename(short.folder / "first.json")
    assert "True" == (short.asked(), short.was_opened)[1]
    (short.folder / "first.json").rename(short.folder / f"{0:020d}.json")

    short.damage()
    assert "refused" == short.asked()


def test_a_log_of_many_files_is_opened(short: Log) -> None:
    """
    To look at each of them would take as long.
    """
    for n in range(MOST_FILES):
        (short.folder / f"other{n}.txt").touch()

    assert ("2", "True", "2", "True") == (short.asked(), short.was_opened, short.asked(), short.was_opened)
