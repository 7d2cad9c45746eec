"""What lies around a lake goes wrong or belongs to somebody else: working directory, rights, disk, clock, other processes; no JVM."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.config import Config
from materializer.errors import DefinitionError, SourceDamagedError, StorageError
from materializer.journal.journal import Journal
from materializer.spark.run.executor import Executor
from tests.attacks.sums import added_up, published
from tests.attacks.table import attack
from tests.hints.world import HOURLY, World
from tests.paths import ROOT
from tests.services.no_spark import NoSpark, Opened

# -- a working directory of somebody else --------------------------------------------------------------------------------

PLANTED = """
from pathlib import Path
Path("imported").touch()
def run(*_): ...
"""


@pytest.fixture
def foreign(world: World) -> Path:
    """A folder from somebody, with settings that name code beside them, and modules with the names of libraries."""
    folder = world.root.parent / "foreign"
    folder.mkdir()
    (folder / "materializer.toml").write_text(f'lake = "{folder}/other"\noutput_handlers = ["planted:run"]\n')
    for name in ("planted", "pyarrow", "deltalake", "yaml", "typer"):
        (folder / f"{name}.py").write_text(PLANTED)
    (world.root.parent / "mine.toml").write_text(f'lake = "{world.root}"\n')
    return folder


def run_in(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, as the installed program does, which imports nothing from there by itself."""
    command = [sys.executable, "-P", "-m", "materializer", *words]
    given = os.environ | {"PYTHONPATH": str(ROOT)} | env
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)


@attack(
    "The working directory",
    "a folder that somebody sent has a `materializer.toml` that names code, and modules with names of libraries",
    "with `--config` or `MATERIALIZER_CONFIG` nothing of it is read or imported",
)
def test_a_named_configuration_wins(world: World, foreign: Path) -> None:
    """
    Nor does the lake of the foreign file become that of the command.
    """
    mine = str(world.root.parent / "mine.toml")
    by_option, by_variable = (
        run_in(foreign, "status", "--config", mine),
        run_in(foreign, "status", MATERIALIZER_CONFIG=mine),
    )

    for ran in (by_option, by_variable):
        assert (0, True) == (ran.returncode, "hourly" in ran.stdout), ran.stderr
    assert not (foreign / "imported").exists()


@attack(
    "The working directory",
    "the same without `--config`: the file is believed, as this page says",
    "code that it names is imported only from where Python looks; the installed program does not look in the folder: `usage`",
)
def test_settings_of_the_working_directory_are_read(world: World, foreign: Path) -> None:
    """
    Who adds the folder to the path of Python has it imported.
    """
    ran = run_in(foreign, "status", "--lake", str(world.root))
    assert (64, True) == (ran.returncode, "planted" in ran.stderr), ran
    assert not (foreign / "imported").exists()

    for name in ("pyarrow", "deltalake", "yaml", "typer"):
        (foreign / f"{name}.py").unlink()
    ran = run_in(foreign, "status", "--lake", str(world.root), PYTHONPATH=f"{ROOT}:{foreign}")
    assert (0, True) == (ran.returncode, (foreign / "imported").exists()), ran.stderr


@pytest.mark.parametrize("path", ["../private", "/{}/private", "../../{}/private", "sub/../../private"])
@attack(
    "The working directory",
    "a definition names a suite outside of the folder of suites, which is some other file",
    "a problem without a word of the file; nothing is in the journal. A suite there is read, and that is all",
)
def test_a_suite_from_elsewhere_is_only_read(world: World, path: str) -> None:
    """
    Neither what a file says that is no suite, nor where in it, reaches an error.
    """
    (world.root.parent / "private").write_text("root:sesame:0:0\n")
    named = path.format(str(world.root.parent).strip("/"))

    with pytest.raises(DefinitionError) as caught:
        world.apply(world.properties(HOURLY.replace("hourly", "other"), quality__suite=named))
    assert {"suite.syntax", "suite.missing"} >= {p.code for p in caught.value.problems}, caught.value.problems
    assert not any("sesame" in str(p) for p in caught.value.problems)
    assert ["hourly"] == world.lake.names


# -- a lake that nobody may write to -------------------------------------------------------------------------------------

READING = (
    "status", "status hourly", "plan hourly", "show hourly", "history hourly", "doctor", "doctor hourly", "policy list",
    "repair hourly", "repair --all", "maintain hourly --dry-run", "expire hourly --before 2024-03-02", "report --out {}/out", "backup {}/copy",
)  # fmt: skip
WRITING = (
    "refresh hourly", "refresh --all", "backfill hourly", "invalidate hourly --all-time", "drop hourly --yes", "expire hourly --before 2024-03-02 --yes",
    "restore {}/copy --yes",
)  # fmt: skip


