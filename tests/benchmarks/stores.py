"""Benchmark: requests, bytes by kind, and seconds of commands over a lake on S3, with and without time added to each request.

    python -m tests.benchmarks.stores [--aggregates 50] [--delays 0 0.02] [--json]

An S3 server of this machine (`make servers`) has the lake; a proxy counts and delays. *warm* is a process that has looked at
the lake before, *new process* the command in a process of its own, whose seconds are mostly its start. Spark only aggregates rows
that the driver read; its own requests are not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
from deltalake import write_deltalake

from materializer import Materializer
from materializer.config import Config
from tests.servers import proxy as proxies
from tests.servers import s3
from tests.servers.proxy import Proxy, by_kind, bytes_by_kind

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA: Final = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
HOURLY: Final = """
CREATE MATERIALIZED VIEW {name} AS
SELECT time_bucket('1 hour', ts) AS bucket, sum(v) AS total, count(*) AS n FROM trades GROUP BY time_bucket('1 hour', ts)
"""


@dataclass(frozen=True)
class Step:
    """What one command did.

    Args:
        name: The command.
        seconds: Its wall time.
        bytes: Bytes of its requests and answers by kind.
        requests: Number of its requests by kind.
    """

    name: str
    seconds: float
    bytes: dict[str, int]
    requests: dict[str, int]

    @property
    def total(self) -> int:
        """All its requests."""
        return sum(self.requests.values())


@dataclass
class Bench:
    """A lake on a store behind a proxy.

    Args:
        bucket: URL of the bucket.
        proxy: The proxy.
        session: The Spark session; None to start one.
    """

    bucket: str
    proxy: Proxy
    session: Any = None
    steps: dict[str, Step] = field(default_factory=dict)

    def opened(self) -> Materializer:
        """Open the lake anew; what the process knows of its tables stays."""
        config = Config(sources={"trades": f"{self.bucket}/trades"})
        return Materializer(f"{self.bucket}/lake", spark=self.session, config=config)

    def add(self, first: int, count: int) -> None:
        """Commit one row for each of some minutes to the source."""
        times = [START + timedelta(minutes=first + i) for i in range(count)]
        rows = pa.table([times, list(range(count))], schema=SCHEMA)
        features = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(f"{self.bucket}/trades", rows, mode="append", configuration=features if first == 0 else None)

    def step(self, name: str, command: Callable[[], Any]) -> Any:
        """Do a command, and note what it took."""
        began = time.perf_counter()
        with self.proxy.counted() as requests:
            result = command()
        seconds = round(time.perf_counter() - began, 3)
        self.steps[name] = Step(name, seconds, bytes_by_kind(requests), by_kind(requests))
        return result

    def in_new_process(self, *arguments: str) -> str:
        """Give a command in a process of its own, and return what it prints."""
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write(f'[sources]\ntrades = "{self.bucket}/trades"\n')
            config.flush()
            command = [sys.executable, "-c", "from materializer.adapters.cli import main; main()", *arguments]
            options = ["--lake", f"{self.bucket}/lake", "--config", config.name]
            return subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE, text=True).stdout

    def run(self, aggregates: int) -> dict[str, Step]:
        """Do every command once, and return what each took."""
        self.add(0, 1000)
        lake = self.opened()
        self.step("apply", lambda: lake.apply(HOURLY.format(name="hourly")))
        self.step("first refresh", lambda: lake.refresh("hourly"))
        self.step("no-op, warm", lambda: lake.refresh("hourly"))
        self.add(10, 2)
        lake.refresh("hourly")
        self.add(20, 2)
        self.step("small refresh, warm", lambda: lake.refresh("hourly"))
        self.step("no-op, new process", lambda: self.in_new_process("refresh", "hourly"))
        lake.apply([HOURLY.format(name=f"hourly_{i}") for i in range(1, aggregates)])
        lake.status()
        self.step(f"status of {aggregates}, warm", lake.status)
        self.step(f"status of {aggregates}, new process", lambda: self.in_new_process("status"))
        self.step("maintain", lambda: lake.maintain("hourly"))
        return self.steps


def measured(delay: float, aggregates: int) -> dict[str, Step]:
    """Run every command on a new server, each request taking *delay* seconds more."""
    with (
        tempfile.TemporaryDirectory(prefix="materializer-bench-") as folder,
        s3.started(Path(folder)) as server,
        proxies.started(server.port) as proxy,
        patch.dict(os.environ, server.environment(proxy.port)),
    ):
        proxy.set(delay=delay)
        return Bench(server.bucket("bench"), proxy).run(aggregates)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aggregates", type=int, default=50)
    parser.add_argument("--delays", type=float, nargs="+", default=[0.0, 0.02])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {delay: measured(delay, options.aggregates) for delay in options.delays}
    if options.json:
        print(
            json.dumps({delay: [asdict(step) for step in steps.values()] for delay, steps in found.items()}, indent=1)
        )
        return
    for delay, steps in found.items():
        print(f"{delay * 1000:.0f} ms added to each request")
        for step in steps.values():
            kinds = ", ".join(f"{n} {kind} {step.bytes[kind] / 1000:.1f} kB" for kind, n in step.requests.items())
            size = sum(step.bytes.values()) / 1000
            print(f"  {step.name:28} {step.seconds:7.2f} s {step.total:5} requests {size:8.1f} kB: {kinds}")


if __name__ == "__main__":
    main()
