"""What Spark says of a change feed below a frozen bound, version by version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from materializer.config import Budget
from materializer.core.aggregates.layout import Layout
from materializer.core.compiled.definition import Definition
from materializer.core.language.define import define
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from materializer.journal.events import SourceIdentity
from materializer.spark.run.capture import changes
from tests.lake.tables import HOUR, Trades

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_below_the_frozen_bound_each_version_is_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    """
    What one version only inserted is late, what it only deleted went; all else is a conflict: updates, moves, and an insert
    beside a delete. The same in two versions is none. The bucket at the bound is above it.
    """
    table = Trades(tmp_path / "t", feed=True)
    for hour in range(7):
        table.append((hour * HOUR, "a", hour))
    after = table.version
    table.append((0, "late", 10), (HOUR, "late", 11), (6 * HOUR, "b", 12))
    table.table.delete("price = 1 OR price = 2")  # of hour 1, where the version before inserted, and of hour 2
    table.table.update(updates={"price": "13"}, predicate="price = 3")
    table.table.merge(
        table.rows([(4 * HOUR, "a", 4), (4 * HOUR, "new", 14)]),
        "t.ts = s.ts AND t.sym = s.sym",
        source_alias="s",
        target_alias="t",
    ).when_matched_delete().when_not_matched_insert_all().execute()
    table.table.delete("price = 5")

    spec = replace(
        define("bars", "t", time="ts", width="1 hour", measures={"v": "sum(price)"}), time_type=TimeType.TIMESTAMP
    )
    grid = build(spec.grid, TimeType.TIMESTAMP, spec.resolution)
    definition = Definition(spec, Layout((), (), None, (), None, (), (), ()), grid, (), ())
    source = SourceIdentity(table.path, table.id)
    found = changes(spark, Budget(), definition, source, after, table.version, frozen=5 * HOUR)

    assert (found.late, found.conflicts) == ((0, HOUR), (3 * HOUR, 4 * HOUR))
    assert found.expired == 2
    assert found.starts == (5 * HOUR, 6 * HOUR)
