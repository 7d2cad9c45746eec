"""The guard of history of engines: rows that nobody saw go stop a recompute, rows that come never do."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from materializer.errors import FewerRowsError
from tests.system.builders import LANES
from tests.system.engine_histories import BASE, DEFINITIONS, World
from tests.tables import clean_log

if TYPE_CHECKING:
    from pyspark.sql import Row

    from materializer.api import Materializer

UNGUARDED = ("counts",)
"""Where an older event moves all windows after it."""
KEPT_IN_CI = ("sessions",)


def lose(world: World, minute: int) -> None:
    """Let the owner delete all rows before a minute."""
    gone = {i for i in world.ids if world.times[i] < BASE + timedelta(minutes=minute)}
    DeltaTable(world.source).delete(f"id IN ({', '.join(map(str, sorted(gone)))})")
    world.ids = [i for i in world.ids if i not in gone]


def published(made: Materializer) -> list[Row]:
    """Return the rows of the output, in one order."""
    return sorted(made.read("made").collect(), key=repr)


def refused(made: Materializer, **options: Any) -> FewerRowsError:
    with pytest.raises(FewerRowsError) as caught:
        made.refresh("made", **options)
    return caught.value


@pytest.mark.parametrize("lane_rows", LANES)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in KEPT_IN_CI else pytest.mark.slow) for n in DEFINITIONS if n not in UNGUARDED],
)
def test_rows_that_nobody_saw_go_stop_an_engine(name, lane_rows, spark, tmp_path) -> None:
    """
    Rows that come unseen, late ones too, are computed. When the oldest went unseen, and others came, a refresh stops, says how
    many rows results counted and would count, and writes nothing; the source's word is taken where somebody says so.
    """
    world = World(spark, tmp_path, random.Random(f"guard {name}"), DEFINITIONS[name], lane_rows=lane_rows)
    made = world.begin()
    world.refresh(made)
    world.insert(12, 0, 520)
    clean_log(world.source)
    world.refresh(made)
    assert 2 == world.seen["strategy rebuild"], "at first, and when nobody could tell what came"
    world.refresh(made, force=True)
    made.invalidate("made")
    world.refresh(made)

    before = published(made)
    world.insert(15, 480, 700)
    lose(world, 120)
    clean_log(world.source)
    for error in (refused(made), refused(made, force=True)):
        assert "results of 'made' that begin before 2024-01-01T1" in str(error)
        assert ("history.fewer-rows", "nothing was written") == (error.code, error.wrote)
        assert 0 < error.values["buckets"] <= error.values["rows"]
        assert "--accept-fewer-rows" in error.hint
    assert before == published(made)
    world.refresh(made, accept_fewer_rows=True)
    assert before != published(made)


def test_history_of_an_engine_is_kept_as_it_is_stored(spark, tmp_path) -> None:
    """
    What the error says first keeps the sessions whose rows went, and what lies above is made true.
    """
    world = World(spark, tmp_path, random.Random("as stored"), DEFINITIONS["sessions"])
    made = world.begin()
    world.refresh(made)
    before = published(made)
    world.insert(15, 480, 700)
    lose(world, 120)
    clean_log(world.source)
    error = refused(made)

    bound = error.hint.partition("--before ")[2].partition(" ")[0]
    made.expire("made", bound, as_stored=True)
    world.refresh(made)

    gone = [row for row in before if row["window_start"] < (BASE + timedelta(minutes=120)).replace(tzinfo=None)]
    now = published(made)
    assert gone
    assert [row for row in now if row in gone] == gone
    assert len(before) < len(now)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ["hopping", "sessions"])
def test_rows_that_were_seen_to_go_do_not_stop_an_engine(name, spark, tmp_path) -> None:
    """
    Deletes that were captured are followed, also when the refresh after them is forced, whether it is known how many counts go
    with a row (time series) or not (sessions).
    """
    world = World(spark, tmp_path, random.Random(name), DEFINITIONS[name])
    made = world.begin()
    world.refresh(made)
    lose(world, 120)
    world.refresh(made, force=True)


def test_more_rows_that_went_than_were_seen_to_go_stop_an_engine(spark, tmp_path) -> None:
    """
    Rows of some minutes were seen to go, and are followed when the log is cleaned; those of hours that went then are not.
    """
    world = World(spark, tmp_path, random.Random("more"), DEFINITIONS["hopping"])
    made = world.begin()
    world.refresh(made)
    captured = "2024-02-01T00:00:00Z", "2024-02-02T00:00:00Z"  # and nothing computed: no row lies there
    lose(world, 40)
    made.refresh("made", *captured)
    clean_log(world.source)
    world.refresh(made)
    assert 2 == world.seen["strategy rebuild"]

    lose(world, 80)
    made.refresh("made", *captured)
    lose(world, 320)
    clean_log(world.source)
    assert refused(made).values["rows"]


def test_where_rows_move_others_nothing_is_counted(spark, tmp_path) -> None:
    """
    A count window is made of other rows when an older one comes: it follows the source.
    """
    world = World(spark, tmp_path, random.Random("counts"), DEFINITIONS["counts"])
    made = world.begin()
    world.refresh(made)
    lose(world, 120)
    clean_log(world.source)
    world.refresh(made)
    assert 2 == world.seen["strategy rebuild"]
