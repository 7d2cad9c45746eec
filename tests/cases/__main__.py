"""Run case files: ``python -m tests.cases FILE… [--id TEXT] [--recut SEED] [--jobs N] [--lane driver|spark] [--no-feed]``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from materializer.config import Config, SparkConfig
from tests.cases import reading
from tests.cases.runner import run_all
from tests.cases.world import How


def main() -> int:
    """Print a line for each failing case and last ``N passed, N failed``; return 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--id", action="append", default=[], help="only cases whose id contains this")
    parser.add_argument("--recut", type=int, metavar="SEED", help="cut and shuffle the rows of engine cases at random")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once")
    parser.add_argument("--lane", choices=("driver", "spark"), default="driver", help="who commits")
    parser.add_argument("--no-feed", action="store_true", help="sources without a change feed")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    args = parser.parse_args()
    try:
        cases = [case for file in args.files for case in reading.read(file)]
    except (OSError, ValueError) as exc:
        parser.error(str(exc))
    wanted = [case for case in cases if not args.id or any(part in case["id"] for part in args.id)]
    with tempfile.TemporaryDirectory(prefix="cases-") as folder:

        def how() -> How:
            from materializer.spark.runtime import session

            spark = session.start(Config(spark=SparkConfig(options={"spark.sql.warehouse.dir": folder})))
            return How(spark, Path(folder), 0 if args.lane == "spark" else 200_000, not args.no_feed)

        outcomes = list(run_all(wanted, how, args.jobs, recut=args.recut))
    failed = [o for o in outcomes if not o.passed]
    if args.json:
        cases_json = [{"id": o.id, "passed": o.passed, "expected": o.expected, "found": o.found} for o in outcomes]
        print(
            json.dumps({"passed": len(outcomes) - len(failed), "failed": len(failed), "cases": cases_json}, default=str)
        )
    else:
        for o in failed:
            print(f"{o.id}: expected {o.expected}, found {o.found}".replace("\n", " "))
        print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
