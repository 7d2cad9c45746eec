"""Benchmark: very many definitions in one lake.

    python -m tests.benchmarks.crowd [--definitions 1000] [--refreshed 200] [--lake 10000] [--rounds 3] [--only apply refresh lake]

First, definitions over one source are applied, applied again, and applied with one of them changed; no Java can be found. Then so many are
materialised and refreshed after a late row; beside the seconds stand the files of the source, and how often one was opened. Last, a lake of ten and
a lake of very many aggregates, each with tables: ``status`` of all, and a refresh of one of them after a late row. Each figure
but those of the second part is the median of some rounds, from the start of the process to its end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake

from materializer.journal import output_rows
from materializer.journal.journal import Journal
from tests.benchmarks.files import opened
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
    (folder / "_materializer" / "listing.json").unlink()  # the next refresh lists all of them


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


def measured_apply(folder: Path, count: int, rounds: int) -> dict[str, float]:
    """Return the seconds of an apply of so many new definitions, of none new, and of one that changed."""
    seconds: dict[str, list[float]] = {"new": [], "unchanged": [], "one changed": []}
    for number in range(rounds):
        lake = folder / f"apply_{number}"
        lake.mkdir()
        add_rows(lake, 0, 2_000)
        text = [definition(n) for n in range(count)]
        (lake / "all.sql").write_text("".join(text))
        seconds["new"].append(run(lake, "apply", "all.sql")[0])
        seconds["unchanged"].append(run(lake, "apply", "all.sql")[0])
        text[count // 2] = definition(count // 2, "changed")
        (lake / "all.sql").write_text("".join(text))
        seconds["one changed"].append(run(lake, "apply", "all.sql")[0])
    return {what: median(found) for what, found in seconds.items()}


def measured_refresh(folder: Path, count: int) -> dict[str, str]:
    """Return the seconds of a backfill and of a refresh of so many aggregates of one source, with how often a file was opened."""
    lake = folder / "refresh"
    lake.mkdir()
    for number in range(FILES):
        add_rows(lake, number * ROWS, ROWS)
    (lake / "all.sql").write_text("".join(definition(number) for number in range(count)))
    run(lake, "apply", "all.sql")
    found = {}
    for command in ("backfill", "refresh"):
        with opened([lake / "raw"]) as files:
            seconds = run(lake, command, "--all")[0]
        most = max(files.openings.values(), default=0)
        found[command] = f"{seconds:.1f} s, {len(files.files)} files of the source, each opened at most {most} times"
        add_rows(lake, 100, 1)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each figure."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--definitions", type=int, default=1_000)
    asked.add_argument("--lake", type=int, default=10_000)
    asked.add_argument("--refreshed", type=int, default=200)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--only", nargs="*", choices=("apply", "refresh", "lake"), default=("apply", "refresh", "lake"))
    given = asked.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if "apply" in given.only:
            print(f"apply of one definition: {measured_apply(root, 1, 1)['new']:.2f} s")
            shutil.rmtree(root / "apply_0")
            for what, seconds in measured_apply(root, given.definitions, given.rounds).items():
                print(f"apply of {given.definitions:,} definitions, {what}: {seconds:.2f} s")
        if "refresh" in given.only:
            for command, words in measured_refresh(root, given.refreshed).items():
                print(f"{command} --all of {given.refreshed:,} aggregates of one source: {words}")
        for count in (10, given.lake) if "lake" in given.only else ():
            status, late = measured_lake(root, count, given.rounds)
            print(f"lake of {count:,} aggregates: status {status:.2f} s, one late row of one of them {late:.2f} s")


if __name__ == "__main__":
    main()
