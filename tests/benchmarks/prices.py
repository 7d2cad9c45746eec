"""Benchmark: every strategy that is allowed in many situations, in seconds, beside the one that the price chooses.

    python -m tests.benchmarks.prices [--minutes 10] [--executor local|spark] [--most N] [--fit | --show | --page]

A cell is a change (a share of the rows, in one bucket or spread over all; inserted, updated or deleted), over aggregates (sums, or
selected values), keys (none, 100 or 5,000), with or without a finer aggregate beside it, and an executor. In each cell the refresh
is done by equal aggregates: one as the price decides, the others by one strategy each, if it is allowed; all have to give the same rows.
Cells are done in an order drawn by chance, and those on record (``docs/benchmarks/prices.jsonl``) are not done again. ``--show``
prints what is on record: how often the choice took at most 1.1 times the best, and its regret (seconds of the choice over those of
the best). ``--fit`` prints the rates that fit the record best, ``--page`` writes ``docs/prices.md`` and its pictures.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer.api import Materializer
from materializer.config import Config
from tests.benchmarks import charts, history

RECORD: Final = history.ROOT / "docs" / "benchmarks" / "prices.jsonl"
HOUR: Final = 3_600_000_000
START: Final = 1_704_067_200_000_000
HOURS: Final = 240
ROWS: Final = 1_000_000
MEASURES: Final = {
    "sums": "sum(v) AS v, count(*) AS n, avg(v) AS mean",
    "selected": "min(v) AS least, max(v) AS most, first(v) AS opened, last(v) AS closed",
}
KEYS: Final = (0, 100, 5_000)
DEPTHS: Final = (1, 2)
KINDS: Final = ("insert", "update", "delete")
SHARES: Final = {"local": (0.00001, 0.01, 0.1), "spark": (0.00001, 0.1)}
PLACES: Final = ("one", "spread")
FORCED: Final = ("merge", "recompute", "recompute-keys", "roll-up", "scan", "retract")
ROUNDS: Final = {"local": 4, "spark": 2}
TIE: Final = 1.1
"""A choice that takes at most so many times the best is right."""
PAGE_HEAD: Final = """# Prices and choices

