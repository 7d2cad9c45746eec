"""What planning a refresh of an engine costs, in lines of Python that planner and engines run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from tests import tables
from tests.services.keyed import TIME, Keyed
from tests.services.no_spark import LocalLake

MINUTE = 60_000_000
SESSIONS, LATE = 1_200, 120
ROOMS = ("/services/planning/", "/core/engines/", "/lake/engine_rows.py", "/lake/key_rows.py")


def rows(minutes: range) -> pa.Table:
    """Return a row of one key at each of some minutes."""
    at = pa.array([m * MINUTE for m in minutes], pa.int64()).cast(TIME)
    return pa.table({"ts": at, "k": pa.array(["hot"] * len(minutes)), "v": pa.array([1] * len(minutes), pa.int64())})


def test_many_late_rows_of_a_hot_key_are_planned_in_order_of_both(tmp_path: Path) -> None:
    """
    A plan of 120 touched sessions of a key with 1,200 looks at each session a few times, not 120 times.
    """
    source = tmp_path / "readings"
    tables.append(source, rows(range(0, 60 * SESSIONS, 60)))
    lake = LocalLake(tmp_path / "lake", engine=Keyed(), rows=1_000_000, size=1 << 28)
    lake.opened.define(
        "made",
        str(source),
        time="ts",
        keys=["k"],
        engine="session_window",
        session_gap="10 minutes",
        measures={"v": "sum(v)"},
    )
    lake.opened.refresh("made")
    tables.append(source, rows(range(5, 60 * SESSIONS, 60 * SESSIONS // LATE)))

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
        [run] = lake.opened.refresh("made").runs
    finally:
        sys.settrace(before)

    assert LATE <= run.report.partials_written
    assert lines <= 40 * (SESSIONS + LATE)
