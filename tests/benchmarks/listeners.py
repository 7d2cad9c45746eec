"""What lineage and metrics add to a refresh of one late row: ``python -m tests.benchmarks.listeners [--refreshes 40]``.

The refresh is computed by the process. Events go to a file or to a server on this machine, metrics to a file or to that server.
Printed are the median and the highest of the refreshes after the first, and what the first took besides, which imports the libraries.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from materializer.config import Config, MetricsConfig, OpenLineageConfig
from materializer.wiring import listeners
from tests.servers.receiver import receiving
from tests.services.no_spark import LocalLake, each, view

HOUR = 3_600_000_000


def measured(config: Config, refreshes: int) -> list[float]:
    """Return the seconds of each refresh."""
    with tempfile.TemporaryDirectory() as folder:
        lake = LocalLake(Path(folder))
        lake.listen(listeners(config, lake.opened.journal))
        lake.apply(view("hourly", each("1 hour")))
        found = []
        for n in range(refreshes):
            lake.add((n % 24 * HOUR, n))
            began = time.perf_counter()
            report = lake.opened.refresh("hourly")
            found.append(time.perf_counter() - began)
            assert not report.warnings, report.warnings
        return found


def main() -> None:
    """Print one line for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--refreshes", type=int, default=40)
    given = parser.parse_args()
    measured(Config(), 3)
    with receiving() as server, tempfile.TemporaryDirectory() as folder:
        ways = {
            "off": Config(),
            "OpenLineage to a file": Config(openlineage=OpenLineageConfig(file=Path(folder) / "events.jsonl")),
            "OpenLineage to a server": Config(openlineage=OpenLineageConfig(url=server.url)),
            "metrics in a file": Config(metrics=MetricsConfig(textfile=Path(folder))),
            "metrics by OTLP": Config(metrics=MetricsConfig(endpoint=f"{server.url}/v1/metrics")),
        }
        without = measured(ways["off"], given.refreshes)
        for name, config in ways.items():
            first, *rest = without if name == "off" else measured(config, given.refreshes)
            more = 0.0 if name == "off" else first - without[0]
            print(
                f"{name:24} median {median(rest) * 1000:6.0f} ms, highest {max(rest) * 1000:6.0f} ms, first {more * 1000:+6.0f} ms"
            )


if __name__ == "__main__":
    main()
