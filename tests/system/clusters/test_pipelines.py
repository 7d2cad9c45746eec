"""The files of docs/pipelines.md, run as a pipeline of Spark and as definitions here, give equal tables, on each day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests import tables
from tests.docs.blocks import blocks
from tests.servers import pipelines
from tests.servers.connect import url_of
from tests.servers.spark import SparkProcess
from tests.system.clusters.commands import NO_JAVA, Commands

DATABASE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).create()
spark.sql(f"CREATE DATABASE pages LOCATION 'file:{sys.argv[2]}/pipeline'")
spark.sql(f"CREATE TABLE pages.trades USING delta LOCATION 'file:{sys.argv[2]}/trades'")
spark.stop()
"""


def trades(day: int, *, minutes: int = 45) -> pa.Table:
    """Return the trades of one day; one of them has no price, and one comes a day late."""
    start = datetime(2024, 1, day, tzinfo=UTC)
    rows = [
        {"ts": start + timedelta(minutes=n), "symbol": "ABC"[n % 3], "size": n % 97, "price": (n * 7) % 101 - 1}
        for n in range(0, 24 * 60, minutes)
    ]
    rows += [{"ts": start, "symbol": "A", "size": 1, "price": None}]
    rows += [{"ts": start - timedelta(hours=5), "symbol": "C", "size": 99, "price": 500}]
    types = [("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("size", pa.int64()), ("price", pa.int64())]
    return pa.Table.from_pylist(rows, pa.schema(types))


def rows(path: Path) -> list[list[Any]]:
    """Return the rows of a table, sorted."""
    return sorted(([*row.values()] for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist()), key=repr)


@pytest.mark.skipif(bool(pipelines.why_not()), reason=pipelines.why_not())
def test_one_file_for_both(tmp_path: Path, connect_server: SparkProcess) -> None:
    """
    Windows, truncated times, filters, a distinct count, and a view over a view; after the first day and after two more.
    """
    (tmp_path / "views").mkdir()
    shown = [b for b in blocks("docs/pipelines.md") if b.language in {"sql", "yaml"}]
    for block in shown:
        name, _, text = block.text.partition("\n")
        (tmp_path / name.strip("# -")).write_text(text, encoding="utf-8")
    spec = shown[-1].text.replace("file:///data", f"file://{tmp_path}") + "\ndatabase: pages\n"
    commands = Commands(tmp_path, {**NO_JAVA, "MATERIALIZER_SPARK_REMOTE": url_of(connect_server)})
    tables.append(tmp_path / "trades", trades(1))
    (tmp_path / "pipeline").mkdir()
    assert 0 == commands.python(DATABASE, url_of(connect_server), str(tmp_path)).wait(120)
    commands.done("apply", "views")
    names = [block.text.partition("\n")[0].strip("- ").removesuffix(".sql").partition("/")[2] for block in shown[:-1]]
    before: dict[str, list[Any]] = {}
    for day in (1, 2, 3):
        if day > 1:
            tables.append(tmp_path / "trades", trades(day))
        pipelines.run(connect_server, tmp_path, text=spec)
        commands.done("refresh", "--all")
        for name in names:
            found = rows(tmp_path / name / "output")
            assert rows(tmp_path / "pipeline" / name) == found
            assert found != before.get(name)
            before[name] = found

    assert ["bars_1h", "bars_1d", "tops"] == names
