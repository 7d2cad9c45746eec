"""Rows of outputs that are noted beside the journal are those of the outputs, or are counted anew."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from materializer.journal import output_rows
from materializer.journal.journal import Journal
from materializer.lake.notes import newest_number
from materializer.lake.table import DeltaFolder
from materializer.services.report.status import Looker
from tests.counting import calls_to
from tests.crowds import copy_aggregate
from tests.hints.world import HOURLY, World

FILE = "_materializer/output_rows.json"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A lake of an hourly aggregate and 120 copies of it, which was refreshed since."""
    world = World(tmp_path)
    world.apply(HOURLY)
    world.works("refresh hourly")
    copy_aggregate(tmp_path, "hourly", 120)
    world.add([50])
    world.works("refresh hourly")  # makes the list of all anew
    world.add([51])
    world.works("refresh hourly")
    return world


def test_a_refresh_notes_the_rows_of_its_output(world: World) -> None:
    """
    Those of the aggregate that it refreshed, as long as its output stays as it is.
    """
    path, noted = f"{world.root}/hourly/output", output_rows.read(str(world.root))

    assert [world.state().id] == list(noted)
    [known] = noted.values()
    assert (50, 50, True) == (known.rows, DeltaFolder.at(path).rows(), known.holds(path))

    world.add([52])
    world.works("refresh hourly")
    assert not known.holds(path)
    [known] = output_rows.read(str(world.root)).values()
    assert (51, True) == (known.rows, known.holds(path))


def test_what_is_gone_is_forgotten(world: World) -> None:
    """
    A dropped aggregate leaves no line.
    """
    view = Journal(world.root).view()
    output_rows.note(str(world.root), view, view.all.ids())
    assert 121 == len(output_rows.read(str(world.root)))

    world.works("drop hourly_00007 --yes")
    world.add([52])
    world.works("refresh hourly")
    assert 120 == len(output_rows.read(str(world.root)))


def test_tables_that_a_refresh_left_are_not_read(world: World) -> None:
    """
    Neither for their rows nor for their history; those of the others are, once each.
    """
    asked = calls_to(newest_number, lambda: Looker(str(world.root), Journal(world.root)).status())

    assert 2 * 120 == asked


@pytest.mark.parametrize("table", ["output", "partials"])
def test_tables_of_another_history_are_found_all_the_same(world: World, table: str) -> None:
    """
    What was noted is of other files, also where an older copy is put back by its name.
    """
    older = world.root / "older"
    shutil.copytree(world.root / "hourly" / table, older)
    world.add([52])
    world.works("refresh hourly")
    assert '"state": "fresh"' in world.works("status hourly")
    shutil.rmtree(world.root / "hourly" / table)
    older.rename(world.root / "hourly" / table)

    assert '"state": "output-unreadable"' in world.works("status hourly")


@pytest.mark.parametrize(
    "damage",
    ["", "[]", ' {"format": 0, "whole": 9}\n', 'a [1]\n {"format": 3, "whole": 9}\n', '{"format": 3}\n', "half of i"],
)
def test_a_damaged_file_is_not_used(world: World, damage: str) -> None:
    """
    The outputs are opened.
    """
    (world.root / FILE).write_text(damage)

    assert {} == output_rows.read(str(world.root))
    assert '"rows": 50' in world.works("status hourly")


def test_few_aggregates_need_no_file(tmp_path: Path) -> None:
    """
    Their outputs are opened in no time.
    """
    world = World(tmp_path)
    world.apply(HOURLY)
    world.works("refresh hourly")

    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("what", ["pipe", "link", "folder", "infinity", "text", "negative", "huge", "boolean"])
def test_what_is_no_such_file_is_ignored(world: World, what: str) -> None:
    """
    Whoever can write to the lake can put something else there: nothing hangs, nothing outside is read, and no lie is shown.
    """
    file, kept = world.root / FILE, world.root / "kept.json"
    lies = {"infinity": "Infinity", "text": '"9"', "negative": "-5", "huge": "9" * 40, "boolean": "true"}
    text = file.read_text()
    file.unlink()
    if what == "pipe":
        os.mkfifo(file)
    elif what == "link":
        kept.write_text(text)
        file.symlink_to(kept)
    elif what == "folder":
        file.mkdir()
    else:
        assert "[50," in text
        file.write_text(text.replace("[50,", f"[{lies[what]},", 1))

    assert {} == output_rows.read(str(world.root))
    world.works("status")
    world.add([53])
    world.works("refresh hourly")
