"""Benchmark: what the journal costs after ten thousand refreshes; no Spark, no tables but the journal's own.

    python -m tests.benchmarks.journal [--refreshes 10000] [--keep]

The events of refreshes of one late row are appended as a refresh appends them (the lease; what was captured and the plan; the
end and the lease given back; then the journal is tidied), to a real journal on disk; after every 288, a day of them, its files
are made a day older and it is cleaned as `maintain` does, with nothing kept for readers of older versions. Told are, after
some and at the end: what it takes a process that knows nothing to open and fold it (the least of ten, and the most of this
after each of the last seven refreshes: more gathers until the next fold), what one refresh's commits take, and its size.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest import mock

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Estimate, Lane, Merge, Plan, Rejected, RunReport, TableBase
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import (
    Captured,
    Defined,
    Done,
    Lease,
    LeaseReleased,
    LeaseTaken,
    Planned,
    SourceIdentity,
)
from materializer.journal.journal import Journal
from materializer.lake.write import vacuum
from tests.benchmarks.trades import report, reporting, timed
from tests.journal.definitions import SPEC

TOLD: Final = (10, 100, 1_000, 10_000, 100_000)
A_DAY: Final = 288
DAY_SECONDS: Final = 86_400
A_FOLD: Final = 7
"""Refreshes from one fold to the next: three commits each, folded after twenty."""
MINUTE: Final = 60_000_000
BASE: Final = TableBase("5f0c3a52-5b5e-4d1c-9a3e-4d6c1c3f6a10", 1)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return what was measured after so many refreshes."""
    journal = Journal(folder)
    source = SourceIdentity(str(folder / "trades"), "5f0c3a52-5b5e-4d1c-9a3e-4d6c1c3f6a11")
    defined = Defined("bars", SPEC, "d1", source, 0, {}, {"partials": "p", "output": "o"})
    journal.append(journal.view().version, "a1", [defined])
    found: dict[str, Any] = {"options": {k: str(v) for k, v in vars(options).items()}}
    seconds, opened = [], 0.0
    for n in range(1, options.refreshes + 1):
        took, _ = timed(lambda n=n: _refresh(journal, n))
        seconds.append(took)
        if n % A_DAY == 0:
            let_a_day_pass(folder)
            with mock.patch.object(vacuum, "retention_of", return_value=0.0):  # the log says when files went: just now
                journal.clean()
        upto = next((told for told in (*TOLD, options.refreshes) if n <= told < n + A_FOLD), None)
        if upto is not None:
            opened = max(opened, _opened(folder))
        if upto == n:
            found[str(n)] = _told(folder, seconds[-100:]) | {"open_and_fold_seconds": round(opened, 4)}
            opened = 0.0
    return found


def let_a_day_pass(lake: Path) -> None:
    """Make the files of a lake's journal a day older."""
    for file in filter(Path.is_file, (lake / "_materializer").rglob("*")):
        then = file.stat().st_mtime - DAY_SECONDS
        os.utime(file, (then, then))


def _refresh(journal: Journal, n: int) -> None:
    owner, entry = (
        f"{n:032x}",
        Entry(Span(n * MINUTE, (n + 1) * MINUTE), n - 1, Cause.CHANGE, None, is_insert_only=True),
    )
    spans = SpanSet.of(entry.span)
    step = Merge(spans, n - 1, Estimate(25_000, 870_000, 2, 18), (Rejected("recompute", "would read 54,000 raw rows"),))
    plan = Plan(f"{n:032x}", n, n, entry.span, (entry,), (step,), Lane.DRIVER, BASE, BASE)
    counts = ({"version": n, "rung": "feed", "inserted": 1, "rows": 1},)
    captured = Captured(n, (entry,), (n + 1) * MINUTE, counts, lateness={"106": 1}, waited=0.5)
    done = Done(n, RunReport(n, "merge", "driver", 1, 1, 18, 18, 0, 3, 5, 2, 0.53))
    for events in (
        [LeaseTaken(Lease(owner, "host", 1, 1, 1e12))],
        [captured, Planned(plan, entry.span.end, {"forced": False})],
        [done, LeaseReleased(owner)],
    ):
        journal.append(journal.view().version, "a1", events)
    journal.tidy()


def _opened(folder: Path) -> float:
    tries = [timed(lambda: Journal(folder).view()) for _ in range(10)]
    assert len({view.version for _, view in tries}) == 1
    return min(took for took, _ in tries)


def _told(folder: Path, seconds: list[float]) -> dict[str, float]:
    files = [p for p in (folder / "_materializer").rglob("*") if p.is_file()]
    return {
        "refresh_seconds": round(median(seconds), 4),
        "bytes": sum(p.stat().st_size for p in files),
        "files": len(files),
    }


def show(found: dict[str, Any]) -> None:
    """Print the measurements as a table."""
    for n, told in found.items():
        if n != "options":
            print(
                f"{int(n):>7,} refreshes: open and fold {told['open_and_fold_seconds'] * 1000:6.1f} ms   commits of one "
                f"{told['refresh_seconds'] * 1000:6.1f} ms   {told['bytes'] / 1e6:6.2f} MB in {told['files']:,} files"
            )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refreshes", type=int, default=10_000)
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
