"""What planning a refresh of an engine costs, in lines of Python that planner and engines run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests import tables
from tests.services.keyed import TIME, Keyed
from tests.services.no_spark import LocalLake

MINUTE = 60_000_000
SESSIONS, LATE, MANY = 1_200, 120, 12_000
ROOMS = ("/services/planning/", "/core/engines/", "/lake/engine_rows.py", "/lake/key_rows.py")


def rows(minutes: range) -> pa.Table:
    """Return a row of one key at each of some minutes."""
    at = pa.array([m * MINUTE for m in minutes], pa.int64()).cast(TIME)
    return pa.table({"ts": at, "k": pa.array(["hot"] * len(minutes)), "v": pa.array([1] * len(minutes), pa.int64())})


def filled(root: Path, sessions: int) -> LocalLake:
    """Return a lake with so many sessions of one key, an hour apart, refreshed."""
    tables.append(root / "readings", rows(range(0, 60 * sessions, 60)))
    lake = LocalLake(root / "lake", engine=Keyed(), rows=1_000_000, size=1 << 28)
    lake.opened.define(
        "made",
        str(root / "readings"),
        time="ts",
        keys=["k"],
        engine="session_window",
        session_gap="10 minutes",
        measures={"v": "sum(v)"},
    )
    lake.opened.refresh("made")
    return lake


def lines_of(lake: LocalLake, **options: Any) -> tuple[int, Any]:
    """Return how many lines of Python planning a refresh takes, and the run."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not any(room in frame.f_code.co_filename for room in ROOMS):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        [run] = lake.opened.refresh("made", **options).runs
    finally:
        sys.settrace(before)
    return lines, run


def test_many_late_rows_of_a_hot_key_are_planned_in_order_of_both(tmp_path: Path) -> None:
    """
    A plan of 120 touched sessions of a key with 1,200 looks at each session a few times, not 120 times.
    """
    lake = filled(tmp_path, SESSIONS)
    tables.append(tmp_path / "readings", rows(range(5, 60 * SESSIONS, 60 * SESSIONS // LATE)))

    lines, run = lines_of(lake)

    assert LATE <= run.report.partials_written
    assert lines <= 40 * (SESSIONS + LATE)


def test_a_plan_follows_the_changes_and_not_the_stored_results(tmp_path: Path) -> None:
    """
    Twelve late rows among 12,000 sessions of a key: far fewer lines than there are sessions.
    """
    lake = filled(tmp_path, MANY)
    tables.append(tmp_path / "readings", rows(range(5, 60 * MANY, 60 * MANY // 12)))

    lines, run = lines_of(lake)

    assert run.report.rows_read <= 3 * 12
    assert lines <= MANY


def test_everything_is_computed_where_that_is_cheaper(tmp_path: Path) -> None:
    """
    Where most rows changed, no range of a key is planned: everything is computed, which is no rebuild.
    """
    lake = filled(tmp_path, MANY)
    DeltaTable(str(tmp_path / "readings")).update(updates={"v": "v + 1"})
    tables.append(tmp_path / "readings", rows(range(30, 60 * MANY, 60)))

    lines, run = lines_of(lake, strict=True)

    assert ("recompute", "local", 2 * MANY) == (run.report.strategy, run.report.executor, run.report.rows_read)
    assert "computing everything is cheaper" in run.plan.steps[0].reason
    assert lines <= MANY


def test_everything_is_computed_where_nearly_all_is_dirty_and_no_row_is_known(tmp_path: Path) -> None:
    """
    Of what is only known to be dirty all rows count as changed: neither they nor the stored results are gone through.
    """
    lake = filled(tmp_path, 110_000)

    lines, run = lines_of(lake, start="1970-02-01", force=True)

    assert 110_000 == run.report.rows_read
    assert lines <= MANY


@pytest.mark.parametrize("closed", ["left", "right"])
def test_a_correction_of_the_newest_row_on_an_edge_reads_the_rows_around_it(tmp_path: Path, closed: str) -> None:
    """
    A window that is closed on the right holds the row at its end; the result before it tells which rows were there before.
    """
    source = tmp_path / "readings"
    tables.append(source, rows(range(1_000)))
    lake = LocalLake(tmp_path / "lake", engine=Keyed(), rows=1_000_000, size=1 << 28)
    series = {"engine": "time_series", "step": "1 minute", "window_size": "1 minute", "closed": closed}
    lake.opened.define("made", str(source), time="ts", keys=["k"], measures={"v": "sum(v)"}, **series)
    lake.opened.refresh("made")
    DeltaTable(str(source)).update(updates={"v": "v + 1"}, predicate="ts = '1970-01-01T16:39:00Z'")

    [run] = lake.opened.refresh("made").runs

    assert 1 <= run.report.rows_read <= 5


def test_a_few_changes_are_never_a_reason_to_compute_everything(tmp_path: Path) -> None:
    """
    Ten late rows among thousands are incremental.
    """
    lake = filled(tmp_path, MANY)
    tables.append(tmp_path / "readings", rows(range(5, 60 * MANY, 6 * MANY)))

    [run] = lake.opened.refresh("made", strict=True).runs

    assert run.report.rows_read <= 3 * 10


def test_a_forced_day_needs_no_spark_however_many_results_are_stored(tmp_path: Path) -> None:
    """
    The keys that have results in a day are found in the process, among more results than it reads otherwise.
    """
    lake = filled(tmp_path, 110_000)

    [run] = lake.opened.refresh("made", start="1970-01-01", end="1970-01-02", force=True).runs

    assert "local" == run.report.executor
    assert 24 <= run.report.rows_read <= 3 * 24


def test_what_was_not_asked_for_stays_as_it_is(tmp_path: Path) -> None:
    """
    A refresh of one month leaves what is dirty elsewhere, however cheap computing everything would be.
    """
    lake = filled(tmp_path, MANY)
    DeltaTable(str(tmp_path / "readings")).update(updates={"v": "v + 1"}, predicate="ts < '1970-12-01'")

    [run] = lake.opened.refresh("made", start="1970-01-01", end="1970-02-01").runs

    assert 24 * 31 <= run.report.rows_read <= 24 * 31 + 2
    [rest] = lake.opened.refresh("made").runs
    assert rest.report.rows_read >= 8_000


def test_a_month_ends_where_each_session_reaches_the_one_before_it(tmp_path: Path) -> None:
    """
    Where everything is dirty, the newest session is computed with each month, and reaches the slice before its own: all is taken along.
    """
    lake = filled(tmp_path, MANY)
    DeltaTable(str(tmp_path / "readings")).update(updates={"v": "v + 1"})

    [run] = lake.opened.refresh("made", start="1970-01-01", end="1970-02-01").runs

    assert MANY == run.report.rows_read
