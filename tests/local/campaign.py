"""A campaign of random definitions over random rows and short histories: the local executor against Spark.

    python -m tests.local.campaign [--engines] [--minutes 10] [--target 20000] [--worker 0/1] [--seed 0]
    python -m tests.local.campaign [--engines] --only SEED
    python -m tests.local.campaign --summary

A case is one definition over the rows and changes of one scene, computed by both executors plan by plan: partials, output and
rows read are equal, and where Spark raises the local executor has no answer. The first form goes on with the chunks of this state of
the package ``materializer/`` that are not on record, appends a line for each to ``docs/benchmarks/executors.jsonl``, and ends with
status 1 if it found something. It draws continuous aggregates; with ``--engines`` it draws windowing engines, of which 5,000 cases are
enough, and which are counted apart. ``--worker K/N`` takes every N-th chunk, so that N processes share the work. ``--only`` repeats the
case of one seed. ``--summary`` writes the table of ``docs/measurements.md``.
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
from tests.local.engine_scenes import EngineScene
from tests.local.engine_trials import compared, whole
from tests.local.scenes import Found, Scene
from tests.system.campaign import code, keep, kept

FILE: Final = records.ROOT / "docs" / "benchmarks" / "executors.jsonl"
PAGE: Final = records.ROOT / "docs" / "measurements.md"
SCENES: Final = 4
"""Scenes of a chunk."""
AGGREGATES, ENGINES = "aggregates", "engines"
EACH: Final = {AGGREGATES: SCENES, ENGINES: 9}
"""Scenes of a chunk of each kind; of engines each has one."""
TARGETS: Final = {AGGREGATES: 20_000, ENGINES: 5_000}
SPREAD: Final = 100
"""A seed is the number of a scene times this, plus the number of a definition."""
OPTIONS: Final = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}


def chunk(spark: Spark, first: int, kind: str = AGGREGATES) -> dict[str, Any]:
    """Compare the definitions of some scenes, and return how many there were and what was found."""
    began, seen = time.monotonic(), Counter[str]()
    totals, wrong = Counter[str](), []
    for number in range(first, first + EACH[kind]):
        with tempfile.TemporaryDirectory() as folder:
            found = _scene(spark, kind, number, Path(folder), None)
        totals.update(cases=found.cases, refused=found.refused, left=found.left)
        wrong += [{"seed": number * SPREAD + n, "wrong": text.replace(folder, "…")} for n, text in found.wrong.items()]
        seen.update(found.seen)
    return {
        "kind": kind,
        "first": first,
        "scenes": EACH[kind],
        **{name: totals[name] for name in ("cases", "refused", "left")},
        "seconds": round(time.monotonic() - began, 1),
        "seen": dict(seen.most_common(8 if kind == AGGREGATES else 24)),
        "found": wrong,
    }


def _scene(spark: Spark, kind: str, number: int, folder: Path, one: int | None) -> Found:
    """Return what comes of a scene, or of one of its definitions."""
    if kind == ENGINES:
        found = compared(
            EngineScene(number, folder), spark
        )  # all, because what is stored for one is what is stored for all
        if one is not None:
            found.wrong = {n: text for n, text in found.wrong.items() if n == one}
        return found
    return Scene(number, folder).compared(spark) if one is None else Scene(number, folder).compared(spark, [one])


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return what a chunk drew."""
    return str(entry.get("kind", AGGREGATES))


