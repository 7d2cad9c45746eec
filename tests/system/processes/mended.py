"""Lakes that are put back as they were before a command, and what must hold of them when something went wrong in it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable
from msgspec import Struct

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import MaterializerError
from materializer.services import processes
from tests.system.processes.child import BACKUP, COMMANDS
from tests.system.processes.handed import HANDED, handlers, received
from tests.system.processes.running import World
from tests.system.processes.situations import Rows, Situation


class Prepared(Struct):
    """A lake before its command, and a copy of it to be put back.

    Args:
        situation: What it is.
        world: The lake.
        rows: What shall be published in the end.
        copy: The copy.
        errors: What ``doctor`` says of it before the command.
    """

    situation: Situation
    world: World
    rows: Rows
    copy: Path
    errors: set[tuple[str, str]]

    def put_back(self) -> World:
        """Return the lake as it was before the command, at the same path and opened anew."""
        world = self.world
        shutil.rmtree(world.folder)
        shutil.copytree(self.copy, world.folder)
        world.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return opened(world)


def opened(world: World, **options: Any) -> World:
    """Open the lake anew."""
    config = Config(
        price_tie_ms=60_000,
        driver_lane_rows=world.driver_lane_rows,
        executor=world.executor,
        expectations=world.folder / "expectations",
    )
    given = {"output_handlers": handlers(world.folder), **options}
    world.lake = Materializer(world.root, spark=world.spark, config=config, **given)
    return world


BORROW: Final = "--borrow"
"""A child computes with the JVM of the tests."""


def errors(world: World) -> set[tuple[str, str]]:
    """Return what ``doctor`` finds wrong."""
    return {(found.subject, found.code) for found in world.lake.doctor() if found.level == "error"}


def again(world: World, situation: Situation) -> None:
    """Run the command again; when nothing is left of it to do, it says so."""
    commands = [situation.command, *situation.then]
    for command in commands:
        try:
            COMMANDS[command](world.lake, "bars")
        except MaterializerError as exc:
            if exc.code not in situation.refused:
                raise


def published(world: World) -> Rows:
    """Return the rows of the output as any reader sees them, sorted."""
    rows = DeltaTable(str(world.root / "bars" / "output")).to_pyarrow_table().to_pylist()
    return sorted(world.told(row) for row in rows)


def expect_whole(lake: Prepared, *, is_verified: bool) -> None:
    """Assert that what is published is true, history can be read, and nothing of a dead process is left."""
    world, situation = lake.world, lake.situation
    opened(world).lake.maintain()
    assert {BACKUP, HANDED, "expectations", "definition.json", "lake", "source", "before"} >= {
        p.name for p in world.folder.iterdir() if p.suffix != ".err"
    }
    if situation.is_gone:
        assert not world.lake.names()
        assert not (world.root / "bars").exists()
        return
    assert lake.rows == published(world)
    view = world.lake.journal.view()
    assert [(None, "")] == [(s.plan, s.switch) for s in view.all.values()], "something has not ended"
    # who finds nothing to do takes no lease, so that of the dead may stand there; it keeps nobody waiting
    assert not [s.lease for s in view.all.values() if s.lease and not processes.is_dead(s.lease, time.time())]
    state = world.state
    kept = {state.data_version, *(v["data_version"] for v in state.previous)}
    assert kept == {p.name for p in (world.root / "bars" / "partials").iterdir()}
    allowed = {world.root / name for name in situation.leaves}
    left = {*world.root.iterdir(), *(world.root / "bars").iterdir()} - allowed
    known = {"bars", "_materializer", "output", "partials", "changes", "failing", "build"}
    assert {p.name for p in left} <= known, "something lies about"
    assert not list((world.root / "bars").glob("build/*"))
    numbers = [ended.n for ended in world.lake.history("bars", None)]
    assert sorted(set(numbers), reverse=True) == numbers, "a refresh ended twice"
    assert errors(world) <= lake.errors
    if situation.properties.get("output.change_feed"):
        assert replayed(world) == lake.rows
    if "output_handler" in situation.properties:
        assert lake.rows == sorted(map(world.told, received(world.folder))), "the handler was not given everything"
    situation.also(world)
    if is_verified:
        world.lake.maintain("bars")
        assert not list(world.root.rglob("plan-*/_delta_log")), "files of a dead plan are left"
        report = world.lake.verify("bars")
        assert report.is_equal, report.examples


def replayed(world: World) -> Rows:
    """Return the rows to which the change feed leads, sorted."""
    columns = [f.name for f in DeltaTable(str(world.root / "bars" / "output")).schema().fields]
    rows: list[tuple[Any, ...]] = []
    for row in sorted(
        DeltaTable(str(world.root / "bars" / "changes")).to_pyarrow_table().to_pylist(),
        key=lambda row: (row["_refresh"], row["_change"] in ("insert", "update_postimage")),
    ):
        shown = tuple(row[c].replace(tzinfo=None) if c == "bucket" else row[c] for c in columns)
        if row["_change"] in ("insert", "update_postimage"):
            rows.append(shown)
        else:
            rows.remove(shown)
    return sorted(rows)
