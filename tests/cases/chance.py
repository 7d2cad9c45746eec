"""Random cases: random definitions over random rows in random commits, answered by the oracles and by the package.

    python -m tests.cases.chance [--cases 20] [--histories 1] [--seed 1] [--engine NAME] [--with JSON] [--jobs 2]

Half of them run under ``recompute`` (the commits must not matter), half under the case's own lateness, where the rows that
become final with each commit and the rows that are refused are compared too.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from materializer.config import Config, SparkConfig
from tests.cases import engines
from tests.cases.reading import Case, Outcome, run_guarded
from tests.cases.world import How
from tests.oracle.engines import ticks

BASE: Final = "2024-03-05T09:30:00"
METRICS: Final = tuple(
    {"name": f"m{i}", "expr": text}
    for i, text in enumerate(
        (
            *("sum(v)", "count(v)", "size(v)", "avg(v)", "min(v)", "max(v)", "first(v)", "last(v)", "max(v) - min(v)"),
            *("sum(v) / count(v)", "sum(v * w)", "firstNot(v)", "lastNot(v)", "ifirstNot(v)", "ilastNot(v)", "imax(v)"),
            *(
                "imin(v)",
                "atImax(v, w)",
                "atImin(w, v)",
                "sum2(v)",
                "sum3(v)",
                "sum4(v)",
                "var(v)",
                "std(v)",
                "varp(v)",
            ),
            *(
                "stdp(v)",
                "sem(v)",
                "covar(v, w)",
                "covarp(v, w)",
                "corr(v, w)",
                "beta(v, w)",
                "wsum(v, w)",
                "wavg(v, w)",
            ),
            *("skew(v)", "kurtosis(v)", "med(v)", "percentile(v, 30)", "quantile(v, 0.7, 'lower')", "searchK(v, 2)"),
            *("nunique(v)", "nunique(v, true)", "mode(v)", "prod(v)"),
        )
    )
)
STATES: Final = (
    *("mavg(v, 3)", "msum(v, 2)", "mmax(v, 4)", "mmin(v, 3)", "mstd(v, 3)", "mcount(v, 3)", "cumsum(v)", "cummax(v)"),
    *("cummin(v)", "cumavg(v)", "cumcount(v)", "prev(v)", "move(v, 2)", "deltas(v)", "ratios(w)", "mavg(v, 2) - w"),
)
NO: Final[Mapping[str, Any]] = {}
FEW: Final = 3
"""Values of a key in one history."""

Draw = random.Random
Rows = Callable[[], list[dict[str, Any]]]


def case_of(engine: str, seed: int, histories: int = 1, more: Mapping[str, Any] = NO) -> dict[str, Any]:
    """Return a random case of an engine; its answer is the oracle's to give.

    Args:
        engine: As case files name it.
        seed: What everything follows from.
        histories: So many sets of rows, with keys of their own, stand beside each other in one source.
        more: Parameters that are set whatever was drawn; None takes one away.
    """
    draw = Draw(f"{engine} {seed}")
    params, rows_of = MAKERS[engine](draw)
    wanted = draw.sample(METRICS, draw.randint(1, 4)) if "metrics" not in params else params["metrics"]
    keys = {"keyColumn": ["k"]} if draw.random() < 0.8 else {}
    commits = draw.randint(1, 3)
    found = []
    for history in range(histories if keys and not params.get("useSystemTime") else 1):
        rows = rows_of()
        cuts = sorted(draw.randint(0, len(rows)) for _ in range(commits - 1))
        for i, row in enumerate(rows):
            own = {} if histories == 1 else {"k": f"{row['k']}{history}"}
            found.append(row | own | {"_commit": 1 + sum(i >= c for c in cuts)})
    found.sort(key=lambda row: row["_commit"])  # stable: rows of a history stay in their order
    timed = {} if engine == "reactiveState" else {"timeType": "TIMESTAMP"}
    given = {**timed, **keys, "metrics": wanted, **params, **more}
    return {
        "id": f"{engine}-{seed}",
        "engine": engine,
        "params": {name: value for name, value in given.items() if value is not None},
        "input_rows": [row | {"_seq": i} for i, row in enumerate(found, 1)],
        "expected_rows": [],
        "histories": len({row["k"][1:] for row in found}),
    }


def _maybe(draw: Draw, chance: float, **params: Any) -> dict[str, Any]:
    return params if draw.random() < chance else {}


def _base(kind: str) -> int:
    if kind in ticks.INTEGERS:
        return 100_000
    text = {"MONTH": "2024-03", "DATE": "2024-03-05", "MINUTE": "09:30", "SECOND": "09:30:00"}.get(kind, BASE)
    return ticks.parse(text, kind) or 0


def _values(draw: Draw) -> dict[str, Any]:
    return {
        "k": draw.choice("ABCDEFG"[:FEW]),
        "v": None if draw.random() < 0.07 else draw.randint(-5, 40),
        "w": draw.randint(1, 9) / 2,
    }


def _rows(draw: Draw, count: int, gap: int, disorder: int, kind: str = "TIMESTAMP") -> list[dict[str, Any]]:
    """Rows whose time goes on by up to *gap* ticks, some of them up to *disorder* ticks early."""
    now, rows = _base(kind) + draw.randint(0, gap), []
    last = {"MINUTE": 1_439, "SECOND": 86_399}.get(kind, 1 << 62)
    for _ in range(count):
        now += draw.choice([0, draw.randint(0, gap), draw.randint(0, gap), 5 * gap])
        at = max(0, now - draw.choice([0, 0, 0, draw.randint(0, disorder)]))
        rows.append({"time": ticks.shown(min(at, last), kind), **_values(draw)})
    return rows


def _where(draw: Draw) -> dict[str, Any]:
    conditions = [{"col": "v", "op": draw.choice([">", "<=", "notnull"]), "value": draw.randint(0, 30)}]
    return _maybe(draw, 0.2, where=conditions)


def _as_of(draw: Draw, kind: str, most: int) -> dict[str, Any]:
    return _maybe(draw, 0.3, asOf=ticks.shown(_base(kind) + draw.randint(0, most), kind))


def _fill(draw: Draw, count: int) -> dict[str, Any]:
    some: list[Any] = ["null", "ffill", 0]
    return _maybe(draw, 0.25, fill=draw.choice(some)) or _maybe(
        draw, 0.2, fill=[draw.choice(some) for _ in range(count)]
    )


_STEPS: Final[Mapping[str, Sequence[int]]] = {
    "TIMESTAMP": (3, 5, 10, 100, 150, 1_000, 7_000),
    "DATETIME": (1, 3, 60, 90),
    "NANOTIMESTAMP": (3, 700, 1_500),
    "MINUTE": (1, 2, 7),
    "SECOND": (2, 5, 61),
    "DATE": (1, 2),
    "MONTH": (1, 3),
    "LONG": (4, 10),
}


def _time_series(draw: Draw) -> tuple[dict[str, Any], Rows]:
    kind = draw.choice(["TIMESTAMP"] * 4 + list(_STEPS))
    step = draw.choice(_STEPS[kind])
    params: dict[str, Any] = {"timeColumn": "time", "timeType": kind, "step": step}
    params |= {"closed": draw.choice(["left", "left", "right"])} | _where(draw)
    params |= _maybe(draw, 0.2, parallelism=draw.randint(1, 8)) | _maybe(draw, 0.2, garbageSize=draw.randint(1, 9))
    params |= (
        _maybe(draw, 0.2, roundTime=False) | _maybe(draw, 0.2, alignmentProfile="cn") | _as_of(draw, kind, 60 * step)
    )
    metrics = draw.sample(METRICS, draw.randint(2, 4))
    disorder = 2 * step
    match draw.randint(0, 6):
        case 0:
            params |= {"windowSize": [step * n for n in draw.sample(range(1, 5), 2)]}
            params |= {"metrics": [metrics[:1], metrics[1:]]} | _maybe(draw, 0.5, multiWindowRule="all")
        case 1 if step > 1:
            first = draw.randint(0, step - 1)
            params |= {"windowSize": step, "subWindow": [first, draw.randint(first + 1, step)]}
            params |= {"metrics": metrics} | _maybe(draw, 0.5, useWindowStartTime=True)
        case 2 if kind == "TIMESTAMP":
            params |= {"windowSize": step * draw.randint(1, 4), "useSystemTime": True, "metrics": metrics}
            disorder = 0
        case _:
            params |= {"windowSize": step * draw.randint(1, 4), "metrics": metrics}
            params |= _maybe(draw, 0.3, useWindowStartTime=True)
    if "useSystemTime" not in params:
        match draw.randint(0, 6):
            case 0:
                params["acceptedDelay"] = draw.randint(1, step)
            case 1 | 2:
                params["forceTriggerTime"] = draw.randint(0, 3 * step)
            case 3 if "subWindow" not in params:
                params["updateTime"] = step
    params |= _fill(draw, len(metrics)) | _maybe(draw, 0.15, gridOrigin="key")
    return params, lambda: _rows(draw, draw.randint(5, 30), step, disorder, kind)


def _daily(draw: Draw) -> tuple[dict[str, Any], Rows]:
    kind = draw.choice(["TIMESTAMP", "DATETIME"])
    per = int(ticks.PER_SECOND[kind])
    step = draw.choice([600, 1_500, 1_800, 3_600]) * per
    begins, ends = draw.choice(
        [
            (["09:30:00"], ["11:20:00"]),
            (["09:30:00", "13:00:00"], ["11:30:00", "15:10:00"]),
            (["09:00:00", "10:30:00"], ["10:30:00", "11:45:00"]),
            (["21:00:00", "09:00:00"], ["02:30:00", "11:30:00"]),
            (["22:00:00"], ["01:00:00"]),
            (["00:00:00", "13:00:00"], ["11:30:00", "00:00:00"]),
        ]
    )
    if begins[0] == "00:00:00" and draw.random() < 0.5:
        begins, ends = ["00:00:00", "09:00:00", "21:00:00"], ["01:00:00", "11:30:00", "00:00:00"]
    params: dict[str, Any] = {"timeColumn": "time", "timeType": kind, "windowSize": step, "step": step}
    params |= {"sessionBegin": begins, "sessionEnd": ends, "closed": draw.choice(["left", "left", "right"])}
    for name in ("mergeSessionEnd", "mergeLastWindow", "mergeSession", "useWindowStartTime"):
        if name != "mergeSessionEnd" or params["closed"] == "left":
            params |= _maybe(draw, 0.3, **{name: True})
    params |= _maybe(draw, 0.3, keyPurgeDaily=False) | _where(draw)
    params |= draw.choice([{}, {}, {"forceTriggerTime": draw.randint(0, 2 * step)}, {"acceptedDelay": step // 3}])
    metrics = draw.sample(METRICS, draw.randint(1, 3))
    params |= {"metrics": metrics} | _fill(draw, len(metrics)) | _as_of(draw, kind, 2 * 86_400 * per)
    if "asOf" in params:
        params |= _maybe(draw, 0.5, forceTriggerSessionEndTime=draw.randint(0, 3_600) * per)
    return params, lambda: _rows(draw, draw.randint(5, 30), 2 * step, step, kind)


def _session(draw: Draw) -> tuple[dict[str, Any], Rows]:
    gap = draw.randint(2, 60)
    starts = draw.random() < 0.5
    params: dict[str, Any] = {"timeColumn": "time", "sessionGap": gap, "useSessionStartTime": starts} | _where(draw)
    params |= _as_of(draw, "TIMESTAMP", 60 * gap)
    if "asOf" not in params:
        params |= _maybe(
            draw, 0.3, forceTriggerTime=draw.randint(1, 2 * gap)
        )  # 0 closes with every commit, clock or not
    if starts:
        params |= _maybe(draw, 0.3, updateTime=draw.randint(0, gap))
    return params, lambda: _rows(draw, draw.randint(5, 30), gap, gap)


def _reactive(draw: Draw) -> tuple[dict[str, Any], Rows]:
    metrics = [{"name": f"m{i}", "expr": e} for i, e in enumerate(draw.sample(STATES, draw.randint(1, 4)))]
    shown = {"col": draw.choice(["v", "m0"]), "op": draw.choice([">", "<="]), "value": draw.randint(0, 20)}
    params = {"timeColumn": "time", "metrics": metrics} | _where(draw) | _maybe(draw, 0.3, filter=[shown])
    return params, lambda: _rows(draw, draw.randint(3, 24), 20, 0)


def _events(draw: Draw, *, has_open: bool) -> list[dict[str, Any]]:
    rows = []
    base = _base("TIMESTAMP")
    for _ in range(draw.randint(1, 12)):
        start = base + 1_000 * draw.randint(0, 40) + draw.choice([0, 0, draw.randint(0, 999)])
        length = draw.choice([0, 1, 500, *(1_000 * draw.randint(1, 20) for _ in range(5))])
        end = None if has_open and draw.random() < 0.1 else ticks.shown(start + length, "TIMESTAMP")
        rows.append({"start": ticks.shown(start, "TIMESTAMP"), "end": end, **_values(draw)})
    return rows


def _grid(draw: Draw) -> dict[str, Any]:
    alignment = ticks.shown(_base("TIMESTAMP") + draw.randint(-9_000, 9_000), "TIMESTAMP")
    return {"period": 1_000 * draw.randint(1, 6)} | _maybe(draw, 0.4, alignment=alignment) | _where(draw)


def _hopping(draw: Draw) -> tuple[dict[str, Any], Rows]:
    params = _grid(draw)
    params |= {"duration": draw.choice([params["period"] * draw.randint(1, 3), 500 * draw.randint(1, 12)])}
    params |= _maybe(draw, 0.4, outputPolicy="ClipToWindowEnd")
    params |= _maybe(draw, 0.4, bound=ticks.shown(_base("TIMESTAMP") + 70_000, "TIMESTAMP"))
    return params, lambda: _events(draw, has_open="bound" in params)


def _compressed(draw: Draw) -> tuple[dict[str, Any], Rows]:
    params = _grid(draw)
    params |= {"duration": params["period"] * draw.randint(1, 3)}
    return params, lambda: _events(draw, has_open=True)


def _snapshot(draw: Draw) -> tuple[dict[str, Any], Rows]:
    return _where(draw), lambda: _events(draw, has_open=True)


def _count(draw: Draw) -> tuple[dict[str, Any], Rows]:
    return {"count": draw.randint(1, 4)} | _where(draw), lambda: _events(draw, has_open=True)


def _event_time(draw: Draw) -> tuple[dict[str, Any], Rows]:
    duration = float(draw.randint(1, 6))
    params: dict[str, Any] = {"timeColumn": "time", "intervalDuration": duration} | _where(draw)
    params |= _maybe(draw, 0.5, lag=float(draw.randint(0, 3))) | _maybe(draw, 0.3, minimumGap=float(draw.randint(0, 4)))
    params |= _maybe(draw, 0.3, discardAge=float(draw.randint(1, 5)))
    params |= _maybe(draw, 0.3, creationPeriod=float(draw.randint(1, 8))) | _maybe(draw, 0.2, offset=duration / 2)
    return params, lambda: _rows(draw, draw.randint(5, 30), 900, 4_000)


MAKERS: Final[Mapping[str, Callable[[Draw], tuple[dict[str, Any], Rows]]]] = {
    "timeSeries": _time_series,
    "dailyTimeSeries": _daily,
    "sessionWindow": _session,
    "reactiveState": _reactive,
    "hoppingInterval": _hopping,
    "hoppingIntervalCompressed": _compressed,
    "snapshotWindow": _snapshot,
    "countWindow": _count,
    "eventTimeWindow": _event_time,
}


def run(case: Case, how: How) -> Outcome:
    """Run a random case: every second one under ``recompute``, cut and shuffled, the others as it stands."""
    seed = int(case["id"].rpartition("-")[2])
    return engines.run(case, how, seed) if seed % 2 else engines.run_as_answered(case, how)


def _said(outcome: Outcome) -> str:
    """Return what differs, in a line: rows that only one side has."""
    expected, found = outcome.expected, outcome.found
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        pairs = [(expected[what], found[what]) for what in expected]
        expected = {what: [r for r in a if r not in b] for what, (a, b) in zip(expected, pairs, strict=True)}
        found = {what: [r for r in b if r not in a] for what, (a, b) in zip(found, pairs, strict=True)}
    return f"{outcome.id}: only expected {expected}, only found {found}".replace("\n", " ")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each case that fails and last ``N passed, N failed``; return 1 when one failed."""
    from materializer.spark.runtime import session

    parser = argparse.ArgumentParser(prog="python -m tests.cases.chance", description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--histories", type=int, default=1, help="sets of rows with keys of their own in each source")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", action="append", choices=list(MAKERS), default=[])
    parser.add_argument(
        "--with", dest="more", type=json.loads, default={}, help="parameters of every case; null: without"
    )
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(argv)
    names = args.engine or list(MAKERS)
    made = [case_of(names[i % len(names)], args.seed + i, args.histories, args.more) for i in range(args.cases)]
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
                    print(_said(outcome), {k: v for k, v in case["params"].items() if k != "metrics"}, flush=True)
    print(*(f"{count:6} {what}" for what, count in sorted(passed.items())), sep="\n")
    failed = sum(count for what, count in passed.items() if what.endswith("FAILED"))
    histories = sum(case["histories"] for case in made)
    took = time.perf_counter() - began
    print(
        f"{args.cases} definitions, {histories} histories, {args.cases - failed} passed, {failed} failed, {took:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
