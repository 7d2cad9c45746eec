"""Random statements as people type them: each is what plain Spark says of its text, or refused before anything is written.

    python -m tests.statements [--minutes 10] [--target 3000] [--worker 0/1]
    python -m tests.statements --only SEED
    python -m tests.statements --summary

A trial applies forty statements over one source, refreshes each, writes late rows, refreshes each again, and compares the output with
what ``spark.sql`` says of the text as it was drawn. The first form goes on with the trials of this state of the package
``materializer/`` that are not on record, appends a line for each to ``docs/benchmarks/statements.jsonl``, and ends with status 1 if it
found something. ``--worker K/N`` takes every N-th trial, so that N processes
share the work. ``--only`` repeats the statement of one seed. ``--summary`` writes the table of ``docs/measurements.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from materializer.config import Config, SparkConfig
from materializer.spark.runtime import session
from tests.benchmarks import history as records
from tests.docs import pages
from tests.statements.trial import EACH, Trial, text_of
from tests.system.campaign import code, keep, kept

FILE: Final = records.ROOT / "docs" / "benchmarks" / "statements.jsonl"
PAGE: Final = records.ROOT / "docs" / "measurements.md"
OPTIONS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.codegen.wholeStage": "false",  # each statement is another one, and compiling takes longer than its few rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def chunk(spark: Any, number: int, seeds: Sequence[int] = ()) -> dict[str, Any]:
    """Run a trial, or some of its statements, and return what it came to."""
    began, first = time.monotonic(), number * EACH
    with tempfile.TemporaryDirectory() as folder:
        found = Trial(number, spark, Path(folder)).compared(seeds or range(first, first + EACH))
    return {
        "first": first,
        "statements": len(seeds) or EACH,
        "equal": found.equal,
        "refused": found.refused,
        "seconds": round(time.monotonic() - began, 1),
        "seen": dict(found.seen.most_common()),
        "found": [{"seed": seed, "wrong": wrong.replace(folder, "…")} for seed, wrong in found.wrong.items()],
    }


def run(
    options: argparse.Namespace,
    runs: Callable[[int], dict[str, Any]],
    file: Path = FILE,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run trials that are not on record until there is no more time, or there are enough statements; return the exit status."""
    began, of, which, on = clock(), code(), records.commit(), records.machine()
    worker, workers = (int(number) for number in options.worker.split("/"))
    longest, failed = 0.0, 0
    for number in count(worker, workers):
        done = [entry for entry in kept(file) if entry["code"] == of]  # others add to it meanwhile
        if number * EACH in {entry["first"] for entry in done}:
            continue
        if (
            sum(entry["statements"] for entry in done) >= options.target
            or clock() - began + longest > 60 * options.minutes
        ):
            return int(failed > 0)
        entry = runs(number)
        keep({"at": records.now(), "commit": which, "code": of, "on": on, **entry}, file)
        longest, failed = max(longest, entry["seconds"]), failed + len(entry["found"])
        print(
            f"statements from {entry['first']}: {entry['equal']} equal, {entry['refused']} refused, {entry['seconds']:.0f} s",
            flush=True,
        )
        for found in entry["found"]:
            print(f"FOUND: {found['wrong']}; again: python -m tests.statements --only {found['seed']}", flush=True)
    raise AssertionError


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest state of the code on record went through."""
    if not entries:
        return "No statements are on record.\n"
    newest = [entry for entry in entries if entry["code"] == entries[-1]["code"]]
    statements, equal, refused, seconds = (
        sum(e[of] for e in newest) for of in ("statements", "equal", "refused", "seconds")
    )
    seen = sum((Counter(entry["seen"]) for entry in newest), Counter[str]())
    found = "; ".join(f"seed {one['seed']}: {one['wrong']}" for e in newest for one in e["found"])
    revisions = ", ".join(f"`{revision}`" for revision in dict.fromkeys(entry["commit"] for entry in newest))
    return (
        f"At {revisions}, {newest[0]['at'][:10]}: {statements:,} statements in {seconds / 60:.1f} minutes; {equal:,} equal to plain Spark, "
        f"{refused:,} refused; found: {found or 'nothing'}. Over all states on record: {sum(e['statements'] for e in entries):,} statements.\n\n"
        + pages.table(("so often", "what became of them"), [(f"{n:,}", what) for what, n in seen.most_common()])
    )


def made(file: Path = FILE) -> str:
    """Return the page with its table of the statements."""
    return pages.filled(PAGE.read_text(encoding="utf-8"), {"statements": table(kept(file))})


def main(argv: Sequence[str] | None = None) -> int:
    """Go on with the trials, repeat one statement, or write the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.statements", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument(
        "--target", type=int, default=3_000, help="stop when so many statements of this code are on record"
    )
    parser.add_argument("--worker", default="0/1", metavar="K/N", help="take every N-th trial, from K on")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one statement")
    parser.add_argument("--summary", action="store_true", help="write the table of the page")
    options = parser.parse_args(argv)
    if options.summary:
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    spark = session.start(Config(spark=SparkConfig(master="local[2]", options=OPTIONS)))
    if options.only is None:
        return run(options, lambda number: chunk(spark, number))
    print(text_of(options.only))
    entry = chunk(spark, options.only // EACH, [options.only])
    print(*(one["wrong"] for one in entry["found"]), entry["seen"], sep="\n")
    return int(bool(entry["found"]))


if __name__ == "__main__":
    sys.exit(main())
