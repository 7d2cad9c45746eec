"""Benchmark: how long Airflow takes to read a dags file of a lake with many aggregates, and a task to start.

    python -m tests.benchmarks.dags [--aggregates 200] [--rounds 5] [--keep]

The journal is written directly, without Spark: half of the aggregates read a table, half read another aggregate; a third
have two policies. Each reading is a process of its own, as Airflow's are: *list* is what Airflow finds after a command of
ours wrote the journal, with the list beside it; *journal* after a commit that makes the list worthless, *again* when that
was read before; *folder* from a folder of the same definitions that nobody has read, *changed* after one of its files
changed; *task* what a task reads, one DAG of all. Time is taken around
``dags_of`` with Airflow loaded before, and around the whole process for comparison; ``made`` says how long making DAGs from
what was read takes alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec.structs import replace

from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import TimeType
from materializer.journal.events import Defined, SourceIdentity
from materializer.journal.journal import Journal
from materializer.lake import places
from tests.benchmarks.trades import given, report, reporting
from tests.paths import ROOT

READ: Final = """
import json, sys, time
import airflow.sdk
from airflow.sdk import DAG, Asset, AssetWatcher, AsyncCallback, BaseOperator, DeadlineAlert, Param
import croniter
DAG("warm", schedule="@daily")
begun = time.perf_counter()
from materializer.adapters.airflow import dags_of
imported = time.perf_counter()
context = json.loads(sys.argv[2])
if context:
    from airflow.sdk.definitions.context import AirflowParsingContext
    from materializer.adapters.airflow.dags import factory
    factory.get_parsing_context = lambda: AirflowParsingContext(dag_id=context, task_id="refresh")
dags = dags_of(**json.loads(sys.argv[1]))
ended = time.perf_counter()
loaded = sorted({m.partition(".")[0] for m in sys.modules} & {"pyspark", "py4j", "delta", "pandas"})
print(json.dumps({"dags": len(dags), "import": imported - begun, "dags_of": ended - imported, "loaded": loaded}))
"""


def definition(n: int) -> str:
    """One definition; odd ones read the one before them."""
    source, column = ("trades", "ts") if n % 2 == 0 else (f"agg_{n - 1:03}", "hour")
    width = "1 hour" if n % 2 == 0 else "1 day"
    policies = ["'refresh.start_offset' = '7 days'", "'refresh.max_staleness' = '2 hours'"]
    if n % 2 == 0:
        policies.append("'refresh.schedule' = '*/5 * * * *'")
    if n % 3 == 0:
        policies += ["'refresh.old.end_offset' = '7 days'", "'refresh.old.schedule' = '0 3 * * *'"]
    start = "hour" if n % 2 == 0 else "day"
    return (
        f"CREATE MATERIALIZED VIEW agg_{n:03}\nCOMMENT 'Number {n}'\nTBLPROPERTIES ({', '.join(policies)})\n"
        f"AS SELECT time_bucket('{width}', {column}) AS {start}, sym, count(*) AS n, sum(volume) AS volume,\n"
        f"          avg(price) AS price FROM {source} WHERE volume > 0 GROUP BY 1, 2;\n"
    )


def lake_of(root: str | Path, count: int) -> None:
    """Write a journal of *count* aggregates, and their definitions beside it, at a path or a URL."""
    places.make_folder(f"{root}/sql")
    journal = Journal(root)
    for n in range(count):
        text = definition(n)
        places.put(f"{root}/sql/agg_{n:03}.sql", text.encode())
        (spec,) = parse_definitions(text)
        spec = replace(spec, time_type=TimeType.TIMESTAMP)
        path = "trades" if n % 2 == 0 else f"agg_{n - 1:03}/output"
        source = SourceIdentity(f"{root}/{path}", f"table-{n}")
        columns = {"partials": [["_bucket", "timestamp"]], "output": [["hour", "timestamp"]]}
        event = Defined(spec.name, spec.as_json(), f"data-{n}", source, 0, columns, {"partials": "p", "output": "o"})
        journal.append(journal.view().version, f"id-{n}", [event])
        journal.tidy()


def read(options: dict[str, str], home: Path, dag_id: str | None = None) -> dict[str, float]:
    """Read the DAGs in a new process and return what it says, with its wall time."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps(options), json.dumps(dag_id)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found | {"process": time.perf_counter() - begun}


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the median of each kind of reading, and every reading."""
    root, home = folder / "lake", folder / "home"
    lake_of(root, options.aggregates)
    lake, sql = {"lake": str(root)}, {"lake": str(root), "definitions": str(root / "sql")}
    read(lake, home)  # Airflow writes its configuration
    every: dict[str, list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for kept in (home / "materializer").glob("*.json"):
            kept.unlink()
        Journal(root).tidy()
        every.setdefault("list", []).append(read(lake, home))
        every.setdefault("task", []).append(read(lake, home, "agg_001"))
        (root / "_materializer" / "listing.json").unlink()
        every.setdefault("journal", []).append(read(lake, home))
        every.setdefault("again", []).append(read(lake, home))
        every.setdefault("folder", []).append(read(sql, home))
        with (root / "sql" / "agg_000.sql").open("a", encoding="utf-8") as file:
            file.write("-- changed\n")
        every.setdefault("changed", []).append(read(sql, home))
    readings = {kind: round(median(one["import"] + one["dags_of"] for one in of), 4) for kind, of in every.items()}
    return {"options": given(options), "readings": readings, "every": every}


def show(found: dict[str, Any]) -> None:
    """Print every reading, and the median of each kind."""
    for kind, readings in found["every"].items():
        for one in readings:
            seconds = "  ".join(f"{k} {one[k]:.2f} s" for k in ("import", "dags_of", "process"))
            print(f"{kind:7} {one['dags']:4} DAGs  {seconds}  loaded {one['loaded']}")
    for kind, seconds in found["readings"].items():
        print(f"{kind:7} {seconds:.2f} s, imports of ours included, the median of {len(found['every'][kind])}")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aggregates", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    report(reporting(parser), run, show)


if __name__ == "__main__":
    main()
