"""A lake on S3, from the first definition to a restored backup; only Spark's jars for a store are not there."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config
from materializer.lake import places, store_settings
from materializer.lake.log import latest_version
from tests.benchmarks.stores import Bench
from tests.servers.proxy import Proxy
from tests.servers.s3 import S3Server

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
    """A lake in a bucket, and a source beside it."""

    def __init__(self, bucket: str, spark: Any, config: Config | None = None) -> None:
        self.bucket = bucket
        self.source = f"{bucket}/trades"
        DeltaTable.create(self.source, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
        settings = config or Config(sources={"trades": self.source})
        self.lake = Materializer(f"{bucket}/lake", spark=spark, config=settings)
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


@pytest.fixture
def site(bucket: str, spark: Any) -> Site:
    """A lake with two aggregates over three days, refreshed."""
    site = Site(bucket, spark)
    site.add(0, 3 * 24 * 60)
    site.lake.apply([HOURLY, DAILY])
    for name in ("hourly", "daily"):
        site.lake.refresh(name)
    return site


def test_a_lake_lives_on_s3(site: Site) -> None:
    """
    Late and new rows are refreshed, a second refresh has nothing to do, and every command that reports can read it.
    """
    assert site.rows == site.totals
    site.add(10, 3)
    site.add(3 * 24 * 60, 90)
    assert ["refreshed", "up-to-date"] == [site.lake.refresh("hourly").outcome for _ in range(2)]
    site.lake.refresh("daily")

    assert site.rows == site.totals
    status = {s.name: s for s in site.lake.status()}
    assert ("s3://" in status["hourly"].source, status["hourly"].dirty.spans) == (True, ())
    assert f"{site.bucket}/lake/hourly/output" == status["daily"].source
    assert site.rows == {row[0]: row[1] for row in site.lake.show("hourly", limit=1000)[1]}
    assert [] == [f for f in site.lake.doctor() if f.level == "error"]
    assert ["sound", "sound"] == [site.lake.repair(name).outcome for name in ("hourly", "daily")]


def test_files_are_maintained_on_s3(site: Site) -> None:
    """
    Small files become fewer, nothing that readers see changes, and files that no version needs are removed.
    """
    for i in range(12):
        site.add(i * 60, 1)
        site.lake.refresh("hourly")
    output = f"{site.bucket}/lake/hourly/output"
    before = latest_version(output)
    site.lake.maintain("hourly")

    assert before <= latest_version(output)
    assert site.rows == site.totals
    assert [
        f"{e.name} of an unfinished rewrite" for e in places.entries(output) if e.name.startswith("_maintain")
    ] == []


def test_a_journal_is_backed_up_and_restored_on_s3(site: Site, tmp_path: Path) -> None:
    """
    A copy goes to the store or to this machine; a restored journal goes on, and the replaced one stays beside it.
    """
    for folder in (f"{site.bucket}/backup", str(tmp_path / "backup")):
        assert folder == site.lake.backup(folder).folder
        site.add(100, 5)
        site.lake.refresh("hourly")
        report = site.lake.restore(folder)

        assert places.is_folder(report.aside)
        for name in site.lake.names():
            site.lake.repair(name)
        site.lake.refresh("hourly")
        assert site.rows == site.totals


def test_a_dropped_aggregate_leaves_nothing(site: Site) -> None:
    """
    Its files are deleted, and its name can be taken again.
    """
    site.lake.drop("daily")
    site.lake.drop("hourly")

    assert not places.exists(f"{site.bucket}/lake/hourly")
    site.lake.apply(HOURLY)
    site.lake.refresh("hourly")
    assert site.rows == site.totals


def test_no_secret_is_written_anywhere(
    bucket: str, s3: S3Server, spark: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    Keys of the configuration are in no file of the lake, in no report, and in nothing that is printed.
    """
    storage = {name.lower(): value for name, value in s3.environment().items()}
    site = Site(bucket, spark, Config(sources={"trades": f"{bucket}/trades"}, storage=storage))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    try:
        site.lake.apply(HOURLY)
        told = [site.lake.plan("hourly"), site.lake.refresh("hourly"), site.lake.status(), site.lake.doctor()]
        files = [places.read(f"{bucket}/lake/{file.name}") for file in places.files(f"{bucket}/lake")]
    finally:
        store_settings.configure({})
    printed = capfd.readouterr()

    assert len(files) > 10
    assert not any(s3.secret.encode() in content for content in files)
    assert s3.secret not in f"{told} {printed} {site.lake.config}"


def test_commands_ask_a_store_little(bucket: str, proxy: Proxy, spark: Any) -> None:
    """
    A refresh without work, one of few rows and a look at many aggregates stay cheap where each look is a request.
    """
    steps = Bench(bucket, proxy, spark).run(aggregates=8)

    assert 6 >= steps["no-op, warm"].total
    assert 60 >= steps["small refresh, warm"].total
    assert 8 + 3 >= steps["status of 8, warm"].total
