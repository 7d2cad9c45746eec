"""Verifying while others publish, and how it says that measures were compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from materializer import Materializer
from materializer.config import Config
from materializer.spark.run.spark import Spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 3, 1, tzinfo=UTC)
SESSIONS: dict[str, Any] = {"engine": "session_window", "session_gap": "5 minutes"}


def append(source: str, *minutes: int) -> None:
    """Append a row at each of some minutes."""
    times = [START + timedelta(minutes=m) for m in minutes]
    rows = pa.table(
        {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": ["a"] * len(times), "v": list(range(len(times)))}
    )
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(source, rows, mode="append", configuration=feed)


@pytest.mark.parametrize(
    "kind", [{"width": "1 hour"}, pytest.param(SESSIONS, marks=pytest.mark.slow)], ids=["aggregate", "engine"]
)
def test_a_refresh_that_publishes_meanwhile_makes_no_difference(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    """
    What is compared is what was published when verifying began, at the version of the source that it reflects.
    """
    source = str(tmp_path / "events")
    append(source, *range(0, 600, 7))
    lake = Materializer(tmp_path / "lake", spark=spark, config=Config())
    measures = {"n": "count(*)", "top": "max(v)", "mean": "avg(v)"}

    lake.define("made", source, time="ts", keys=["k"], measures=measures, **kind)
    lake.refresh("made")
    verify = Spark.verify

    def beside(self: Spark, *args: Any, **more: Any) -> Any:
        append(source, 3, 300, 301)
        assert lake.refresh("made").outcome == "refreshed"
        return verify(self, *args, **more)

    monkeypatch.setattr(Spark, "verify", beside)
    report = lake.verify("made")

    assert report.is_equal
    assert report.source_version == 0
    assert report.tolerances == {"n": "exact", "top": "exact", "mean": "float"}
