"""A source whose columns, history or place are others than those that were captured; after each the rows are what Spark says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import NotIncrementalError, SourceReplacedError, SourceSchemaChangedError

pytestmark = pytest.mark.spark

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true'"
PLAIN = "'delta.enableChangeDataFeed' = 'true'"
HOURLY = (
    "SELECT time_bucket('1 hour', ts) AS at, k, sum(x) AS x, max(note) AS note, count(*) AS n FROM raw GROUP BY 1, 2"
)


class Changing:
    """A source and a lake with an hourly aggregate and a session window over it, refreshed.

    Args:
        root: Where they lie.
        spark: A session.
        properties: Properties of the source, as SQL.
        more: Properties of the aggregate, as SQL.
    """

    def __init__(self, root: Path, spark: SparkSession, properties: str = PLAIN, more: str = "") -> None:
        self.root, self.spark, self.path = root, spark, root / "raw"
        self.sql(
            "CREATE TABLE {t} (ts TIMESTAMP, ts2 TIMESTAMP, k STRING, k2 STRING, x BIGINT, y BIGINT, note STRING) "
            f"USING DELTA TBLPROPERTIES ({properties})"
        )
        self.add(*range(12))
        self.lake = self.opened()
        given = f"TBLPROPERTIES ({more})" if more else ""
        self.lake.apply(f"CREATE MATERIALIZED VIEW hourly {given} AS {HOURLY}")
        self.lake.define(
            "visits",
            "raw",
            time="ts",
            keys=["k"],
            engine="session_window",
            session_gap="20 minutes",
            measures={"x": "sum(x)"},
        )
        self.refresh()

    def opened(self, path: Path | None = None) -> Materializer:
        """Return the lake, whose source may lie elsewhere."""
        sources = {"raw": str(path or self.path)}
        return Materializer(config=Config(lake=str(self.root / "lake"), sources=sources), spark=self.spark)

    def sql(self, text: str) -> None:
        """Run a statement about the source ``{t}``."""
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def add(self, *numbers: int, columns: str = "ts, ts2, k, k2, x, y, note") -> None:
        """Commit rows, half an hour apart."""
        values = ", ".join(
            f"(timestamp_seconds({n} * 1800), timestamp_seconds({n} * 1800 + 86400), 'a{n % 2}', 'b{n % 3}', {n}, {n * 100}, 'n{n}')"
            for n in numbers
        )
        self.sql(f"INSERT INTO {{t}} ({columns}) VALUES {values}")

    def refresh(self, **options: Any) -> list[str]:
        """Refresh, and return the reasons of the steps of both aggregates."""
        reasons = []
        for name in ("hourly", "visits"):
            runs = self.lake.refresh(name, **options).runs
            reasons.append(
                " ".join(step.reason for run in runs if run.plan for step in run.plan.steps if hasattr(step, "reason"))
            )
        return reasons

    def assert_equal(self) -> None:
        """Both aggregates are what plain Spark says of the source as it is now."""
        for name in ("hourly", "visits"):
            report = self.lake.verify(name)
            assert report.is_equal, (name, report)


def swapped(one: str, other: str) -> Callable[[Changing], None]:
    """Return what gives two columns each other's name."""

    def change(made: Changing) -> None:
        for old, new in ((one, "tmp"), (other, one), ("tmp", other)):
            made.sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")

    return change


def added_again(made: Changing) -> None:
    """Drop a column, and add one with its name."""
    made.sql("ALTER TABLE {t} DROP COLUMN note")
    made.sql("ALTER TABLE {t} ADD COLUMN note STRING")


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (swapped("x", "y"), "x"),
        (swapped("k", "k2"), "k"),
        (swapped("ts", "ts2"), "ts"),
        (added_again, "note"),
    ],
    ids=["value", "key", "time", "added again"],
)
def test_a_column_with_the_name_of_another_makes_everything_dirty(
    tmp_path: Path, spark: SparkSession, change: Callable[[Changing], None], column: str
) -> None:
    """
    Values of the old column stand in no bucket any more; the plan names the column, and a strict refresh is refused and changes nothing.
    """
    made = Changing(tmp_path, spark, MAPPED)
    change(made)
    made.add(3)

    with pytest.raises(NotIncrementalError, match=f"another column is called '{column}'"):
        made.lake.refresh("hourly", strict=True)
    first, _ = made.refresh()

    assert f"another column is called '{column}'" in first
    made.assert_equal()
    made.add(2)
    first, _ = made.refresh()
    assert "another column" not in first
    made.assert_equal()


