"""Random histories of journal, plans, protocol and recovery over a store in memory that fails; no JVM.

    python -m tests.histories [--minutes 10] [--workers 2] [--target 50000]
    python -m tests.histories --only SEED
    python -m tests.histories --choices [[N,N,…],…]
    python -m tests.histories --mistakes
    python -m tests.histories --summary

The first form goes on with the histories of this state of the package ``materializer/`` that are not on record, in chunks, and
appends a line for each chunk to ``docs/benchmarks/histories.jsonl``; it ends with status 1 if it found something. ``--only`` repeats
the history of one seed, prints what happened, and searches for a shorter one that breaks the same rule; ``--choices`` repeats that.
``--mistakes`` plants the deliberate mistakes and prints how many histories each survived. ``--summary`` writes the table of
``docs/measurements.md``.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import history as records
from tests.docs import pages
from tests.histories.chance import Chance, shrunk
from tests.histories.history import History, replayed
from tests.histories.mistakes import MISTAKES, caught
from tests.system.campaign import code, keep, kept

FILE: Final = records.ROOT / "docs" / "benchmarks" / "histories.jsonl"
PAGE: Final = records.ROOT / "docs" / "measurements.md"
EACH: Final = 1_000
"""Histories of a chunk."""


def chunk(first: int, histories: int = EACH) -> dict[str, Any]:
    """Run the histories of some seeds, and return how many commits they made, what they met, and what they found."""
    gc.freeze()
    gc.set_threshold(20_000)  # a history makes much and keeps nothing
    began, used = time.monotonic(), time.process_time()
    commits, seen, found = 0, Counter[str](), []
    for seed in range(first, first + histories):
        history = History(Chance(seed))
        if wrong := history.run():
            found.append({"seed": seed, "wrong": wrong})
        commits += history.world.commits
        seen.update(history.seen)
    return {
        "first": first,
        "histories": histories,
        "commits": commits,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "seen": seen,
        "found": found,
    }


def run(
    minutes: float,
    workers: int,
    target: int,
    pool: Executor,
    runs: Callable[[int], dict[str, Any]] = chunk,
    file: Path = FILE,
    each: int = EACH,
    command: str = "tests.histories",
) -> int:
    """Run chunks of *each* histories that are not on record until there is no more time, or there are enough; return the exit status."""
    began, of, which, on = time.monotonic(), code(), records.commit(), records.machine()
    done = [entry for entry in kept(file) if entry["code"] == of]
    known, left = {entry["first"] for entry in done}, target - sum(entry["histories"] for entry in done)
    firsts = (first for first in count(0, each) if first not in known)
    longest, total, failed = 0.0, 0, 0
    running: set[Future[dict[str, Any]]] = set()
    while True:
        while len(running) < workers and left > 0 and time.monotonic() - began + longest < 60 * minutes:
            running.add(pool.submit(runs, next(firsts)))
            left -= each
        if not running:
            break
        ended, running = wait(running, return_when=FIRST_COMPLETED)
        for entry in (future.result() for future in ended):
            keep({"at": records.now(), "commit": which, "code": of, "on": on, **entry}, file)
            longest, total = max(longest, entry["seconds"]), total + entry["histories"]
            failed += len(entry["found"])
            print(f"{entry['first']:8} {entry['seconds']:6.1f} s", flush=True)
            for found in entry["found"]:
                print(f"FOUND: {found['wrong']}; again: python -m {command} --only {found['seed']}", flush=True)
    print(f"{total} histories, {time.monotonic() - began:.0f} s, {workers} workers: {failed or 'nothing'} found")
    return int(failed > 0)


def only(seed: int) -> int:
    """Repeat the history of a seed, and print the shortest found that breaks the same rule."""
    history = History(Chance(seed), tells=print)
    wrong = history.run()
    print(wrong or "every rule holds")
    if not wrong:
        return 0
    rule = wrong.split(":")[0]
    shorter = shrunk(history.chance.drawn, lambda choices: replayed(choices).split(":")[0] == rule)
    print("\nshorter:")
    print(replayed(shorter, tells=print))
    print(f"python -m tests.histories --choices '{json.dumps(shorter, separators=(',', ':'))}'")
    return 1


def mistakes(histories: int) -> int:
    """Print after how many histories each mistake is caught; return 1 if one is not."""
    missed = 0
    for name, mistake in MISTAKES.items():
        found = caught(name, range(histories))
        missed += found is None
        after = "NOT CAUGHT" if found is None else f"{found.seed + 1:5} histories, {found.wrong.split(':')[0]}"
        print(f"{name:22} {after:30} {mistake.says}", flush=True)
    return int(missed > 0)


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest state of the code on record went through."""
    if not entries:
        return "No histories are on record.\n"
    newest = [entry for entry in entries if entry["code"] == entries[-1]["code"]]
    histories, commits, used = (sum(entry[of] for entry in newest) for of in ("histories", "commits", "cpu_seconds"))
    found = "; ".join(f"seed {one['seed']}: {one['wrong']}" for entry in newest for one in entry["found"])
    seen = sum((Counter(entry["seen"]) for entry in newest), Counter[str]())
    revisions = ", ".join(f"`{revision}`" for revision in dict.fromkeys(entry["commit"] for entry in newest))
    return (
        f"At {revisions}, {newest[0]['at'][:10]}: {histories:,} histories with {commits:,} commits in {used / 60:.1f} minutes of one "
        f"core ({1000 * used / histories:.1f} ms each); found: {found or 'nothing'}.\n\n"
    ) + pages.table(
        ("in so many of them", "a process did or met"), [(f"{n:,}", what) for what, n in seen.most_common()]
    )


def made(file: Path = FILE) -> str:
    """Return the page with its table of the histories."""
    return pages.filled(PAGE.read_text(encoding="utf-8"), {"histories": table(kept(file))})


def main(argv: Sequence[str] | None = None) -> int:
    """Run histories, repeat one, plant mistakes, or write the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.histories", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument("--workers", type=int, default=2, help="processes at the same time")
    parser.add_argument(
        "--target", type=int, default=50_000, help="stop when so many histories of this code are on record"
    )
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one history and shorten it if it fails")
    parser.add_argument("--choices", help="repeat the history of these choices")
    parser.add_argument("--mistakes", type=int, nargs="?", const=3_000, metavar="HISTORIES", help="plant the mistakes")
    parser.add_argument("--summary", action="store_true", help="write the table of the page")
    options = parser.parse_args(argv)
    if options.only is not None:
        return only(options.only)
    if options.choices:
        wrong = replayed(json.loads(options.choices), tells=print)
        print(wrong or "every rule holds")
        return int(bool(wrong))
    if options.mistakes:
        return mistakes(options.mistakes)
    if options.summary:
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    with ProcessPoolExecutor(options.workers) as pool:
        return run(options.minutes, options.workers, options.target, pool)


if __name__ == "__main__":
    sys.exit(main())
