"""A backup that somebody else changed, put into a lake: nothing is written outside, and the lake stays; no JVM."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from materializer.journal.store import JournalStore
from tests.attacks.poison import in_spec, named, rewrite
from tests.attacks.table import attack
from tests.hints.world import HOURLY, World

CALL = "reflect('java.lang.System', 'setProperty', 'a', 'b')"
JOURNAL = Path("_materializer/journal")
LOG = JOURNAL / "_delta_log"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with an aggregate, far enough below a folder that paths can lead out of it, and a backup of it."""
    home = tmp_path / "a" / "b" / "c"
    (home / "lake").mkdir(parents=True)
    monkeypatch.chdir(home)
    world = World(home / "lake")
    world.apply(HOURLY)
    world.works("refresh --all")
    world.works("backup backup")
    return world


def everything(top: Path) -> dict[str, str]:
    """Return each file below a folder, except those of the backup, with what is in it."""
    found = {}
    for place in sorted(top.rglob("*")):
        if "backup" in place.parts[len(top.parts) :]:
            continue
        regular = place.is_file() and not place.is_symlink()
        found[str(place)] = sha256(place.read_bytes()).hexdigest() if regular else str(place.is_symlink())
    return found


def expect_refused(world: World, *codes: str) -> None:
    """Expect that the plan and the restore of a backup fail with one of these codes, and that no file anywhere is another one."""
    before = everything(world.root.parents[3])
    for words in ("restore backup", "restore backup --yes"):
        ran = world.run(words)
        assert [True] == [e["code"] in codes for e in ran.errors], (words, ran)
        assert before == everything(world.root.parents[3])
    world.works("status")


def backup(world: World) -> Path:
    """Return its folder."""
    return world.root.parent / "backup"


def manifest(world: World, **values: Any) -> None:
    """Change values of the manifest."""
    file = backup(world) / "backup.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def _reflect(spec: dict[str, Any]) -> None:
    spec["where"] = f"{CALL} IS NULL"


@pytest.mark.parametrize("change", [named("../victim"), named("/etc"), named("a\x1b[2Jb"), in_spec(_reflect)])
@attack(
    "A backup",
    "its rows name a folder outside of the lake, or call code, and its manifest fits them",
    "`journal.corrupt`; no file is written or removed anywhere",
)
def test_rows_of_a_backup_are_checked(world: World, change: Callable[[dict[str, Any]], Any]) -> None:
    """
    What a backup holds is checked like a journal.
    """
    rewrite(backup(world), change)
    manifest(world, version=JournalStore(backup(world)).read().version)

    expect_refused(world, "journal.corrupt")


@pytest.mark.parametrize("ups", [3, 5, 6])
@attack(
    "A backup",
    "its log adds files with `../` in their paths, which exist, and would be copied to the same place beside the lake",
    "`journal.corrupt`; no file is written",
)
def test_a_file_outside_is_not_copied(world: World, ups: int) -> None:
    """
    From the folder that `restore` makes ready, the same path leads into the lake, beside it, or further.
    """
    taken = (backup(world) / JOURNAL).joinpath(*[".."] * ups, "planted").resolve()
    taken.mkdir()
    for file in (backup(world) / LOG).glob("*.json"):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        for added in (action["add"] for action in actions if "add" in action):
            shutil.move(backup(world) / JOURNAL / added["path"], taken)
            added["path"] = "../" * ups + f"planted/{added['path']}"
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    expect_refused(world, "journal.corrupt")


@pytest.mark.parametrize("place", ["_materializer", str(JOURNAL), str(LOG), f"{LOG}/{0:020d}.json", "backup.json"])
@attack("A backup", "a file or folder of it is a symbolic link", "`journal.corrupt`; what it leads to is not copied")
def test_a_link_in_a_backup_is_refused(world: World, place: str) -> None:
    """
    Else a backup from somebody brings what only the one who restores it may read into the lake.
    """
    moved = world.root.parent / "private"
    (backup(world) / place).rename(moved)
    (backup(world) / place).symlink_to(moved)

    expect_refused(world, "journal.corrupt")


