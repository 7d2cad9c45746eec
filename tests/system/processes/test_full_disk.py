"""A disk that fills up while a refresh writes: a clear error, whole tables, and the next refresh does it all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import MaterializerError, OutputHandlerError, StorageError
from tests.system.builders import LANES
from tests.system.processes.checkpoints import checkpoint_names
from tests.system.processes.child import COMMANDS
from tests.system.processes.disk import Disk
from tests.system.processes.mended import Prepared, again, expect_whole, opened, published
from tests.system.processes.running import World
from tests.system.processes.situations import SITUATIONS, Situation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("driver_lane_rows", LANES)
def test_disk_of_the_tables_is_full(
    tmp_path: Path, spark: SparkSession, disk_at: Callable[[Path], Disk], driver_lane_rows: int
) -> None:
    """
    When the tables' disk fills up, the error says so, readers see the old rows, and with room all is done.
    """
    world = World(tmp_path, spark, driver_lane_rows=driver_lane_rows)
    world.lake.refresh("bars")
    disk = disk_at(world.root / "bars")
    before = world.published()
    world.insert(3)
    disk.fill()

    with pytest.raises(StorageError) as caught:
        world.lake.refresh("bars")
    assert 74 == caught.value.exit_status
    assert before == world.published()

    disk.make_room()
    assert "refreshed" == world.lake.refresh("bars").outcome
    world.expect_true()


@pytest.mark.parametrize("driver_lane_rows", LANES)
@pytest.mark.parametrize(
    "checkpoint",
    ["wrote_partials", *(pytest.param(c, marks=pytest.mark.slow) for c in ("lease", "plan", "write", "done"))],
)
def test_disk_of_the_whole_lake_fills_up(
    tmp_path: Path, spark: SparkSession, disk_at: Callable[[Path], Disk], checkpoint: str, driver_lane_rows: int
) -> None:
    """
    When not even the journal can be written, the same process, still alive, can go on once there is room.
    """
    disk = disk_at(tmp_path / "lake")
    world = World(tmp_path, spark, driver_lane_rows=driver_lane_rows)
    world.lake.refresh("bars")
    world.insert(3)

    def fill(name: str) -> None:
        if name == checkpoint:
            disk.fill()

    config = Config(price_tie_ms=60_000, driver_lane_rows=driver_lane_rows, executor="spark")
    with pytest.raises(StorageError):
        Materializer(world.root, spark=spark, config=config, on_checkpoint=fill).refresh("bars")

    disk.make_room()
    world.lake.refresh("bars")
    world.expect_true()


def filled() -> dict[tuple[str, str], str]:
    """Return for each command and each checkpoint that it reaches a situation in which the disk fills up there."""
    found: dict[tuple[str, str], str] = {}
    for situation in SITUATIONS:
        for step in situation.reached.split():
            found.setdefault((situation.command, step.partition(":")[0]), situation.name)
    return found


BESIDES: Final = {
    "a switch to be completed": "switch_fence switch_done",
    "a refresh after which old buckets go": "write",
    "a refresh with canaries": "audit write",
    "partials that are missing": "repair_partials repair_output repair_journal",
    "an output that is missing": "repair_output repair_swap repair_journal",
    "a journal that nobody can read": "takeover_output takeover_journal",
    "a backup from before history was frozen": "restore_copy",
    "sessions to be refreshed": "write wrote_partials done",
    "sessions ahead of their journal": "repair_partials repair_output",
}
"""Where the same steps write something else."""
HARMLESS: Final = {
    *("drop_folders", "maintain_log", "maintain_journal", "restore_aside"),
    *("checked", "delivered", "end", "restore_put", "restore_clean", "repair_clean", "takeover_clean"),
}
"""Steps after which little or nothing is written: the command may do without, or say that it cannot."""
DONE: Final = {"bounded", "described"}
"""Steps after which what was asked for is in the journal."""
ENOUGH: Final = {
    ("drop", "recover"),
    *((command, "version_sweep") for command in ("abandon", "build", "switch")),
}
"""Where a command first removes what takes more room than what it writes then."""
QUICK: Final = {("a switch", "switch_write"), ("a lost journal", "takeover_partials")}
FILLED: Final = [
    pytest.param(name, step, marks=[] if (name, step) in QUICK else pytest.mark.slow)
    for name, step in sorted(
        {(name, step) for (_, step), name in filled().items()}
        | {(name, step) for name, steps in BESIDES.items() for step in steps.split()},
        key=lambda pair: ([s.name for s in SITUATIONS].index(pair[0]), pair[1]),
    )
]
NAMED: Final = {situation.name: situation for situation in SITUATIONS}


def test_the_disk_fills_up_before_every_step_of_every_command() -> None:
    """
    Each checkpoint that a command of the table of kills reaches is one at which the disk is full, in one situation at least.
    """
    commands = {situation.name: situation.command for situation in SITUATIONS}
    covered = {(commands[str(name)], step) for name, step in (param.values for param in FILLED)}

    assert covered >= {(s.command, step.partition(":")[0]) for s in SITUATIONS for step in s.kills}
    assert {situation.command for situation in SITUATIONS} == {command for command, _ in covered}
    assert checkpoint_names() == {step for _, step in covered}
    assert {step for _, step in ENOUGH} | HARMLESS <= {step for _, step in covered}


@pytest.mark.parametrize(("name", "step"), FILLED)
def test_disk_fills_up_in_any_command(
    prepared: Callable[[Situation], Prepared], disk_at: Callable[[Path], Disk], name: str, step: str
) -> None:
    """
    A command for which there is no room says so, readers see whole rows, and with room the command itself does the rest.
    """
    lake = prepared(NAMED[name])
    world, situation = lake.put_back(), lake.situation
    disk = disk_at(world.folder)
    before = published_or_nothing(world)

    def fill(at: str) -> None:
        if at == step:
            disk.fill()

    opened(world, on_checkpoint=fill)
    error = failure(lambda: COMMANDS[situation.command](world.lake, "bars"))
    if error is None:
        assert step in HARMLESS or (situation.command, step) in ENOUGH
    else:
        assert (74, True) == (error.exit_status, bool(error.wrote))
        assert step not in DONE or "stays" in error.wrote
    assert disk.is_full
    if situation.command == "backfill by hours":  # what was done in earlier runs is published
        assert set(published(world)) <= set(lake.rows)
    elif situation.command not in ("repair", "take over"):  # these may make an output anew
        assert published_or_nothing(world) in (before, lake.rows, None)

    disk.make_room()
    opened(world)
    again(world, situation)
    expect_whole(lake, is_verified=False)


def failure(command: Callable[[], Any]) -> MaterializerError | None:
    """Return how a command fails for want of room, None when it does without."""
    try:
        command()
    except (StorageError, OutputHandlerError) as exc:
        return exc
    return None


def published_or_nothing(world: World) -> list[tuple[Any, ...]] | None:
    """Return what any reader sees, None where no table is."""
    return published(world) if DeltaTable.is_deltatable(str(world.root / "bars" / "output")) else None
