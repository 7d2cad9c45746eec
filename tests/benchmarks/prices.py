"""Benchmark: every strategy that is allowed in many situations, in seconds, beside the one that the price chooses.

    python -m tests.benchmarks.prices [--minutes 10] [--executor local|spark] [--most N] [--fit | --show | --page | --choose | --start]

A cell is a change (a share of the rows, in one bucket, spread over all, or in one hour of twelve; inserted, updated or deleted),
over aggregates (sums, or selected values), keys (none, 100 or 5,000), with or without a finer aggregate beside it, and an executor. A
chain is a cell whose finer aggregate is measured like the coarser one, which may be computed from it. In each cell the refresh is done
in copies of one lake: in one as the price decides, in the others by one strategy each, if it is allowed; all have to give the same rows.
Cells are done in an order drawn by chance, and those on record (``docs/benchmarks/prices.jsonl``) are not done again. ``--show``
prints what is on record: how often the choice took at most 1.1 times the best, and its regret (seconds of the choice over those of
the best). ``--choose`` lets the price of this state choose again in the cells on record, whose strategies are not measured again.
``--start`` measures what starting Spark takes. ``--fit`` prints the rates that fit the record best, ``--page`` writes ``docs/prices.md`` and its pictures.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.refresh.price import BOUNDS, DOUBT, ENOUGH, RATES, STRATEGY_BOUNDS
from materializer.errors import NotLocalError
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
CHAIN: Final = 3
"""The depth of a cell that measures the finer aggregate too."""
KINDS: Final = ("insert", "update", "delete")
SHARES: Final = {"local": (0.00001, 0.01, 0.1), "spark": (0.00001, 0.1)}
PLACES: Final = ("one", "spread")
SCATTERED: Final = ("scattered", 0.001, 12)
"""A place of a third kind, with its share of the rows: one hour of so many, so that as many clean buckets lie between dirty ones."""
WIDTHS: Final = {"fine": "1 hour", "coarse": "6 hours"}
FORCED: Final = ("merge", "recompute", "recompute-keys", "roll-up", "scan", "retract")
ROUNDS: Final = {"local": 4, "spark": 2}
SCANS: Final = 2
"""Rounds of a scan, which takes long and is seldom near the best."""
TIE: Final = 1.1
"""A choice that takes at most so many times the best is right."""
Judgement: TypeAlias = tuple[str, str, float]
"""What was chosen, what was best, and the regret."""
CHAINS: Final = """An aggregate of hours and one of six hours, which may be computed from it. Each chooses for itself, parents first; the regret
is that of the whole chain against the best pair of strategies."""
PAGE_HEAD: Final = """# Prices and choices

