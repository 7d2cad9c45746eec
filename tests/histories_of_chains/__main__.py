"""Random histories of chains of roll-ups and cascades, in the process or on Spark, against a loop over the raw rows.

    python -m tests.histories_of_chains [--minutes 10] [--workers 2] [--target 3000]
    python -m tests.histories_of_chains --spark [--minutes 10]
    python -m tests.histories_of_chains --only SEED [--spark]
    python -m tests.histories_of_chains --summary

The first form goes on with the histories of this state of the package ``materializer/`` that are not on record, in chunks, and
appends a line for each chunk to ``docs/benchmarks/chains.jsonl``; it ends with status 1 if it found something. It starts no JVM. With
``--spark`` one process computes everything on Spark, for ``docs/benchmarks/chains-on-spark.jsonl``. ``--only`` repeats the history of one seed and prints what happened. ``--summary`` writes the table of ``docs/measurements.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from materializer.config import Config
from materializer.spark.run.executor import Executor
from tests.benchmarks import history as records
from tests.docs import pages
from tests.histories.__main__ import run
from tests.histories_of_chains.history import History
from tests.histories_of_chains.lake import Chains, ChainsOnSpark
from tests.system.campaign import kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE: Final = records.ROOT / "docs" / "benchmarks" / "chains.jsonl"
PAGE: Final = records.ROOT / "docs" / "measurements.md"
ON_SPARK: Final = FILE.with_name("chains-on-spark.jsonl")
EACH: Final = 20
"""Histories of a chunk."""
EACH_ON_SPARK: Final = 2


def on_spark(session: SparkSession | None = None) -> Callable[[Path], Chains]:
    """Return what makes lakes that are computed by one Spark, which is started when nothing is given."""
    executor = Executor(Config(), session, {})
    return lambda root: ChainsOnSpark(root, executor)


def chunk(first: int, histories: int = EACH, open_lake: Callable[[Path], Chains] = Chains) -> dict[str, Any]:
    """Run the histories of some seeds, and return what they met and what they found."""
    began, used = time.monotonic(), time.process_time()
    seen, found = Counter[str](), []
    for seed in range(first, first + histories):
        with tempfile.TemporaryDirectory() as folder:
            history = History(seed, Path(folder), open_lake=open_lake)
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
    histories, used = (sum(entry[of] for entry in newest) for of in ("histories", "cpu_seconds"))
    found = "; ".join(f"seed {one['seed']}: {one['wrong']}" for entry in newest for one in entry["found"])
    seen = sum((Counter(entry["seen"]) for entry in newest), Counter[str]())
    revisions = ", ".join(f"`{revision}`" for revision in dict.fromkeys(entry["commit"] for entry in newest))
    return (
        f"At {revisions}, {newest[0]['at'][:10]}: {histories:,} histories in {used / 60:.1f} minutes of one core "
        f"({used / histories:.2f} s each); found: {found or 'nothing'}.\n\n"
    ) + pages.table(("in so many of them", "a step did or met"), [(f"{n:,}", what) for what, n in seen.most_common()])


def made(file: Path = FILE) -> str:
    """Return the page with its table of these histories."""
    tables = {"chains": table(kept(file)), "chains-on-spark": table(kept(ON_SPARK))}
    return pages.filled(PAGE.read_text(encoding="utf-8"), tables)


def main(argv: Sequence[str] | None = None) -> int:
    """Run histories, repeat one, or write the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.histories_of_chains",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument("--workers", type=int, default=2, help="processes at the same time")
    parser.add_argument("--target", type=int, default=3_000, help="stop when so many of this code are on record")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one history")
    parser.add_argument("--spark", action="store_true", help="compute on Spark, in one process")
    parser.add_argument("--summary", action="store_true", help="write the table of the page")
    options = parser.parse_args(argv)
    if options.summary:
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    if options.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            wrong = History(options.only, Path(folder), print, on_spark() if options.spark else Chains).run()
        print(wrong or "every output is right")
        return int(bool(wrong))
    name = "tests.histories_of_chains"
    if options.spark:
        runs = partial(chunk, histories=EACH_ON_SPARK, open_lake=on_spark())
        with ThreadPoolExecutor(1) as thread:
            return run(options.minutes, 1, options.target, thread, runs, ON_SPARK, EACH_ON_SPARK, f"{name} --spark")
    with ProcessPoolExecutor(options.workers) as pool:
        return run(options.minutes, options.workers, options.target, pool, chunk, FILE, EACH, name)


if __name__ == "__main__":
    sys.exit(main())
