"""Random cases: random definitions over random rows in random commits, answered by the oracles and by the package.

    python -m tests.cases.chance [--cases 20] [--seed 1] [--engine NAME] [--jobs 2]

Half of them run under ``recompute`` (the commits must not matter), half under the case's own lateness, where the rows that
become final with each commit and the rows that are refused are compared too.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from materializer.config import Config, SparkConfig
from tests.cases import engines
from tests.cases.reading import Case, Outcome, run_guarded
from tests.cases.world import How

BASE: Final = datetime(2024, 3, 5, 9, 30, tzinfo=UTC)
METRICS: Final = (
    {"name": "total", "expr": "sum(v)"},
    {"name": "n", "expr": "count(v)"},
    {"name": "opened", "expr": "first(v)"},
    {"name": "closed", "expr": "last(v)"},
    {"name": "high", "expr": "max(v)"},
    {"name": "mean", "expr": "avg(v)"},
    {"name": "spread", "expr": "max(v) - min(v)"},
)

Draw = random.Random


def case_of(engine: str, seed: int) -> dict[str, Any]:
    """Return a random case of an engine; its answer is the oracle's to give."""
    draw = Draw(f"{engine} {seed}")
    params, rows = MAKERS[engine](draw)
    wanted = draw.sample(METRICS, draw.randint(1, 3)) if "metrics" not in params else params["metrics"]
    keys = {"keyColumn": ["k"]} if draw.random() < 0.8 else {}
    commits = draw.randint(1, 4)
    cuts = sorted(draw.randint(0, len(rows)) for _ in range(commits - 1))
    numbered = [row | {"_seq": i + 1, "_commit": 1 + sum(i >= c for c in cuts)} for i, row in enumerate(rows)]
    return {
        "id": f"{engine}-{seed}",
        "engine": engine,
        "params": {
            **({} if engine == "reactiveState" else {"timeType": "TIMESTAMP"}),
            **keys,
            "metrics": wanted,
            **params,
        },
        "input_rows": numbered,
        "expected_rows": [],
    }