Made by `python -m tests.benchmarks.prices --page` from `docs/benchmarks/prices.jsonl`. Each cell is a change of a source of 1,000,000 rows, and
an aggregate that is refreshed after it in copies of one lake: in one by the strategy that [the price](how-a-refresh-works.md#the-price) chooses,
in the others by one strategy each, round after round. *Regret* is the seconds of the choice over those of the best strategy; the least of some
rounds counts. The strategies were measured once, and `--choose` lets the present rates choose in the cells on record. Some cells are
from before, when all but roll-ups was measured in the lake itself: [record 36](design/0036-a-price-in-seconds.md) says which.
"""


def cells(executor: str) -> list[dict[str, Any]]:
    """Return all cells of an executor."""
    names = ("share", "place", "kind", "measures", "keys", "depth")
    every = [*product(SHARES[executor], PLACES, KINDS, MEASURES, KEYS, DEPTHS)]
    every += product(SCATTERED[1:2], SCATTERED[:1], KINDS, MEASURES, KEYS, DEPTHS)
    if executor == "local":
        every += product(SHARES[executor], PLACES, KINDS, MEASURES, KEYS[1:2], [CHAIN])
    return [{"executor": executor, **dict(zip(names, values, strict=True))} for values in every]


def readings(count: int, keys: int, seed: int, hours: tuple[int, int] = (0, HOURS), every: int = 1) -> pa.Table:
    """Return rows over some hours, or over one of each so many, in the order of time."""
    draw = np.random.default_rng(seed)
    at = np.sort(draw.integers(hours[0] * HOUR, hours[1] * HOUR // every, count))
    at += at // HOUR * HOUR * (every - 1) + START
    return pa.table(
        {
            "ts": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "k": pa.array(draw.integers(0, max(keys, 1), count)).cast(pa.int64()),
            "u": pa.array(draw.random(count)),
            "v": pa.array(draw.integers(0, 1_000_000, count)),
        }
    )


class Base:
    """A lake with one aggregate, or with a finer one beside it, and its source; what is measured is refreshed in copies of it.

    Args:
        folder: Where it lies.
        executor: What refreshes it.
        measures: The measures of its aggregates.
        keys: How many keys there are; 0 for none.
        depth: 2 with a finer aggregate beside, ``CHAIN`` with one that is measured, too.
    """

    def __init__(self, folder: Path, executor: str, measures: str, keys: int, depth: int) -> None:
        self.folder, self.keys, self.executor = folder, keys, executor
        self.source = str(folder / "readings")
        DeltaTable.create(self.source, readings(1, 1, 0).schema, configuration={"delta.enableChangeDataFeed": "true"})
        for part in range(10):
            hours = (part * HOURS // 10, (part + 1) * HOURS // 10)
            write_deltalake(self.source, readings(ROWS // 10, keys, part, hours), mode="append")
        config = Config(sources={"readings": self.source}, local_rows=10**9, local_memory=1 << 42)
        if executor == "local":
            config = replace(config, driver_lane_rows=10**9)
        self.config = config
        self.lake = Materializer(folder / "lake", config=config)
        self.stages = ["coarse"] if depth == 1 else ["fine", "coarse"]
        self.measured = self.stages if depth == CHAIN else ["coarse"]
        by = "k, " if keys else ""
        for name in self.stages:
            select = (
                f"SELECT time_bucket('{WIDTHS[name]}', ts) AS at, {by}{MEASURES[measures]} FROM readings GROUP BY ALL"
            )
            self.lake.apply(f"CREATE MATERIALIZED VIEW {name} AS {select}")
            self.lake.refresh(name, executor="local", strategy="recompute")

    def strategies(self, stage: str) -> list[str]:
        """Return what is done to one aggregate, round by round: "" for what the price chooses, which comes first."""
        forced = [s for s in FORCED if s != "roll-up" or stage != self.stages[0]]
        rounds = range(ROUNDS[self.executor])
        return ["", *(s for i in rounds for s in forced if i < SCANS or s != "scan")]


def change(base: Base, cell: Mapping[str, Any], seed: int) -> None:
    """Change the source as a cell says."""
    count = max(1, round(ROWS * cell["share"]))
    hours = (100, 106) if cell["place"] == "one" else (0, HOURS)
    every = SCATTERED[2] if cell["place"] == SCATTERED[0] else 1
    if cell["kind"] == "insert":
        write_deltalake(base.source, readings(count, base.keys, seed, hours, every), mode="append")
        return
    share = min(1.0, cell["share"] * (HOURS * every / (hours[1] - hours[0])))
    least, most = (datetime.fromtimestamp((START + h * HOUR) / 10**6, UTC).isoformat() for h in hours)
    low = random.Random(seed).random() * (1 - share)
    where = f"ts >= '{least}' AND ts < '{most}' AND u >= {low} AND u < {low + max(share, 0.00002)}"
    where += f" AND date_part('hour', ts) % {every} = 0"
    table = DeltaTable(base.source)
    if cell["kind"] == "update":
        table.update(predicate=where, updates={"v": "v + 1"})
    else:
        table.delete(where)


def rows_of(base: Base, lake: Path, name: str) -> pa.Table:
    """Return the rows of an aggregate, in order."""
    table = DeltaTable(str(lake / name / "output")).to_pyarrow_table()
    return table.sort_by([(column, "ascending") for column in table.column_names[: 2 if base.keys else 1]])


def changed(base: Base, cell: Mapping[str, Any]) -> None:
    """Change the source as a cell says."""
    change(base, cell, crc32(json.dumps(key_of(cell)).encode()))


def runs_of(base: Base, stage: str) -> Iterator[dict[str, Any]]:
    """Refresh one aggregate by each strategy, each time in a new copy of the lake, and yield the runs."""
    wanted: pa.Table | None = None
    for count, strategy in enumerate(base.strategies(stage)):
        with tempfile.TemporaryDirectory(dir=base.folder) as folder:
            copy = Path(folder) / "lake"
            shutil.copytree(base.folder / "lake", copy)
            run = run_of(Materializer(copy, config=base.config), base.executor, stage, strategy)
            if run is None:
                continue
            is_equal = True
            if count <= len(FORCED):  # what the first round of a strategy wrote is compared
                rows = rows_of(base, copy, stage)
                wanted = rows if wanted is None else wanted
                is_equal = rows.equals(wanted)
            yield {**run, "stage": stage, "is_equal": is_equal}


def run_of(lake: Materializer, executor: Any, name: str, strategy: Any) -> dict[str, Any] | None:
    """Return a refresh of one aggregate, with its seconds; None if there was nothing to do, or too little memory."""
    lake.plan(name)  # what is imported and opened once is not the price of a strategy
    begun = time.perf_counter()
    try:
        done = lake.refresh(name, executor=executor, strategy=strategy or None).runs
    except NotLocalError:  # it needs more memory than the process may take
        return None
    seconds = time.perf_counter() - begun
    if not done:
        return None
    run, estimate = done[0], done[0].plan.estimate  # of more than one where a whole refresh is cut into runs
    return {
        "asked": strategy,
        "strategy": "+".join(s for s in run.report.strategy.split("+") if s != "settle"),
        "reason": next((s.reason for s in run.plan.steps if hasattr(s, "reason")), ""),
        "seconds": round(seconds, 4),
        "predicted": run.report.predicted,
        "reads": [estimate.likely_rows, estimate.rows, estimate.bytes, estimate.files],
        "written": run.report.partials_written,
        "steps": sum(len(each.plan.steps) for each in done),
        "spans": sum(len(step.spans) for step in done[0].plan.steps),
    }


def measured(base: Base, cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell with the seconds of each strategy; that of the price comes first."""
    changed(base, cell)
    runs: list[dict[str, Any]] = []
    for stage in base.stages:
        if stage in base.measured:
            runs += runs_of(base, stage)
        base.lake.refresh(stage)
    return {**cell, "rates": rates(cell["executor"]), "runs": runs}


def rates(executor: str) -> int:
    """Return a number that stands for the rates of an executor in this state, and for how they are corrected."""
    return crc32(repr((RATES[executor], ENOUGH, BOUNDS, STRATEGY_BOUNDS, DOUBT)).encode())


def choose(folder: Path, executors: list[str]) -> None:
    """Let the price choose again in the cells on record in which other rates chose, and record what it chose."""
    on_record = recorded()
    bases: dict[tuple[Any, ...], Base] = {}
    old = [c for c in on_record if c["executor"] in executors and c.get("rates") != rates(c["executor"])]
    for cell in sorted(old, key=lambda c: (c["executor"], c["depth"], c["measures"], c["keys"])):
        of = (cell["executor"], cell["measures"], cell["keys"], cell["depth"])
        if of not in bases:
            bases = {of: Base(folder / str(abs(hash(of))), *of)}
        base = bases[of]
        changed(base, cell)
        made: list[dict[str, Any]] = []
        for stage in base.stages:
            run = run_of(base.lake, base.executor, stage, "")
            made += [{**run, "stage": stage, "is_equal": True}] if run and stage in base.measured else []
        cell["runs"] = [*made, *(run for run in cell["runs"] if run["asked"])]
        cell["rates"] = rates(cell["executor"])
    RECORD.write_text("".join(f"{json.dumps(cell)}\n" for cell in on_record))


def recorded() -> list[dict[str, Any]]:
    """Return the cells on record."""
    return [json.loads(line) for line in RECORD.read_text().splitlines()] if RECORD.exists() else []


def key_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a cell."""
    return tuple(cell[name] for name in ("executor", "share", "place", "kind", "measures", "keys", "depth"))


def name_of(run: Mapping[str, Any]) -> str:
    """Return the strategy of a run; a scan is a recompute of more buckets."""
    is_scan = run["reason"].startswith("one scan") and "recompute" in run["strategy"]  # a roll-up may take its place
    return "scan" if is_scan else str(run["strategy"])


def seconds_of(cell: Mapping[str, Any], stage: str) -> dict[str, float]:
    """Return the least seconds of each strategy that was used in a cell for one aggregate.

    The choice, which may have been made on another day, counts only if it was not measured beside the others.
    """
    best: dict[str, float] = {}
    for run in sorted((r for r in cell["runs"] if r["stage"] == stage), key=lambda r: not r["asked"]):
        if run["asked"] or name_of(run) not in best:
            best[name_of(run)] = min(best.get(name_of(run), 1e9), run["seconds"])
    return best


def judged(cell: Mapping[str, Any]) -> Judgement | None:
    """Return the strategy that was chosen in a cell, the best one, and the regret; None if nothing had to be done.

    Of a chain, these are the strategies of its aggregates, and the seconds of the whole.
    """
    chosen = {run["stage"]: name_of(run) for run in cell["runs"] if not run["asked"]}
    if not chosen:
        return None
    of = {stage: seconds_of(cell, stage) for stage in chosen}
    least = {stage: min(best, key=lambda name, best=best: best[name]) for stage, best in of.items()}  # type: ignore[misc]
    took, best = (sum(of[stage][name] for stage, name in names.items()) for names in (chosen, least))
    return ", ".join(chosen.values()), ", ".join(least.values()), took / best


def judgements(cells: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[tuple[dict[str, Any], Judgement]]]]:
    """Yield the kinds of cells on record: a name, a title, and the cells with what was chosen."""
    for kind, title in (("local", "In the process"), ("spark", "On Spark"), ("chain", "Chains")):
        found = [(c, j) for c in cells if kind_of(c) == kind and (j := judged(c))]
        if found:
            yield kind, title, found


def kind_of(cell: Mapping[str, Any]) -> str:
    """Return the executor of a cell, or ``chain``."""
    return "chain" if cell["depth"] == CHAIN else str(cell["executor"])


def summary_of(found: list[tuple[dict[str, Any], Judgement]]) -> str:
    """Return how good some choices are."""
    regrets = [regret for _, (_, _, regret) in found]
    right = sum(r <= TIE for r in regrets)
    unequal = sum(not r["is_equal"] for c, _ in found for r in c["runs"])
    return (
        f"{len(found)} cells. The choice took at most {TIE} times the best in {right} of them ({right / len(found):.0%}); mean "
        f"regret {fmean(regrets):.3f}, worst {max(regrets):.2f}. Results that differed between strategies: {unequal}."
    )


def show(cells: list[dict[str, Any]]) -> None:
    """Print how good the choices on record are."""
    for _, title, found in judgements(cells):
        print(f"{title}: {summary_of(found)}")
        for cell, (chosen, least, regret) in sorted(found, key=lambda f: -f[1][2])[:12]:
            print(f"  {regret:.2f}  chosen {chosen}, best {least}: {key_of(cell)[1:]}")


def fit(cells: list[dict[str, Any]]) -> None:
    """Print the rates that fit the record best, by the least sum of squared shares of error, none below nothing."""
    for executor in ("local", "spark"):
        least: dict[tuple[Any, ...], dict[str, Any]] = {}
        for cell in cells:
            for run in cell["runs"] if cell["executor"] == executor else ():
                of = (*key_of(cell), run["stage"], name_of(run))
                if run["steps"] == 1 and run["seconds"] < least.get(of, run | {"seconds": 1e9})["seconds"]:
                    least[of] = run
        if len(least) < 50:
            continue
        columns, seconds = [], np.array([run["seconds"] for run in least.values()])
        for (*_, strategy), run in least.items():
            rows, opened, size, files = run["reads"]
            each = {"floor": 1.0, "opened": opened, "byte": size, "file": files, "written": run["written"]}
            each |= {f"aggregated {'recompute' if strategy == 'scan' else strategy}": rows, f"begin {strategy}": 1.0}
            each |= {f"sifted {strategy}": opened} if strategy == "recompute-keys" else {}
            # runs that have no number of spans on record are of one bucket, or of all
            each |= {f"spans {strategy}": run.get("spans", 1) ** 2} if executor == "spark" else {}
            columns.append(
                {name: value for name, value in each.items() if name not in {"begin recompute", "begin scan"}}
            )
        names = sorted({name for column in columns for name in column})
        matrix = np.array([[column.get(name, 0.0) for name in names] for column in columns]) / seconds[:, None]
        scale = np.abs(matrix).max(axis=0)
        left = list(range(len(names)))
        while True:  # without what would be negative, the worst first
            found, *_ = np.linalg.lstsq(matrix[:, left] / scale[left], np.ones(len(seconds)), rcond=None)
            if (found >= 0).all():
                break
            left.pop(int(np.argmin(found)))
        rates = {names[i]: value / scale[i] for i, value in zip(left, found, strict=True)}
        print(f"{executor}: " + ", ".join(f"{name}={rates.get(name, 0.0):.2g}" for name in names))


def page(cells: list[dict[str, Any]]) -> None:
    """Write the page of the record, and a picture for each kind of cells."""
    lines = [PAGE_HEAD]
    for kind, title, found in judgements(cells):
        lines += [
            f"## {title}",
            "",
            *([CHAINS, ""] if kind == "chain" else []),
            summary_of(found),
            "",
            f"![regret by strategy chosen](benchmarks/prices-{kind}.svg)",
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
        (RECORD.parent / f"prices-{kind}.svg").write_text(picture)
        lines += ["", "| change | chosen | best | regret | seconds of each |", "| --- | --- | --- | --- | --- |"]
        for cell, (chosen, least, regret) in sorted(found, key=lambda f: key_of(f[0])):
            what = (
                f"{cell['share']:.3%} {cell['kind']}, {cell['place']}; {cell['measures']}, {cell['keys']} keys"
                f"{', a finer one beside' if cell['depth'] == 2 else ''}"
            )
            each = "; ".join(
                ", ".join(f"{name} {took:.2f}" for name, took in sorted(seconds_of(cell, stage).items()))
                for stage in dict.fromkeys(run["stage"] for run in cell["runs"])
            )
            lines.append(f"| {what} | {chosen} | {least} | {regret:.2f} | {each} |")
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


def _started() -> float:
    """Return the seconds from an empty process to a session of Spark."""
    text = (
        "from materializer.config import Config; from materializer.spark.runtime.session import start; start(Config())"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)
    return time.monotonic() - began


def main() -> None:
    """Read the options, measure what is not on record, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--executor", choices=["local", "spark"])
    parser.add_argument("--most", type=int, default=10_000, help="cells to do at most")
    parser.add_argument("--show", action="store_true", help="only print what is on record")
    parser.add_argument("--fit", action="store_true", help="print the rates that fit the record")
    parser.add_argument("--choose", action="store_true", help="let the price choose again in the cells on record")
    parser.add_argument("--page", action="store_true", help="write the page of the record")
    parser.add_argument("--start", action="store_true", help="print what starting Spark takes in a new process")
    options = parser.parse_args()
    if options.start:
        print(f"{median(_started() for _ in range(5)):.2f} s")
        return
    until, left = time.monotonic() + 60 * options.minutes, options.most
    executors = [options.executor] if options.executor else ["local", "spark"]
    if options.choose:
        with tempfile.TemporaryDirectory() as folder:
            choose(Path(folder), executors)
    if not (options.show or options.fit or options.page or options.choose):
        done = {key_of(c) for c in recorded()}
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
