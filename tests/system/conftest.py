"""The lake that most system tests work on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.builders import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def site(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Site:
    """A lake; the parameter is how many rows the driver commits itself (0: Spark commits everything)."""
    rows: int = getattr(request, "param", 200_000)
    return Site(tmp_path, spark, driver_lane_rows=rows, expectations=tmp_path / "expectations")
