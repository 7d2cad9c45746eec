"""What is said of a source that lost a column, or whose column is another one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from materializer.errors import SourceSchemaChangedError
from materializer.services.observe import source_breaks
from tests.services.no_spark import LocalLake, each, view


def test_a_column_that_is_gone_is_an_error_and_no_other_column(tmp_path: Path) -> None:
    """
    The doctor says what the next refresh fails with, and not that everything would be computed anew.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (1, 5))
    lake.apply(view("hourly", each("1 hour")))
    lake.opened.refresh("hourly")
    rows = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "volume": pa.array([1], pa.int64())})
    write_deltalake(str(tmp_path / "raw"), rows, mode="overwrite", schema_mode="overwrite")
    state = lake.state("hourly")

    assert ["'hourly' reads column 'v' as bigint, but in its source it is gone"] == [
        misfit.text("hourly") for misfit in source_breaks.misfits(state)
    ]
    assert source_breaks.to_come(state) is None
    found = [f for f in lake.opened.doctor("hourly") if f.code.startswith("source.")]
    assert ["source.schema-changed"] == [f.code for f in found if f.level == "error"]
    with pytest.raises(SourceSchemaChangedError):
        lake.opened.refresh("hourly")