def run(
    options: argparse.Namespace,
    runs: Callable[[int], dict[str, Any]],
    file: Path = FILE,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run chunks that are not on record until there is no more time, or there are enough cases; return the exit status."""
    began, of, which, on = clock(), code(), records.commit(), records.machine()
    worker, workers = (int(number) for number in options.worker.split("/"))
    kind = ENGINES if options.engines else AGGREGATES
    again = f"python -m tests.local.campaign{' --engines' * options.engines}"
    longest, failed = 0.0, 0
    for turn in count():
        # others add to it meanwhile
        done = [e for e in kept(file) if e["code"] == of and kind_of(e) == kind]
        first = options.seed + turn * EACH[kind]
        if sum(e["cases"] for e in done) >= options.target or clock() - began + longest > 60 * options.minutes:
            break
        if turn % workers != worker or first in {e["first"] for e in done}:
            continue
        entry = runs(first)
        keep({"at": records.now(), "commit": which, "code": of, "on": on, **entry}, file)
        longest, failed = max(longest, entry["seconds"]), failed + len(entry["found"])
        print(f"scenes from {first}: {entry['cases']} cases, {entry['seconds']:.0f} s", flush=True)
        for found in entry["found"]:
            print(f"FOUND: {found['wrong']}; again: {again} --only {found['seed']}", flush=True)
    return int(failed > 0)


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest state of the code on record went through, for each kind of scenes."""
    rows = [_row(kind, [e for e in entries if kind_of(e) == kind]) for kind in EACH]
    if not any(rows):
        return "No cases are on record.\n"
    head = (
        *("drawn", "revision", "scenes", "cases", "without a local form", "left to Spark by their rows"),
        *("seconds a case", "found"),
    )
    return pages.table(head, [row for row in rows if row])


def _row(kind: str, entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if not entries:
        return ()
    newest = [entry for entry in entries if entry["code"] == entries[-1]["code"]]
    scenes, cases, refused, left = (sum(e[of] for e in newest) for of in ("scenes", "cases", "refused", "left"))
    seconds = sum(e["seconds"] for e in newest)
    by_scene: dict[int, list[Mapping[str, Any]]] = {}
    for one in (one for e in newest for one in e["found"]):
        by_scene.setdefault(one["seed"] // SPREAD, []).append(one)
    found = "; ".join(
        f"seed {of[0]['seed']}: {of[0]['wrong']}{f' (and {len(of) - 1} more of this scene)' * (len(of) > 1)}"
        for of in by_scene.values()
    )
    return (
        kind,
        ", ".join(f"`{c}`" for c in dict.fromkeys(e["commit"] for e in newest)),
        *(f"{n:,}" for n in (scenes, cases, refused, left)),
        f"{seconds / max(cases, 1):.2f}",
        found or "nothing",
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
    parser.add_argument("--engines", action="store_true", help="draw windowing engines")
    parser.add_argument("--target", type=int, help="stop when so many cases of this code are on record")
    parser.add_argument("--worker", default="0/1", metavar="K/N", help="take every N-th chunk, from K on")
    parser.add_argument("--seed", type=int, default=0, help="the first scene")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat one case")
    parser.add_argument("--summary", action="store_true", help="write the table of the page")
    options = parser.parse_args(argv)
    kind = ENGINES if options.engines else AGGREGATES
    if options.target is None:
        options.target = TARGETS[kind]
    if options.summary:
        PAGE.write_text(made(), encoding="utf-8")
        return 0
    started = session.start(Config(spark=SparkConfig(master="local[2]", options=OPTIONS)))
    spark = Spark(started, {}, Budget())
    if options.only is None:
        return run(options, lambda first: chunk(spark, first, kind))
    number, one = divmod(options.only, SPREAD)
    with tempfile.TemporaryDirectory() as folder:
        print(told(kind, number, one, Path(folder)))
        found = _scene(spark, kind, number, Path(folder) / "again", one)
    print(*found.wrong.values() or found.seen.elements(), sep="\n")
    return int(bool(found.wrong))


def told(kind: str, number: int, one: int, folder: Path) -> str:
    """Return a definition in words."""
    if kind == ENGINES:
        engine_scene = EngineScene(number, folder)
        return engine_scene.told(whole(engine_scene, one))
    scene = Scene(number, folder)
    return scene.told(scene.drawn(one))


if __name__ == "__main__":
    sys.exit(main())
