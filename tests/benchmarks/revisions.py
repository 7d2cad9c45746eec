"""Compare two revisions by a benchmark: counters that differ, and the ratio of the seconds.

    python -m tests.benchmarks.revisions BEFORE [AFTER] [--only NAME…] [--rounds 2]

Each round runs the quick sizes of ``python -m tests.benchmarks`` once on either revision, in its own worktree and process, in turn:
before, after, after, before. A counter is a number that is whole in every run; one that varies between runs of the same revision
is left out. A ratio is the least time of *after* through the least time of *before*, so 1.0 means equal.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from math import exp, log
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.__main__ import QUICK
from tests.paths import ROOT

LEAST: Final = 0.005
"""Seconds below which a time says nothing about a revision."""


def leaves(found: Any, path: str = "") -> Iterator[tuple[str, int | float]]:
    """Yield the numbers of a result with their paths."""
    if isinstance(found, Mapping):
        for name, value in found.items():
            if name not in {"options", "every", "all"}:
                yield from leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(found, list):
        for number, value in enumerate(found):
            yield from leaves(value, f"{path}.{number}")
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield path, found


def differences(
    before: list[Mapping[str, Any]], after: list[Mapping[str, Any]]
) -> tuple[list[str], dict[str, float], int]:
    """Return the counters that differ, the ratio of each time, and how many counters are equal.

    Args:
        before: What the benchmark found on one revision, one result for each round.
        after: The same of the other.

    Examples:
        >>> differences([{"rows": 5, "seconds": 2.5}], [{"rows": 6, "seconds": 1.25}])
        (['rows: 5 → 6'], {'seconds': 0.5}, 0)
    """
    one, other = ([dict(leaves(found)) for found in runs] for runs in (before, after))
    unequal, ratios, equal = [], {}, 0
    for path in one[0]:
        first, second = [run.get(path) for run in one], [run.get(path) for run in other]
        if not all(x is None or float(x).is_integer() for x in (*first, *second)):
            times = [min(x for x in side if x is not None) if None not in side else 0.0 for side in (first, second)]
            if min(times) >= LEAST:
                ratios[path] = times[1] / times[0]
        elif len(set(first)) == 1 and len(set(second)) == 1:
            equal += first == second
            if first != second:
                unequal.append(f"{path}: {first[0]} → {second[0]}")
    return unequal, ratios, equal


def measured(name: str, tree: Path) -> dict[str, Any]:
    """Run a benchmark in a worktree, and return what it found."""
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", *shlex.split(QUICK[name]), "--json"]
    ran = subprocess.run(
        command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, stdout=subprocess.PIPE, text=True, check=True
    )
    last = (tree / "docs" / "benchmarks" / "history.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    assert ran.stdout
    return dict(json.loads(last)["found"])


def main() -> int:
    """Compare; return 1 when a counter differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.revisions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--only", nargs="+", choices=list(QUICK), default=["trades", "growth", "journal", "process"])
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    has_difference = False
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder, side) for side in ("before", "after")]
        for tree, revision in zip(trees, (asked.before, asked.after), strict=True):
            subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), revision], cwd=ROOT, check=True)
        try:
            for name in asked.only:
                found: tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]] = ([], [])
                for number in range(asked.rounds):
                    for side in (0, 1) if number % 2 == 0 else (1, 0):
                        found[side].append(measured(name, trees[side]))
                unequal, ratios, equal = differences(*found)
                mean = exp(sum(map(log, ratios.values())) / len(ratios)) if ratios else 1.0
                print(f"{name}: {equal} counters equal, {len(unequal)} not; {len(ratios)} times, mean ratio {mean:.2f}")
                print(*(f"  {line}" for line in unequal), sep="\n", end="\n" if unequal else "")
                print(*(f"  {path}: {ratio:.2f}" for path, ratio in ratios.items()), sep="\n", flush=True)
                has_difference |= bool(unequal)
        finally:
            for tree in trees:
                subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    return int(has_difference)


if __name__ == "__main__":
    sys.exit(main())
