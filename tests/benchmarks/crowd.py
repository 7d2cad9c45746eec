"""Benchmark: very many definitions in one lake.

    python -m tests.benchmarks.crowd [--definitions 1000] [--lake 10000] [--rounds 5] [--only apply refresh lake] [--keep]

First, definitions over one source are applied, applied again, and applied with one of them changed; no Java can be found. Then all of them are
materialised and refreshed after late rows; beside the seconds stand the files of the source, and how often they were opened. Last, a lake of ten and
a lake of very many aggregates, each with tables: ``status`` of all, and a refresh of one of them after a late row. Each figure
is the median of as many rounds, from the start of the process to its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake

from materializer.journal import output_rows
from materializer.journal.journal import Journal
from tests.crowds import copy_aggregate

BEGIN: Final = datetime(2024, 3, 1, tzinfo=UTC)
FILES: Final = 8
ROWS: Final = 5_000
"""Rows of each file of the source."""
WIDTHS: Final = ("1 hour", "2 hours", "6 hours", "1 day")
MEASURES: Final = ("sum(v)", "count(*)", "avg(v)", "max(v)", "min(w)", "sum(w)", "count(w)", "max(w)")


def definition(number: int, comment: str = "") -> str:
    """Return one of many definitions: another filter, and some width, key and measures."""
    width, measure = WIDTHS[number % 4], MEASURES[number % 8]
    key = ", k" if number % 3 else ""
    said = f"COMMENT '{comment}'\n" if comment else ""
    return (
        f"CREATE MATERIALIZED VIEW of_{number:05d}\n{said}AS SELECT time_bucket('{width}', ts) AS at{key}, {measure} AS m, count(*) AS n\n"
        f"FROM raw\nWHERE v > {number}\nGROUP BY time_bucket('{width}', ts){key};\n"
    )


def add_rows(folder: Path, first: int, count: int) -> None:
    """Add rows, one a minute of which the last ones are the newest."""
    numbers = range(first, first + count)
    columns = {
        "ts": pa.array([BEGIN + timedelta(minutes=n) for n in numbers], pa.timestamp("us", "UTC")),
        "k": [f"k{n % 20}" for n in numbers],
        "v": pa.array([n * 7919 % 10_007 for n in numbers], pa.int64()),
        "w": pa.array([n * 104_729 % 9_973 for n in numbers], pa.int64()),
    }
    write_deltalake(
        str(folder / "raw"), pa.table(columns), mode="append", configuration={"delta.enableChangeDataFeed": "true"}
    )


def run(folder: Path, *words: str) -> tuple[float, str]:
    """Run a command in a process of its own, without Java; return its seconds and what it printed."""
    env = os.environ | {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "MATERIALIZER_EXECUTOR": "auto"}
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "materializer", *words, "--lake", str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=env,
        check=False,
    )
    seconds = perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds, done.stdout


def crowd(folder: Path, count: int) -> None:
    """Make a lake of so many aggregates with tables: copies of one that was refreshed."""
    folder.mkdir()
    add_rows(folder, 0, 2_000)
    (folder / "one.sql").write_text(definition(0))
    run(folder, "apply", "one.sql")
    run(folder, "refresh", "of_00000")
    copy_aggregate(folder, "of_00000", count - 1)
    view = Journal(folder).view()
    output_rows.note(str(folder), view, view.all.ids())  # as the refreshes of the copies would have


def measured_lake(folder: Path, count: int, rounds: int) -> tuple[float, float]:
    """Return the seconds of ``status``, and of a refresh of one aggregate after a late row, in a lake of so many."""
    lake = folder / f"lake_{count}"
    crowd(lake, count)
    run(lake, "refresh", "of_00000")
    statuses = [run(lake, "status")[0] for _ in range(rounds)]
    late = []
    for number in range(rounds):
        add_rows(lake, 500 + number, 1)
        late.append(run(lake, "refresh", "of_00000")[0])
    return median(statuses), median(late)


if __name__ == "__main__":
    crowd(Path(sys.argv[2]), int(sys.argv[1]))
