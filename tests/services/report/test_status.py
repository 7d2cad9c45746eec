"""What ``status`` reads of very many aggregates."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from materializer.core.aggregates.decompose import decompose
from materializer.core.spec.spec import AggregateSpec
from materializer.journal import output_rows
from materializer.journal.journal import Journal
from materializer.lake.table import DeltaFolder, open_table
from materializer.services.report.status import Looker
from tests.counting import calls_to
from tests.crowds import copy_aggregate
from tests.hints.world import HOURLY, World

COUNT = 120


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A lake of an hourly aggregate and many copies of it, whose rows are noted."""
    world = World(tmp_path)
    world.apply(HOURLY)
    world.works("refresh hourly")
    copy_aggregate(tmp_path, "hourly", COUNT)
    view = Journal(tmp_path).view()
    output_rows.note(str(tmp_path), view, view.all.ids())
    return world


def test_of_each_the_journal_says_enough(world: World) -> None:
    """
    Nothing is compiled, no output is opened, a definition is read once, and their source is looked at once.
    """
    looker = Looker(str(world.root), Journal(world.root))
    found = looker.status()

    assert {("fresh", 48)} == {(s.state, s.rows) for s in found}
    for function, most in (
        (decompose, 0),
        (open_table, 1),
        (AggregateSpec.from_json.__func__, COUNT + 1),
        (DeltaFolder.head, 5),
    ):
        other = Looker(str(world.root), Journal(world.root))
        assert calls_to(function, other.status) <= most, function


def test_an_output_that_changed_or_is_gone_is_looked_at(world: World) -> None:
    """
    What is noted of it does not count then.
    """
    DeltaFolder.at(f"{world.root}/hourly_00003/output").opened().delete()
    shutil.rmtree(world.root / "hourly_00004")
    shutil.rmtree(world.root / "hourly_00005/output/_delta_log")
    found = {s.name: s for s in Looker(str(world.root), Journal(world.root)).status()}

    assert ("fresh", 0) == (found["hourly_00003"].state, found["hourly_00003"].rows)
    for name, words in (("hourly_00004", "there is no table at"), ("hourly_00005", "holds no Delta log")):
        assert ("output-unreadable", None) == (found[name].state, found[name].rows)
        assert words in found[name].problem
        assert f"materializer repair {name}" in found[name].problem
