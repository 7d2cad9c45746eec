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


@pytest.mark.one_of(2)
@pytest.mark.parametrize("feature", ["delta.enableDeletionVectors' = 'true", "delta.columnMapping.mode' = 'name"])
def test_tables_that_spark_writes_are_looked_at(tmp_path: Path, spark: SparkSession, feature: str) -> None:
    """
    With deleted rows that are only marked, and with columns that have other names in the files.
    """
    path = tmp_path / "lake" / "trades"
    key = "a b" if "Mapping" in feature else "ab"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (ts TIMESTAMP, `{key}` STRING, n BIGINT) USING delta TBLPROPERTIES ('{feature}')"
    )
    spark.sql(
        f"INSERT INTO delta.`{path}` SELECT timestamp_seconds(1700000000 + id * 60), 'x' || id % 3, id FROM range(900)"
    )
    spark.sql(f"DELETE FROM delta.`{path}` WHERE n % 10 = 0")
    lake = Materializer(tmp_path / "lake", spark=spark, config=Config(expectations=tmp_path / "expectations"))
    new = lake.new("trades")

    assert ("ts", 810) == (new.answers.time, new.facts.rows)
    assert (key,) == new.answers.keys
    file, _ = lake.write_new(new, tmp_path / "sql")
    [change] = lake.apply(file)
    lake.backfill(change.name)
    assert lake.verify(change.name).is_equal
