from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from materializer.spark.query.compute import frame_of, observed, rows_seen, to_arrow


def test_a_null_struct_of_fields_that_are_not_null_is_fetched(spark) -> None:
    """
    The variance of no value is a null struct whose fields are declared not null; it reaches the driver as null.
    """
    frame = spark.sql(
        "SELECT k, CASE WHEN k > 1 THEN named_struct('n', k, 'deep', named_struct('a b', 1.5D)) END AS `p x`"
        " FROM VALUES (1L), (2L) AS t(k) ORDER BY k"
    )

    assert [
        {"k": 1, "p x": None},
        {"k": 2, "p x": {"n": 2, "deep": {"a b": 1.5}}},
    ] == to_arrow(frame).to_pylist()


def test_rows_that_spark_knows_not_to_exist_are_counted_as_none(spark, tmp_path) -> None:
    """
    Of a table without files Spark does not even run the counting; that is no failure, and the count is 0.
    """
    DeltaTable.create(str(tmp_path), schema=pa.schema([("k", pa.int64())]))
    counts = []
    for rows in (spark.read.format("delta").load(str(tmp_path)), spark.range(3)):
        frame, seen = observed(rows, "seen")
        frame.groupBy().count().collect()
        counts.append(rows_seen(seen))

    assert [0, 3] == counts


def test_no_row_behind_a_batch_without_rows_is_lost(spark) -> None:
    """
    Rows that were picked from files have a batch for each file, also where no row of a file was wanted.
    """
    one = pa.table({"v": pa.array([1], pa.int64())})
    rows = pa.concat_tables([one.slice(0, 0), one, one.slice(0, 0), one])

    assert 2 == frame_of(spark, rows, {"v": "bigint"}).count()
