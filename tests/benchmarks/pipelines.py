"""What the second day costs here and in Spark Declarative Pipelines: ``python -m tests.benchmarks.pipelines [--days 90] [--rows 20000]``.

The same file with ``CREATE MATERIALIZED VIEW … AS SELECT`` is run by both over the same table: first over the history, then after a new
day with one late row in it. The tables must be equal each time. A server of Spark Connect computes the pipeline, and one of our two lakes;
its event log says how many rows its tasks read, the log of Delta tables and the journal included. The other lake takes whichever executor fits.

A reader without a JVM polls the output meanwhile, and notes the shortest one that it saw and how long it was empty.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from msgspec import Struct

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from tests.servers import pipelines
from tests.servers.connect import connect_server, url_of

if TYPE_CHECKING:
    from materializer.config import ExecutorChoice

VIEW = """\
CREATE MATERIALIZED VIEW bars_1h
COMMENT 'trades by hour'
AS SELECT window(ts, '1 hour').start AS hour, symbol, sum(size) AS size, max(price) AS top, count(*) AS trades
FROM trades
GROUP BY window(ts, '1 hour').start, symbol;
"""
START = 1_704_067_200
"""2024-01-01, in seconds."""


class Watched(Struct):
    """What a reader saw of an output.

    Args:
        least: The fewest rows.
        empty: Seconds in which there were none.
        reads: How often it looked.
    """

    least: int | None = None
    empty: float = 0.0
    reads: int = 0


@contextmanager
def watched(path: Path) -> Iterator[Watched]:
    """Look at the rows of a table again and again while the block runs; before the table is there, nothing is noted."""
    seen, stopped = Watched(), threading.Event()

    def look() -> None:
        last = time.monotonic()
        while not stopped.wait(0.02):
            if not DeltaTable.is_deltatable(str(path)):
                continue
            rows = sum(DeltaTable(str(path)).get_add_actions(flatten=True)["num_records"].to_pylist())
            now = time.monotonic()
            seen.least = rows if seen.least is None else min(seen.least, rows)
            seen.empty += now - last if rows == 0 else 0.0
            seen.reads += 1
            last = now

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        thread.join()


class EventLog:
    """The event log of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at = 0

    def rows(self) -> int:
        """Return how many rows tasks have read since the last call."""
        time.sleep(1)  # the log is written by another thread of the server
        [file] = [p for p in self.folder.iterdir() if not p.name.endswith(".crc") and not p.name.startswith(".")]
        with file.open(encoding="utf-8") as log:
            log.seek(self.at)
            text = log.read()
            end = text.rfind("\n") + 1
            self.at += len(text[:end].encode())
        events = (json.loads(line) for line in text[:end].splitlines())
        tasks = (e["Task Metrics"] for e in events if e["Event"] == "SparkListenerTaskEnd" and e.get("Task Metrics"))
        return sum(task["Input Metrics"]["Records Read"] for task in tasks)


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a table, sorted."""
    table = DeltaTable(str(path)).to_pyarrow_table(columns=["hour", "symbol", "size", "top", "trades"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def day(number: int, rows: int) -> str:
    """Return a query for the trades of one day."""
    step = 86_400_000_000 // rows
    return (
        f"SELECT timestamp_micros({START + number * 86_400} * 1000000L + id * {step}L) AS ts, concat('s', id % 20) AS symbol, "
        f"id % 100 AS size, id % 997 AS price FROM range({rows})"
    )


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its seconds."""
    began = time.perf_counter()
    found = run()
    return found, time.perf_counter() - began


def compare(folder: Path, days: int, rows: int) -> Iterator[dict[str, Any]]:
    """Yield one line for each day and way."""
    from pyspark.sql import SparkSession

    for name in ("server", "events", "views"):
        (folder / name).mkdir()
    (folder / "views" / "bars_1h.sql").write_text(VIEW, encoding="utf-8")
    options = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    server = connect_server(folder / "server", options=options)
    server.start()
    try:
        spark = SparkSession.builder.remote(url_of(server)).create()
        source = folder / "server" / "warehouse" / "trades"
        spark.sql(
            "CREATE TABLE trades (ts TIMESTAMP, symbol STRING, size BIGINT, price BIGINT) USING delta "
            "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        for number in range(days):
            spark.sql(f"INSERT INTO trades {day(number, rows)}")
        log = EventLog(folder / "events")

        def lake(executor: ExecutorChoice) -> Materializer:
            remote = SparkConfig(remote=url_of(server))
            sources = {"trades": str(source)}
            opened = Materializer(
                folder / executor, spark=spark, config=Config(spark=remote, sources=sources, executor=executor)
            )
            opened.apply(folder / "views" / "bars_1h.sql")
            return opened

        lakes = {"here, by Spark": (lake("spark"), "spark"), "here, whichever fits": (lake("auto"), "auto")}
        theirs = folder / "server" / "warehouse" / "bars_1h"
        for what in ("history", "second day"):
            if what == "second day":
                spark.sql(f"INSERT INTO trades {day(days, rows)}")
                spark.sql("INSERT INTO trades VALUES (TIMESTAMP'2024-01-02 10:30:00', 's1', 7, 5000)")
            log.rows()
            with watched(theirs) as seen:
                _, seconds = timed(lambda: pipelines.run(server, folder, "views"))
            yield _line(what, "pipeline", seconds, log.rows(), None, seen)
            for name, (opened, path) in lakes.items():
                with watched(folder / path / "bars_1h" / "output") as seen:
                    report, seconds = timed(lambda opened=opened: opened.refresh("bars_1h"))
                read = sum(run.report.rows_read for run in report.runs)
                yield _line(what, name, seconds, log.rows(), read, seen)
                assert rows_of(theirs) == rows_of(folder / path / "bars_1h" / "output"), name
        spark.stop()
    finally:
        server.kill()


def _line(what: str, way: str, seconds: float, tasks: int, aggregated: int | None, seen: Watched) -> dict[str, Any]:
    return {
        "what": what,
        "way": way,
        "seconds": round(seconds, 1),
        "rows read by tasks": tasks,
        "rows aggregated": aggregated,
        "least rows seen": seen.least,
        "seconds empty": round(seen.empty, 1),
    }


def main() -> None:
    """Print one line for each day and way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--rows", type=int, default=20_000, help="of each day")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for line in compare(Path(folder), given.days, given.rows):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
