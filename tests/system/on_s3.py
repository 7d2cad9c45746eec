"""A small lake on a store, with a source beside it whose rows are known."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config
from tests.system.twins import TwinLake

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
START = datetime(2026, 1, 1, tzinfo=UTC)
HOURLY = """
CREATE MATERIALIZED VIEW hourly AS
SELECT time_bucket('1 hour', ts) AS bucket, sum(v) AS total, count(*) AS n FROM trades GROUP BY time_bucket('1 hour', ts)
"""
DAILY = """
CREATE MATERIALIZED VIEW daily AS
SELECT time_bucket('1 day', bucket) AS day, sum(total) AS total FROM hourly GROUP BY time_bucket('1 day', bucket)
"""


class Site:
    """A lake in a bucket, and a source beside it.

    Args:
        bucket: The URL of the bucket.
        spark: The session of the run.
        config: Settings in place of those of the executor.
        executor: What computes.
        is_compared: Whether Spark does again in a copy what this process computes; see :class:`TwinLake`.
    """

    def __init__(
        self,
        bucket: str,
        spark: Any,
        config: Config | None = None,
        *,
        executor: Literal["auto", "spark"] = "spark",
        is_compared: bool = False,
    ) -> None:
        self.bucket = bucket
        self.executor = executor
        self.is_compared = is_compared
        self.local_runs: list[str] = []
        self.source = f"{bucket}/trades"
        DeltaTable.create(self.source, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
        settings, root = config or Config(sources={"trades": self.source}, executor=executor), f"{bucket}/lake"
        if is_compared:
            self.lake: Materializer = TwinLake(root, spark, settings, self.local_runs)
        else:
            self.lake = Materializer(root, spark=spark, config=settings)
        self.rows: dict[datetime, int] = {}

    def add(self, first: int, count: int) -> None:
        """Commit one row for each of some minutes."""
        times = [START + timedelta(minutes=first + i) for i in range(count)]
        values = [secrets.randbelow(1000) for _ in times]
        write_deltalake(self.source, pa.table([times, values], schema=SCHEMA), mode="append")
        for time, value in zip(times, values, strict=True):
            hour = time.replace(minute=0)
            self.rows[hour] = self.rows.get(hour, 0) + value

    @property
    def totals(self) -> dict[datetime, int]:
        """What the output has, as a reader without us sees it."""
        rows = DeltaTable(f"{self.bucket}/lake/hourly/output").to_pyarrow_table()
        return dict(zip(rows["bucket"].to_pylist(), rows["total"].to_pylist(), strict=True))
