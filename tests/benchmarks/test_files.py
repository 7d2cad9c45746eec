"""The counters of files: what is opened by whom, and what commits exchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.benchmarks.files import opened, touched
from tests.system.builders import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of opened files")


def files_of(table: Path) -> set[Path]:
    """Return the data files of a table's newest version."""
    return {Path(uri.removeprefix("file://")) for uri in DeltaTable(str(table)).file_uris()}


def test_a_file_counts_once_whoever_opens_it(tmp_path: Path) -> None:
    """
    Opened here, by the library, or by another process: each file once, with the number of its openings. What is not opened, what the block wrote, and the log
    with its checkpoints do not count.
    """
    table = tmp_path / "table"
    for n in range(4):
        write_deltalake(str(table), pa.table({"n": [n]}), mode="append")
    one, two, three, other = sorted(files_of(table))
    with opened([table]) as found:
        for _ in range(2):
            Path(one).read_bytes()
        subprocess.run([sys.executable, "-c", f"open({str(two)!r}, 'rb').read(1)"], check=True)
    assert ({one, two}, True) == (found.files, found.is_known)
    assert {one: 2, two: 1} == found.openings

    DeltaTable(str(table)).create_checkpoint()
    with opened([table]) as found:
        DeltaTable(str(table)).version()
        write_deltalake(str(table), pa.table({"n": [4]}), mode="append")
        (new,) = files_of(table) - {one, two, three, other}
        pq.read_table(new)
    assert (set(), True) == (found.files, found.is_known)
    with opened([table]) as found:
        DeltaTable(str(table)).to_pyarrow_table()
    assert {one, two, three, other, new} == found.files


@pytest.mark.parametrize("driver_lane_rows", [200_000, 0])
def test_a_refresh_reads_and_replaces_what_it_needs(tmp_path: Path, spark: SparkSession, driver_lane_rows: int) -> None:
    """
    In both lanes. First the three files of the source; for a late row its file, and those of ours that it goes into; after a
    deletion the file that the source wrote again and the change it noted, and ours; for nothing none. What is removed is what
    the refresh says.
    """
    site = Site(tmp_path, spark, driver_lane_rows=driver_lane_rows)
    trades = site.table("trades")
    for hour in ("01", "05", "09"):
        trades.trade(*((f"{hour}:{m:02}", "A", m) for m in range(20)))
    site.hourly()
    raw = sum(p.stat().st_size for p in files_of(trades.path))
    told, removed = [], []
    for change in (
        lambda: None,
        lambda: trades.trade(("05:30", "A", 7)),
        lambda: trades.delete("price = 7"),
        lambda: None,
    ):
        change()
        with touched(site.lake, "hourly") as found:
            done = site.lake.refresh("hourly")
        told.append(found)
        removed.append(sum(run.report.files_rewritten for run in done.runs))

    ours = [0, 2, told[1]["files_written"], 0]
    assert ours == removed == [found["files_removed"] for found in told]
    assert [3, 1 + ours[1], 2 + ours[2], 0] == [found["files_read"] for found in told]
    assert [0, *(found["bytes_written"] for found in told[:2])] == [found["bytes_removed"] for found in told[:3]]
    assert raw == told[0]["bytes_read"]
