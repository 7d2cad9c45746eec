"""A lake that is attacked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hints.world import HOURLY, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A lake with an aggregate that was refreshed."""
    (tmp_path / "lake").mkdir()
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path / "lake")
    world.apply(HOURLY)
    world.works("refresh hourly")
    return world
