"""Benchmark: what a compiled gate costs a refresh, in Spark jobs and in seconds, beside the same refresh without one.

    python -m tests.benchmarks.gate [--rows 2000000] [--late 20000] [--json]

Two aggregates over one source: one-minute bars with eight compiled expectations, and the same without. Both are refreshed
over everything, then five times after late rows; the order of the two changes each time, so that neither is the warmer one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from deltalake import write_deltalake

from materializer.config import Config, SparkConfig
from materializer.wiring import Materializer
from tests.benchmarks.trades import BARS, late_rows, refreshed, report, write_source

ROUNDS = 5
SUITE: dict[str, Any] = {
    "name": "bars",
    "expectations": [
        {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["bucket", "sym"]}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "sym"}},
        *(
            {"type": "expect_column_values_to_be_between", "kwargs": {"column": c, "min_value": 0, "max_value": 10_000}}
            for c in ("open", "high", "low", "close")
        ),
        {"type": "expect_column_sum_to_be_between", "kwargs": {"column": "volume", "min_value": 1}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
    ],
}


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return jobs and seconds of both, first and after late rows."""
    rng = np.random.default_rng(options.seed)
    source, suites = folder / "trades", folder / "expectations"
    suites.mkdir()
    (suites / "bars_1m.json").write_text(json.dumps(SUITE))
    write_source(source, options.rows, options.days, options.symbols, rng)
    config = Config(
        lake=str(folder / "lake"),
        sources={"trades": str(source)},
        expectations=suites,
        spark=SparkConfig(profile="long", memory=options.memory),
    )
    m = Materializer(config=config)
    m.engine().spark.range(1000).selectExpr("sum(id)").collect()
    names = {"gated": "bars_1m", "plain": "bars_plain"}
    m.apply([BARS, BARS.replace("bars_1m", "bars_plain")])
    first = {kind: _refreshed(m, name) for kind, name in sorted(names.items(), reverse=True)}
    late: dict[str, list[dict[str, Any]]] = {kind: [] for kind in names}
    for n in range(ROUNDS):
        write_deltalake(str(source), late_rows(rng, options.late, options.days, options.symbols), mode="append")
        for kind in sorted(names, reverse=bool(n % 2)):
            late[kind].append(_refreshed(m, names[kind]))
    return {"first": first, "late": late}


def _refreshed(m: Materializer, name: str) -> dict[str, Any]:
    seconds, told = refreshed(m, name)
    return {"seconds": round(seconds, 3)} | told


def show(found: dict[str, Any]) -> None:
    """Print the measurements as a table."""
    for what, of in (("first materialization", found["first"]), ("after late rows, median", _median(found["late"]))):
        ratio = of["gated"]["seconds"] / of["plain"]["seconds"] - 1
        print(
            f"{what:26} gated {of['gated']['seconds']:7.2f} s, {of['gated']['jobs']} jobs;"
            f" without {of['plain']['seconds']:7.2f} s, {of['plain']['jobs']} jobs; the gate: {ratio:+.0%}"
        )


def _median(late: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    return {
        kind: {"seconds": median(r["seconds"] for r in rounds), "jobs": rounds[-1]["jobs"]}
        for kind, rounds in late.items()
    }


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--late", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--folder", type=Path, default=None, help="keep the tables here; default: a temporary folder")
    parser.add_argument("--json", action="store_true", help="print JSON, and keep it in docs/benchmarks/history.jsonl")
    report(parser.parse_args(), run, show)


if __name__ == "__main__":
    main()
