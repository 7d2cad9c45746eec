"""Benchmark: what grows with what. Each figure at three sizes or more, and the seconds that one more unit takes.

    python -m tests.benchmarks.slopes [--only NAME…] [--percent 100] [--rounds 3] [--keep]

* ``rows``: the first materialization by Spark, and one late row, by the rows of the source.
* ``files``: one late row, and a refresh without work, by the files of the source, of which the late row touches one.
* ``versions``: one refresh after so many commits of one late row each.
* ``groups``: one late row, by the groups of its bucket.
* ``aggregates``: one late row, a refresh without work and ``status`` of one, by the aggregates of the lake.

All in one process that stays; told is the least of the rounds, and the slope of the straight line with the least squares.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from materializer import Materializer
from materializer.config import Config, SparkConfig
from tests.benchmarks.trades import BARS, DAY, MINUTE, START, report, reporting, timed, trades

Found = dict[str, dict[int, float]]
"""Seconds by figure and size."""

SIZES: Final = {
    "rows": (500_000, 2_000_000, 8_000_000),
    "files": (10, 100, 1_000),
    "versions": (10, 100, 1_000),
    "groups": (1_000, 10_000, 100_000),
    "aggregates": (10, 50, 250),
}
"""The sizes of each axis."""


def opened(folder: Path, executor: str = "auto") -> Materializer:
    """Return a lake in a folder with one source."""
    settings = SparkConfig(profile="long", memory="4g")
    sources = {"trades": str(folder / "trades")}
    return Materializer(
        config=Config(lake=str(folder / "lake"), sources=sources, executor=executor, spark=settings)  # type: ignore[arg-type]
    )


def append(folder: Path, rows: pa.Table) -> None:
    """Append rows to the source."""
    feed = {"delta.enableChangeDataFeed": "true"}
    is_new = not (folder / "trades").exists()
    write_deltalake(str(folder / "trades"), rows, mode="append", configuration=feed if is_new else None)


def late(folder: Path, rng: np.random.Generator, symbols: int = 100) -> None:
    """Append one late row."""
    append(folder, trades(rng, 1, symbols, START + 3 * MINUTE, MINUTE))


def refreshed(m: Materializer, folder: Path, rng: np.random.Generator, rounds: int, name: str = "bars_1m") -> float:
    """Return the least seconds of a refresh after one late row; the first two are not counted."""
    taken = []
    for _ in range(rounds + 2):
        late(folder, rng)
        taken.append(timed(lambda: m.refresh(name))[0])
    return min(taken[2:])


def idle(m: Materializer, rounds: int, name: str = "bars_1m") -> float:
    """Return the least seconds of a refresh without work."""
    return min(timed(lambda: m.refresh(name))[0] for _ in range(rounds))


def by_rows(folder: Path, sizes: Sequence[int], rounds: int) -> Found:
    """Measure by the rows of the source: days of 500,000 or fewer."""
    found: Found = {"first materialization by Spark": {}, "one late row": {}}
    warm = False
    for size in sizes if len(sizes) == 1 else [sizes[0], *sizes]:
        place, rng = folder / f"{size}-{warm}", np.random.default_rng(7)
        days = max(1, size // 500_000)
        for day in range(days):
            append(place, trades(rng, size // days, 100, START + day * DAY, DAY))
        m = opened(place)
        m.apply(BARS)
        first = timed(lambda m=m: m.refresh("bars_1m", executor="spark"))[0]
        if warm:  # the first of all starts the JVM
            found["first materialization by Spark"][size] = first
            found["one late row"][size] = refreshed(m, place, rng, rounds)
        warm = True
    return found


def by_files(folder: Path, sizes: Sequence[int], rounds: int) -> Found:
    """Measure by the files of the source, an hour of 1,000 trades in each."""
    found: Found = {"one late row": {}, "nothing to do": {}}
    for size in sizes:
        place, rng = folder / str(size), np.random.default_rng(7)
        for hour in range(size):
            append(place, trades(rng, 1_000, 100, START + hour * 60 * MINUTE, 60 * MINUTE))
        m = opened(place)
        m.apply(BARS)
        m.refresh("bars_1m")
        found["one late row"][size] = refreshed(m, place, rng, rounds)
        found["nothing to do"][size] = idle(m, rounds)
    return found


def by_versions(folder: Path, sizes: Sequence[int], rounds: int) -> Found:
    """Measure by the commits since the last refresh, of one late row in the same minute each."""
    found: Found = {"one refresh after so many commits": {}}
    rng = np.random.default_rng(7)
    append(folder, trades(rng, 10_000, 100, START, DAY))
    m = opened(folder)
    m.apply(BARS)
    m.refresh("bars_1m")
    for size in sizes:
        taken = []
        for _ in range(rounds):
            for _ in range(size):
                late(folder, rng)
            taken.append(timed(lambda: m.refresh("bars_1m"))[0])
        found["one refresh after so many commits"][size] = min(taken)
    return found


def by_groups(folder: Path, sizes: Sequence[int], rounds: int) -> Found:
    """Measure by the groups of the bucket of the late row, three trades in each."""
    found: Found = {"one late row": {}}
    for size in sizes:
        place, rng = folder / str(size), np.random.default_rng(7)
        append(place, trades(rng, 3 * size, size, START, 10 * MINUTE))
        m = opened(place)
        m.apply(BARS.replace("'1 minute'", "'1 hour'"))
        m.refresh("bars_1m")
        found["one late row"][size] = refreshed(m, place, rng, rounds)
    return found


def by_aggregates(folder: Path, sizes: Sequence[int], rounds: int) -> Found:
    """Measure by the aggregates of the lake, all over one source."""
    found: Found = {"one late row": {}, "nothing to do": {}, "status of one": {}}
    rng = np.random.default_rng(7)
    append(folder, trades(rng, 10_000, 100, START, DAY))
    m, there = opened(folder), 0
    for size in sizes:
        m.apply(";\n".join(BARS.replace("bars_1m", f"bars_{i}") for i in range(there, size)))
        there = size
        m.refresh("bars_0")
        found["one late row"][size] = refreshed(m, folder, rng, rounds, "bars_0")
        found["nothing to do"][size] = idle(m, rounds, "bars_0")
        found["status of one"][size] = min(timed(lambda: m.status("bars_0"))[0] for _ in range(rounds))
    return found


MEASURES: Final[dict[str, Callable[[Path, Sequence[int], int], Found]]] = {
    "rows": by_rows,
    "files": by_files,
    "versions": by_versions,
    "groups": by_groups,
    "aggregates": by_aggregates,
}


def slope(figures: dict[int, float]) -> float:
    """Return the seconds that one more unit takes.

    Examples:
        >>> slope({10: 1.0, 20: 2.0, 40: 4.0})
        0.1
    """
    found, _ = np.polyfit(list(figures), list(figures.values()), 1)
    return round(float(found), 12)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return seconds by axis, figure and size, and their slopes."""
    found: dict[str, Any] = {"options": {k: str(v) for k, v in vars(options).items()}}
    for axis in options.only or MEASURES:
        sizes = [max(i + 1, size * options.percent // 100) for i, size in enumerate(SIZES[axis])]
        figures = MEASURES[axis](folder / axis, sizes, options.rounds)
        found[axis] = {
            what: {"seconds": {str(size): round(s, 4) for size, s in of.items()}, "slope": slope(of)}
            for what, of in figures.items()
        }
        print(*lines(axis, found[axis]), sep="\n", flush=True)
    return found


def lines(axis: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield the figures of an axis as lines."""
    for what, of in found.items():
        told = ", ".join(f"{int(size):,}: {seconds:.3f} s" for size, seconds in of["seconds"].items())
        yield f"{axis:11} {what:34} {told}; {1e6 * of['slope']:.2f} µs each"


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(MEASURES), help="measure these")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--percent", type=int, default=100, help="sizes, of the usual ones")
    report(reporting(parser), run, lambda _found: None)


if __name__ == "__main__":
    main()
