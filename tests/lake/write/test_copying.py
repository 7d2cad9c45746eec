from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from materializer.core.spec.spec import TimeType
from materializer.lake.extent import files
from materializer.lake.write import copying
from materializer.lake.write.commit import append_rows, create_table

COLUMNS = [["slice", "timestamp"], ["k", "string"], ["v", "bigint"], ["p", "struct<a:bigint,b:double>"]]
MINUTE = 60_000_000


def note(n: int) -> dict[str, Any]:
    return {"plan": "p", "n": n, "kind": "switch", "source_version": 0}


def rows(first: int, count: int) -> pa.Table:
    """Return a row a minute."""
    at = [(first + i) * MINUTE for i in range(count)]
    parts = [{"a": i, "b": None if i % 3 else i / 2} for i in range(count)]
    shape = pa.struct([("a", pa.int64()), ("b", pa.float64())])
    times = pa.array(at, pa.timestamp("us", "UTC"))
    return pa.table({"slice": times, "k": ["x"] * count, "v": list(range(count)), "p": pa.array(parts, shape)})


def copied(path: Path, columns: list[list[str]], n: int = 7, version: int | None = None) -> Any:
    source, target = str(path / "a"), str(path / "b")
    at = DeltaTable(source).version() if version is None else version
    return copying.copy_rows(source, at, target, columns, "slice", TimeType.TIMESTAMP, "app", n, note(n))


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A table of three commits, the last of them the earliest rows, and another table with other columns."""
    create_table(str(tmp_path / "a"), COLUMNS, name="a")
    create_table(str(tmp_path / "b"), [["x", "int"]], name="b")
    for n, first in enumerate((1_000, 2_000, 0)):
        append_rows(str(tmp_path / "a"), rows(first, 1_000), "app", n + 1, note(n + 1))
    return tmp_path


def test_a_copy_has_the_rows_of_the_version_in_the_order_of_time(tables: Path) -> None:
    """
    Types and rows are those of the version that was asked for; a file covers its own run of time.
    """
    copied(tables, COLUMNS, version=2)
    assert 2_000 == DeltaTable(str(tables / "b")).to_pyarrow_table().num_rows

    result = copied(tables, COLUMNS, n=8)
    found = DeltaTable(str(tables / "b")).to_pyarrow_table().sort_by("slice")
    assert found.equals(DeltaTable(str(tables / "a")).to_pyarrow_table().sort_by("slice"))
    extent = files(str(tables / "b"), result.version, "slice", TimeType.TIMESTAMP)
    assert all(a.end <= b.start + 1_000 for a, b in pairwise(extent.files))
    assert 8 == DeltaTable(str(tables / "b")).transaction_version("app")


def test_some_columns_are_copied_in_pieces(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Columns that are not asked for stay behind, and small pieces are as good as a large one.
    """
    monkeypatch.setattr(copying, "BATCH_BYTES", 1_000)
    copied(tables, COLUMNS[:3:2])
    found = DeltaTable(str(tables / "b")).to_pyarrow_table()

    assert ["slice", "v"] == found.column_names
    assert 3_000 == found.num_rows


def test_an_empty_table_is_copied(tables: Path) -> None:
    """
    Columns change, and there are no rows.
    """
    copied(tables, COLUMNS, version=0)

    assert 0 == DeltaTable(str(tables / "b")).to_pyarrow_table().num_rows
    assert "slice" == DeltaTable(str(tables / "b")).schema().fields[0].name
