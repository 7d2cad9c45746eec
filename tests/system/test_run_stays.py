"""`run` as people start it, over real parts that fail: a JVM that is killed, and a store that refuses for a while."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer import Materializer
from materializer.config import Config
from tests.paths import ROOT
from tests.servers.proxy import Fault, Proxy

START = datetime(2026, 1, 1, tzinfo=UTC)
HOURLY = (
    "CREATE MATERIALIZED VIEW hourly TBLPROPERTIES ('refresh.start_offset' = 'none') AS "
    "SELECT time_bucket('1 hour', ts) AS at, sum(v) AS v FROM raw GROUP BY time_bucket('1 hour', ts)"
)


class Stays:
    """A process that runs a lake; its lines of JSON in order."""

    def __init__(self, root: str, environ: Mapping[str, str], errors: IO[str]) -> None:
        command = [sys.executable, "-m", "materializer", "run", "--every", "100ms", "--json", "--lake", root]
        env = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)

    def until(self, key: str) -> list[dict[str, Any]]:
        """Return the lines up to one that has a key."""
        found: list[dict[str, Any]] = []
        assert self.process.stdout is not None
        while not found or key not in found[-1]:
            line = self.process.stdout.readline()
            assert line, "it ended"
            found.append(json.loads(line))
        return found

    def end(self) -> int:
        """Ask it to end, and return its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


@contextmanager
def running(root: str, **environ: str) -> Iterator[Stays]:
    """Run a lake in a process of its own during the block."""
    with tempfile.TemporaryFile("w+") as errors:
        made = Stays(root, environ, errors)
        try:
            yield made
        finally:
            made.process.kill()


def add(place: str, hour: int, value: int) -> None:
    """Commit a row."""
    rows = {"ts": pa.array([START + timedelta(hours=hour)], pa.timestamp("us", "UTC")), "v": pa.array([value])}
    write_deltalake(place, pa.table(rows), mode="append")


def defined(root: str) -> None:
    """Make a source with a row, and a lake with an aggregate of it."""
    add(f"{root}/raw", 0, 1)
    Materializer(f"{root}/lake", config=Config(sources={"raw": f"{root}/raw"})).apply(HOURLY)


def values(root: str) -> dict[int, int]:
    """Return the output by hour, as a reader without us sees it."""
    rows = DeltaTable(f"{root}/lake/hourly/output").to_pyarrow_table().to_pylist()
    return {(row["at"] - START) // timedelta(hours=1): row["v"] for row in rows}


def jvm_of(process: int) -> int:
    """Return the newest process of Java among those that a process started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): (int(parent), name) for pid, parent, name in map(str.split, listed.splitlines())}

    def is_below(pid: int) -> bool:
        return pid == process or (pid in parents and is_below(parents[pid][0]))

    return max(pid for pid, (_, name) in parents.items() if name == "java" and is_below(pid))


@pytest.mark.slow
def test_a_jvm_that_is_killed_is_started_again(tmp_path: Path) -> None:
    """
    As often as it dies; each row is published, and the process ends well.
    """
    root = str(tmp_path)
    defined(root)
    with running(f"{root}/lake", MATERIALIZER_EXECUTOR="spark", MATERIALIZER_SPARK_MEMORY="700m") as stays:
        stays.until("strategies")
        for hour in (1, 2, 3):
            os.kill(jvm_of(stays.process.pid), signal.SIGKILL)
            add(f"{root}/raw", hour, hour)
            lines = stays.until("strategies")
            assert {"spark.died"} >= {line["failed"] for line in lines if "failed" in line}
        assert 0 == stays.end()

    assert {0: 1, 1: 1, 2: 2, 3: 3} == values(root)


def test_a_store_that_refuses_for_a_while(bucket: str, proxy: Proxy) -> None:
    """
    Whatever it is asked, it answers 503: what fails is reported with a code and tried again, and then the row that came meanwhile
    is published.
    """
    defined(bucket)
    with running(f"{bucket}/lake", MATERIALIZER_EXECUTOR="auto") as stays:
        stays.until("strategies")
        add(f"{bucket}/raw", 1, 5)
        stays.until("strategies")
        proxy.set(Fault("refuse", times=1_000_000))
        failed = stays.until("failed")[-1]
        proxy.set()
        add(f"{bucket}/raw", 2, 7)
        stays.until("strategies")
        assert 0 == stays.end()

    assert failed["failed"].startswith("storage."), failed
    assert {0: 1, 1: 5, 2: 7} == values(bucket)
