"""Journal and tables of histories that parted: the numbers may agree, the plans do not; no JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.hints.world import HOURLY, World

JOURNAL = "_materializer"
PARTS = {"journal": JOURNAL, "partials": "hourly/partials", "output": "hourly/output"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """
    A lake with three copies: before a refresh, after it, and after another refresh with the same number, which saw one row more.

    What stands in the lake is the last one.
    """
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    world.apply(HOURLY)
    world.works("refresh hourly")
    saved(world, "before")
    world.add([3])
    world.works("refresh hourly")
    saved(world, "first")
    put_back(world, "before", *PARTS)
    world.add([3, 7], value=5)
    world.works("refresh hourly")
    saved(world, "second")
    assert 1 < number(world, "first") == number(world, "second") > number(world, "before")
    return world


def saved(world: World, name: str) -> None:
    for folder in (JOURNAL, "hourly"):
        shutil.copytree(world.root / folder, world.root / "copies" / name / folder)


def put_back(world: World, name: str, *parts: str) -> None:
    """Put parts of a copy in their places."""
    for part in parts:
        shutil.rmtree(world.root / PARTS[part])
        shutil.copytree(world.root / "copies" / name / PARTS[part], world.root / PARTS[part])


def number(world: World, name: str) -> int:
    output = DeltaTable(str(world.root / "copies" / name / "hourly" / "output"))
    return output.transaction_version(f"materializer/{world.state().id}") or 0


def values(world: World) -> list[int]:
    return [row["v"] for row in world.lake.rows_of("hourly")]


def planned(world: World) -> dict[str, Any]:
    """Return what a repair would do."""
    [found] = json.loads(world.works("repair hourly", status=1))["repairs"]
    return dict(found)


@pytest.mark.parametrize(
    ("name", "parts", "code"),
    [
        ("before", ["journal"], "tables.ahead"),
        ("before", ["partials", "output"], "tables.ahead"),
        ("before", ["partials"], "tables.ahead"),
        ("first", ["partials"], "tables.foreign-history"),
        ("first", ["partials", "output"], "tables.foreign-history"),
        ("first", ["journal"], "tables.foreign-history"),
    ],
)
def test_parts_of_a_copy_are_found_and_repaired(world: World, name: str, parts: list[str], code: str) -> None:
    """
    An older journal, older tables, half a copy and tables of another history: refused, found by the doctor, repaired, and true.
    """
    put_back(world, name, *parts)
    world.add([9], value=100)

    hint = world.fails("refresh hourly --executor local", code)
    said = world.run("doctor").text
    assert code in said
    found = planned(world)
    assert {code} == {problem["code"] for problem in found["wrong"]}
    if found["output"] == "rebuilt":  # which takes Spark
        return
    world.works(f"{hint.commands[0]} --yes")
    world.works("refresh hourly")

    expected = [1] * 48
    expected[3], expected[7], expected[9] = 7, 6, 101
    assert expected == values(world)
    assert "sound" in world.works("repair hourly")


@pytest.mark.parametrize(
    ("name", "parts", "code"),
    [
        ("first", ["output"], "tables.foreign-history"),
        ("first", ["partials"], "tables.foreign-history"),
        ("before", ["output"], "tables.ahead"),
        ("before", ["partials", "output"], "tables.ahead"),
    ],
)
def test_they_are_found_without_a_new_row(world: World, name: str, parts: list[str], code: str) -> None:
    """
    Where the source did not change, a refresh stops, too, and `status` says what is wrong and what mends it.
    """
    assert "up-to-date" in world.works("refresh hourly")
    [fresh] = world.lake.opened.status()
    assert ("fresh", "") == (fresh.state, fresh.problem)
    put_back(world, name, *parts)

    [found] = world.lake.opened.status()
    assert ("output-unreadable", "materializer repair hourly") == (found.state, found.problem.split("'")[-2])
    assert ["repair hourly"] == world.fails("refresh hourly --executor local", code).commands


def test_an_output_of_another_history_is_rebuilt_from_the_partials(world: World) -> None:
    """
    Where only the output was put back, what is clean stays clean; fresh reads refuse it, too.
    """
    put_back(world, "first", "output")

    world.fails("show hourly --fresh", "tables.foreign-history")
    found = planned(world)
    assert ["tables.foreign-history"] == [problem["code"] for problem in found["wrong"]]
    assert (False, "kept", "rebuilt") == (found["everything_dirty"], found["partials"], found["output"])


def test_whole_copies_are_whole_histories(world: World) -> None:
    """
    Journal and tables that were put back together go on, whichever copy they are from.
    """
    for name in ("first", "before", "second"):
        put_back(world, name, *PARTS)
        world.works("refresh hourly")
        assert (7, 6) == (values(world)[3], values(world)[7])
