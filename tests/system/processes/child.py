"""One command in a process of its own, which says where it stands and waits, or hangs, where it is told to.

``python -m tests.system.processes.child LAKE NAME COMMAND [options]`` writes lines of JSON to standard output:
``{"at": …}`` when it waits for a line of standard input, and at its end ``{"done": …}`` or ``{"error": …}``, either with
the checkpoints that were ``reached``, each the k-th time it was: ``write`` and then ``write:2``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import MaterializerError, RetryableError
from materializer.services.refresh.reports import RefreshReport
from tests.system.processes.clock import shifted
from tests.system.processes.handed import handlers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITION: Final = "definition.json"
BACKUP: Final = "backup"
"""Beside the lake: the definition that is applied or taken over, and the backup that is made or put back."""
BEFORE: Final = "2024-03-01T03:00:00Z"
"""Up to where history is frozen."""


def another_version(lake: Materializer, name: str) -> Any:
    """Publish the other of two versions: the definition that lies ready, or the one that was published before."""
    if not [status.next for status in lake.status(name) if status.next]:
        if lake.journal.view().named(name).previous:
            lake.rollback(name)
        else:
            lake.apply(definition(lake))
    return lake.build(name)


def definition(lake: Materializer) -> AggregateSpec:
    """Return the definition that lies beside a lake."""
    return AggregateSpec.from_json(json.loads((lake.root.parent / DEFINITION).read_text()))


COMMANDS: Final[dict[str, Callable[[Materializer, str], Any]]] = {
    "refresh": lambda lake, name: lake.refresh(name),
    "backfill": lambda lake, name: lake.backfill(name),
    "backfill by hours": lambda lake, name: lake.backfill(name, buckets_per_run=1),
    "invalidate": lambda lake, name: lake.invalidate(name),
    "maintain": lambda lake, name: lake.maintain(name),
    "apply": lambda lake, _: lake.apply(definition(lake)),
    "build": lambda lake, name: lake.build(name),
    "build only": lambda lake, name: lake.build(name, switch=False),
    "switch": lambda lake, name: lake.switch(name),
    "rollback": lambda lake, name: lake.rollback(name),
    "abandon": lambda lake, name: lake.abandon(name),
    "drop": lambda lake, name: lake.drop(name),
    "expire": lambda lake, name: lake.expire(name, BEFORE),
    "thaw": lambda lake, name: lake.thaw(name),
    "repair": lambda lake, name: lake.repair(name),
    "take over": lambda lake, _: lake.take_over(definition(lake)),
    "backup": lambda lake, _: lake.backup(lake.root.parent / BACKUP),
    "restore": lambda lake, _: lake.restore(lake.root.parent / BACKUP),
    "another version": another_version,
    "check": lambda lake, name: lake.check(name),
    "add a policy": lambda lake, name: lake.add_policy(name, start_offset="3 hours", schedule="0 * * * *"),
    "remove a policy": lambda lake, name: lake.remove_policy(name),
    "run due": lambda lake, name: lake.run_due(name),
}
"""What can be run, by how it is called here; a parent runs the same."""


def main() -> int:
    """Run the command and return its exit status: 0, the error's, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.processes.child", description=__doc__)
    parser.add_argument("lake")
    parser.add_argument("name")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--folder", type=Path, required=True, help="where suites are, and what handlers get goes")
    parser.add_argument("--driver-lane-rows", type=int, default=200_000)
    parser.add_argument("--executor", default="spark", help="what computes a refresh")
    parser.add_argument(
        "--wait", action="append", default=[], help="a checkpoint, or the k-th time it is reached: write:2"
    )
    parser.add_argument("--hang", action="append", default=[], help="likewise, but for ever and without a word")
    parser.add_argument("--borrow", action="store_true", help="compute with the JVM of whoever started it")
    parser.add_argument("--warm", action="store_true", help="start Spark before anything else")
    parser.add_argument("--times", type=int, default=1, help="run the command so often, each again when it may be")
    parser.add_argument("--clock", type=float, default=0.0, help="so many seconds the clock is wrong")
    parser.add_argument(
        "--from", dest="since", default="", help="from when it is, like --wait; from the start on if left out"
    )
    args = parser.parse_args()
    options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    config = Config(
        price_tie_ms=60_000,
        driver_lane_rows=args.driver_lane_rows,
        executor=args.executor,
        spark=SparkConfig(memory="700m", options=options),
        expectations=args.folder / "expectations",
    )
    stops = _Stops(args.wait, args.hang, args.clock, args.since)
    spark = _borrowed() if args.borrow else None
    materializer = Materializer(
        args.lake,
        spark=spark,
        config=config,
        output_handlers=handlers(args.folder),
        on_checkpoint=stops.reached,
    )

    def run() -> Any:
        return COMMANDS[args.command](materializer, args.name)

    try:
        if args.warm:
            materializer.engine()
        reports = [_patiently(run, retry=args.times > 1) for _ in range(args.times)]
    except MaterializerError as exc:
        _say(error=exc.as_json(), status=exc.exit_status, reached=stops.seen)
        return exc.exit_status
    except KeyboardInterrupt:
        _say(interrupted=True)
        return 130
    _say(done=[_told(report) for report in reports], reached=stops.seen)
    return 0


def _borrowed() -> SparkSession:
    """Return a session of its own in the JVM that the environment names, where Spark runs already."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    jvm: Any = gateway.jvm
    running = jvm.JavaSparkContext.fromSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=running, conf=SparkConf(_jconf=running.getConf()))
    return SparkSession(context, jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get().newSession())


class _Stops:
    """Where to wait and where to hang, each a name and how often it is to be reached; and from where the clock is wrong."""

    def __init__(self, waits: list[str], hangs: list[str], wrong_by: float, since: str) -> None:
        self._waits, self._hangs = ({_counted(text) for text in texts} for texts in (waits, hangs))
        self._wrong_by, self._since = wrong_by, _counted(since)
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.seen: list[str] = []
        if wrong_by and not since:
            shifted(wrong_by)

    def reached(self, name: str) -> None:
        """Wait, hang or go on."""
        with self._lock:
            self._seen[name] += 1
            stop = name, self._seen[name]
            self.seen.append(name if stop[1] == 1 else f"{name}:{stop[1]}")
        if stop == self._since:
            shifted(self._wrong_by)
        if stop in self._hangs:
            threading.Event().wait()
        if stop in self._waits:
            _say(at=name)
            if not sys.stdin.readline():
                os._exit(1)  # whoever started it has gone


def _counted(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    return name, int(count or 1)


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
    runs = [
        {"n": r.plan.n, "strategy": r.report.strategy, "lane": r.report.lane, "executor": r.report.executor or "spark"}
        for r in report.runs
    ]
    return {"outcome": report.outcome, "runs": runs, "recovered": list(report.recovered)}


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main())
