"""One command in a process of its own, which says where it stands and waits, or hangs, where it is told to.

``python -m tests.system.processes.child LAKE NAME COMMAND [options]`` writes lines of JSON to standard output:
``{"at": …}`` when it waits for a line of standard input, and at its end ``{"done": …}`` or ``{"error": …}``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from materializer.config import Config, SparkConfig
from materializer.errors import MaterializerError, RetryableError
from materializer.services.refresh import RefreshReport
from materializer.wiring import Materializer

COMMANDS = ("refresh", "backfill", "invalidate", "maintain")


def main() -> int:
    """Run the command and return its exit status: 0, the error's, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.processes.child", description=__doc__)
    parser.add_argument("lake", type=Path)
    parser.add_argument("name")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--driver-lane-rows", type=int, default=200_000)
    parser.add_argument(
        "--wait", action="append", default=[], help="a checkpoint, or the k-th time it is reached: write:2"
    )
    parser.add_argument("--hang", action="append", default=[], help="likewise, but for ever and without a word")
    parser.add_argument("--warm", action="store_true", help="start Spark before anything else")
    parser.add_argument("--times", type=int, default=1, help="run the command so often, each again when it may be")
    parser.add_argument("--buckets-per-run", type=int)
    args = parser.parse_args()
    options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    config = Config(driver_lane_rows=args.driver_lane_rows, spark=SparkConfig(memory="700m", options=options))
    materializer = Materializer(args.lake, config=config, on_checkpoint=_Stops(args.wait, args.hang).reached)
    try:
        if args.warm:
            materializer.engine()
        reports = [_patiently(lambda: _run(materializer, args), retry=args.times > 1) for _ in range(args.times)]
    except MaterializerError as exc:
        _say(error=exc.as_json(), status=exc.exit_status)
        return exc.exit_status
    except KeyboardInterrupt:
        _say(interrupted=True)
        return 130
    _say(done=[_told(report) for report in reports])
    return 0


class _Stops:
    """Where to wait and where to hang, each a name and how often it is to be reached."""

    def __init__(self, waits: list[str], hangs: list[str]) -> None:
        self._waits, self._hangs = ({_counted(text) for text in texts} for texts in (waits, hangs))
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reached(self, name: str) -> None:
        """Wait, hang or go on."""
        with self._lock:
            self._seen[name] += 1
            stop = name, self._seen[name]
        if stop in self._hangs:
            threading.Event().wait()
        if stop in self._waits:
            _say(at=name)
            if not sys.stdin.readline():
                os._exit(1)  # whoever started it has gone


def _counted(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    return name, int(count or 1)


def _run(materializer: Materializer, args: argparse.Namespace) -> Any:
    match args.command:
        case "refresh":
            return materializer.refresh(args.name)
        case "backfill":
            return materializer.backfill(args.name, buckets_per_run=args.buckets_per_run)
        case "maintain":
            return materializer.maintain(args.name)
        case _:
            return materializer.invalidate(args.name)


def _patiently(run: Any, *, retry: bool) -> Any:
    while True:
        try:
            return run()
        except RetryableError:
            if not retry:
                raise
            time.sleep(0.05)


def _told(report: Any) -> dict[str, Any]:
    if not isinstance(report, RefreshReport):
        return {}
    runs = [{"n": run.plan.n, "strategy": run.report.strategy, "lane": run.report.lane} for run in report.runs]
    return {"outcome": report.outcome, "runs": runs, "recovered": list(report.recovered)}


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main())