def test_a_column_that_got_another_name_is_named(tmp_path: Path, spark: SparkSession) -> None:
    """
    No data changed: the message says what the column of the definition is called now.
    """
    made = Changing(tmp_path, spark, MAPPED)
    made.sql("ALTER TABLE {t} RENAME COLUMN x TO amount")
    made.sql("INSERT INTO {t} (ts, k, amount) VALUES (timestamp_seconds(60), 'a0', 5)")

    with pytest.raises(SourceSchemaChangedError, match="it is called 'amount' now"):
        made.refresh()


def test_a_table_that_is_upgraded_to_column_mapping_is_the_same(tmp_path: Path, spark: SparkSession) -> None:
    """
    Its columns have the names underneath that they had: nothing becomes dirty.
    """
    made = Changing(tmp_path, spark)
    made.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})")
    made.add(4)

    reasons = made.refresh()

    assert not any("another column" in reason for reason in reasons)
    made.assert_equal()


def replaced(made: Changing) -> None:
    """Replace the table by one with other rows."""
    made.sql(
        f"CREATE OR REPLACE TABLE {{t}} USING DELTA TBLPROPERTIES ({PLAIN}) AS SELECT timestamp_seconds(n * 1800 + 60) AS ts, "
        "timestamp_seconds(0) AS ts2, 'a0' AS k, 'b0' AS k2, CAST(n AS BIGINT) AS x, CAST(n AS BIGINT) AS y, 'new' AS note FROM (SELECT explode(sequence(4, 20)) AS n)"
    )


def test_a_table_that_a_later_commit_replaced_is_computed_anew(tmp_path: Path, spark: SparkSession) -> None:
    """
    The plan names the version that did it; later rows are late rows again, and the definition that is applied again is unchanged.
    """
    made = Changing(tmp_path, spark)
    replaced(made)
    assert ["source.replaced"] == [f.code for f in made.lake.doctor("hourly") if f.code.startswith("source.")]
    [change] = made.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {HOURLY}")
    assert "unchanged" == change.kind

    first, second = made.refresh()

    assert "version 2 of the source replaced the table" in first
    assert "version 2 of the source replaced the table" in second
    made.assert_equal()
    made.add(5)
    first, _ = made.refresh()
    assert "replaced" not in first
    made.assert_equal()


def test_a_definition_may_refuse_a_source_that_was_replaced(tmp_path: Path, spark: SparkSession) -> None:
    """
    With 'source.on_replace' = 'refuse' a refresh stops and changes nothing.
    """
    made = Changing(tmp_path, spark, more="'source.on_replace' = 'refuse'")
    replaced(made)

    with pytest.raises(SourceReplacedError):
        made.lake.refresh("hourly")


def test_a_table_that_was_deleted_and_written_anew_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """
    Nothing says what it has to do with the one that was captured.
    """
    made = Changing(tmp_path, spark)
    schema = made.spark.read.format("delta").load(str(made.path)).limit(0)
    shutil.rmtree(made.path)
    schema.write.format("delta").save(str(made.path))
    for n in range(3):
        made.add(n)

    with pytest.raises(SourceReplacedError):
        made.lake.refresh("hourly")


def test_a_table_that_was_put_back_from_an_older_copy_is_computed_anew(tmp_path: Path, spark: SparkSession) -> None:
    """
    Its commits have the numbers of those that were captured and other rows, whether it is as long again or longer.
    """
    made = Changing(tmp_path, spark)
    shutil.copytree(made.path, tmp_path / "copy")
    for more in (0, 1):
        made.add(2, 3)
        made.refresh()
        shutil.rmtree(made.path)
        shutil.copytree(tmp_path / "copy", made.path)
        made.spark.catalog.clearCache()
        made.add(*range(20, 20 + 4))
        for n in range(more + 1):
            made.add(n + 6)
        findings = [f for f in made.lake.doctor("hourly") if f.code == "source.diverged"]
        assert ["the history of the source is another one after version 1"] == [
            f.message.partition(":")[0] for f in findings
        ]
        first, _ = made.refresh()
        assert "the history of the source is another one after version 1" in first
        made.assert_equal()


def test_a_table_that_was_moved_is_no_other_data(tmp_path: Path, spark: SparkSession) -> None:
    """
    A copy in another folder goes on where the first was captured; one whose history is another is the next version.
    """
    made = Changing(tmp_path, spark)
    made.add(3)
    made.refresh()
    shutil.copytree(made.path, tmp_path / "moved")
    shutil.rmtree(made.path)
    made.path = tmp_path / "moved"
    made.lake = made.opened()

    [change] = made.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {HOURLY}")

    assert "metadata" == change.kind
    assert (f"- source {tmp_path / 'raw'}", f"+ source {tmp_path / 'moved'}") == change.differences[-2:]
    made.add(5)
    [run] = made.lake.refresh("hourly").runs
    assert ["rows changed"] == [step.reason for step in run.plan.steps]
    assert made.lake.verify("hourly").is_equal
