"""Spark on S3: what it lacks is fetched once, and large results are written there by it and committed by the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.paths import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAM = """
import json, secrets, sys
from datetime import UTC, datetime, timedelta
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from materializer import Materializer
from materializer.config import Config, SparkConfig
from materializer.lake.log import read_commit, latest_version

bucket, secret = sys.argv[1:]
start, source = datetime(2026, 1, 1, tzinfo=UTC), f"{bucket}/trades"
schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
DeltaTable.create(source, schema, configuration={"delta.enableChangeDataFeed": "true"})

def add(first, count):
    columns = [[start + timedelta(minutes=i) for i in range(first, first + count)], [i % 7 for i in range(count)], [1] * count]
    write_deltalake(source, pa.table(columns, schema=schema), mode="append")

add(0, 10_000)
config = Config(driver_lane_rows=0, executor="spark", sources={"trades": source}, spark=SparkConfig(memory="1g"))
lake = Materializer(f"{bucket}/lake", config=config)
lake.apply(["CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS bucket, k, sum(v) AS total, count(*) AS n "
            "FROM trades GROUP BY time_bucket('1 hour', ts), k"])
runs = [lake.refresh("hourly")]
add(100, 50)
runs.append(lake.refresh("hourly"))
output = f"{bucket}/lake/hourly/output"
command = open(f"/proc/{lake.engine().jvm_pid()}/cmdline").read()
print(json.dumps({
    "lanes": [run.report.lane for report in runs for run in report.runs],
    "files": [f.path for f in read_commit(output, latest_version(output)).adds],
    "equal": lake.verify("hourly").is_equal,
    "shows": secret in command,
}))
"""


def test_large_results_are_written_by_spark(bucket: str) -> None:
    """
    A first materialization and late rows in Spark's lane, with source and lake in a bucket: the driver's commit takes in files that
    Spark wrote into the plan's folder, plain Spark gives the same, and the command line of the JVM shows no key.
    """
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, bucket, secret],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert 0 == done.returncode, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert ["spark", "spark"] == told["lanes"]
    assert all(path.startswith("plan-") for path in told["files"])
    assert (True, False) == (told["equal"], told["shows"])
    assert secret not in done.stdout + done.stderr
