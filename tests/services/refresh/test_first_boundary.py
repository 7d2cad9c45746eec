"""Retention of the source from the first refresh on: what is published then outlives its raw rows; no JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.services.no_spark import LocalLake, each, view

HOUR, DAY = 3_600_000_000, 86_400_000_000
KEPT = "TBLPROPERTIES ('source.retention' = '1 day')\nAS "
HOURLY = view("hourly", each("1 hour"), measure="sum(v) AS v, count(*) AS n").replace("\nAS ", f"\n{KEPT}", 1)


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    """A lake with a row in each hour of four days, and an hourly aggregate whose source keeps the rows of one day."""
    lake = LocalLake(tmp_path, rows=10_000, size=1 << 24)
    lake.add(*((hour * HOUR, hour) for hour in range(96)))
    lake.apply(HOURLY)
    return lake


def delete(lake: LocalLake, below: int) -> None:
    raw = DeltaTable(str(lake.root / "raw"))
    raw.delete(f"ts < '{datetime.fromtimestamp(below // 10**6, UTC).isoformat()}'")


def test_what_the_first_refresh_published_outlives_its_rows(lake: LocalLake) -> None:
    """
    The first refresh sets the boundary and says how rows are deleted; the second keeps every group of history.
    """
    first = lake.opened.refresh("hourly")
    assert 3 * DAY == first.frozen == lake.state("hourly").frozen
    assert "DELETE FROM" in first.delete
    before = lake.rows_of("hourly")
    assert 96 == len(before)

    delete(lake, 3 * DAY)
    lake.add((96 * HOUR, 1))
    second = lake.opened.refresh("hourly")

    assert [*before, before[-1] | {"at": before[-1]["at"] + (before[1]["at"] - before[0]["at"]), "v": 1, "n": 1}] == (
        lake.rows_of("hourly")
    )
    assert (72, 3 * DAY + HOUR) == (lake.state("hourly").expired_rows, second.frozen)
    assert "up-to-date" == lake.opened.refresh("hourly").outcome


def test_a_first_refresh_in_runs_sets_the_boundary_at_the_end(tmp_path: Path) -> None:
    """
    Where only some runs were asked for, what the others have still to compute is not frozen.
    """
    lake = LocalLake(tmp_path, size=30 * 64)
    lake.add(*((hour * HOUR, hour) for hour in range(96)))
    lake.apply(HOURLY)

    some = lake.opened.refresh("hourly", max_runs=1)
    assert 1 == len(some.runs)
    assert 0 < len(lake.rows_of("hourly")) < 96
    assert some.frozen <= lake.state("hourly").log.spans.spans[0].start

    assert 3 * DAY == lake.opened.refresh("hourly").frozen
    assert 96 == len(lake.rows_of("hourly"))


def test_a_part_of_history_sets_no_boundary_above_what_is_dirty(lake: LocalLake) -> None:
    """
    A refresh of the last two days leaves the first ones dirty, and so needs their rows; when they are done, it is set.
    """
    part = lake.opened.refresh("hourly", "1970-01-03", "1970-01-05")
    assert part.frozen <= 0
    assert "" == part.delete

    assert 3 * DAY == lake.opened.refresh("hourly").frozen


def test_rows_that_go_during_the_first_refresh_are_a_correction(lake: LocalLake) -> None:
    """
    A deletion that was committed before the boundary was set is captured before it, and computed.
    """
    lake.at["wrote_output"] = lambda: delete(lake, DAY)

    first = lake.opened.refresh("hourly")
    assert first.frozen <= 0
    lake.opened.refresh("hourly")

    assert 72 == len(lake.rows_of("hourly"))
    assert 3 * DAY == lake.state("hourly").frozen
