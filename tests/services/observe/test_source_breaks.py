"""What is said of a source that lost a column, or whose column is another one."""

from __future__ import annotations

from datetime import date
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


OTHER_TIMES = {
    "date": pa.array([date(2024, 3, 1)], pa.date32()),
    "bigint": pa.array([1], pa.int64()),
    "string": pa.array(["2024-03-01"]),
    "timestamp_ntz": pa.array([0], pa.timestamp("us")),
}


@pytest.mark.parametrize("kind", OTHER_TIMES)
@pytest.mark.parametrize("partition_by", [[], ["ts"]], ids=["", "partitions"])
def test_another_type_of_the_time_column_is_said_like_that_of_any(
    tmp_path: Path, kind: str, partition_by: list[str]
) -> None:
    """
    By a refresh, its plan, the doctor and `status`, also where the table is divided by it; nothing else is looked at in it.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1), (1, 5))
    lake.apply(view("hourly", each("1 hour")))
    lake.opened.refresh("hourly")
    rows = pa.table({"ts": OTHER_TIMES[kind], "v": pa.array([1], pa.int64())})
    write_deltalake(
        str(tmp_path / "raw"), rows, mode="overwrite", schema_mode="overwrite", partition_by=partition_by or None
    )
    said = f"'hourly' reads column 'ts' as timestamp, but in its source it is {kind} now"

    for command in (lake.opened.refresh, lake.opened.plan):
        with pytest.raises(SourceSchemaChangedError) as caught:
            command("hourly")
        assert said == caught.value.message
    assert [said] == [f.message for f in lake.opened.doctor("hourly") if f.level == "error"]
    assert "behind" == lake.opened.status("hourly")[0].state
