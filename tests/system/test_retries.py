"""Failures of Spark in the middle of a refresh: what is done about them, and what is said of the open plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import SparkError
from tests.spark.runtime.limits import result_limit
from tests.system.processes.running import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_result_that_is_too_large_stays_in_spark(tmp_path: Path, spark: SparkSession) -> None:
    """
    The driver fetches few rows and commits them itself; when Spark refuses to give them, the same run is done in Spark, and
    its plan that was given up is no failure. A write of Spark that fails leaves a plan open, which the error says.
    """
    world = World(tmp_path, spark, measures={"n": "count(*)", "s": "sum(v)", "wide": "max(repeat(k, 20000))"})
    with result_limit(spark, "100k"):
        report = world.lake.refresh("bars")

    assert ["spark"] == [run.report.lane for run in report.runs]
    assert [("done", 2), ("aborted", 1)] == [(ended.outcome, ended.n) for ended in world.lake.history("bars")]
    world.insert(3, (1,))

    def fail(checkpoint: str) -> None:
        if checkpoint == "wrote_partials":
            raise SparkError("something else")

    with pytest.raises(SparkError) as caught:
        Materializer(world.root, spark=spark, config=Config(executor="spark"), on_checkpoint=fail).refresh("bars")
    assert "refresh 3 has not ended: what it wrote is finished or undone by the next command" == caught.value.wrote
    assert ((3, "finished"),) == world.lake.refresh("bars").recovered
    world.expect_true()
