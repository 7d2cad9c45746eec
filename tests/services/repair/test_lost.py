"""A lake whose journal was removed looks lost to everyone who asks; no JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from materializer.adapters.cli import main
from tests.hints.world import HOURLY, World

ASKED = ("refresh --all", "policy run --due", "policy list", "status", "maintain --all", "repair --all", "report")
NAMED = (
    "refresh hourly",
    "show hourly",
    "status hourly",
    "plan hourly",
    "verify hourly",
    "history hourly",
    "drop hourly --yes",
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with an aggregate that is up to date, and a backup of its journal."""
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    world.apply(HOURLY)
    world.works("refresh hourly")
    world.works("backup saved")
    return world


def found(world: World) -> list[tuple[str, str]]:
    """Return aggregate and code of the errors that the doctor found."""
    findings = json.loads(world.run("doctor").text)["findings"]
    return [(f["subject"], f["code"]) for f in findings if f["level"] == "error" and f["subject"] != "environment"]


def test_a_lost_journal_is_an_error_of_every_command_that_takes_all(world: World) -> None:
    """
    Whoever asks for everything ends with the code and the way back, which leads back.
    """
    assert [] == found(world)
    shutil.rmtree(world.root / "_materializer")

    for words in ASKED:
        ran = world.run(words)
        assert (69, ["journal.lost"]) == (ran.status, [e["code"] for e in ran.errors]), (words, ran)
        assert "hourly" in ran.errors[0]["message"]
        assert "restore a backup" in ran.errors[0]["hint"]
        assert "repair --definitions" in ran.errors[0]["hint"]
    for words in NAMED:
        assert [(69, "journal.lost")] == [(world.run(words).status, e["code"]) for e in world.run(words).errors], words
    assert [("hourly", "journal.lost")] == found(world)
    assert "not there yet" not in world.run("doctor").text

    world.works("restore saved --yes")
    assert [] == found(world)
    for words in ASKED:
        world.works(words)


def test_status_without_a_journal_does_not_say_that_nothing_was_defined(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The text of a lost lake is the error alone; a lake without tables has nothing defined.
    """
    shutil.rmtree(world.root / "_materializer")
    assert 69 == main(["status", "--lake", str(world.root)])
    told = capsys.readouterr()
    assert "no aggregates are defined" not in told.out
    assert "journal.lost" in told.err

    other = world.root / "other"
    assert 0 == main(["status", "--lake", str(other)])
    told = capsys.readouterr().out
    assert "no aggregates are defined" in told
    assert f"there is no folder {other}" in " ".join(told.split())
    for command in ("refresh", "backfill", "verify"):  # which a schedule runs, and nobody reads
        assert 64 == main([command, "--all", "--lake", str(other)])
        assert f"there is no folder {other}" in " ".join(capsys.readouterr().err.split())
    other.mkdir()
    assert 0 == main(["status", "--lake", str(other)])
    told = capsys.readouterr().out
    assert "no aggregates are defined" in told
    assert "there is no folder" not in told


def test_definitions_lead_back_without_a_backup(world: World) -> None:
    """
    What takes the tables over takes the error away; the doctor finds what it does not take, while other commands work.
    """
    world.apply(HOURLY.replace("hourly", "other"))
    world.works("refresh other")
    shutil.rmtree(world.root / "_materializer")
    (world.root / "hourly.sql").write_text(HOURLY)

    world.lake.opened.journal.reopen()
    world.lake.opened.take_over(world.root / "hourly.sql")

    world.works("refresh --all")
    world.works("status")
    assert [("other", "journal.lost")] == found(world)


def test_a_lake_without_tables_of_ours_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A new lake, and one whose aggregates were dropped, have lost nothing.
    """
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    for _ in range(2):
        for words in ASKED:
            world.works(words)
        assert [] == found(world)
        world.apply(HOURLY)
        world.works("drop hourly --yes")


@pytest.mark.parametrize("folder", ["_materializer/backup", "_materializer", "other/../_materializer/x/y"])
def test_a_backup_inside_the_journal_is_refused(world: World, folder: str) -> None:
    """
    It would be lost together with what it is for.
    """
    before = sorted(p for p in (world.root / "_materializer").rglob("*"))
    world.fails(f"backup {folder}", "usage")
    assert before == sorted(p for p in (world.root / "_materializer").rglob("*"))
