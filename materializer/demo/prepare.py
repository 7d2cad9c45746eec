"""The work of ``materializer setup``: fetch the jars, and create the class-data archive with the classes of a refresh.

To load these classes, a trial run defines an aggregate, refreshes it, refreshes it again after a late row, a correction
and a larger commit, and verifies it. The trial run uses a temporary lake, which is deleted.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from msgspec import Struct
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import NOTHING, StorageError, UsageError
from materializer.machine import cache_dir
from materializer.spark.runtime import class_data as archive
from materializer.spark.runtime import jars, session

_FIRST: Final = datetime(2024, 1, 1, tzinfo=UTC)
_SCHEMA: Final = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("price", pa.float64()), ("volume", pa.int64())]
)
_DEFINITION: Final = """
CREATE MATERIALIZED VIEW hourly AS
SELECT time_bucket('1 hour', ts) AS hour, sym, count(*) AS n, sum(volume) AS volume, avg(price) AS mean, min(price) AS low,
       first(price) AS open, last(price) AS close
FROM trades GROUP BY 1, 2
"""


class PreparedDemo(Struct, frozen=True):
    """The preparations for quick starts.

    Args:
        jars: Names of the Delta jars.
        archive: The class-data archive; None if it could not be created, or would not be used.
        bytes: Size of the archive.
        seconds: Duration of this call.
        is_new: Whether this call created the archive.
        reason: The reason why there is no archive.
    """

    jars: tuple[str, ...]
    archive: Path | None
    bytes: int
    seconds: float
    is_new: bool
    reason: str = ""


def prepare(config: Config, *, again: bool = False) -> PreparedDemo:
    """Fetch the jars if they are not cached, and create the archive if there is none.

    Args:
        config: Settings; later commands start with the same Java, jars and Spark options.
        again: Create the archive even if there is one.

    Raises:
        UsageError: If this process has a Spark session already.
        JarsUnreachableError: If the jars are not cached and cannot be fetched.
        StorageError: If the archive cannot be written.
        MaterializerError: If Spark does not start.
    """
    began = time.perf_counter()
    if session.is_running():
        raise UsageError("this process runs Spark already", hint="call it in a process of its own")
    if config.spark.remote:
        return PreparedDemo((), None, 0, time.perf_counter() - began, False, "a Spark Connect server computes")
    cache = cache_dir()
    if jars.find(config.spark.jars, cache) is None:
        session.end(session.start(config))
    cached = jars.find(config.spark.jars, cache)
    if cached is None:
        return PreparedDemo((), None, 0, time.perf_counter() - began, False, f"nothing can be kept in {cache}")
    names = tuple(p.name for p in cached)
    reason = f"profile '{config.spark.profile}' starts without one" if config.spark.profile == "long" else ""
    if not config.spark.is_local:
        reason = "the driver of a cluster starts without one"
    if reason:
        return PreparedDemo(names, None, 0, time.perf_counter() - began, False, reason)
    target = archive.place(cache, cached)
    if target.is_file() and not again:
        return PreparedDemo(names, target, target.stat().st_size, time.perf_counter() - began, False)
    _make(config, target)
    return PreparedDemo(names, target, target.stat().st_size, time.perf_counter() - began, True)


def _make(config: Config, target: Path) -> None:
    part = target.with_suffix(f".{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="materializer-setup-") as folder:
            spark = session.start(config, archive_to=part)
            try:
                _exercise(Materializer(Path(folder), spark=spark, config=replace(config, lake=folder)))
            finally:
                has_ended = session.end(spark)
        if not has_ended or not part.is_file():
            raise StorageError(
                f"Java wrote no archive to '{part}'", hint="look whether there are 300 MB to spare there", wrote=NOTHING
            )
        part.replace(target)  # the target exists whole or not at all
    except OSError as exc:
        raise StorageError(f"no archive can be kept in '{target.parent}': {exc.strerror}", wrote=NOTHING) from exc
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _exercise(m: Materializer) -> None:
    source = f"{m.root}/trades"
    DeltaTable.create(source, _SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    _insert(source, 2_000)
    m.apply(_DEFINITION)
    m.refresh("hourly")
    _insert(source, 1)
    m.refresh("hourly")
    DeltaTable(source).update({"price": "price + 1"}, predicate="volume = 7")
    m.refresh("hourly")
    m.verify("hourly")
    m.read("hourly", "pandas")


def _insert(source: str, rows: int) -> None:
    numbers = range(rows)
    columns = {
        "ts": [_FIRST + timedelta(minutes=7 * i) for i in numbers],
        "sym": [f"S{i % 3}" for i in numbers],
        "price": [float(i % 97) for i in numbers],
        "volume": [i % 11 for i in numbers],
    }
    write_deltalake(source, pa.table(columns, schema=_SCHEMA), mode="append")
