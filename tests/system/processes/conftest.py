"""What the tests of processes share: lakes that are prepared once, and small disks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.processes.disk import Disk
from tests.system.processes.mended import Prepared, errors, opened
from tests.system.processes.situations import Situation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Callable[[Situation], Prepared]:
    """Give what prepares a situation, once."""
    known: dict[str, Prepared] = {}

    def prepare(situation: Situation) -> Prepared:
        if situation.name not in known:
            home = tmp_path_factory.mktemp("-".join(situation.name.split()))
            folder = home / "world"
            folder.mkdir()
            world = situation.world(folder, spark)
            rows = situation.prepare(world)
            shutil.copytree(folder, home / "copy")
            found = errors(opened(world))
            known[situation.name] = Prepared(situation, world, rows, home / "copy", found)
        return known[situation.name]

    return prepare


@pytest.fixture
def disk_at() -> Iterator[Callable[[Path], Disk]]:
    """Give what moves a folder to a disk of its own; it is unmounted after the test."""
    mounted: list[Path] = []

    def mount(folder: Path) -> Disk:
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder.with_name(f"{folder.name}.aside")
        shutil.copytree(folder, aside)
        said = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, text=True, check=False
        )
        if said.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {said.stderr.strip()}")
        mounted.append(folder)
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        shutil.rmtree(aside)
        return Disk(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)
