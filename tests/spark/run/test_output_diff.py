"""What changed between two sets of rows, told by Spark as the driver tells it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from materializer.budget import Budget
from materializer.lake import output_diff
from materializer.lake.log import read_commit
from materializer.lake.write.commit import create_table
from materializer.lake.write.replace import append_files
from materializer.spark.run.output_diff import changed, rows_of, steady
from materializer.spark.run.spark import Spark
from materializer.spark.runtime.session import work_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_a_row_that_is_alone_in_its_place_became_another(spark: SparkSession) -> None:
    """
    Where two went or two came nobody can tell which became which: they are deletes and inserts.
    """
    shape = "k string, v int"
    old = spark.createDataFrame([("alone", 1), ("two went", 1), ("two went", 2), ("two came", 1), ("same", 1)], shape)
    new = spark.createDataFrame([("alone", 2), ("two went", 3), ("two came", 2), ("two came", 3), ("same", 1)], shape)
    found = changed(old, new, ["k"]).collect()

    assert sorted((r.k, r["_change"], r.v) for r in found) == [
        ("alone", "update_postimage", 2),
        ("alone", "update_preimage", 1),
        ("two came", "delete", 1),
        ("two came", "insert", 2),
        ("two came", "insert", 3),
        ("two went", "delete", 1),
        ("two went", "delete", 2),
        ("two went", "insert", 3),
    ]


def test_rows_in_which_nobody_sees_a_difference_stay(spark: SparkSession) -> None:
    """
    The driver and Spark leave the same rows: those that differ by the sign of zero and the last digits of inexact doubles only.
    """
    shape = "k string, total double, top double, n int"
    was = [
        ("digits", 0.3, 1.0, 1),
        ("top", 1.0, 0.3, 1),
        ("n", 0.3, 1.0, 1),
        ("far", 1e6, 1.0, 1),
        ("small", 3e-12, 1.0, 1),
    ]
    was += [("zero", 0.0, 0.0, 1), ("null", None, 1.0, 1), ("no null", 0.0, 1.0, 1), ("nan", float("nan"), 1.0, 1)]
    was += [("infinite", float("inf"), 1.0, 1), ("gone", 1.0, 1.0, 1), ("two", 0.3, 1.0, 1), ("two", 0.3, 2.0, 1)]
    now = [
        ("digits", 0.1 + 0.2, 1.0, 1),
        ("top", 1.0, 0.1 + 0.2, 1),
        ("n", 0.1 + 0.2, 1.0, 2),
        ("far", 1e6 + 0.01, 1.0, 1),
    ]
    now += [("small", 4e-12, 1.0, 1), ("zero", -0.0, 0.0, 1), ("null", None, 1.0, 1), ("no null", None, 1.0, 1)]
    now += [("nan", float("nan"), 1.0, 1), ("infinite", 1.0, 1.0, 1), ("came", 1.0, 1.0, 1), ("two", 0.1 + 0.2, 1.0, 1)]
    old, new = spark.createDataFrame(was, shape), spark.createDataFrame(now, shape)
    stays = {"digits": was[0], "zero": was[5]}
    expected = sorted(map(repr, (stays.get(row[0], row) for row in now)))

    here = output_diff.steady(new.toArrow(), old.toArrow(), ["k"], {"total"})
    assert expected == sorted(repr(tuple(row.values())) for row in here.to_pylist())
    assert expected == sorted(repr(tuple(row)) for row in steady(new, old, ["k"], {"total"}).collect())


def test_rows_of_files_that_spark_wrote(spark: SparkSession, tmp_path: Path) -> None:
    """
    They lie in a folder for each plan; of two commits each has its own rows.
    """
    path = str(tmp_path / "output")
    create_table(path, [("v", "int")], name="output", description="")
    engine = Spark(work_session(spark), {}, Budget())
    for n in (1, 2):
        rows = engine.spark.createDataFrame([(n,)], "v int")
        append_files(
            path, lambda folder, rows=rows: engine.append(rows, folder), "app", n, {"plan": f"plan-{n}"}, rows=1
        )

    commits = [read_commit(path, n).adds for n in (1, 2)]
    assert all("/" in file.path for files in commits for file in files)
    assert [[1], [2]] == [[row.v for row in rows_of(engine, path, 2, files).collect()] for files in commits]
