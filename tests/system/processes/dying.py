"""Commands over three aggregates in one process, whose JVM is killed once at a chosen step of the first.

``python -m tests.system.processes.dying FOLDER CHECKPOINT DRIVER_LANE_ROWS`` prints one line of JSON for each command: its
exit status, its document and its errors.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import looking, refreshing
from materializer.adapters.cli.output import JsonOutput
from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.core.language.define import define
from tests.system.lake import Source
from tests.system.processes.running import START

NAMES: Final = ("a", "b", "c")
OPTIONS: Final = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}


class Killer:
    """Kills the JVM when the first refresh comes to a step."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        self.lake: Materializer | None = None

    def reached(self, name: str) -> None:
        """Kill it, or go on."""
        if name != self._checkpoint or self.lake is None:
            return
        pid, self.lake = self.lake.engine().jvm_pid(), None
        os.kill(pid, signal.SIGKILL)


def said(lake: Materializer, command: str, body: Callable[[CommandCall], None]) -> None:
    """Run a command and print what came of it."""
    out, err = io.StringIO(), io.StringIO()
    call = CommandCall(JsonOutput(out, err), opened=lake)
    status = guarded(call, lambda: body(call))
    errors: list[Any] = [json.loads(line)["error"] for line in err.getvalue().splitlines()]
    print(json.dumps({"command": command, "status": status, "done": json.loads(out.getvalue()), "errors": errors}))


def main(folder: Path, checkpoint: str, rows: int) -> None:
    """Make the lake, and refresh it twice."""
    source = Source(str(folder / "source"), has_feed=True)
    source.insert({"ts": START + timedelta(minutes=i), "k": "a", "v": i % 50, "ok": True} for i in range(300))
    killer = Killer(checkpoint)
    config = Config(price_tie_ms=60_000, driver_lane_rows=rows, spark=SparkConfig(memory="700m", options=OPTIONS))
    lake = Materializer(folder / "lake", config=config, on_checkpoint=killer.reached)
    parts: dict[str, Any] = {"time": "ts", "width": "1 hour", "keys": ["k"]}
    lake.apply([define(n, source.path, measures={"n": "count(*)", "s": "sum(v)"}, **parts) for n in NAMES])
    killer.lake = lake
    said(lake, "refresh", lambda call: refreshing.refresh(call, every=True))
    again = Materializer(folder / "lake", config=config)
    said(again, "again", lambda call: refreshing.refresh(call, every=True))
    said(again, "verify", lambda call: looking.verify(call, every=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
