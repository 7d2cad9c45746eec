"""Benchmark: wall time of tasks in a running Airflow: one with nothing to do, and one that refreshes after a late row.

    python -m tests.benchmarks.airflow_tasks [--rows 1000000] [--rounds 10] [--keep]

Scheduler, executor, DAG processor, triggerer and API server of its own, on one lake with one-minute bars. In each round the DAG
is triggered twice through the API: as it stands, and after one late row was inserted. *task* is what Airflow says of the task,
from its start to its end, the process of the command and its JVM included; *whole* is from the request to that end: what the
scheduler takes besides. Told are medians.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from deltalake import write_deltalake

from tests.adapters.airflow.running import Airflow
from tests.benchmarks import history
from tests.benchmarks.trades import BARS, DAY, START, given, report, reporting, trades, write_source

NAME: Final = "bars_1m"
DEFINITION: Final = BARS.replace(
    "AS SELECT", "TBLPROPERTIES ('refresh.start_offset' = 'none', 'refresh.schedule' = '@yearly')\nAS SELECT", 1
)
STATES: Final = {"nothing": "skipped", "one": "success"}
"""How each kind of task ends: one that found nothing to do is skipped."""


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the seconds of each kind of task."""
    rng = np.random.default_rng(options.seed)
    lake, home = folder / "lake", folder / "airflow"
    source = lake / "trades"
    write_source(source, options.rows, options.days, options.symbols, rng)
    (folder / "bars.sql").write_text(f"{DEFINITION};\n", encoding="utf-8")
    for command in ("setup", "apply bars.sql", f"refresh {NAME}"):
        done = [sys.executable, "-m", "materializer", *command.split()]
        done += [] if command == "setup" else ["--lake", str(lake)]
        subprocess.run(done, check=True, capture_output=True, cwd=folder)
    (home / "dags").mkdir(parents=True)
    shutil.copy(history.ROOT / "dags" / "materializer_lake.py", home / "dags")
    airflow = Airflow(home, lake)
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in STATES}
    try:
        airflow.start()
        airflow.until("a first run, by the clock", lambda: airflow.tasks(NAME, "skipped"))
        for _ in range(options.rounds):
            for kind in STATES:
                if kind == "one":
                    row = trades(rng, 1, options.symbols, START + int(rng.integers(options.days)) * DAY, DAY)
                    write_deltalake(str(source), row, mode="append")
                found[kind].append(_run(airflow, STATES[kind]))
                print(f"{kind}: {found[kind][-1]}", file=sys.stderr, flush=True)
    finally:
        airflow.stop()
    return {"options": given(options), "tasks": {kind: _told(of) for kind, of in found.items()}}


def _run(airflow: Airflow, state: str) -> dict[str, float]:
    """Trigger the DAG, wait for its task, and return its seconds."""
    asked = time.time()
    run_id = trigger(airflow, NAME)

    def ended() -> list[tuple[Any, ...]]:
        return airflow.rows(
            "SELECT state, start_date, end_date FROM task_instance WHERE run_id = ? AND end_date IS NOT NULL", run_id
        )

    [(found, *times)] = airflow.until(f"the end of {run_id}", ended)
    if found != state:
        raise SystemExit(f"the task ended as {found}, not as {state}\n{airflow.said()}")
    start, end = (datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in times)
    return {"task": round(end - start, 3), "whole": round(end - asked, 3)}


def trigger(airflow: Airflow, name: str) -> str:
    """Ask the API for a run of a DAG and return its id."""
    address = f"http://127.0.0.1:{airflow.port}"
    with urllib.request.urlopen(f"{address}/auth/token", timeout=30) as answer:
        token = json.load(answer)["access_token"]
    request = urllib.request.Request(
        f"{address}/api/v2/dags/{name}/dagRuns",
        json.dumps({"logical_date": None}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["dag_run_id"])


def _told(rounds: list[dict[str, float]]) -> dict[str, Any]:
    seconds, whole = ([one[key] for one in rounds] for key in ("task", "whole"))
    return {
        "median": median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "whole": median(whole),
        "all": rounds,
    }


def show(found: dict[str, Any]) -> None:
    """Print the medians."""
    for kind, title in (("nothing", "a task with nothing to do"), ("one", "a task after one late row")):
        told = found["tasks"][kind]
        print(
            f"{title:26} {told['median']:6.2f} s, from {told['least']:.2f} to {told['most']:.2f} s in {len(told['all'])} runs;"
            f" {told['whole']:6.2f} s from the request to its end"
        )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
