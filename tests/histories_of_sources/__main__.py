"""Random histories of sources whose columns and commits are other ones, against plain Spark.

    python -m tests.histories_of_sources [--minutes 10] [--target 200]
    python -m tests.histories_of_sources --only SEED
    python -m tests.histories_of_sources --summary

The first form goes on with the histories of this state of the package ``materializer/`` that are not on record, and appends a line
for each five to ``docs/benchmarks/sources.jsonl``; it ends with status 1 if it found something. ``--only`` repeats one and tells its steps.
``--summary`` writes the table of ``docs/measurements.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from materializer.config import Config, SparkConfig
from materializer.spark.runtime.session import start
from tests.benchmarks import history as records
from tests.docs import pages
from tests.histories.__main__ import run
from tests.histories_of_sources.history import History
from tests.system.campaign import kept

FILE: Final = records.ROOT / "docs" / "benchmarks" / "sources.jsonl"
PAGE: Final = records.ROOT / "docs" / "measurements.md"
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


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest state of the code on record went through."""
    if not entries:
        return "No histories are on record.\n"
    newest = [entry for entry in entries if entry["code"] == entries[-1]["code"]]
    histories, seconds = (sum(entry[of] for entry in newest) for of in ("histories", "seconds"))
    every = sum(entry["histories"] for entry in entries)
    found = "; ".join(f"seed {one['seed']}: {one['wrong']}" for entry in newest for one in entry["found"])
    seen = sum((Counter(entry["seen"]) for entry in newest), Counter[str]())
    revisions = ", ".join(f"`{revision}`" for revision in dict.fromkeys(entry["commit"] for entry in newest))
    return (
        f"At {revisions}, {newest[0]['at'][:10]}: {histories:,} histories in {seconds / 60:.1f} minutes beside other work; "
        f"found: {found or 'nothing'}. Over all states on record: {every:,} histories.\n\n"
    ) + pages.table(("in so many of them", "a step did or met"), [(f"{n:,}", what) for what, n in seen.most_common()])


def made(file: Path = FILE) -> str:
    """Return the page with its table of these histories."""
    return pages.filled(PAGE.read_text(encoding="utf-8"), {"sources": table(kept(file))})


def main(argv: Sequence[str] | None = None) -> int:
    """Run histories, repeat one, or write the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.histories_of_sources",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument("--target", type=int, default=200, help="stop when so many of this code are on record")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one history")
    parser.add_argument("--summary", action="store_true", help="write the table of the page")
    options = parser.parse_args(argv)
    if options.summary:
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    if options.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            wrong = History(options.only, Path(folder), session(), print).run()
        print(wrong or "every output is right")
        return int(bool(wrong))
    with ProcessPoolExecutor(1) as pool:
        return run(options.minutes, 1, options.target, pool, chunk, FILE, EACH, "tests.histories_of_sources")


if __name__ == "__main__":
    sys.exit(main())
