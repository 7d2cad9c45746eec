"""Random histories of scattered changes in the process: rows against a loop over the raw rows, costs against a law.

    python -m tests.histories_of_spans [--minutes 10] [--workers 2] [--target 3000]
    python -m tests.histories_of_spans --only SEED
    python -m tests.histories_of_spans --summary

The first form goes on with the histories of this state of the package ``materializer/`` that are not on record, in chunks, and
appends a line for each chunk to ``docs/benchmarks/spans.jsonl``; it ends with status 1 if it found something. ``--only`` repeats the
history of one seed, counts the calls of functions, and prints what happened. ``--summary`` writes the table of
``docs/measurements.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import history as records
from tests.docs import pages
from tests.histories.__main__ import run
from tests.histories_of_spans.history import History
from tests.histories_of_spans.law import BOUNDS
from tests.system.campaign import kept

FILE: Final = records.ROOT / "docs" / "benchmarks" / "spans.jsonl"
PAGE: Final = records.ROOT / "docs" / "measurements.md"
EACH: Final = 20
"""Histories of a chunk."""


def chunk(first: int, histories: int = EACH) -> dict[str, Any]:
    """Run the histories of some seeds, and return what they met and what they found."""
    began, used = time.monotonic(), time.process_time()
    seen, figures, found = Counter[str](), Counter[str](), []
    for seed in range(first, first + histories):
        with tempfile.TemporaryDirectory() as folder:
            history = History(seed, Path(folder))
            if wrong := history.run():
                found.append({"seed": seed, "wrong": wrong})
            seen.update(set(history.seen))
            figures |= history.figures
    return {
        "first": first,
        "histories": histories,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "seen": seen,
        "figures": figures,
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
    largest: Counter[str] = Counter()
    for entry in newest:
        largest |= Counter(entry["figures"])
    revisions = ", ".join(f"`{revision}`" for revision in dict.fromkeys(entry["commit"] for entry in newest))
    return (
        f"At {revisions}, {newest[0]['at'][:10]}: {histories:,} histories in {used / 60:.1f} minutes of one core "
        f"({used / histories:.2f} s each); found: {found or 'nothing'}.\n\n"
        + pages.table(
            ("part of the law", "bound", "largest"), [(name, f"{BOUNDS[name]}", f"{n}") for name, n in largest.items()]
        )
        + "\n"
        + pages.table(("in so many of them", "a step did or met"), [(f"{n:,}", what) for what, n in seen.most_common()])
    )


def made(file: Path = FILE) -> str:
    """Return the page with its table of these histories."""
    return pages.filled(PAGE.read_text(encoding="utf-8"), {"spans": table(kept(file))})


def main(argv: Sequence[str] | None = None) -> int:
    """Run histories, repeat one, or write the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.histories_of_spans",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10, help="stop before so many are over")
    parser.add_argument("--workers", type=int, default=2, help="processes at the same time")
    parser.add_argument("--target", type=int, default=3_000, help="stop when so many of this code are on record")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one history")
    parser.add_argument("--summary", action="store_true", help="write the table of the page")
    options = parser.parse_args(argv)
    if options.summary:
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    if options.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            wrong = History(options.only, Path(folder), print, counts_calls=True).run()
        print(wrong or "every output is right, and every refresh within the law")
        return int(bool(wrong))
    with ProcessPoolExecutor(options.workers) as pool:
        return run(
            options.minutes, options.workers, options.target, pool, chunk, FILE, EACH, "tests.histories_of_spans"
        )


if __name__ == "__main__":
    sys.exit(main())
