"""A refresh without Spark, whole: real journal and tables, computed in the process, and why another one is left to Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from deltalake import DeltaTable

from materializer.config import Config
from materializer.errors import NotLocalError
from materializer.local.clocks import with_clock
from tests.counting import calls_to
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000
MEASURES = "sum(v) AS v, count(*) AS n, max(v) AS most, min(v) AS least"


def hours(*rows: tuple[int, int, int, int, int]) -> list[dict[str, Any]]:
    start = datetime(1970, 1, 1, tzinfo=UTC)
    names = ("v", "n", "most", "least")
    return [{"at": start + timedelta(hours=h), **dict(zip(names, r, strict=True))} for h, *r in rows]


def test_a_lake_is_kept_true_without_spark(tmp_path: Path) -> None:
    """
    The first materialization, a late row, a correction and a delete are computed in the process, and no engine is asked.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (1, 5), (HOUR, 7))
    lake.apply(view("hourly", each("1 hour"), measure=MEASURES))

    first = lake.opened.refresh("hourly")
    assert hours((0, 6, 2, 5, 1), (1, 7, 1, 7, 7)) == lake.rows_of("hourly")

    lake.add((2, 3))
    late = lake.opened.refresh("hourly")
    assert hours((0, 9, 3, 5, 1), (1, 7, 1, 7, 7)) == lake.rows_of("hourly")

    raw = DeltaTable(str(tmp_path / "raw"))
    raw.update(updates={"v": "v + 10"}, predicate="v = 1")
    raw.delete("v = 7")
    changed = lake.opened.refresh("hourly")
    assert hours((0, 19, 3, 11, 3)) == lake.rows_of("hourly")

    reports = [run.report for done in (first, late, changed) for run in done.runs]
    assert {("local", 0)} == {(report.executor, report.jobs) for report in reports}
    assert ["merge"] == [run.report.strategy for run in late.runs]


@pytest.mark.parametrize("width", ["1 day", "1 month"])
def test_a_hundred_years_of_a_clock_that_jumps(tmp_path: Path, width: str) -> None:
    """
    Rows from 1930 to 2030 lie in the local days and months of Berlin, late ones too; the changes of the clock are joined.
    """
    zone, lake = ZoneInfo("Europe/Berlin"), LocalLake(tmp_path)
    begin = datetime(1930, 1, 1, tzinfo=UTC)
    times = [begin + timedelta(hours=h, microseconds=h % 2) for h in range(0, 876_000, 1_009)]
    rows = [(round(t.timestamp()) * 1_000_000 + t.microsecond, n % 7) for n, t in enumerate(times)]
    lake.add(*rows[:700])
    lake.apply(view("local", each(width, "Europe/Berlin"), measure="sum(v) AS v, count(*) AS n"))
    assert calls_to(with_clock, lambda: lake.opened.refresh("local"))
    lake.add(*rows[700:])
    [run] = lake.opened.refresh("local").runs

    found: dict[datetime, list[int]] = {}
    for instant, value in rows:
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)).astimezone(zone)
        start = local.replace(
            day=local.day if width == "1 day" else 1, hour=0, minute=0, second=0, microsecond=0, fold=0
        )
        sums = found.setdefault(start.astimezone(UTC), [0, 0])
        sums[0], sums[1] = sums[0] + value, sums[1] + 1
    assert [{"at": at, "v": v, "n": n} for at, (v, n) in sorted(found.items())] == lake.rows_of("local")
    assert "local" == run.report.executor


@pytest.mark.parametrize(
    ("options", "measure", "properties", "reason"),
    [
        ({"rows": 1}, "sum(v) AS v", "", "reads 2 rows"),
        ({"size": 10}, "sum(v) AS v", "", "bytes"),
        ({"config": Config(executor="spark")}, "sum(v) AS v", "", "settings"),
        ({}, "max(soundex(v)) AS v", "", "soundex"),
        ({}, "sum(v) AS v", "TBLPROPERTIES ('quality.checks' = 'true', 'quality.canaries' = '2')\n", ""),
        ({}, "sum(v) AS v", "", ""),
    ],
)
def test_a_plan_says_what_computes_it_and_why(
    tmp_path: Path, options: dict[str, Any], measure: str, properties: str, reason: str
) -> None:
    """
    What is too large or outside of the set is left to Spark; the plan has the reason.
    """
    lake = LocalLake(tmp_path, **options)
    lake.add((0, 1), (1, 5))
    lake.apply(view("hourly", each("1 hour"), measure=measure).replace("\nAS ", f"\n{properties}AS ", 1))

    plan = lake.opened.plan("hourly").plan

    assert plan is not None
    assert ("spark" if reason else "local") == plan.executor
    assert reason in plan.executor_reason


def test_an_executor_that_was_asked_for_and_cannot_is_an_error(tmp_path: Path) -> None:
    """
    A refresh for which the local executor was asked writes nothing where it cannot compute.
    """
    lake = LocalLake(tmp_path, rows=1)
    lake.add((0, 1), (1, 5))
    lake.apply(view("hourly", each("1 hour")))

    with pytest.raises(NotLocalError, match="reads 2 rows"):
        lake.opened.refresh("hourly", executor="local")
    assert [] == lake.rows_of("hourly")
