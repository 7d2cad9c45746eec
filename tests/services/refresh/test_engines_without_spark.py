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
DAYS: dict[str, Any] = {
    "engine": "daily_time_series",
    "window_size": "20 minutes",
    "session_begin": ["00:10:00", "02:00:00"],
    "session_end": ["01:00:00", "02:30:00"],
    "holidays": "1970-01-02",
    "fill": ["ffill", "0"],
}
EARLIER = "earlier than its key's newest row"
ONE_SESSION: dict[str, Any] = {"session_begin": ["00:10:00"], "session_end": ["01:00:00"]}


def minutes(lake: LocalLake, *columns: str) -> list[tuple[Any, ...]]:
    """Return the published results: the minute in which each begins, and some columns."""
    rows = DeltaTable(str(lake.root / "made" / "output")).to_pyarrow_table().to_pylist()
    return sorted((int(row["window_start"].timestamp()) // 60, *(row[column] for column in columns)) for row in rows)


def define(lake: LocalLake, **parts: Any) -> None:
    given = {"measures": {"v": "sum(v)", "n": "count(*)"}} | parts
    lake.opened.define("made", str(lake.root / "raw"), time="ts", **given)


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


@pytest.mark.parametrize("key_purge_daily", [True, False])
def test_a_daily_time_series_is_kept_true_without_spark(tmp_path: Path, key_purge_daily: bool) -> None:
    """
    Windows of two sessions, the last ones short, are filled; a late row changes its window and what follows it, and rows of a
    holiday are in none. Windows are filled on over the holiday where keys are not forgotten.
    """
    lake = LocalLake(tmp_path)
    day = 1440
    lake.add((0, 1), (day * MINUTE + 15 * MINUTE, 64), (2 * day * MINUTE + 55 * MINUTE, 2), (125 * MINUTE, 16))
    define(lake, **DAYS, key_purge_daily=key_purge_daily)
    first = lake.opened.refresh("made")
    third = 2 * day
    on = [(third + t, 16, 0) for t in (10, 30)] if not key_purge_daily else []
    of_first = [(10, 1, 1), (30, 1, 0), (50, 1, 0), (120, 16, 1)]
    filled = [*of_first, *([(140, 16, 0)] if not key_purge_daily else []), *on]
    assert filled == minutes(lake, "v", "n")

    lake.add((35 * MINUTE, 4))
    late = lake.opened.refresh("made")

    assert [(10, 1), (30, 4), (50, 4), (120, 16)] == minutes(lake, "v")[:4]
    assert [("local", 0)] * 2 == [(run.report.executor, run.report.jobs) for made in (first, late) for run in made.runs]


def test_running_state_is_kept_true_without_spark(tmp_path: Path) -> None:
    """
    A late row moves the state of all rows after it, which goes on from the stored row before it; the row before is looked at.
    """
    lake = LocalLake(tmp_path)
    lake.add(*((t * 10 * MINUTE, 2**t) for t in range(6)))
    measures = {"v": "cumsum(v)", "n": "deltas(v)"}
    lake.opened.define("made", str(lake.root / "raw"), time="ts", measures=measures, engine="reactive_state")
    first = lake.opened.refresh("made")
    lake.add((25 * MINUTE, 100))
    late = lake.opened.refresh("made")

    assert minutes(lake, "v", "n", "revision") == [
        *((0, 1, None, 0), (10, 3, 1, 0), (20, 7, 2, 0), (25, 107, 96, 0)),
        *((30, 115, -92, 1), (40, 131, 8, 1), (50, 163, 16, 1)),
    ]
    runs = [run.report for report in (first, late) for run in report.runs]
    assert [("local", 6), ("local", 5)] == [(report.executor, report.rows_read) for report in runs]


def test_a_running_sum_goes_on_from_the_stored_one(tmp_path: Path) -> None:
    """
    Where nothing is looked back on, no row before the late one is read.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (10 * MINUTE, 2))
    measures = {"v": "cumsum(v)"}
    lake.opened.define("made", str(lake.root / "raw"), time="ts", measures=measures, engine="reactive_state")
    lake.opened.refresh("made")
    lake.add((20 * MINUTE, 4))

    [run] = lake.opened.refresh("made").runs

    assert [(0, 1), (10, 3), (20, 7)] == minutes(lake, "v")
    assert ("local", 1) == (run.report.executor, run.report.rows_read)


def test_rows_that_are_equal_have_one_order(tmp_path: Path) -> None:
    """
    The place of each, the sum and the number of rows so far say the same order.
    """
    lake = LocalLake(tmp_path, rows=100_000, size=1 << 30)
    lake.add(*[(0, 1)] * 20_000)
    measures = {"v": "cumsum(v)", "n": "cumcount(v)"}
    lake.opened.define("made", str(lake.root / "raw"), time="ts", measures=measures, engine="reactive_state")
    lake.opened.refresh("made")

    [partials] = (lake.root / "made" / "partials").iterdir()
    rows = DeltaTable(str(partials)).to_pyarrow_table().to_pylist()
    assert {(n, n, n) for n in range(1, 20_001)} == {(r["x_ordinal"], r["v_v"], r["v_n"]) for r in rows}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (SESSIONS | {"lateness": "strict"}, ""),
        ({"engine": "time_series", "step": "1 hour", "window_size": "1 hour", "lateness": "strict"}, ""),
        ({"engine": "daily_time_series", "window_size": "1 hour", "lateness": "delay"}, ""),
        (DAYS, ""),
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


@pytest.mark.parametrize(
    ("parts", "published", "refused"),
    [
        (SESSIONS, [(0, 1), (15, 2), (35, 4)], {8: EARLIER, 64: EARLIER, 100: EARLIER}),
        (
            SERIES | {"fill": None},
            [(-10, 1), (0, 3), (10, 2), (20, 4), (30, 4)],
            {8: EARLIER, 64: EARLIER, 100: EARLIER},
        ),
        (
            DAYS | ONE_SESSION | {"lateness": "delay", "accepted_delay": "20 minutes", "fill": None},
            [(10, 3), (30, 76)],
            {16: "outside of the trading sessions", 100: "all its windows were closed"},
        ),
    ],
    ids=["sessions", "a time series", "days that are delayed"],
)
def test_rows_by_arrival_are_judged_without_spark(
    tmp_path: Path, parts: dict[str, Any], published: list[tuple[int, int]], refused: dict[int, str]
) -> None:
    """
    A row that comes too late is in no result, and in the quarantine with its reason; so is the new image of a row, which arrives like any
    other. What stands for Spark is asked nothing.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (15 * MINUTE, 2), (35 * MINUTE, 4))
    define(lake, **{"lateness": "strict"} | {name: value for name, value in parts.items() if value is not None})
    lake.opened.refresh("made")
    lake.add((30 * MINUTE, 8), (32 * MINUTE, 64))
    lake.add((70 * MINUTE, 16))
    DeltaTable(str(tmp_path / "raw")).update(updates={"v": "100"}, predicate="v = 2")
    report = lake.opened.refresh("made")

    assert [("local", 0)] == [(run.report.executor, run.report.jobs) for run in report.runs]
    assert published == minutes(lake, "v")
    late = DeltaTable(str(tmp_path / "made" / "quarantine")).to_pyarrow_table().to_pylist()
    assert refused == {row["v"]: row["_reason"] for row in late}
    rows = "1 row" if len(late) == 1 else f"{len(late)} rows"
    assert (f"{rows} came too late and went to {tmp_path}/made/quarantine" in report.warnings) == bool(late)


@pytest.mark.parametrize(
    ("parts", "published"),
    [
        (
            {"engine": "time_series", "step": "10 minutes", "window_size": "10 minutes", "fill": "ffill"},
            [(120, 3), (130, 3), (140, 3), (150, 3), (160, 8), (170, 32)],
        ),
        (
            {"engine": "reactive_state", "measures": {"v": "cumsum(v)", "n": "msum(v, 2)"}},
            [(165, 12, 11), (175, 44, 40), (185, 46, 34)],
        ),
        (SESSIONS, [(165, 8), (175, 32)]),
    ],
    ids=["filled windows", "running state", "sessions"],
)
def test_results_go_on_from_frozen_history_without_spark(
    tmp_path: Path, parts: dict[str, Any], published: list[tuple[int, ...]]
) -> None:
    """
    Raw rows below the boundary are gone; what a late row fills, looks back on or sums up is taken from the stored results there.
    """
    lake = LocalLake(tmp_path)
    lake.add((5 * MINUTE, 1), (15 * MINUTE, 3), (165 * MINUTE, 8), (185 * MINUTE, 2))
    define(lake, **parts)
    lake.opened.refresh("made")
    lake.opened.expire("made", "1970-01-01T02:00:00Z")
    DeltaTable(str(tmp_path / "raw")).delete("v IN (1, 3)")
    lake.add((175 * MINUTE, 32))
    late = lake.opened.refresh("made")
    columns = ["v", "n"][: len(published[0]) - 1]

    assert published == [row for row in minutes(lake, *columns) if row[0] >= 120]
    assert ["local"] == [run.report.executor for run in late.runs]


def test_a_fresh_read_of_what_is_clean_is_of_its_output(tmp_path: Path) -> None:
    """
    Nothing is computed, so what stands for Spark is asked nothing; the rows are those that are published.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (15 * MINUTE, 2), (35 * MINUTE, 4))
    define(lake, engine="time_series", step="10 minutes", window_size="10 minutes")
    lake.opened.refresh("made")
    read = lake.opened.fresh("made")
    found = read.fetch()

    assert ("", 0) == (read.left_to_spark, found.cost.jobs)
    assert minutes(lake, "v")
    assert len(minutes(lake, "v")) == len(found.table)
