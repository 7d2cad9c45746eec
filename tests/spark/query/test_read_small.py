"""Rows of one span that the driver does not hold: which files Spark reads by name, and which it leaves to Delta's reader."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.budget import Budget
from materializer.config import Config
from materializer.core.time.instants import HOUR
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.services.aggregate import Aggregate
from materializer.spark.query import compute as c
from materializer.spark.query import read_small
from materializer.spark.run import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

FIRST: Final = datetime(2024, 1, 1, tzinfo=UTC)
SPAN: Final = Span(int(FIRST.timestamp()) * 1_000_000 + 12 * HOUR, int(FIRST.timestamp()) * 1_000_000 + 22 * HOUR)
SQL: Final = "CREATE MATERIALIZED VIEW bars AS SELECT time_bucket('1 hour', ts) AS at, k, sum(v) AS v FROM t GROUP BY time_bucket('1 hour', ts), k"
NOTHING_HELD: Final = Budget(rows=0)


def rows(hours: range) -> pa.Table:
    """Return a row an hour, and one without a time."""
    times = [*(FIRST + timedelta(hours=h) for h in hours), None]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": ["A"] * len(times), "v": [*hours, -1]})


@pytest.fixture
def by_delta(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths that Delta's reader is asked for."""
    asked: list[str] = []
    read = c.read_version

    def noted(spark: SparkSession, source: SourceIdentity, version: int) -> Any:
        asked.append(source.path)
        return read(spark, source, version)

    monkeypatch.setattr(c, "read_version", noted)
    return asked


def in_span(spark: SparkSession, folder: Path, *spans: Span, name: str = "t") -> tuple[Any, list[str], list[str]]:
    """Return the frame of rows around a span, with those that count of it and of the table as Delta reads it."""
    path, wanted = str(folder / name), SpanSet.of(*spans or (SPAN,))
    definition = _definition(spark, folder)
    source = SourceIdentity(path, str(DeltaTable(path).metadata().id))
    version = DeltaTable(path).version()
    frame = read_small.raw_rows(spark, NOTHING_HELD, definition, source, version, wanted)
    stored = spark.read.format("delta").option("versionAsOf", version).load(path)
    sides = [c.relevant_rows(definition, each, wanted).select("ts", "k", "v") for each in (frame, stored)]
    found, expected = (sorted(map(str, each.collect())) for each in sides)
    return frame, found, expected


def _definition(spark: SparkSession, folder: Path) -> Any:
    """Return a definition over the columns that all tables of these tests have."""
    source = folder / "of"
    write_deltalake(str(source), rows(range(2)), mode="overwrite")
    m = Materializer(config=Config(lake=str(folder / "lake"), sources={"t": str(source)}), spark=spark)
    m.apply(SQL)
    return Aggregate.of(m.journal.view().named("bars"), m.root).definition


def daily(path: Path) -> None:
    """Write three files of ten hours."""
    for hours in (range(10), range(10, 20), range(20, 30)):
        write_deltalake(str(path), rows(hours), mode="append")


def test_only_files_around_the_span_are_read(spark: SparkSession, tmp_path: Path, by_delta: list[str]) -> None:
    """
    The driver chooses them by their statistics; Delta, which would ask a query for them, is not asked, and one job reads them.
    """
    daily(tmp_path / "t")
    frame, found, expected = in_span(spark, tmp_path)

    assert found == expected
    assert 10 == len(found)
    assert 2 == len(frame.inputFiles())
    assert [] == by_delta
    with options.counted(spark, "of-files"):
        frame.where("v > 0").collect()
    assert 1 == options.jobs_in(spark, "of-files")


