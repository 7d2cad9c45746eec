"""Canaries of engines: slices that a refresh computes again from their raw rows, and what becomes of a difference."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any, Final

import pytest
from deltalake import DeltaTable

from materializer.core.time.spans import SpanSet
from materializer.errors import CanaryError
from materializer.services.quality import canaries
from tests.system.builders import some_slow
from tests.system.engine_histories import ALL, BASE, World

EVERY_SLICE: Final = {"quality.canaries": "200"}
"""So many draws from nine slices leave out none, in all but one of a hundred million cases."""


def watched(spark: Any, folder: Any, name: str, **options: Any) -> World:
    """Return a refreshed aggregate that canaries look at every slice of."""
    world = World(spark, folder, random.Random(f"canaries {name}"), ALL[name], **options)
    world.insert(60)
    made = world.open()
    world.define(made, ALL[name], EVERY_SLICE)
    made.refresh("made")
    return world


def tables(world: World) -> dict[str, DeltaTable]:
    """Return both tables of the aggregate."""
    home = world.folder / "lake" / "made"
    return {
        "output": DeltaTable(str(home / "output")),
        "partials": DeltaTable(str(next((home / "partials").iterdir()))),
    }


def a_row(world: World, later_than: int = 0) -> dict[str, Any]:
    """Return a published row of the slice that has so many before it."""
    rows = [r for r in tables(world)["output"].to_pyarrow_table().to_pylist() if r["is_final"] and r["k"]]
    at = sorted({r["slice"] for r in rows})[later_than]
    return next(r for r in rows if r["slice"] == at)


def place(row: dict[str, Any], *, in_partials: bool) -> str:
    """Return a predicate for the rows of one key in one slice."""
    return f"slice = '{row['slice'].isoformat()}' AND {'k_k' if in_partials else 'k'} = '{row['k']}'"


def tamper(world: World, row: dict[str, Any]) -> None:
    """Add one to the first measure of a key in a slice, in both tables."""
    measure = next(iter({"measures": {"total": 0}, **world.definition}["measures"]))
    found = tables(world)
    found["output"].update({measure: f"coalesce({measure}, 0) + 1"}, predicate=place(row, in_partials=False))
    stored = f"v_{measure}"
    found["partials"].update({stored: f"coalesce({stored}, 0) + 1"}, predicate=place(row, in_partials=True))


def published(world: World) -> list[dict[str, Any]]:
    """Return what readers see."""
    return sorted(tables(world)["output"].to_pyarrow_table().to_pylist(), key=repr)


def failing(world: World) -> list[dict[str, Any]]:
    """Return the differing rows that were kept."""
    path = str(world.folder / "lake" / "made" / "failing")
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return [r | {"row": json.loads(r["row"])} for r in rows]


@pytest.mark.parametrize("name", some_slow(ALL, ("sessions",)))
def test_canaries_of_an_engine_find_what_was_changed_by_hand(name, spark, tmp_path) -> None:
    """
    Somebody changed a result in both tables: the slice is named, the refresh publishes nothing, and the next one mends it.
    """
    world = watched(spark, tmp_path, name)
    world.insert(3, 480, 500)
    world.open().refresh("made")
    [before] = world.open().status("made")
    assert before.canaries is not None
    assert before.canaries.clean >= 3
    assert before.canaries.touched
    row = a_row(world, 2)
    tamper(world, row)
    shown = published(world)
    world.insert(3, 500, 520)

    with pytest.raises(CanaryError) as failed:
        world.open().refresh("made")

    assert row["slice"].isoformat().replace("+00:00", "Z") in failed.value.message
    assert shown == published(world)
    evidence = [r for r in failing(world) if r["row"]["found"] and r["row"]["found"]["k"] == row["k"]]
    assert evidence
    assert all(r["row"]["found"] != r["row"]["expected"] for r in evidence)
    [status] = world.open().status("made")
    assert (0, 0) == (status.canaries.clean, status.canaries.touched)
    assert status.canaries.differed
    assert not status.canaries.differed - status.dirty

    world.refresh(world.open())
    assert world.open().status("made")[0].canaries.touched


def test_what_lies_around_a_difference_is_not_believed(site) -> None:
    """
    Somebody took a session out of both tables that goes on beyond its slice. The rows of the slice alone make a shorter one:
    the refresh after the canary computes everything, and not only what the kept results around tell it to.
    """
    trades = site.table("trades")
    trades.trade(*((at, "A", 1) for at in ("08:10", "08:50", "09:30", "10:05", "13:00", "14:30")))
    parts = {"time": "ts", "keys": ["sym"], "session_gap": "45 minutes", "measures": {"n": "count(*)"}}
    site.lake.define("sessions", "trades", engine="session_window", **parts, properties=EVERY_SLICE)
    site.lake.refresh("sessions")
    home = site.lake.root / "sessions"
    for path in (home / "output", next((home / "partials").iterdir())):
        DeltaTable(str(path)).delete("slice = '2024-03-01T08:00:00Z'")
    trades.trade(("15:30", "A", 1))

    with pytest.raises(CanaryError, match=r"sym=A.*08:10.* missing"):
        site.lake.refresh("sessions")

    [run] = site.lake.refresh("sessions").runs
    assert "a canary found kept results to differ" in run.plan.steps[0].reason
    verdict = site.lake.verify("sessions")
    assert verdict.compared
    assert verdict.is_equal, verdict.examples


def test_what_closes_a_result_may_lie_elsewhere(site, monkeypatch) -> None:
    """
    The one row that closes a window of the only slice that is looked at lies in the newest window of its key.
    """
    trades = site.table("trades")
    trades.trade(("08:10", "A", 1), ("15:00", "A", 1), ("09:20", "B", 1), ("15:10", "B", 1))
    series = {"window_size": "10 minutes", "step": "10 minutes", "measures": {"n": "count(*)"}}
    site.lake.define(
        "bars", "trades", engine="time_series", time="ts", keys=["sym"], **series, properties={"quality.canaries": "1"}
    )
    site.lake.refresh("bars")
    trades.trade(("12:05", "B", 1))
    monkeypatch.setattr(
        canaries, "sample", lambda spans, grid, *_: SpanSet.of(grid.bucket(spans.spans[0].start)) if spans else spans
    )

    [run] = site.lake.refresh("bars").runs

    assert {"clean": 1, "touched": 1, "differed": []} == run.verdict["sampled"]


def test_nothing_is_built_on_a_difference(site) -> None:
    """
    A refresh of another window, whose running sums would go on from what was found to be wrong, mends that first.
    """
    trades = site.table("trades")
    trades.trade(("00:10", "A", 1), ("01:10", "A", 2), ("02:10", "A", 4), ("03:10", "A", 8))
    parts = {"time": "ts", "keys": ["sym"], "measures": {"sums": "cumsum(price)"}}
    site.lake.define("sums", "trades", engine="reactive_state", **parts, properties=EVERY_SLICE)
    site.lake.refresh("sums")
    home = site.lake.root / "sums"
    for path in (home / "output", next((home / "partials").iterdir())):
        DeltaTable(str(path)).delete("slice = '2024-03-01T02:00:00Z'")
    trades.trade(("03:05", "A", 16))
    with pytest.raises(CanaryError, match=r"sym=A.*02:10.* missing"):
        site.lake.refresh("sums")

    site.lake.refresh("sums", "2024-03-01T03:00:00Z", "2024-03-01T04:00:00Z")

    verdict = site.lake.verify("sums")
    assert verdict.compared
    assert verdict.is_equal, verdict.examples


def test_canaries_draw_nothing_beside_dirt(spark, tmp_path) -> None:
    """
    A refresh that leaves something dirty has nothing to compare clean slices with; the one that takes the rest looks again.
    """
    world = watched(spark, tmp_path, "sessions")
    seen = world.open().status("made")[0].canaries
    for hour in (1, 5):
        world.insert(4, hour * 60, hour * 60 + 50)

    [first] = world.open().refresh("made", end=(BASE + timedelta(hours=3)).isoformat()).runs
    [rest] = world.open().refresh("made").runs

    assert {"clean": 0, "touched": 0, "differed": []} == first.verdict["sampled"]
    assert rest.verdict["sampled"]["clean"]
    assert rest.verdict["sampled"]["touched"]
    assert world.open().status("made")[0].canaries.clean == seen.clean + rest.verdict["sampled"]["clean"]