Made by `python -m tests.benchmarks.prices --page` from `docs/benchmarks/prices.jsonl`. Each cell is a change of a source of 1,000,000 rows, and
equal aggregates that are refreshed after it: one by the strategy that [the price](how-a-refresh-works.md#the-price) chooses, the others by one
strategy each. *Regret* is the seconds of the choice over those of the best strategy; a run that happens to be slow counts like any other.
"""


def cells(executor: str) -> list[dict[str, Any]]:
    """Return all cells of an executor."""
    names = ("share", "place", "kind", "measures", "keys", "depth")
    every = product(SHARES[executor], PLACES, KINDS, MEASURES, KEYS, DEPTHS)
    return [{"executor": executor, **dict(zip(names, values, strict=True))} for values in every]


def readings(count: int, keys: int, seed: int, hours: tuple[int, int] = (0, HOURS)) -> pa.Table:
    """Return rows over some hours, in the order of time."""
    draw = np.random.default_rng(seed)
    at = np.sort(draw.integers(hours[0] * HOUR, hours[1] * HOUR, count)) + START
    return pa.table(
        {
            "ts": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "k": pa.array(draw.integers(0, max(keys, 1), count)).cast(pa.int64()),
            "u": pa.array(draw.random(count)),
            "v": pa.array(draw.integers(0, 1_000_000, count)),
        }
    )


class Base:
    """A lake with as many equal aggregates as there are runs in a cell, and its source.

    Args:
        folder: Where it lies.
        executor: What refreshes them.
        measures: The measures of its aggregates.
        keys: How many keys there are; 0 for none.
        depth: 2 with a finer aggregate beside.
    """

    def __init__(self, folder: Path, executor: str, measures: str, keys: int, depth: int) -> None:
        self.folder, self.keys, self.executor = folder, keys, executor
        self.source = str(folder / "readings")
        DeltaTable.create(self.source, readings(1, 1, 0).schema, configuration={"delta.enableChangeDataFeed": "true"})
        for part in range(10):
            hours = (part * HOURS // 10, (part + 1) * HOURS // 10)
            write_deltalake(self.source, readings(ROWS // 10, keys, part, hours), mode="append")
        most: dict[str, int] = {"driver_lane_rows": 10**9} if executor == "local" else {}
        config = Config(sources={"readings": self.source}, local_rows=10**9, local_bytes=1 << 40, **most)
        self.lake = Materializer(folder / "lake", config=config)
        forced = [s for s in FORCED if s != "roll-up" or depth == 2]
        self.runs = [
            ("chosen", ""),
            *((f"{s}_{i}".replace("-", "_"), s) for i in range(ROUNDS[executor]) for s in forced),
        ]
        self.finer = "fine" if depth == 2 else ""
        widths = [*([(self.finer, "1 hour")] if self.finer else []), *((name, "6 hours") for name, _ in self.runs)]
        by = "k, " if keys else ""
        for name, width in widths:
            select = f"SELECT time_bucket('{width}', ts) AS at, {by}{MEASURES[measures]} FROM readings GROUP BY ALL"
            self.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {select}")
            self.lake.refresh(name, executor="local", strategy="recompute")


def change(base: Base, cell: Mapping[str, Any], seed: int) -> None:
    """Change the source as a cell says."""
    count = max(1, round(ROWS * cell["share"]))
    hours = (100, 106) if cell["place"] == "one" else (0, HOURS)
    if cell["kind"] == "insert":
        write_deltalake(base.source, readings(count, base.keys, seed, hours), mode="append")
        return
    share = min(1.0, cell["share"] * (HOURS / (hours[1] - hours[0])))
    least, most = (datetime.fromtimestamp((START + h * HOUR) / 10**6, UTC).isoformat() for h in hours)
    low = random.Random(seed).random() * (1 - share)
    where = f"ts >= '{least}' AND ts < '{most}' AND u >= {low} AND u < {low + max(share, 0.00002)}"
    table = DeltaTable(base.source)
    if cell["kind"] == "update":
        table.update(predicate=where, updates={"v": "v + 1"})
    else:
        table.delete(where)


def rows_of(base: Base, name: str) -> pa.Table:
    """Return the rows of an aggregate, in order."""
    table = DeltaTable(str(base.folder / "lake" / name / "output")).to_pyarrow_table()
    return table.sort_by([(column, "ascending") for column in table.column_names[: 2 if base.keys else 1]])


def changed(base: Base, cell: Mapping[str, Any]) -> None:
    """Change the source as a cell says, and refresh the finer aggregate, which comes first in a chain."""
    change(base, cell, crc32(json.dumps(key_of(cell)).encode()))
    if base.finer:
        base.lake.refresh(base.finer, executor="local")


def run_of(base: Base, name: str, strategy: str) -> dict[str, Any] | None:
    """Return a refresh of one aggregate, with its seconds; None if there was nothing to do."""
    base.lake.plan(name)  # what is imported and opened once is not the price of a strategy
    begun = time.perf_counter()
    done = base.lake.refresh(name, executor=base.executor, strategy=strategy or None).runs  # type: ignore[arg-type]
    seconds = time.perf_counter() - begun
    if not done:
        return None
    [run] = done
    estimate = run.plan.estimate
    return {
        "asked": strategy,
        "strategy": "+".join(s for s in run.report.strategy.split("+") if s != "settle"),
        "reason": next((s.reason for s in run.plan.steps if hasattr(s, "reason")), ""),
        "seconds": round(seconds, 4),
        "predicted": run.report.predicted,
        "reads": [estimate.likely_rows, estimate.rows, estimate.bytes, estimate.files],
        "written": run.report.partials_written,
        "steps": len(run.plan.steps),
    }


def measured(base: Base, cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell with the seconds of each strategy; that of the price comes first."""
    changed(base, cell)
    runs: list[dict[str, Any]] = []
    wanted: pa.Table | None = None
    for name, strategy in base.runs:
        run = run_of(base, name, strategy)
        if run is None:
            continue
        rows = rows_of(base, name)
        wanted = rows if wanted is None else wanted
        runs.append({**run, "is_equal": rows.equals(wanted)})
    return {**cell, "runs": runs}


def recorded() -> list[dict[str, Any]]:
    """Return the cells on record."""
    return [json.loads(line) for line in RECORD.read_text().splitlines()] if RECORD.exists() else []


def key_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a cell."""
    return tuple(cell[name] for name in ("executor", "share", "place", "kind", "measures", "keys", "depth"))


def name_of(run: Mapping[str, Any]) -> str:
    """Return the strategy of a run; a scan is a recompute of more buckets."""
    return "scan" if run["reason"].startswith("one scan") else str(run["strategy"])


def seconds_of(cell: Mapping[str, Any]) -> dict[str, float]:
    """Return the least seconds of each strategy that was used in a cell."""
    best: dict[str, float] = {}
    for run in cell["runs"]:
        best[name_of(run)] = min(best.get(name_of(run), 1e9), run["seconds"])
    return best


def judged(cell: Mapping[str, Any]) -> tuple[str, str, float] | None:
    """Return the strategy that was chosen in a cell, the best one, and the regret; None if nothing had to be done."""
    best = seconds_of(cell)
    chosen = [name_of(run) for run in cell["runs"] if not run["asked"]]
    if not chosen:
        return None
    least = min(best, key=lambda name: best[name])
    return chosen[-1], least, best[chosen[-1]] / best[least]


def show(cells: list[dict[str, Any]]) -> None:
    """Print how good the choices on record are."""
    for executor in ("local", "spark"):
        found = [(c, j) for c in cells if c["executor"] == executor and (j := judged(c))]
        if not found:
            continue
        regrets = [regret for _, (_, _, regret) in found]
        right = sum(r <= 1.1 for r in regrets)
        print(
            f"{executor}: {len(found)} cells, the choice is within a tenth of the best in {right} ({right / len(found):.0%}), mean "
            f"regret {fmean(regrets):.3f}, worst {max(regrets):.2f}, unequal results: "
            f"{sum(not r['is_equal'] for c, _ in found for r in c['runs'])}"
        )
        for cell, (chosen, least, regret) in sorted(found, key=lambda f: -f[1][2])[:12]:
            print(f"  {regret:.2f}  chosen {chosen}, best {least}: {key_of(cell)[1:]}")


def fit(cells: list[dict[str, Any]]) -> None:
    """Print the rates that fit the record best, none below nothing."""
    for executor in ("local", "spark"):
        runs = [r for c in cells if c["executor"] == executor for r in c["runs"]]
        if len(runs) < 20:
            continue
        columns = np.array([[1.0, *r["reads"], r["written"], r["steps"] - 1] for r in runs])
        seconds = np.array([r["seconds"] for r in runs])
        names = ["floor", "aggregated", "opened", "byte", "file", "written", "step"]
        left = list(range(len(names)))
        while True:  # least squares of the share of error, without what would be negative
            weights = 1 / seconds
            found, *_ = np.linalg.lstsq(columns[:, left] * weights[:, None], seconds * weights, rcond=None)
            if (found >= 0).all():
                break
            left.pop(int(np.argmin(found)))
        rates = dict(zip([names[i] for i in left], found, strict=True))
        print(f"{executor}: " + ", ".join(f"{name}={rates.get(name, 0.0):.2g}" for name in names))


def page(cells: list[dict[str, Any]]) -> None:
    """Write the page of the record, and a picture for each executor."""
    lines = [PAGE_HEAD]
    for executor, title in (("local", "In the process"), ("spark", "On Spark")):
        found = [(c, j) for c in cells if c["executor"] == executor and (j := judged(c))]
        if not found:
            continue
        regrets = [regret for _, (_, _, regret) in found]
        right = sum(r <= TIE for r in regrets)
        unequal = sum(not r["is_equal"] for c, _ in found for r in c["runs"])
        summary = (
            f"{len(found)} cells. The choice took at most {TIE} times the best in {right} of them ({right / len(found):.0%}); mean "
            f"regret {fmean(regrets):.3f}, worst {max(regrets):.2f}. Results that differed between strategies: {unequal}."
        )
        lines += [
            f"## {title}",
            "",
            summary,
            "",
            f"![regret by strategy chosen](benchmarks/prices-{executor}.svg)",
            "",
            "| chosen | cells | best in | mean regret | worst |",
            "| --- | --- | --- | --- | --- |",
        ]
        rows: list[charts.Bar] = []
        for name in sorted({chosen for _, (chosen, _, _) in found}):
            own = [(least, regret) for _, (chosen, least, regret) in found if chosen == name]
            best, mean = sum(least == name for least, _ in own), fmean(r for _, r in own)
            lines.append(f"| `{name}` | {len(own)} | {best} | {mean:.3f} | {max(r for _, r in own):.2f} |")
            rows.append((f"{name}, {len(own)} cells", mean, f"{mean:.3f}", "ours"))
        picture = charts.bars("Seconds of the choice over those of the best strategy, by what was chosen", rows)
        (RECORD.parent / f"prices-{executor}.svg").write_text(picture)
        lines += ["", "| change | chosen → seconds | best → seconds | others |", "| --- | --- | --- | --- |"]
        for cell, (chosen, least, _) in sorted(found, key=lambda f: key_of(f[0])):
            seconds = seconds_of(cell)
            what = (
                f"{cell['share']:.3%} {cell['kind']}, {cell['place']}; {cell['measures']}, {cell['keys']} keys"
                f"{', a finer one beside' if cell['depth'] == 2 else ''}"
            )
            others = ", ".join(f"{n} {s:.2f}" for n, s in sorted(seconds.items()) if n not in (chosen, least))
            lines.append(f"| {what} | {chosen} {seconds[chosen]:.2f} | {least} {seconds[least]:.2f} | {others} |")
        lines.append("")
    (history.ROOT / "docs" / "prices.md").write_text("\n".join(lines))


def todo(executors: list[str], done: set[tuple[Any, ...]]) -> Iterator[list[dict[str, Any]]]:
    """Yield cells that are not on record, those of one lake together, in an order drawn by chance."""
    left = [c for e in executors for c in cells(e) if key_of(c) not in done]
    lakes: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in left:
        lakes.setdefault((cell["measures"], cell["keys"], cell["depth"], cell["executor"]), []).append(cell)
    order = list(lakes.values())
    random.shuffle(order)
    yield from order


def main() -> None:
    """Read the options, measure what is not on record, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--executor", choices=["local", "spark"])
    parser.add_argument("--most", type=int, default=10_000, help="cells to do at most")
    parser.add_argument("--show", action="store_true", help="only print what is on record")
    parser.add_argument("--fit", action="store_true", help="print the rates that fit the record")
    parser.add_argument("--page", action="store_true", help="write the page of the record")
    options = parser.parse_args()
    until, left = time.monotonic() + 60 * options.minutes, options.most
    if not (options.show or options.fit or options.page):
        done = {key_of(c) for c in recorded()}
        executors = [options.executor] if options.executor else ["local", "spark"]
        with tempfile.TemporaryDirectory() as folder:
            for group in todo(executors, done):
                base: Base | None = None
                for cell in group:
                    if time.monotonic() > until or left <= 0:
                        break
                    if base is None:
                        place = Path(folder) / f"{len(list(Path(folder).iterdir()))}"
                        base = Base(place, cell["executor"], cell["measures"], cell["keys"], cell["depth"])
                    line = json.dumps(measured(base, cell))
                    with RECORD.open("a") as record:
                        record.write(f"{line}\n")
                    left -= 1
    show(recorded())
    if options.fit:
        fit(recorded())
    if options.page:
        page(recorded())


if __name__ == "__main__":
    main()