def test_a_column_that_older_files_lack_is_null_in_them(
    spark: SparkSession, tmp_path: Path, by_delta: list[str]
) -> None:
    """
    Files from before the column was added are read as Delta reads them, and so is a folder whose name has a blank.
    """
    path = tmp_path / "t t"
    write_deltalake(str(path), rows(range(10, 15)).drop_columns(["v"]), mode="append")
    write_deltalake(str(path), rows(range(15, 25)), mode="append", schema_mode="merge")

    _, found, expected = in_span(spark, tmp_path, name="t t")

    assert found == expected
    assert 3 == sum("v=None" in row for row in found)
    assert [] == by_delta


def _of_spark(spark: SparkSession, path: Path, *statements: str, by: str = "", properties: str = "") -> None:
    where = f"USING delta {by} LOCATION '{path}' {properties}"
    spark.sql(f"CREATE TABLE delta.`{path}` (ts TIMESTAMP, k STRING, v BIGINT) {where}")
    values = ", ".join(f"(TIMESTAMP '2024-01-01 {h:02}:00:00', 'A', {h})" for h in range(24))
    spark.sql(f"INSERT INTO delta.`{path}` VALUES {values}")
    for each in statements:
        spark.sql(each.format(t=f"delta.`{path}`"))


def _marked(spark: SparkSession, path: Path) -> None:
    on = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    _of_spark(spark, path, "DELETE FROM {t} WHERE v = 15", properties=on)


def _renamed(spark: SparkSession, path: Path) -> None:
    _of_spark(spark, path, properties="TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")


def _in_folders(spark: SparkSession, path: Path) -> None:
    _of_spark(spark, path, by="PARTITIONED BY (k)")


def _without_statistics(_: SparkSession, path: Path) -> None:
    write_deltalake(str(path), rows(range(24)))
    (log,) = (path / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace('"stats":', '"statistics":'))


def _hidden(_: SparkSession, path: Path) -> None:
    write_deltalake(str(path), rows(range(24)))
    (file,), (log,) = path.glob("*.parquet"), (path / "_delta_log").glob("*.json")
    file.rename(path / f"_{file.name}")
    log.write_text(log.read_text().replace(file.name, f"_{file.name}"))


def _many(_: SparkSession, path: Path) -> None:
    for _each in range(read_small.LISTED + 1):
        write_deltalake(str(path), rows(range(12, 13)), mode="append")


@pytest.mark.one_of(2)
@pytest.mark.parametrize("made", [_marked, _renamed, _in_folders, _without_statistics, _hidden, _many])
def test_what_only_delta_reads_rightly_is_left_to_it(
    spark: SparkSession, tmp_path: Path, by_delta: list[str], made: Callable[[SparkSession, Path], None]
) -> None:
    """
    Rows marked as deleted, columns with other names in the files or in no file, files of unknown rows, files that Spark takes for hidden
    ones, and more files than it looks at without a job.
    """
    made(spark, tmp_path / "t")

    _, found, expected = in_span(spark, tmp_path)

    assert found == expected
    assert found
    assert [str(tmp_path / "t")] == by_delta


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ["t*", "{t}"])
def test_a_folder_that_is_a_pattern_is_left_to_delta(
    spark: SparkSession, tmp_path: Path, by_delta: list[str], name: str
) -> None:
    """
    Spark takes a path of Parquet files for a pattern; another folder could fit it.
    """
    daily(tmp_path / name)

    _, found, expected = in_span(spark, tmp_path, name=name)

    assert found == expected
    assert [str(tmp_path / name)] == by_delta


def test_several_spans_and_files_that_are_gone_are_left_to_delta(
    spark: SparkSession, tmp_path: Path, by_delta: list[str]
) -> None:
    """
    Several spans have a price that was measured with Delta's reader; and of a file that is gone Delta says so when it is read.
    """
    daily(tmp_path / "t")
    in_span(spark, tmp_path, Span(SPAN.start, SPAN.start + HOUR), Span(SPAN.end - HOUR, SPAN.end))
    assert [str(tmp_path / "t")] == by_delta

    for each in (tmp_path / "t").glob("*.parquet"):
        each.unlink()
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        in_span(spark, tmp_path)
    assert [str(tmp_path / "t")] * 2 == by_delta