@pytest.mark.parametrize("place", ["backup.json", f"{LOG}/_last_checkpoint", f"{LOG}/{0:020d}.json"])
@attack("A backup", "a file of it is a pipe, which never ends", "`journal.corrupt` at once")
def test_a_pipe_in_a_backup_is_refused(world: World, place: str) -> None:
    """
    Nobody writes to it, so who reads it waits for ever.
    """
    (backup(world) / place).unlink(missing_ok=True)
    os.mkfifo(backup(world) / place)

    expect_refused(world, "journal.corrupt")


@pytest.mark.parametrize(
    "values",
    [
        {"version": 99_999}, {"version": "../x"}, {"version": None}, {"format": "x"}, {"aggregates": [1, 2]}, {"aggregates": None},
        {"aggregates": {"../victim": 1}}, {"aggregates": {}}, {"lake": 7}, {"more": 1}, {"format": 99},
    ],
)  # fmt: skip
@attack(
    "A backup",
    "its manifest has other values: versions, names, other types, nesting without end",
    "`usage` or `journal.corrupt`, and never a traceback",
)
def test_a_manifest_that_lies_is_refused(world: World, values: dict[str, Any]) -> None:
    """
    A manifest has to agree with the journal beside it, in values and in types.
    """
    manifest(world, **values)

    expect_refused(world, "usage", "journal.corrupt")


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 200_000, '{"a":' * 200_000, "\xff", "1"])
def test_a_manifest_that_is_none_is_refused(world: World, text: str) -> None:
    """
    Also one on which the parser gives up.
    """
    (backup(world) / "backup.json").write_text(text, encoding="latin-1")

    expect_refused(world, "usage")


@pytest.mark.parametrize("text", ["[]", '{"version": "x"}', "{}", "[" * 200_000, '{"version": 77}'])
@attack(
    "A backup",
    "the file that names its newest checkpoint is none, or names another one",
    "the backup is restored without it, or refused; never a traceback",
)
def test_a_hint_of_a_checkpoint_may_be_anything(world: World, text: str) -> None:
    """
    That file only makes reading quicker.
    """
    (backup(world) / LOG / "_last_checkpoint").write_text(text)
    rows = world.works("show hourly")

    ran = world.run("restore backup --yes")
    assert {"journal.corrupt", "source.damaged"} >= {e["code"] for e in ran.errors}, ran
    assert rows == world.works("show hourly")
    world.add([50])
    world.works("refresh hourly")


@attack(
    "The lake's folders",
    "the folder in which `restore` makes the journal ready is a symbolic link out of the lake",
    "`lake.outside` before anything is written or removed",
)
def test_restore_writes_through_no_link(world: World) -> None:
    """
    Also the folder that is only there while a restore runs is one that somebody could make.
    """
    victim = world.root.parent / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    (world.root / "_materializer.restoring").symlink_to(victim)
    before = everything(world.root.parents[3])

    assert ["lake.outside"] == [e["code"] for e in world.run("restore backup --yes").errors]
    assert before == everything(world.root.parents[3])


@attack(
    "A backup",
    "a restore fails while the journal is made ready",
    "the lake is as before, without a folder that is half made",
)
def test_what_failed_leaves_nothing(world: World) -> None:
    """
    The files of the journal are there, one of the history is not.
    """
    history = backup(world) / "_materializer/history"
    shutil.copytree(backup(world) / JOURNAL, history)
    next(history.glob("*.parquet")).unlink()

    before = everything(world.root)
    before = {
        path: content for path, content in before.items() if "_materializer" not in path
    }  # a lease was taken, given back

    assert ["journal.corrupt"] == [e["code"] for e in world.run("restore backup --yes").errors]
    after = everything(world.root)
    assert not any("restoring" in path or "aside" in path for path in after)
    assert before == {path: content for path, content in after.items() if "_materializer" not in path}
    world.add([50])
    world.works("refresh hourly")
