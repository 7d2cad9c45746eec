"""The tables that tests give to aggregates as sources, written without a JVM: one way to make them, one to add to them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake


def create(
    path: str | Path,
    schema: pa.Schema,
    *,
    feed: bool = True,
    partition_by: list[str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Make an empty table.

    Args:
        path: Where it lies.
        schema: Its columns.
        feed: Whether it keeps a change feed.
        partition_by: Columns by which its files are divided.
        properties: More properties, by their full names.
    """
    configuration = _configuration(feed=feed) | dict(properties or {})
    DeltaTable.create(str(path), schema, partition_by=partition_by, configuration=configuration)


def append(path: str | Path, rows: pa.Table, *, feed: bool = True, mode: Any = "append", **options: Any) -> None:
    """Write rows in one commit. The first commit makes the table, with a change feed if *feed* says so."""
    if not DeltaTable.is_deltatable(str(path)):
        options["configuration"] = _configuration(feed=feed)
    write_deltalake(str(path), rows, mode=mode, **options)


def append_trades(root: Path, day: int, *, rows: int = 72, volume: int = 1) -> None:
    """Append trades of one day of December 2013 to the table ``trades`` of a lake, 20 minutes apart, of A and B in turn."""
    start = datetime(2013, 12, day, tzinfo=UTC)
    times = pa.array([start + timedelta(minutes=20 * i) for i in range(rows)], pa.timestamp("us", tz="UTC"))
    symbols = [("A", "B")[i % 2] for i in range(rows)]
    append(root / "trades", pa.table({"ts": times, "sym": symbols, "volume": [volume] * rows}))


def with_features(path: str | Path, *features: str) -> None:
    """Let the first commit of a table say that it has these features, each of which readers and writers have to know."""
    log = Path(path) / "_delta_log"
    file = log / f"{0:020d}.json"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if "protocol" in line:
            known = {"readerFeatures": list(features), "writerFeatures": [*features, "inCommitTimestamp"]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **known}
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.enableInCommitTimestamps"] = "true"
        if "commitInfo" in line:
            line["commitInfo"]["inCommitTimestamp"] = line["commitInfo"]["timestamp"]
    lines.sort(key=lambda line: "commitInfo" not in line)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for checksum in log.glob("*.crc"):
        checksum.unlink()


def _configuration(*, feed: bool) -> dict[str, str]:
    return {"delta.enableChangeDataFeed": str(feed).lower()}


def delete_as_told(statement: str) -> None:
    """Carry out the DELETE that an aggregate prints for the owner of its source, without Spark."""
    told = re.fullmatch(r"DELETE FROM delta\.`(.+?)` WHERE (.+)", statement)
    assert told, f"no DELETE of a folder: {statement}"
    where = re.sub(r"TIMESTAMP_LTZ '([^']+)'", r"""arrow_cast('\1', 'Timestamp(Microsecond, Some("UTC"))')""", told[2])
    DeltaTable(told[1]).delete(where.replace("`", '"'))


def clean_log(path: str | Path) -> None:
    """Let nobody tell what changed in a table: one more commit that changes nothing, a checkpoint, and no commit before it.

    So Delta cleans a log that is not read for some weeks.
    """
    table = DeltaTable(str(path))
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})
    table.create_checkpoint()
    for version in range(table.version()):
        (Path(path) / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)
