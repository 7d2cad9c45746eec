"""Random histories of engines: commits and refreshes, after each of which the output is compared with the whole computation.

    python -m tests.system.engine_histories [--histories 20] [--seed 1] [--engine NAME] [--lane driver] [--arriving]

What is checked is that computing what a change touches gives the same as computing everything; that everything is computed
right is for the oracles to say. Refreshes by Spark and by whatever fits take turns. ``python -m tests.system.campaign`` runs many
histories, a few in each process, and goes on where it stopped.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct, field

from materializer.api import Materializer
from materializer.config import Config, ExecutorChoice, SparkConfig
from materializer.core.refresh.plan import BY_KEY
from tests import drawn, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE: Final = datetime(2024, 1, 1, 8, tzinfo=UTC)
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("until", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("v", pa.int64()),
    ]
)
SUMS: Final = {"total": "sum(v)", "n": "count(*)", "opened": "first(v)", "mean": "avg(v)"}
DEFINITIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "tumbling": {"engine": "time_series", "window_size": "10 minutes", "step": "10 minutes"},
    "hopping": {"engine": "time_series", "window_size": "15 minutes", "step": "5 minutes", "closed": "right"},
    "filled": {"engine": "time_series", "window_size": "20 minutes", "step": "10 minutes", "fill": "ffill"},
    "forced": {"engine": "time_series", "window_size": "10 minutes", "step": "5 minutes", "force_trigger_time": "7 minutes"},
    "shown": {"engine": "time_series", "window_size": "10 minutes", "step": "10 minutes", "update_time": "5 minutes"},
    "daily": {
        "engine": "daily_time_series",
        "window_size": "30 minutes",
        "step": "30 minutes",
        "session_begin": ["08:30:00", "13:00:00"],
        "session_end": ["11:15:00", "15:00:00"],
    },
    "sessions": {"engine": "session_window", "session_gap": "6 minutes"},
    "rows": {
        "engine": "reactive_state",
        "measures": {"m": "mavg(v, 3)", "c": "cumsum(v)", "e": "ema(v, 4)", "p": "prev(v)", "x": "mmax(v, 4)"},
    },
    "overlapping": {"engine": "hopping_window", "end": "until", "duration": "20 minutes", "period": "10 minutes"},
    "compressed": {
        "engine": "compressed_hopping_window", "end": "until", "duration": "20 minutes", "period": "10 minutes",
    },
    "snapshots": {"engine": "snapshot_window", "end": "until"},
    "counts": {"engine": "count_window", "end": "until", "count": 3},
    "events": {"engine": "event_time_window", "interval_duration": "10 minutes", "lag": "2 minutes"},
}  # fmt: skip
DELAYED: Final = {"lateness": "delay", "accepted_delay": "5 minutes"}
BY_ARRIVAL: Final[Mapping[str, Mapping[str, Any]]] = {
    **{
        f"{name}, strict": {**DEFINITIONS[name], "lateness": "strict"}
        for name in ("tumbling", "filled", "forced", "daily", "sessions", "rows", "events")
    },
    **{f"{name}, delayed": {**DEFINITIONS[name], **DELAYED} for name in ("tumbling", "filled", "daily")},
    "events, discarded late": {**DEFINITIONS["events"], "lateness": "strict", "discard_age": "3 hours"},
}
"""Definitions that judge rows in the order in which they arrive."""
ALL: Final = {**DEFINITIONS, **BY_ARRIVAL}


NO: Final[Mapping[str, str]] = MappingProxyType({})
EXECUTORS: Final[tuple[ExecutorChoice, ...]] = ("auto", "spark")
STRATEGIES: Final = (BY_KEY, BY_KEY, BY_KEY, BY_KEY, "")
"""Where results of single keys can be written, they are; without asking for it, whole slices of so few rows would be."""
OPEN_ENDED: Final = ("compressed_hopping_window", "snapshot_window", "count_window")
"""Engines that take events without an end as they are."""


class World(Struct):
    """One source, changed at random, and one engine's aggregate over it.

    Args:
        spark: The session.
        folder: An empty folder.
        rng: Where chance comes from.
        definition: Parts for :meth:`Materializer.define`.
        lane_rows: 0 lets Spark commit everything.
        twin: Whether a second source is changed alike.
        pace: How many minutes pass in a minute: histories of days are as many rows as those of hours.
        compares_first: Whether the first refresh is compared, too, as the shards and the command do.
    """

    spark: SparkSession
    folder: Path
    rng: random.Random
    definition: Mapping[str, Any]
    lane_rows: int = 200_000
    twin: bool = False
    pace: int = 1
    compares_first: bool = field(default_factory=drawn.is_all)
    ids: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    executors: Iterator[ExecutorChoice] = field(default_factory=lambda: cycle(EXECUTORS))
    strategies: Iterator[str] = field(default_factory=lambda: cycle(STRATEGIES))

    @property
    def source(self) -> str:
        """Where the source lies."""
        return str(self.folder / "source")

    @property
    def other(self) -> str:
        """Where the second source lies, if there is one."""
        return str(self.folder / "other")

    @property
    def sources(self) -> list[str]:
        """The tables that are changed."""
        return [self.source, self.other] if self.twin else [self.source]

    def open(self, **options: Any) -> Materializer:
        """Return the lake as a new process opens it."""
        return Materializer(
            self.folder / "lake", spark=self.spark, config=Config(driver_lane_rows=self.lane_rows), **options
        )

    def begin(self, rows: int = 60) -> Materializer:
        """Write the first rows and define the aggregate."""
        self.insert(rows)
        made = self.open()
        self.define(made, self.definition)
        return made

    def define(self, made: Materializer, definition: Mapping[str, Any], properties: Mapping[str, str] = NO) -> None:
        """Apply a definition of the aggregate."""
        parts = {"measures": SUMS, **definition, "properties": properties}
        made.define("made", self.source, time="ts", keys=["k"], sequence="id", **parts)

    def insert(self, count: int, first: int = 0, last: int = 480) -> None:
        """Append rows between two minutes."""
        rows = [self._row(first, last) for _ in range(count)]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        for source in self.sources:
            tables.append(source, table)

    def _row(self, first: int, last: int) -> dict[str, Any]:
        at = BASE + timedelta(seconds=self.rng.randint(first * 60, last * 60) * self.pace)
        self.ids.append(len(self.times))
        self.times.append(at)
        is_open = self.definition["engine"] in OPEN_ENDED and self.rng.random() < 0.1
        until = None if is_open else at + timedelta(seconds=self.rng.randint(1, 2_400))
        return {"id": self.ids[-1], "ts": at, "until": until, "k": self.rng.choice("abcd"), "v": self.rng.randint(1, 9)}

    def change(self, since: int = 0) -> str:
        """Do one random commit, of rows from a minute on; return what it was."""
        what = self.rng.choice(["append", "append", "late", "late", "delete", "move", "correct"])
        known = [i for i in self.ids if self.times[i] >= BASE + timedelta(minutes=since * self.pace)]
        chosen = self.rng.sample(known, min(3, len(known)))
        some = ", ".join(map(str, chosen)) or "-1"
        match what:
            case "append":
                first = 480 + 30 * self.seen["append"]
                self.insert(self.rng.randint(1, 5), first, first + 30)
            case "late":
                self.insert(self.rng.randint(1, 3), since, max(480, since + 60))
            case "delete":
                for source in self.sources:
                    DeltaTable(source).delete(f"id IN ({some})")
            case "move":
                minute = self.rng.randint(since, max(480, since + 60)) * self.pace
                to, end = (BASE + timedelta(minutes=m) for m in (minute, minute + self.rng.randint(1, 40)))
                moved = {"ts": f"'{to.isoformat()}'", "until": f"'{end.isoformat()}'"}
                for source in self.sources:
                    DeltaTable(source).update(predicate=f"id IN ({some})", updates=moved)
                for i in chosen:
                    self.times[i] = to
            case "correct":
                value = {"v": str(self.rng.randint(10, 99))}
                for source in self.sources:
                    DeltaTable(source).update(predicate=f"id IN ({some})", updates=value)
        self.seen[what] += 1
        return what

    def refresh(self, made: Materializer, **options: Any) -> None:
        """Refresh and compare with the whole computation.

        A first refresh is a whole computation itself, and of an empty output nothing stays: it is compared where that is asked for.

        Raises:
            AssertionError: If a row differs.
        """
        options = {"strategy": next(self.strategies)} | options
        report = made.refresh("made", executor=next(self.executors), **options)
        is_first = not any(what.startswith("strategy ") for what in self.seen)
        for run in report.runs:
            self.seen[f"strategy {run.plan.strategy}"] += 1
            self.seen[f"executor {run.report.executor or 'spark'}"] += 1
        if is_first and not self.compares_first:
            return
        verdict = made.verify("made")
        assert verdict.compared, "nothing was compared"
        assert verdict.is_equal, f"{verdict.differing} of {verdict.rows} rows differ: {verdict.examples[:3]}"


def run_history(world: World, steps: int) -> Counter[str]:
    """Run one random history; return what happened in it."""
    made = world.begin()
    world.refresh(made)
    for _ in range(steps):
        for _ in range(world.rng.randint(1, 2)):
            world.change()
        world.refresh(made)
    return world.seen


def _again(args: argparse.Namespace, name: str, seed: int, lane: str) -> str:
    """Return the command that repeats one history."""
    kind = "--frozen " if args.frozen else "--kept " if args.kept else ""
    return (
        f"python -m tests.system.engine_histories {kind}--histories 1 --steps {args.steps} --seed {seed} --lane {lane}"
        f" --trace --engine {shlex.quote(name)}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run histories of every engine in turn; print what was run and what was found."""
    from materializer.spark.runtime import session
    from tests.system.engine_freezing import CUT, Frozen
    from tests.system.engine_keeping import Kept

    parser = argparse.ArgumentParser(prog="python -m tests.system.engine_histories", description=__doc__)
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", action="append", choices=[*ALL, *(CUT.keys() - ALL)], default=[])
    parser.add_argument("--kept", action="store_true", help="maintained, changed, harmed and repaired, too")
    parser.add_argument("--frozen", action="store_true", help="raw rows go, and history stays")
    parser.add_argument("--arriving", action="store_true", help="rows are judged as they arrive")
    parser.add_argument(
        "--lane", choices=["driver", "spark"], help="who commits; without it Spark does in every fourth"
    )
    parser.add_argument("--trace", action="store_true", help="where a history failed, too")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no history after so many minutes")
    args = parser.parse_args(argv)
    names = args.engine or list(CUT if args.frozen else BY_ARRIVAL if args.arriving else DEFINITIONS)
    seen: Counter[str] = Counter()
    failed, run, began = 0, 0, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="engines-") as folder:
        options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder}
        spark = session.start(Config(spark=SparkConfig(profile="long", options=options)))
        for i in range(args.histories):
            if time.perf_counter() - began > 60 * args.minutes:
                break
            run += 1
            name, seed = names[i % len(names)], args.seed + i
            home = Path(folder) / f"{name}-{seed}"
            home.mkdir()
            definition = CUT[name] if args.frozen else ALL[name]
            lane = args.lane or ("driver" if i % 4 else "spark")
            rows = 200_000 if lane == "driver" else 0
            world = World(spark, home, random.Random(seed), definition, lane_rows=rows, compares_first=True)
            try:
                machine = Frozen(world, name) if args.frozen else Kept(world, name) if args.kept else None
                seen += machine.run(args.steps) if machine else run_history(world, args.steps)
            except Exception as exc:  # noqa: BLE001 (whatever is found is told, and the next history runs)
                failed += 1
                print(f"{name}, seed {seed}: {type(exc).__name__}: {exc}", flush=True)
                print(f"again: {_again(args, name, seed, lane)}", flush=True)
                if args.trace:
                    traceback.print_exc()
    print(*(f"{count:6} {what}" for what, count in sorted(seen.items())), sep="\n")
    print(f"{run} histories, {failed} failed, {time.perf_counter() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
