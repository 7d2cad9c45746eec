"""Benchmark: a refresh by a command over a warm Spark Connect server, from command to exit, beside the embedded Spark.

    python -m tests.benchmarks.connect [--rows 1000000] [--rounds 5] [--keep]

One-minute bars; before each call one late row is inserted. The server is a process of this benchmark, and has answered a few
refreshes before the first that counts. Commands over Connect find no Java. The embedded Spark uses the class-data archive of
``materializer setup``. Told are medians; *idle* is a call with nothing to do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from deltalake import write_deltalake

from tests.benchmarks.trades import BARS, DAY, START, report, reporting, timed, trades, write_source
from tests.servers.connect import connect_server, url_of

WARM: Final = 3
"""Refreshes before the first that counts."""


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return medians in seconds."""
    rng = np.random.default_rng(options.seed)
    source = folder / "trades"
    write_source(source, options.rows, options.days, options.symbols, rng)
    (folder / "bars.sql").write_text(BARS, encoding="utf-8")
    (folder / "materializer.toml").write_text(
        f'lake = "{folder / "lake"}"\n[sources]\ntrades = "{source}"\n', encoding="utf-8"
    )
    _call(folder, "setup")
    _call(folder, "apply", "bars.sql")
    _call(folder, "refresh", "bars_1m")
    server = connect_server(folder / "server")
    server.start()
    seconds: dict[str, list[float]] = {"connect": [], "embedded": [], "idle": []}
    remote = {"MATERIALIZER_SPARK_REMOTE": url_of(server), "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    try:
        for i in range(-WARM, options.rounds):
            for kind, environ in (("connect", remote), ("embedded", {})):
                if i < 0 and kind == "embedded":
                    continue
                one = trades(rng, 1, options.symbols, START + int(rng.integers(options.days)) * DAY, DAY)
                write_deltalake(str(source), one, mode="append")
                seconds[kind].append(timed(lambda environ=environ: _call(folder, "refresh", "bars_1m", **environ))[0])
            seconds["idle"].append(timed(lambda: _call(folder, "refresh", "bars_1m", **remote))[0])
    finally:
        server.kill()
    found = {kind: median(of[-options.rounds :]) for kind, of in seconds.items()}
    return {"options": {k: str(v) for k, v in vars(options).items()}} | found | {"all": seconds}


def _call(folder: Path, *arguments: str, **environ: str) -> None:
    command = [sys.executable, "-m", "materializer", *arguments, "--config", str(folder / "materializer.toml")]
    ours = {"MATERIALIZER_SPARK_PROFILE": "short", **environ}
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=os.environ | ours)


def show(found: dict[str, Any]) -> None:
    """Print the medians."""
    print(f"one late row, over Connect         {found['connect']:6.2f} s")
    print(f"one late row, embedded             {found['embedded']:6.2f} s")
    print(f"nothing to do, over Connect        {found['idle']:6.2f} s")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
