"""Rows that make an aggregate fail: nothing is published, the buckets stay dirty, and corrected rows mend it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from materializer.core.time.spans import Span
from materializer.errors import DataError
from tests.system.builders import LANES
from tests.system.lake import micros
from tests.system.processes.running import START, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HUGE: Final = 2**63 - 1
FAILURES: Final = {
    "overflow": ("sum(v)", HUGE, "ARITHMETIC_OVERFLOW"),
    "division": ("max(100 / (v - 99))", 99, "DIVIDE_BY_ZERO"),
    "cast": ("max(CAST(replace(CAST(v AS STRING), '99', 'x') AS INT))", 99, "CAST_INVALID_INPUT"),
}
"""A measure, the value it cannot take, and what Spark calls that."""


@pytest.mark.parametrize("driver_lane_rows", LANES)
@pytest.mark.parametrize("failure", FAILURES)
def test_failing_rows(tmp_path: Path, spark: SparkSession, failure: str, driver_lane_rows: int) -> None:
    """
    The error names the bucket, nothing of the refresh is published, and once the row is corrected all of it is.
    """
    measure, bad, condition = FAILURES[failure]
    world = World(tmp_path, spark, driver_lane_rows=driver_lane_rows, measures={"n": "count(*)", "m": measure})
    world.lake.refresh("bars")
    before = world.published()
    hour = START + timedelta(hours=2)
    world.insert(1, (4,))
    world.source.insert([{"ts": hour + timedelta(minutes=1), "k": "a", "v": bad, "ok": True}])
    wrong = world.source.next_id - 1

    with pytest.raises(DataError, match="2024-03-01T02:00") as caught:
        world.lake.refresh("bars")
    [status] = world.lake.status("bars")

    assert (66, condition) == (caught.value.exit_status, caught.value.values["condition"])
    assert before == world.published()
    assert ("dirty", None) == (status.state, status.open_refresh)
    assert {micros(START) // 3_600_000_000 + h for h in (2, 4)} == {s.start // 3_600_000_000 for s in status.dirty}
    assert Span(micros(hour), micros(hour + timedelta(hours=1))) in status.dirty.spans
    assert [("aborted", 2), ("done", 1)] == [(ended.outcome, ended.n) for ended in world.lake.history("bars")]

    world.source.update([wrong], "v", 5)
    assert "refreshed" == world.lake.refresh("bars").outcome
    world.expect_true()


def test_failing_rows_in_a_process_that_retries_nothing(tmp_path: Path, spark: SparkSession) -> None:
    """
    A process of its own ends with the error's status and holds nothing: the next one can correct and go on.
    """
    world = World(tmp_path, spark, measures={"m": "sum(v)"})
    world.source.insert([{"ts": START, "k": "a", "v": HUGE, "ok": True}])
    wrong = world.source.next_id - 1
    with world.child() as child:
        said = child.end(66)

    assert "data.failed" == said["error"]["code"]
    assert world.state.lease is None
    world.source.delete([wrong])
    world.lake.refresh("bars")
    world.expect_true()
