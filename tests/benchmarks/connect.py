"""Benchmark: a refresh by a command over a warm Spark Connect server, from command to exit, beside the embedded Spark.

    python -m tests.benchmarks.connect [--rows 1000000] [--rounds 5] [--keep]

One-minute bars; before each call one late row is inserted. The server is a process of this benchmark, and has answered a few
refreshes before the first that counts. Commands over Connect find no Java. The embedded Spark uses the class-data archive of
``materializer setup``. Told are medians; *idle* is a call with nothing to do.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.benchmarks.process import asked, begun, call, insert_late
from tests.benchmarks.trades import report, timed
from tests.servers.connect import connect_server, url_of

WARM: Final = 3
"""Refreshes before the first that counts."""


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return medians in seconds."""
    rng = begun(options, folder)
    server = connect_server(folder / "server")
    server.start()
    seconds: dict[str, list[float]] = {"connect": [], "embedded": [], "idle": []}
    remote = {"MATERIALIZER_SPARK_REMOTE": url_of(server), "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    try:
        for i in range(-WARM, options.rounds):
            for kind, environ in (("connect", remote), ("embedded", {})):
                if i < 0 and kind == "embedded":
                    continue
                insert_late(options, folder, rng)
                seconds[kind].append(timed(lambda environ=environ: call(folder, "refresh", "bars_1m", **environ))[0])
            seconds["idle"].append(timed(lambda: call(folder, "refresh", "bars_1m", **remote))[0])
    finally:
        server.kill()
    found = {kind: median(of[-options.rounds :]) for kind, of in seconds.items()}
    return {"options": {k: str(v) for k, v in vars(options).items()}} | found | {"all": seconds}


def show(found: dict[str, Any]) -> None:
    """Print the medians."""
    print(f"one late row, over Connect         {found['connect']:6.2f} s")
    print(f"one late row, embedded             {found['embedded']:6.2f} s")
    print(f"nothing to do, over Connect        {found['idle']:6.2f} s")


def main() -> None:
    """Read the options, measure, print."""
    report(asked(__doc__), run, show)


if __name__ == "__main__":
    main()
