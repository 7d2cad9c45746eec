"""`backfill` says that a source has no change feed, as `apply` does: once for each source, with the statement to paste."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.adapters.cli.app import main
from tests.hints.world import DAILY, HOURLY, World
from tests.services.no_spark import each, view


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two aggregates over one source, and one over an aggregate."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    world = World(tmp_path)
    world.apply(HOURLY, DAILY, view("sixths", each("10 minutes")))
    return world


def feed(world: World, *, is_on: bool) -> None:
    table = DeltaTable(str(world.root / "raw"))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": str(is_on).lower()})


def test_it_is_said_once_for_each_source(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Not of the output of an aggregate, which needs none; by `refresh` it is not said again.
    """
    feed(world, is_on=False)
    capsys.readouterr()

    assert 0 == main(["backfill", "--all", "--lake", str(world.root)])
    assert 1 == capsys.readouterr().out.count(f"ALTER TABLE delta.`{world.root}/raw` SET TBLPROPERTIES")
    world.add([50])
    assert 0 == main(["refresh", "--all", "--lake", str(world.root)])
    assert "ALTER TABLE" not in capsys.readouterr().out


def test_the_document_has_it(world: World) -> None:
    """
    Beside the first aggregate of the source; with a feed it is null everywhere.
    """
    feed(world, is_on=False)
    found = [r["change_feed"] for r in json.loads(world.works("backfill --all"))["refreshes"]]
    feed(world, is_on=True)
    then = [r["change_feed"] for r in json.loads(world.works("backfill --all --force"))["refreshes"]]

    assert 1 == sum(f is not None for f in found)
    assert f"{world.root}/raw" == next(f["source"] for f in found if f)
    assert [None] * 3 == then
