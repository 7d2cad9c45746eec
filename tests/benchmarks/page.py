"""Benchmark: the report page of a large lake, in seconds until it is written and until Chromium shows it; no JVM.

    python -m tests.benchmarks.page [--aggregates 200] [--refreshes 100000] [--keep]

A lake is made with so many aggregates over one source, and its history gets so many refreshes, the same number for each. The report is
written, and its first page and the page of one aggregate are opened in Chromium from the folder, with an empty cache: told is the
first contentful paint, as Chromium counts it, and when the charts are drawn, the median of five.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.refresh.plan import Lane, Plan, Recompute, RunReport, TableBase
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.codec import encode
from materializer.journal.events import Done, Planned
from materializer.journal.store import JournalStore
from tests import tables
from tests.benchmarks.trades import report, reporting, timed

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
TIMES: Final = 5
PAINTED: Final = "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0] ?? null"
STRATEGIES: Final = ("merge", "recompute", "recompute-keys", "retract")


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return what was measured."""
    made = lake(folder, options.aggregates, options.refreshes // options.aggregates)
    made = Materializer(folder / "lake", config=made.config)  # nothing is read yet
    seconds, index = timed(lambda: made.report(folder / "report"))
    page = index.parent / "data" / "of_0000.js"
    return {
        "options": {k: str(v) for k, v in vars(options).items()},
        "written": round(seconds, 2),
        "first bytes": index.stat().st_size,
        "page bytes": page.stat().st_size,
        "all bytes": sum(p.stat().st_size for p in index.parent.rglob("*") if p.is_file()),
        **shown(index.as_uri()),
    }


def lake(folder: Path, aggregates: int, refreshes: int) -> Materializer:
    """Return a lake of so many aggregates with so many refreshes each."""
    hours = [START + timedelta(minutes=20 * i) for i in range(3 * 24 * 30)]
    tables.append(folder / "trades", pa.table({"ts": hours, "price": [float(i % 97) for i in range(len(hours))]}))
    made = Materializer(folder / "lake", config=Config(sources={"trades": str(folder / "trades")}))
    select = "SELECT time_bucket('1 hour', ts) AS hour, count(*) AS n, avg(price) AS mean FROM trades GROUP BY ALL"
    made.apply("\n".join(f"CREATE MATERIALIZED VIEW of_{i:04d} AS {select};" for i in range(aggregates)))
    with made.together(made.names()):
        for name in made.names():
            made.refresh(name, executor="local")
    span, base = Span(1_704_067_200_000_000, 1_704_070_800_000_000), TableBase("t", 1)
    rows = []
    for state in made.journal.view().states.values():
        for n in range(10, 10 + refreshes):
            at, strategy = (START + timedelta(minutes=5 * n)).isoformat(), STRATEGIES[n % len(STRATEGIES)]
            plan = Plan("p", n, n, span, (), (Recompute(SpanSet.of(span), "rows changed"),), Lane.DRIVER, base, base)
            done = RunReport(n, strategy, "driver", 1, 1000 + n % 700, 24, 24, seconds=0.05 + n % 41 / 400, commits=4)
            rows.append(encode(state.id, Planned(plan, span.end), at=at))
            rows.append(encode(state.id, Done(n, replace(done, executor="local", predicted=0.08)), at=at))
    history = JournalStore(str(made.root), "history")
    for first in range(0, len(rows), 50_000):
        history.append(rows[first : first + 50_000], expected_version=history.read().version)
    return made


def shown(url: str) -> dict[str, float]:
    """Return the milliseconds until pages are painted and drawn in Chromium."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    found: dict[str, list[float]] = {"lake painted": [], "aggregate painted": [], "aggregate drawn": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for _ in range(TIMES):
            for what, view in (("lake", "#/"), ("aggregate", "#/a/of_0000")):
                page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
                began = time.perf_counter()
                page.goto(url + view)
                page.wait_for_selector("tbody tr" if what == "lake" else ".chart[data-drawn]", state="attached")
                if what == "aggregate":
                    found["aggregate drawn"].append((time.perf_counter() - began) * 1000)
                found[f"{what} painted"].append(page.evaluate(PAINTED))
                page.context.close()
        browser.close()
    return {what: round(median(times), 1) for what, times in found.items()}


def show(found: dict[str, Any]) -> None:
    """Print the measurements."""
    for what, told in found.items():
        if what != "options":
            unit = " s" if what == "written" else " B" if what.endswith("bytes") else " ms"
            print(f"{what:>18}: {told:>12,}{unit}")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aggregates", type=int, default=200)
    parser.add_argument("--refreshes", type=int, default=100_000, help="in all")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
