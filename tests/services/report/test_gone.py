"""A source that moved and an output that was deleted: what is said, and that it mends."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.hints.world import HOURLY, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with an hourly aggregate that is fresh."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    world = World(tmp_path)
    world.apply(HOURLY)
    world.works("refresh hourly")
    return world


def look(world: World) -> tuple[str, str]:
    """Return the state and the problem of the aggregate."""
    [status] = world.lake.opened.status()
    return status.state, status.problem


def test_an_output_that_is_gone_is_not_a_source_that_is_gone(world: World) -> None:
    """
    `status` says that the output cannot be read, and which command makes it again.
    """
    shutil.rmtree(world.root / "hourly" / "output")
    state, problem = look(world)

    assert "output-unreadable" == state
    assert "its output cannot be read: there is no table at" in problem
    assert "'materializer repair hourly' makes it again" in problem


def test_a_source_that_moved_is_named_in_sources(world: World) -> None:
    """
    `status`, `refresh` and `doctor` say so; done as they say, the aggregate goes on where it was.
    """
    shutil.move(world.root / "raw", world.root / "elsewhere")
    state, problem = look(world)
    hint = world.fails("refresh hourly", "table.not-found").text
    doctor = world.works("doctor", status=1)

    assert "source-unreadable" == state
    assert all("name its new place in [sources]" in text for text in (problem, hint, doctor))
    (world.root / "materializer.toml").write_text(f"[sources]\nraw = '{world.root}/elsewhere'\n")
    (world.root / "hourly.sql").write_text(HOURLY)
    [command] = re.findall(r"'materializer (apply FILE)'", hint)
    world.works(command.replace("FILE", "hourly.sql"))
    assert "up-to-date" in world.works("refresh hourly")
    assert "fresh" in world.works("status hourly")


def test_a_source_that_was_put_back_is_not_behind_zero(world: World) -> None:
    """
    A newest version below the captured one is said in words, not as "3 of 0".
    """
    shutil.copytree(world.root / "raw", world.root / "old")
    world.add([50])
    world.works("refresh hourly")
    shutil.rmtree(world.root / "raw")
    shutil.move(world.root / "old", world.root / "raw")
    [status] = world.lake.opened.status()

    assert "2, but the newest is 1" == status.versions