def _time(millis: int) -> str:
    return (BASE + timedelta(milliseconds=millis)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def _rows(draw: Draw, count: int, gap: int, disorder: int) -> list[dict[str, Any]]:
    """Rows whose time goes on by up to *gap* ms, some of them up to *disorder* ms early."""
    now, rows = draw.randint(0, 500), []
    for _ in range(count):
        now += draw.choice([0, draw.randint(0, gap), draw.randint(0, gap), 5 * gap])
        at = max(0, now - draw.choice([0, 0, 0, draw.randint(0, disorder)]))
        value = None if draw.random() < 0.07 else draw.randint(-5, 40)
        rows.append({"time": _time(at), "k": draw.choice("ABC"), "v": value})
    return rows


def _time_series(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    step = draw.choice([3, 5, 10, 100, 150])
    params: dict[str, Any] = {"timeColumn": "time", "step": step, "windowSize": step * draw.randint(1, 4)}
    params["closed"] = draw.choice(["left", "left", "right"])
    params["useWindowStartTime"] = draw.random() < 0.3
    match draw.randint(0, 5):
        case 0:
            params["acceptedDelay"] = draw.randint(1, step)
        case 1:
            params["forceTriggerTime"] = draw.randint(0, 3 * step)
        case 2:
            params["updateTime"] = step
    if draw.random() < 0.5:
        params["fill"] = draw.choice(["null", "ffill", 0])
    if draw.random() < 0.2:
        params["roundTime"] = False
    return params, _rows(draw, draw.randint(5, 40), step, 2 * step)


def _session(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    gap = draw.randint(2, 60)
    params: dict[str, Any] = {"timeColumn": "time", "sessionGap": gap, "useSessionStartTime": draw.random() < 0.5}
    rows = _rows(draw, draw.randint(5, 40), gap, gap)
    if draw.random() < 0.3:
        params["asOf"] = _time(draw.randint(0, 60 * gap))
    return params, rows


def _reactive(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    some = ["mavg(v, 3)", "msum(v, 2)", "mmax(v, 4)", "mcount(v, 3)", "cumsum(v)", "cummax(v)", "prev(v)", "deltas(v)"]
    metrics = [{"name": f"m{i}", "expr": e} for i, e in enumerate(draw.sample(some, 2))]
    return {"timeColumn": "time", "metrics": metrics}, _rows(draw, draw.randint(3, 30), 20, 0)


def _events(draw: Draw) -> list[dict[str, Any]]:
    rows = []
    for _ in range(draw.randint(1, 14)):
        start = draw.randint(0, 40)
        end = start + draw.randint(1, 20)
        rows.append(
            {"start": _time(1000 * start), "end": _time(1000 * end), "k": draw.choice("AB"), "v": draw.randint(1, 9)}
        )
    return rows


def _interval(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    period = 1000 * draw.randint(1, 6)
    return {"duration": period * draw.randint(1, 3), "period": period}, _events(draw)


def _snapshot(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {}, _events(draw)


def _count(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"count": draw.randint(1, 4)}, _events(draw)


def _event_time(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    params: dict[str, Any] = {"timeColumn": "time", "intervalDuration": float(draw.randint(1, 6))}
    if draw.random() < 0.5:
        params["lag"] = float(draw.randint(0, 3))
    if draw.random() < 0.3:
        params["minimumGap"] = float(draw.randint(0, 4))
    if draw.random() < 0.3:
        params["discardAge"] = float(draw.randint(1, 5))
    return params, _rows(draw, draw.randint(5, 40), 900, 4_000)


MAKERS: Final[Mapping[str, Callable[[Draw], tuple[dict[str, Any], list[dict[str, Any]]]]]] = {
    "timeSeries": _time_series,
    "sessionWindow": _session,
    "reactiveState": _reactive,
    "hoppingInterval": _interval,
    "hoppingIntervalCompressed": _interval,
    "snapshotWindow": _snapshot,
    "countWindow": _count,
    "eventTimeWindow": _event_time,
}


def run(case: Case, how: How) -> Outcome:
    """Run a random case: every second one under ``recompute``, cut and shuffled, the others as it stands."""
    seed = int(case["id"].rpartition("-")[2])
    return engines.run(case, how, seed) if seed % 2 else engines.run_as_answered(case, how)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each case that fails and last ``N passed, N failed``; return 1 when one failed."""
    from materializer.spark import session

    parser = argparse.ArgumentParser(prog="python -m tests.cases.chance", description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", action="append", choices=list(MAKERS), default=[])
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(argv)
    names = args.engine or list(MAKERS)
    made = [case_of(names[i % len(names)], args.seed + i) for i in range(args.cases)]
    began, passed = time.perf_counter(), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="chance-") as folder:
        options = {"spark.sql.warehouse.dir": folder, "spark.sql.shuffle.partitions": "2"}
        how = How(session.start(Config(spark=SparkConfig(options=options))), Path(folder))
        with ThreadPoolExecutor(args.jobs) as pool:
            for case, outcome in zip(
                made, pool.map(lambda c: run_guarded(c, lambda x: run(x, how)), made), strict=True
            ):
                passed[f"{case['engine']} {'passed' if outcome.passed else 'FAILED'}"] += 1
                if not outcome.passed:
                    said = f"{outcome.id}: expected {outcome.expected}, found {outcome.found}".replace("\n", " ")
                    print(said, {k: v for k, v in case["params"].items() if k != "metrics"}, flush=True)
    print(*(f"{count:6} {what}" for what, count in sorted(passed.items())), sep="\n")
    failed = sum(count for what, count in passed.items() if what.endswith("FAILED"))
    print(f"{args.cases - failed} passed, {failed} failed, {time.perf_counter() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
