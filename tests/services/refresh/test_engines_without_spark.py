"""A refresh of an engine without Spark, whole: planned and computed in the process, and why another one is left to Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.services.no_spark import LocalLake

MINUTE = 60_000_000
SESSIONS: dict[str, Any] = {"engine": "session_window", "session_gap": "10 minutes"}
SERIES: dict[str, Any] = {"engine": "time_series", "step": "10 minutes", "window_size": "20 minutes", "fill": "0"}


def minutes(lake: LocalLake, *columns: str) -> list[tuple[Any, ...]]:
    """Return the published results: the minute in which each begins, and some columns."""
    rows = DeltaTable(str(lake.root / "made" / "output")).to_pyarrow_table().to_pylist()
    return sorted((int(row["window_start"].timestamp()) // 60, *(row[column] for column in columns)) for row in rows)


def define(lake: LocalLake, **parts: Any) -> None:
    measures = {"v": "sum(v)", "n": "count(*)"}
    lake.opened.define("made", str(lake.root / "raw"), time="ts", measures=measures, **parts)


def test_sessions_are_kept_true_without_spark(tmp_path: Path) -> None:
    """
    The first materialization, new rows, a late row that bridges two sessions, a correction, a delete and a forced refresh are
    planned and computed in the process: what stands for Spark computes nothing.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (5 * MINUTE, 2), (30 * MINUTE, 4), (40 * MINUTE, 128), (60 * MINUTE, 8))
    define(lake, **SESSIONS)
    reports = [lake.opened.refresh("made")]
    assert [(0, 3, 0), (30, 4, 0), (40, 128, 0)] == minutes(lake, "v", "revision")

    lake.add((90 * MINUTE, 16), (14 * MINUTE, 32), (22 * MINUTE, 64))
    reports.append(lake.opened.refresh("made"))
    assert [(0, 103, 0), (40, 128, 0), (60, 8, 0)] == minutes(lake, "v", "revision")

    raw = DeltaTable(str(tmp_path / "raw"))
    raw.update(updates={"v": "v + 100"}, predicate="v = 8")
    raw.delete("v = 32")
    reports += [lake.opened.refresh("made"), lake.opened.refresh("made", force=True)]
    assert [(0, 3, 0), (22, 68, 0), (40, 128, 0), (60, 108, 1)] == minutes(lake, "v", "revision")

    runs = [run.report for report in reports for run in report.runs]
    assert [("local", 0)] * 4 == [(report.executor, report.jobs) for report in runs]


def test_a_time_series_is_kept_true_without_spark(tmp_path: Path) -> None:
    """
    Windows that overlap are filled, and a late row changes those that hold it.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (50 * MINUTE, 2))
    define(lake, **SERIES)
    first = lake.opened.refresh("made")
    assert [(-10, 1, 1), (0, 1, 1), (10, 0, 0), (20, 0, 0), (30, 0, 0)] == minutes(lake, "v", "n")

    lake.add((25 * MINUTE, 4))
    late = lake.opened.refresh("made")

    assert [(-10, 1), (0, 1), (10, 4), (20, 4), (30, 0)] == minutes(lake, "v")
    assert ["local"] * 2 == [run.report.executor for report in (first, late) for run in report.runs]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (SESSIONS | {"lateness": "strict"}, "lateness 'strict'"),
        ({"engine": "time_series", "step": "1 hour", "window_size": "1 hour", "lateness": "strict"}, "lateness"),
        ({"engine": "daily_time_series", "step": "1 hour", "window_size": "1 hour"}, "engine daily_time_series"),
        (SESSIONS | {"where": "soundex(v) = 'A'"}, "soundex"),
        (SERIES | {"fill": ["x", "0"]}, "as a bigint|AS bigint"),
        (SESSIONS, ""),
    ],
)
def test_status_names_what_of_an_engine_is_left_to_spark(tmp_path: Path, parts: dict[str, Any], reason: str) -> None:
    """
    What may differ from Spark is refused, and the status says which part it is.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    define(lake, **parts)

    named = lake.opened.status("made")[0].only_spark

    assert named is not None
    assert bool(named) == bool(reason)
    assert re.search(reason, "; ".join(named))


def test_count_windows_are_kept_true_without_spark(tmp_path: Path) -> None:
    """
    The first materialization, and a late row between two others.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (50 * MINUTE, 2))
    define(lake, engine="count_window", count=2)
    reports = [lake.opened.refresh("made")]
    assert [(0, 3, 2)] == minutes(lake, "v", "n")

    lake.add((25 * MINUTE, 4))
    reports.append(lake.opened.refresh("made"))

    assert [(0, 5, 2), (25, 6, 2)] == minutes(lake, "v", "n")
    assert ["local"] * 2 == [run.report.executor for report in reports for run in report.runs]
