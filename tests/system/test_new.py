"""What `new` writes passes: applied, backfilled by whichever executor fits, and checked, over tables of many shapes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from materializer import Materializer
from materializer.config import Config
from tests.shapes import shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(8)


def passes(folder: Path, spark: SparkSession, seed: int) -> None:
    """Make a table, and do all that `new` says to do next."""
    table = shape(seed)
    table.write(folder / "lake" / "trades", files=3)
    lake = Materializer(folder / "lake", spark=spark, config=Config(expectations=folder / "expectations"))
    new = lake.new("trades")
    file, _ = lake.write_new(new, folder / "sql")
    [change] = lake.apply(file)
    lake.backfill(change.name)

    assert "new" == change.kind
    assert lake.check(change.name).verdict.is_publishable
    assert lake.verify(change.name).is_equal
    if table.rows and not all(v is None for v in table.columns[new.answers.time][1]):
        assert lake.show(change.name)[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_proposed_passes(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """
    Of every shape: each command ends well, what was published meets the suite and equals plain Spark.
    """
    passes(tmp_path, spark, seed)


@pytest.mark.slow
def test_what_is_proposed_passes_over_more_shapes(tmp_path: Path, spark: SparkSession, fresh_seed: int) -> None:
    """
    Of forty shapes that no run had before.
    """
    for seed in range(fresh_seed, fresh_seed + 40):
        passes(tmp_path / str(seed), spark, seed)
