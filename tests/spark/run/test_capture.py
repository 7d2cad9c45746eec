"""What Spark says of a change feed below a frozen bound, version by version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from materializer.budget import Budget
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


def test_spark_names_the_changed_keys_of_buckets_in_which_they_are_few(spark: SparkSession, tmp_path: Path) -> None:
    """
    Both keys of a moved row, and null; none of a bucket with more than 64. Keys that are expressions are not computed: they
    might fail for rows that the aggregate never has.
    """
    table = Trades(tmp_path / "t", feed=True)
    table.append((0, "a", 1), (HOUR, "a", 2), (HOUR, "b", 3), (3 * HOUR, "a", 4))
    after = table.version
    table.append(*((2 * HOUR, f"s{i}", 5) for i in range(65)), (3 * HOUR, "late", 6))
    table.table.update(updates={"sym": "NULL"}, predicate="price = 1")
    table.table.update(updates={"ts": f"to_timestamp_micros({HOUR})"}, predicate="price = 4")

    def keys(sql: str) -> dict[int, list[object]]:
        spec = define("bars", "t", time="ts", width="1 hour", keys={"sym": sql}, measures={"v": "sum(price)"})
        spec = replace(spec, time_type=TimeType.TIMESTAMP)
        grid = build(spec.grid, TimeType.TIMESTAMP, spec.resolution)
        columns = (("slice", "timestamp"), ("k_sym", "string"))
        definition = Definition(spec, Layout((), (), None, (), None, (), (), ()), grid, columns, ())
        found = changes(spark, Budget(), definition, SourceIdentity(table.path, table.id), after, table.version)
        assert found.starts is not None
        assert {0, HOUR, 2 * HOUR, 3 * HOUR} == {*found.starts}
        return {start // HOUR: sorted((k for (k,) in of), key=repr) for start, of in found.keys.items()}

    assert {0: ["a", None], 1: ["a"], 3: ["a", "late"]} == keys("sym")
    assert {} == keys("upper(sym)")