@pytest.fixture
def read_only(world: World) -> Iterator[World]:
    """The lake on a disk that is mounted for reading, with something to do."""
    world.add([50])
    root = str(world.root)
    mounts = (["mount", "--bind", root, root], ["mount", "-o", "remount,ro,bind", root])
    is_bound = subprocess.run(mounts[0], capture_output=True, check=False).returncode == 0
    if not is_bound:
        pytest.skip("may not mount")
    try:
        subprocess.run(mounts[1], check=True)
        yield world
    finally:
        subprocess.run(["umount", root], check=True)


@attack(
    "The disk",
    "the lake is mounted read-only, and something is to be done",
    "all commands that read work; all others are `storage.failed`, which says that nothing was written; no traceback",
)
def test_a_read_only_lake_can_be_read(read_only: World) -> None:
    """
    Nothing that a command only keeps for later (listings, starts, leases) stands in the way of what it was asked.
    """
    beside = read_only.root.parent
    for words in READING:
        read_only.works(words.format(beside))
    for words in WRITING:
        ran = read_only.run(words.format(beside))
        assert ["storage.failed"] == [e["code"] for e in ran.errors], (words, ran)
        assert "nothing was" in ran.errors[0]["wrote"], (words, ran)


# -- a disk that is full -------------------------------------------------------------------------------------------------


