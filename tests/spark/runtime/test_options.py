"""The options of an embedded session that settings decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.config import Config, SparkConfig
from materializer.spark.runtime.options import embedded_options


@pytest.mark.parametrize(
    ("settings", "memory", "most"),
    [
        ({}, "2g", 1 << 30),  # the default of Spark
        ({}, "1g", 512 << 20),
        ({"driver_bytes": 64 << 20}, "2g", 256 << 20),
        ({"driver_bytes": 1}, "700M", 4 << 20),
    ],
)
def test_what_spark_sends_to_the_driver_is_bounded(
    tmp_path: Path, settings: dict[str, int], memory: str, most: int
) -> None:
    """
    By what the driver may hold and by the heap that the rows pass through; an option of the user counts.
    """
    key = "spark.driver.maxResultSize"

    def found(**options: str) -> str:
        config = Config(spark=SparkConfig(memory=memory, options=options), **settings)
        return embedded_options(config, None, cache=tmp_path, scratch=tmp_path)[key]

    assert f"{most}b" == found()
    assert "7g" == found(**{key: "7g"})
