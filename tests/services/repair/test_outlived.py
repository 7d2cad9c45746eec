"""A backup that is older than the frozen boundary, where no journal knows the boundary any more; no JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.core.time.spans import NEG_INF
from tests.hints.world import HOURLY, World

MIDNIGHT = "2024-03-02T00:00:00Z"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake of two days of which the first one was frozen after a backup."""
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    world.apply(HOURLY)
    world.works("refresh hourly")
    world.works("backup saved")
    world.works(f"expire hourly --before {MIDNIGHT} --yes")
    assert world.state().frozen > NEG_INF
    return world


def delete(world: World) -> None:
    """Delete the raw rows that the frozen boundary lets go."""
    DeltaTable(str(world.root / "raw")).delete(f"ts < '{MIDNIGHT}'")


def lose(world: World) -> None:
    shutil.rmtree(world.root / "_materializer")


def test_a_restore_that_would_cost_history_says_so_and_stops(world: World) -> None:
    """
    It names the groups that the next refresh would remove; as stored, they are frozen and stay.
    """
    delete(world)
    lose(world)

    [planned] = json.loads(world.works("restore saved", status=1))["outlived"]
    assert "hourly" == planned["name"]
    assert 24 <= planned["groups"] <= 25, "from statistics of files"
    assert planned["below"].startswith("2024-03-02")
    hint = world.fails("restore saved --yes", "history.frozen")
    assert f"about {planned['groups']} groups" in hint.message
    assert not (world.root / "_materializer").exists()

    world.works(hint.command())
    assert world.state().frozen > NEG_INF
    world.add([50])
    world.works("refresh hourly")
    assert 49 == len(world.lake.rows_of("hourly"))


def test_a_boundary_that_the_current_journal_knows_is_carried_over(world: World) -> None:
    """
    Then nothing stops the restore, and the history stays.
    """
    delete(world)
    frozen = world.state().frozen

    assert [] == json.loads(world.works("restore saved --yes"))["outlived"]
    assert frozen == world.state().frozen
    world.works("refresh hourly")
    assert 48 == len(world.lake.rows_of("hourly"))


def test_rows_that_are_still_there_stop_no_restore(world: World) -> None:
    """
    A boundary that was lost before anything was deleted costs nothing.
    """
    lose(world)

    assert [] == json.loads(world.works("restore saved --yes"))["outlived"]
    world.works("refresh hourly")
    assert 48 == len(world.lake.rows_of("hourly"))


def test_what_a_repair_freezes_stops_no_restore(world: World) -> None:
    """
    Tables that are ahead of the backup need a repair, which freezes by itself where the source has a retention.
    """
    world.apply(world.properties(HOURLY, source__retention="1 day"))
    world.works("backup later")
    world.add([50])
    world.works("refresh hourly")
    delete(world)
    lose(world)

    assert [] == json.loads(world.works("restore later --yes"))["outlived"]
    world.works("repair hourly --yes")
    world.works("refresh hourly")
    assert 49 == len(world.lake.rows_of("hourly"))
