"""Run case files: ``python -m tests.cases FILE… [--id TEXT] [--recut SEED] [--jobs N] [--lane driver|spark] [--no-feed] [--on s3] [--remote URL]``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from materializer.config import Config, SparkConfig
from tests.cases import reading
from tests.cases.runner import run_all
from tests.cases.world import How
from tests.servers import connect, s3


def main() -> int:
    """Print a line for each failing case and last ``N passed, N failed``; return 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--id", action="append", default=[], help="only cases whose id contains this")
    parser.add_argument("--recut", type=int, metavar="SEED", help="cut and shuffle the rows of engine cases at random")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once")
    parser.add_argument("--lane", choices=("driver", "spark"), default="driver", help="who commits")
    parser.add_argument("--no-feed", action="store_true", help="sources without a change feed")
    parser.add_argument(
        "--on", choices=("disk", "s3"), default="disk", help="where lakes and sources lie; s3 is a new server"
    )
    parser.add_argument(
        "--remote", default="", metavar="URL", help="the Spark Connect server that computes; 'new' starts one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    args = parser.parse_args()
    if args.remote == "new" and args.on == "s3":
        parser.error("a server that is started here has no jars for S3; give the URL of one that has")
    try:
        cases = [case for file in args.files for case in reading.read(file)]
    except (OSError, ValueError) as exc:
        parser.error(str(exc))
    wanted = [case for case in cases if not args.id or any(part in case["id"] for part in args.id)]
    with tempfile.TemporaryDirectory(prefix="cases-") as folder, ExitStack() as closing:

        def how() -> How:
            from materializer.spark.runtime import session

            place = folder if args.on == "disk" else closing.enter_context(s3.new_bucket(Path(folder)))
            options = {} if args.remote else {"spark.sql.warehouse.dir": folder}
            config = Config(spark=SparkConfig(remote=_remote(args.remote, Path(folder), closing), options=options))
            spark = session.start(config, stores=[] if args.on == "disk" else [args.on])
            return How(spark, place, 0 if args.lane == "spark" else 200_000, not args.no_feed)

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


def _remote(asked: str, folder: Path, closing: ExitStack) -> str:
    if asked != "new":
        return asked
    server = connect.connect_server(folder / "connect")
    server.start()
    closing.callback(server.kill)
    return connect.url_of(server)


if __name__ == "__main__":
    sys.exit(main())
