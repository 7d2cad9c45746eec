"""What a refresh reads of changes that are many, or in many commits; no JVM, and an engine that is asked fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.config import Config
from materializer.core.refresh.invalidation import Cause
from materializer.services.activity import Listeners
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
    lake.listen(Listeners())
    return lake


@pytest.mark.parametrize("change", ["delete", "update"])
def test_a_change_of_half_of_all_rows_is_told_by_files(tmp_path: Path, change: str) -> None:
    """
    Its feed has more rows than the driver reads. The statistics of files say that each bucket may have changed, and computing
    all of them costs less than Spark's start: the feed is not read, and Spark is never asked.
    """
    lake, raw = filled(tmp_path, SMALL), DeltaTable(str(tmp_path / "raw"))
    raw.delete("v % 2 = 0") if change == "delete" else raw.update(updates={"v": "v + 1"}, predicate="v % 2 = 0")

    preview = lake.opened.plan("hourly")
    assert preview.captured is not None
    assert {Cause.FILES} == {entry.cause for entry in preview.captured.entries}
    assert ["versions 3 to 3 by file statistics: reading"] == [r[:43] for r in preview.captured.reasons]
    (run,) = lake.opened.refresh("hourly", strict=True).runs

    n, v = (50, 2500) if change == "delete" else (100, 5000)
    assert [{"at": start_of(h), "v": v, "n": n} for h in range(60)] == lake.rows_of("hourly")
    assert ("recompute", "local") == (run.report.strategy, run.report.executor)


def test_a_large_change_does_not_take_the_feed_from_a_small_one(tmp_path: Path) -> None:
    """
    A late row in a day of its own is merged from the feed, although another commit changed each row of another day.
    """
    lake, raw = filled(tmp_path, SMALL), DeltaTable(str(tmp_path / "raw"))
    lake.add((5, 1_000))
    raw.update(updates={"v": "v + 1"}, predicate="ts >= '1970-01-02T06:00:00Z'")
    lake.add((HOUR + 5, 1_000))

    captured = lake.opened.plan("hourly").captured
    assert captured is not None
    hours = {e.span.start // HOUR: e.cause for e in captured.entries}
    assert {0: Cause.CHANGE, 1: Cause.CHANGE, 30: Cause.FILES} == hours
    lake.opened.refresh("hourly")
    assert [100 + (h < 2) for h in range(60)] == [row["n"] for row in lake.rows_of("hourly")]
    assert [4950 + 1_000 * (h < 2) + 100 * (h >= 30) for h in range(60)] == [r["v"] for r in lake.rows_of("hourly")]


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
