"""Plain Spark in a process of its own: what the whole ``GROUP BY`` takes while the JVM compiles, as a first materialization does.

    python -m tests.benchmarks.plain SOURCE FOLDER [--memory 6g] [--ours]

Prints the seconds. :mod:`tests.benchmarks.trades` runs it, with the same query before as there: the form without order. With ``--ours`` the
first materialization is measured in its place, so that both can be compared in turn, each in a process of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from tests.benchmarks.trades import BARS, plain, refreshed, unordered


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--ours", action="store_true", help="measure the first materialization")
    options = parser.parse_args()
    spark_config = SparkConfig(profile="long", memory=options.memory)
    sources = {"trades": str(options.source)}
    m = Materializer(
        config=Config(lake=str(options.folder / "lake"), sources=sources, executor="spark", spark=spark_config)
    )
    m.engine().spark.range(1000).selectExpr("sum(id)").collect()
    unordered(m, options.source, options.folder)
    m.apply(BARS)
    print(refreshed(m, "bars_1m")[0] if options.ours else plain(m, options.folder))


if __name__ == "__main__":
    main()
