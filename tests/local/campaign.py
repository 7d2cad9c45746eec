"""A campaign of random definitions over random rows and short histories: the local executor against Spark.

    python -m tests.local.campaign [--minutes 10] [--target 20000] [--worker 0/1] [--seed 0]
    python -m tests.local.campaign --only SEED
    python -m tests.local.campaign --summary

A case is one definition over the rows and changes of one scene, computed by both executors plan by plan: partials, output and
rows read are equal, and where Spark raises the local executor has no answer. The first form goes on with the chunks of this state of
the package ``materializer/`` that are not on record, appends a line for each to ``docs/benchmarks/executors.jsonl``, and ends with
status 1 if it found something. ``--worker K/N`` takes every N-th chunk, so that N processes share the work. ``--only`` repeats the case
of one seed. ``--summary`` writes the table of ``docs/measurements.md``.
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

from materializer.budget import Budget
from materializer.config import Config, SparkConfig
from materializer.spark.run.spark import Spark
from materializer.spark.runtime import session
from tests.benchmarks import history as records
from tests.docs import pages
from tests.local.scenes import Scene
from tests.system.campaign import code, keep, kept

FILE: Final = records.ROOT / "docs" / "benchmarks" / "executors.jsonl"
PAGE: Final = records.ROOT / "docs" / "measurements.md"
SCENES: Final = 4
"""Scenes of a chunk."""
SPREAD: Final = 100
"""A seed is the number of a scene times this, plus the number of a definition."""
OPTIONS: Final = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}


def chunk(spark: Spark, first: int) -> dict[str, Any]:
    """Compare the definitions of some scenes, and return how many there were and what was found."""
    began, seen = time.monotonic(), Counter[str]()
    totals, wrong = Counter[str](), []
    for number in range(first, first + SCENES):
        with tempfile.TemporaryDirectory() as folder:
            found = Scene(number, Path(folder)).compared(spark)
        totals.update(cases=found.cases, refused=found.refused, left=found.left)
        wrong += [{"seed": number * SPREAD + n, "wrong": text.replace(folder, "…")} for n, text in found.wrong.items()]
        seen.update(found.seen)
    return {
        "first": first,
        "scenes": SCENES,
        **{name: totals[name] for name in ("cases", "refused", "left")},
        "seconds": round(time.monotonic() - began, 1),
        "seen": dict(seen.most_common(8)),
        "found": wrong,
    }


def run(
    options: argparse.Namespace,
    runs: Callable[[int], dict[str, Any]],
    file: Path = FILE,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run chunks that are not on record until there is no more time, or there are enough cases; return the exit status."""
    began, of, which, on = clock(), code(), records.commit(), records.machine()
    worker, workers = (int(number) for number in options.worker.split("/"))
    longest, failed = 0.0, 0
    for turn in count():
        done = [e for e in kept(file) if e["code"] == of]  # others add to it meanwhile
        first = options.seed + turn * SCENES
        if sum(e["cases"] for e in done) >= options.target or clock() - began + longest > 60 * options.minutes:
            break
        if turn % workers != worker or first in {e["first"] for e in done}:
            continue
        entry = runs(first)
        keep({"at": records.now(), "commit": which, "code": of, "on": on, **entry}, file)
        longest, failed = max(longest, entry["seconds"]), failed + len(entry["found"])
        print(f"scenes from {first}: {entry['cases']} cases, {entry['seconds']:.0f} s", flush=True)
        for found in entry["found"]:
            print(f"FOUND: {found['wrong']}; again: python -m tests.local.campaign --only {found['seed']}", flush=True)
    return int(failed > 0)


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest state of the code on record went through."""
    if not entries:
        return "No cases are on record.\n"
    newest = [entry for entry in entries if entry["code"] == entries[-1]["code"]]
    scenes, cases, refused, left = (sum(e[of] for e in newest) for of in ("scenes", "cases", "refused", "left"))
    seconds = sum(e["seconds"] for e in newest)
    found = "; ".join(f"seed {one['seed']}: {one['wrong']}" for e in newest for one in e["found"]) or "nothing"
    return pages.table(
        (
            "revision",
            "scenes",
            "cases",
            "without a local form",
            "left to Spark by their rows",
            "seconds a case",
            "found",
        ),
        [
            (
                ", ".join(f"`{c}`" for c in dict.fromkeys(e["commit"] for e in newest)),
                *(f"{n:,}" for n in (scenes, cases, refused, left)),
                f"{seconds / max(cases, 1):.2f}",
                found,
            )
        ],
    )


def made(file: Path = FILE) -> str:
    """Return the page with its table of the cases."""
    return pages.filled(PAGE.read_text(encoding="utf-8"), {"executors": table(kept(file))})


def main(argv: Sequence[str] | None = None) -> int:
    """Go on with the campaign, repeat one case, or write the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.local.campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument("--target", type=int, default=20_000, help="stop when so many cases of this code are on record")
    parser.add_argument("--worker", default="0/1", metavar="K/N", help="take every N-th chunk, from K on")
    parser.add_argument("--seed", type=int, default=0, help="the first scene")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one case")
    parser.add_argument("--summary", action="store_true", help="write the table of the page")
    options = parser.parse_args(argv)
    if options.summary:
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    started = session.start(Config(spark=SparkConfig(master="local[2]", options=OPTIONS)))
    spark = Spark(started, {}, Budget())
    if options.only is None:
        return run(options, lambda first: chunk(spark, first))
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(options.only // SPREAD, Path(folder))
        print(scene.told(scene.drawn(options.only % SPREAD)))
        found = scene.compared(spark, [options.only % SPREAD])
    print(*found.wrong.values() or found.seen.elements(), sep="\n")
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
