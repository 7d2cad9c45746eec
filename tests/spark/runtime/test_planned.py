"""What Spark is started with follows the work that is planned for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.config import Config, SparkConfig
from materializer.machine import memory
from materializer.spark.runtime.options import embedded_options
from materializer.spark.runtime.planned import planned


def started_with(root: Path, seconds: float, config: SparkConfig) -> tuple[bool, str]:
    """Return whether the full compiler is started for so many seconds of work, and the heap."""
    with planned(seconds):
        found = embedded_options(Config(spark=config), None, cache=root, scratch=root)
    return "TieredStopAtLevel=1" not in found["spark.driver.extraJavaOptions"], found["spark.driver.memory"]


@pytest.mark.parametrize(
    ("seconds", "config", "is_long", "heap"),
    [
        (0.0, SparkConfig(), False, "2048m"),
        (9.0, SparkConfig(), False, "2048m"),
        (60.0, SparkConfig(), True, f"{max(memory() // 4, 2 << 30) >> 20}m"),
        (60.0, SparkConfig(profile="short"), False, "2048m"),
        (0.0, SparkConfig(profile="long", memory="3g"), True, "3g"),
        (60.0, SparkConfig(memory="900m"), True, "900m"),
    ],
)
def test_long_work_gets_the_full_compiler_and_a_large_heap(
    tmp_path: Path, seconds: float, config: SparkConfig, is_long: bool, heap: str
) -> None:
    """
    What the user set stays.
    """
    assert (is_long, heap) == started_with(tmp_path, seconds, config)
    assert (config.profile == "long") == started_with(tmp_path, 0.0, config)[0], "only in the block"
