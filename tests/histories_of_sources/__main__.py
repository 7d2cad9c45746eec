"""Random histories of sources whose columns and commits are other ones, against plain Spark.

    python -m tests.histories_of_sources [--minutes 10] [--target 200]
    python -m tests.histories_of_sources --only SEED

The first form goes on with the histories of this state of the package ``materializer/`` that are not on record, and appends a line
for each five to ``docs/benchmarks/sources.jsonl``; it ends with status 1 if it found something. ``--only`` repeats one and tells its steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from materializer.config import Config, SparkConfig
from materializer.spark.runtime.session import start
from tests.benchmarks import history as records
from tests.histories.__main__ import run
from tests.histories_of_sources.history import History

FILE: Final = records.ROOT / "docs" / "benchmarks" / "sources.jsonl"
EACH: Final = 5
"""Histories of a chunk."""


@cache
def session() -> SparkSession:
    """Return a session of this process."""
    options = {
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",  # each statement is another one, and compiling takes longer than its few rows
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.enabled": "false",
    }
    return start(Config(spark=SparkConfig(master="local[2]", options=options)))


def chunk(first: int, histories: int = EACH) -> dict[str, Any]:
    """Run the histories of some seeds, and return what they met and what they found."""
    began, used = time.monotonic(), time.process_time()
    seen, found = Counter[str](), []
    for seed in range(first, first + histories):
        with tempfile.TemporaryDirectory() as folder:
            history = History(seed, Path(folder), session())
            if wrong := history.run():
                found.append({"seed": seed, "wrong": wrong})
            seen.update(set(history.seen))
    return {
        "first": first,
        "histories": histories,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "seen": seen,
        "found": found,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run histories, or repeat one."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.histories_of_sources",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument("--target", type=int, default=200, help="stop when so many of this code are on record")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one history")
    options = parser.parse_args(argv)
    if options.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            wrong = History(options.only, Path(folder), session(), print).run()
        print(wrong or "every output is right")
        return int(bool(wrong))
    with ProcessPoolExecutor(1) as pool:
        return run(options.minutes, 1, options.target, pool, chunk, FILE, EACH, "tests.histories_of_sources")


if __name__ == "__main__":
    sys.exit(main())
