"""A disk that fills up while a refresh writes: a clear error, whole tables, and the next refresh does it all."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from materializer.config import Config
from materializer.errors import StorageError
from materializer.wiring import Materializer
from tests.system.processes.running import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

in_both_lanes = pytest.mark.parametrize("driver_lane_rows", [200_000, 0], ids=["driver", "spark"])


class Disk:
    """A small disk of its own, mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave not a byte."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def make_room(self) -> None:
        """Free what was filled."""
        self._ballast.unlink()


@pytest.fixture
def disk_at() -> Iterator[Callable[[Path], Disk]]:
    """Give what moves a folder to a disk of its own; it is unmounted after the test."""
    mounted: list[Path] = []

    def mount(folder: Path) -> Disk:
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder.with_name(f"{folder.name}.aside")
        shutil.copytree(folder, aside)
        said = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True, check=False
        )
        if said.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {said.stderr.strip()}")
        mounted.append(folder)
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        return Disk(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


@in_both_lanes
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


@in_both_lanes
@pytest.mark.parametrize(
    "checkpoint",
    ["wrote_partials", *(pytest.param(c, marks=pytest.mark.slow) for c in ("lease", "plan", "write", "check", "done"))],
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

    config = Config(driver_lane_rows=driver_lane_rows)
    with pytest.raises(StorageError):
        Materializer(world.root, spark=spark, config=config, on_checkpoint=fill).refresh("bars")

    disk.make_room()
    world.lake.refresh("bars")
    world.expect_true()
