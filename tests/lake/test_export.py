"""Every type of a column in a file of each format, values that are hard for CSV among them."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import ipc

from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.errors import UsageError
from materializer.lake.export import ExportFormat, write_file
from materializer.lake.rows import StoredRows

AT: Final = datetime(2024, 3, 1, 6, tzinfo=UTC)
ROWS: Final = pa.table(
    {
        "at": pa.array([AT, AT.replace(microsecond=1), AT], pa.timestamp("us", "UTC")),
        "wall": pa.array([AT.replace(tzinfo=None), None, None], pa.timestamp("us")),
        "day": pa.array([date(2024, 2, 29), None, None]),
        "text": ['a,"b"\nc', "", None],
        "number": [0.1, float("nan"), None],
        "amount": pa.array([Decimal("1.20"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
        "bytes": [b"\x00\xff", b"", None],
        "flag": [True, False, None],
        "nested": [{"a": 1, "at": AT}, None, None],
    }
)


def stored(folder: Path) -> StoredRows:
    write_deltalake(str(folder / "table"), ROWS)
    return StoredRows.of(str(folder / "table"), SliceColumn("at", False, TimeType.TIMESTAMP), SpanSet.of(EVERYTHING))


def test_files_of_arrow_have_the_values_and_types(tmp_path: Path) -> None:
    """
    Parquet and Arrow give back what the table has.
    """
    rows = stored(tmp_path)
    write_file(rows, tmp_path / "a.parquet", ExportFormat.PARQUET, may_replace=False)
    write_file(rows, tmp_path / "a.arrow", ExportFormat.ARROW, may_replace=False)

    with ipc.open_file(tmp_path / "a.arrow") as reader:
        found = reader.read_all()
    for table in (found, pq.ParquetFile(tmp_path / "a.parquet").read()):
        assert table.schema.names == ROWS.schema.names
        assert table.drop_columns("number").to_pylist() == ROWS.drop_columns("number").to_pylist()


def test_csv_can_be_read_back(tmp_path: Path) -> None:
    """
    Quotes, commas and line ends are in quotes; a text that is empty is quoted, and null is nothing.
    """
    rows, _ = write_file(stored(tmp_path), tmp_path / "a.csv", ExportFormat.CSV, may_replace=False)

    text = (tmp_path / "a.csv").read_text()
    header, first, second, third = csv.reader(text.splitlines(keepends=True))
    assert rows == 3
    assert header == ROWS.schema.names
    assert first[:4] == ["2024-03-01T06:00:00Z", "2024-03-01T06:00:00", "2024-02-29", 'a,"b"\nc']
    assert (first[5:8], json.loads(first[8])) == (["1.20", "00ff", "true"], {"a": 1, "at": "2024-03-01T06:00:00Z"})
    assert second[0] == "2024-03-01T06:00:00.000001Z"
    assert '"",nan,-0.01' in text
    assert set(third[1:]) == {""}


def test_a_file_that_came_meanwhile_stays(tmp_path: Path) -> None:
    """
    Another process makes a file of the name while rows are written: that file stays, and no draft is left.
    """
    (tmp_path / "out").mkdir()
    rows, target = stored(tmp_path), tmp_path / "out" / "a.csv"
    target.write_text("theirs")

    with pytest.raises(UsageError, match="exists"):
        write_file(rows, target, ExportFormat.CSV, may_replace=False)

    assert [(p.name, p.read_text()) for p in target.parent.iterdir()] == [("a.csv", "theirs")]
