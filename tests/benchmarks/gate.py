"""Benchmark: what a compiled gate costs a refresh, in Spark jobs and in seconds, beside the same refresh without one.

    python -m tests.benchmarks.gate [--rows 2000000] [--late 20000] [--rounds 15] [--keep]

Two aggregates over one source: one-minute bars with eight compiled expectations, and the same without. Both are refreshed
over everything, then again and again after late rows; the order of the two changes each time, so that neither is the warmer
one. A round is a pair: what the gate costs is the median of what the pairs differ by, a share of the refresh without one, with
an interval in which that median lies with 95 % confidence, whatever the distribution (it ends at two of the pairs, in their
order). Where the interval holds 0 the cost is below the noise. The first round is not counted: what it loads is loaded once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from deltalake import write_deltalake

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from tests.benchmarks.trades import BARS, given, late_rows, refreshed, report, reporting, write_source

FEWEST = 6
"""Of so many pairs all lie on one side of the median of their distribution in one of 32 cases."""
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
    for n in range(options.rounds + 1):
        write_deltalake(str(source), late_rows(rng, options.late, options.days, options.symbols), mode="append")
        for kind in sorted(names, reverse=bool(n % 2)):
            told = _refreshed(m, names[kind])
            late[kind] += [told] if n else []
    return {"options": given(options), "first": first, "late": late, "cost": cost(late)}


def cost(late: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return what the gate costs of its refresh: the median of the pairs and its interval, and Spark jobs more."""
    pairs = list(zip(late["gated"], late["plain"], strict=True))
    low, median_, high = interval([(a["seconds"] - b["seconds"]) / b["seconds"] for a, b in pairs])
    more = median(a["jobs"] - b["jobs"] for a, b in pairs)
    return {
        "median": round(median_, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "jobs": more,
        "pairs": len(pairs),
    }


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the median of some values between the ends of its interval; all of the values where these are few.

    How many values lie below the median of their distribution is a matter of tossing coins.

    Examples:
        >>> interval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
        (4, 8, 12)
        >>> interval([3, 1, 2])
        (1, 2, 3)
    """
    ordered, n = sorted(values), len(values)
    tail = [sum(comb(n, i) for i in range(k + 1)) / 2**n for k in range(n)]
    cut = sum(2 * below <= 1 - confidence for below in tail)  # so many are left out on either side, at most
    at = max(cut - 1, 0)
    return ordered[at], median(ordered), ordered[-1 - at]


def _refreshed(m: Materializer, name: str) -> dict[str, Any]:
    seconds, told = refreshed(m, name)
    return {"seconds": round(seconds, 3)} | told


def show(found: dict[str, Any]) -> None:
    """Print the measurements as a table, what the pairs say, and whether it is above the noise."""
    for what, of in (("first materialization", found["first"]), ("after late rows, median", _median(found["late"]))):
        ratio = of["gated"]["seconds"] / of["plain"]["seconds"] - 1
        print(
            f"{what:26} gated {of['gated']['seconds']:7.2f} s, {of['gated']['jobs']} jobs;"
            f" without {of['plain']['seconds']:7.2f} s, {of['plain']['jobs']} jobs; the gate: {ratio:+.0%}"
        )

    for kind, rounds in found["late"].items():
        seconds = [r["seconds"] for r in rounds]
        first, _, third = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
        print(
            f"  {kind:5} of {len(seconds)}: median {median(seconds):.2f} s, half of them within {first:.2f} to {third:.2f} s"
        )
    of = found["cost"]
    noise = "below the noise" if of["low"] <= 0 <= of["high"] else "above the noise"
    noise = noise if of["pairs"] >= FEWEST else f"fewer than {FEWEST} pairs: that is no interval of 95 %"
    print(
        f"the gate costs {of['median']:+.1%} of its refresh, 95 % interval {of['low']:+.1%} to {of['high']:+.1%}"
        f" ({of['pairs']:.0f} pairs): {noise}; asked <= 15 %; {of['jobs']:+.0f} Spark jobs"
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
    parser.add_argument("--rounds", type=int, default=15, help="pairs of refreshes after late rows")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--memory", default="4g")
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
