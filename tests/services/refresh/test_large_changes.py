"""What a refresh reads of changes that are many, or in many commits; no JVM, and an engine that is asked fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from materializer.config import Config
from tests.lake.opened import commits_opened
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000
SMALL = Config(driver_lane_rows=2_000)
"""Settings by which the driver reads a thousand changed rows, and Spark more."""


def start_of(hour: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)


def filled(tmp_path: Path, config: Config) -> LocalLake:
    """Return a lake of 60 hours with 100 rows each, in two files, which was refreshed before it had its settings."""
    lake = LocalLake(tmp_path, rows=100_000, size=1 << 24)
    for half in range(2):
        lake.add(*((h * HOUR + i, i) for h in range(half * 30, half * 30 + 30) for i in range(100)))
    lake.apply(view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n"))
    lake.opened.refresh("hourly")
    lake.wired = replace(lake.wired, config=config)
    lake.listen(None)
    return lake


@pytest.mark.parametrize("command", ["plan", "refresh"])
def test_each_commit_is_read_once_a_command(tmp_path: Path, command: str) -> None:
    """
    Capture, prices, merge, and how long the oldest change has waited: all know the commits that one of them has read.
    """
    lake = filled(tmp_path, Config(price_tie_ms=60_000))
    for i in range(40):
        lake.add((i * HOUR + 5, 1))

    with commits_opened(tmp_path / "raw") as opened:
        lake.opened.plan("hourly") if command == "plan" else lake.opened.refresh("hourly")

    assert dict.fromkeys(range(3, 43), 1) == opened