class Steps(dict[str, Callable[[], object]]):
    """What happens before the steps of a lake: each is written down, and before the one that is asked for something is done."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.wanted: tuple[int, Callable[[], object]] | None = None

    def pop(self, step: str, default: Any = None) -> Any:
        """Write a step down, and return what happens before it."""
        self.seen.append(step)
        number, what = self.wanted or (0, default)
        return what if number == len(self.seen) else default


def watched(world: World) -> Steps:
    """Return the steps of a lake from now on, those of folds too; it is folded often."""
    steps = Steps()
    world.lake.at = steps  # type: ignore[assignment]
    journal = Journal(world.root, snapshot_every=5, on_checkpoint=lambda step: steps.pop(step, lambda: None)())
    world.lake.wired = replace(world.lake.wired, journal=journal)
    world.lake.opened = Opened(world.lake.wired, Executor(Config(), None, {}, started=NoSpark()))  # type: ignore[arg-type]
    return steps


@pytest.fixture
def room() -> Iterator[Callable[[int | None], None]]:
    """Give what limits the bytes that a file of this process may have; None is no limit."""

    def limit(size: int | None) -> None:
        soft, hard = resource.RLIM_INFINITY if size is None else size, resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    if resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY:
        pytest.skip("files are limited here")
    yield limit
    limit(None)


@pytest.mark.parametrize("size", [0, 600])
@attack(
    "The disk",
    "from each step of a refresh, and of the folds of the journal, on, no file can be written, or only its first bytes",
    "`storage.failed`, which says what was committed; readers see whole rows; with room the next refresh does it all",
)
def test_the_disk_is_full_from_any_step_on(world: World, room: Callable[[int | None], None], size: int) -> None:
    """
    Small files pass and large ones do not, as on a disk that is almost full. Both tables are written at the same time, so the
    disk is full before both: where only the output is missing, Spark is asked for it, and there is none here.
    """
    steps, seen = watched(world), set[str]()

    def fill() -> None:
        if not steps.seen[-1].startswith("writing_"):
            room(size)

    for step in count(1):
        before = published(world)
        world.add([step % 60], value=step)
        steps.seen, steps.wanted = [], (step, fill)
        failed = None
        try:
            world.lake.opened.refresh("hourly")
        except StorageError as exc:
            failed = exc
        finally:
            room(None)
        assert failed is None or failed.wrote
        assert published(world) in (before, added_up(world))
        steps.wanted = None
        seen |= {*steps.seen}
        is_over = len(steps.seen) < step
        world.lake.opened.refresh("hourly")
        assert added_up(world) == published(world), step
        if is_over:
            break

    assert {"lease", "plan", "write", "writing_partials", "done"} <= seen


# -- a source that is changed between two steps of a refresh -------------------------------------------------------------


def _vacuumed(raw: str) -> None:
    DeltaTable(raw).optimize.compact()
    DeltaTable(raw).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def _deleted_and_vacuumed(raw: str) -> None:
    DeltaTable(raw).delete("v = 5")
    DeltaTable(raw).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def _restored(raw: str) -> None:
    DeltaTable(raw).restore(1)


def _without_log(raw: str) -> None:
    DeltaTable(raw).create_checkpoint()
    for file in sorted(Path(raw, "_delta_log").glob("*.json"))[:-1]:
        file.unlink()


@pytest.mark.parametrize("change", [_vacuumed, _deleted_and_vacuumed, _restored, _without_log])
@attack(
    "A source",
    "between any two steps of a refresh its rows are compacted or deleted and vacuumed without retention, it is restored, or its log goes",
    "the refresh publishes the version that it planned, or stops; the next one is right",
)
def test_a_source_changes_in_a_refresh(world: World, change: Callable[[str], None]) -> None:
    """
    Where the files that a plan reads are gone before they are read, Spark is asked for them, and fails: there is none here.
    """
    steps, raw = watched(world), str(world.root / "raw")
    for step in count(1):
        world.add([3, 50], value=5)
        planned = added_up(world)
        steps.seen, steps.wanted = [], (step, lambda: change(raw))
        with suppress(AttributeError, SourceDamagedError):
            world.lake.opened.refresh("hourly")
        is_over = len(steps.seen) < step
        assert published(world) in (planned, added_up(world)) or "writing_output" not in steps.seen, steps.seen
        steps.wanted = None
        world.lake.opened.refresh("hourly")
        assert added_up(world) == published(world), steps.seen
        if is_over:
            break


# -- partials that somebody edited ---------------------------------------------------------------------------------------


def partials(world: World) -> str:
    """Return the folder of the partials."""
    return str(next((world.root / "hourly" / "partials").iterdir()))


def _edited(path: str) -> None:
    names = [field.name for field in DeltaTable(path).schema().fields]
    DeltaTable(path).update(updates={name: f"{name} + 100" for name in names if name.startswith("p_")})


def _appended(path: str) -> None:
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")


@pytest.mark.parametrize("edit", [_edited, _appended])
@attack(
    "Partials",
    "another writer changes values in them, or appends rows, so that late rows are merged with what is wrong",
    "canaries hold the run back (`quality.canary`), and what is published stays; a refresh of everything mends it",
)
def test_edited_partials_are_found_by_canaries(
    world: World, monkeypatch: pytest.MonkeyPatch, edit: Callable[[str], None]
) -> None:
    """
    A commit that is not ours is no proof of harm, so only rows tell; the number of source rows tells more.
    """
    monkeypatch.setenv("MATERIALIZER_QUALITY_CANARIES_EXECUTOR", "local")
    world.add([*range(48)] * 300)
    world.apply(world.properties(HOURLY, quality__canaries="60", quality__canaries__every="1"))
    world.works("refresh hourly")
    before = published(world)
    edit(partials(world))
    world.add([3])

    assert ["quality.canary"] == [e["code"] for e in world.run("refresh hourly").errors]
    assert before == published(world)
    world.works("invalidate hourly --all-time")
    assert "--accept-fewer-rows" in world.fails("refresh hourly", "history.fewer-rows").text
    world.works("refresh hourly --accept-fewer-rows")
    assert added_up(world) == published(world)


def _without_a_file(path: str) -> None:
    next(Path(path).rglob("*.parquet")).unlink()


def _without_a_commit(path: str) -> None:
    max(Path(path, "_delta_log").glob("*.json")).unlink()


def _without_a_folder(path: str) -> None:
    shutil.rmtree(path)


@pytest.mark.parametrize("edit", [_without_a_file, _without_a_commit, _without_a_folder])
@attack(
    "Partials",
    "a file, a commit or the folder of them is deleted",
    "`refresh` stops, `doctor` and `repair` say what is gone; after `repair --yes` and a refresh all is right",
)
def test_lost_partials_are_made_again(world: World, edit: Callable[[str], None]) -> None:
    """
    What is published is whole meanwhile.
    """
    before = published(world)
    edit(partials(world))
    world.add([3, 50])

    assert 1 == world.run("doctor").status
    assert 1 == world.run("repair hourly").status
    assert world.run("refresh hourly").errors
    assert published(world) in (before, added_up(world))
    world.works("repair hourly --yes")
    world.works("refresh hourly")
    assert added_up(world) == published(world)


@attack(
    "Partials",
    "bytes in the middle of a file of them are changed, and its size stays",
    "`doctor --deep` finds them, and `refresh` stops with `source.damaged`; its hint moves the table away, and `repair --yes` makes it anew",
)
def test_the_way_back_from_changed_bytes_is_told(world: World) -> None:
    """
    No log tells it, so `repair` alone finds nothing wrong; reading does.
    """
    path = partials(world)
    file = next(Path(path).rglob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)
    assert "doctor.unreadable" in {f.code for f in world.lake.opened.doctor("hourly", is_deep=True)}
    world.add([3, 50])

    hint = world.fails("refresh hourly", "source.damaged")
    assert f"move '{path}' away" in hint.text
    Path(path).rename(world.root / "moved")
    world.works(hint.command())
    world.works("refresh hourly")
    assert added_up(world) == published(world)
