"""Statistics that are true are never taken for lies, whoever wrote them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from materializer.lake.statistics_check import compare_statistics

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = pa.table(
    {
        "at": pa.array([FIRST + timedelta(microseconds=997 * i) for i in range(1_000)], pa.timestamp("us", "UTC")),
        "day": [date(2024, 1, 1 + i % 28) if i % 7 else None for i in range(1_000)],
        "text": ["x" * (i % 80) + chr(0x10FFFF - i) for i in range(1_000)],
        "amount": [Decimal(i) / 100 for i in range(1_000)],
        "number": pa.array([i % 50 - 25 for i in range(1_000)], pa.int16()),
        "share": [float("nan") if i % 9 == 0 else i / 7 for i in range(1_000)],
        "is_new": [i % 2 == 0 for i in range(1_000)],
        "nothing": pa.nulls(1_000, pa.int64()),
        "parts": [[i] for i in range(1_000)],
    }
)


def test_what_the_library_wrote_is_true(tmp_path: Path) -> None:
    """
    Of every kind of column; only the columns that are asked for are read.
    """
    for _ in range(3):
        write_deltalake(tmp_path / "t", ROWS, mode="append")

    found = compare_statistics(str(tmp_path / "t"), 2)

    assert (3, 3_000, (), ()) == (found.files, found.rows, found.lies, found.unreadable)
    assert found == compare_statistics(str(tmp_path / "t"), 2, ["at", "gone"])


def test_a_file_that_was_written_anew_is_found(tmp_path: Path) -> None:
    """
    Its values lie beyond what the log says, whole numbers and fractions alike; NaN lies nowhere.
    """
    for name in ("number", "share"):
        path = tmp_path / name
        write_deltalake(path, ROWS)
        (file,) = path.glob("*.parquet")
        more = ROWS[name].cast(pa.float64()).to_pylist()
        changed = pa.array([v * 2 for v in more], pa.float64()).cast(ROWS[name].type)
        pq.write_table(ROWS.set_column(ROWS.schema.get_field_index(name), name, changed), file)

        ((_, wrong),) = compare_statistics(str(path), 0).lies
        assert f"'{name}' has values above the largest one" in wrong


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"])
def test_what_spark_wrote_is_true(tmp_path: Path, spark: Any, kind: str, properties: str) -> None:
    """
    Times are cut to milliseconds there, texts to 32 characters, and columns may have other names underneath.
    """
    path = tmp_path / "t"
    spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
    try:
        spark.sql(
            f"CREATE TABLE delta.`{path}` (at TIMESTAMP, day DATE, text STRING, amount DECIMAL(12,2), n INT) USING DELTA {properties}"
        )
        spark.sql(
            f"INSERT INTO delta.`{path}` SELECT timestamp_micros(1700000000000000 + id * 997), date_add(DATE'2024-01-01', CAST(id AS INT)), "
            "repeat(chr(97 + id % 20), 40), id / 100, CAST(id AS INT) FROM range(500)"
        )
        if properties:
            for old, new in (("n", "tmp"), ("amount", "n"), ("tmp", "amount")):
                spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN {old} TO {new}")
            spark.sql(f"INSERT INTO delta.`{path}` VALUES (TIMESTAMP'1600-01-01', DATE'1600-01-01', '', 3, -5.25)")
        version = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()["version"]
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")

    found = compare_statistics(str(path), version)

    assert ((), ()) == (found.lies, found.unreadable)
    assert found.rows == spark.read.format("delta").load(str(path)).count()
