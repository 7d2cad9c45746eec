"""Run the benchmarks of ``docs/benchmarks.md`` one after the other, each in a process of its own; print what each prints.

    python -m tests.benchmarks [--only NAME…] [--quick | --json | --unkept] [OPTION…]

What they find is kept in ``docs/benchmarks/history.jsonl``; ``--unkept`` only prints it. What is not an option of this command is
given to each: ``--only trades growth --memory 3g``. ``--quick`` takes small sizes, for a first look: figures that say that
everything runs and little else, and are not kept. ``python -m tests.benchmarks.charts`` draws what was kept.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

QUICK: Final[Mapping[str, str]] = {
    "trades": "--rows 500000 --days 5 --symbols 20 --late 1000 --memory 2g",
    "growth": "--days 1 3 --rows-a-day 20000 --rounds 2",
    "decay": "--refreshes 40 --maintain-every 10",
    "journal": "--refreshes 300",
    "process": "--rows 50000 --rounds 1",
    "connect": "--rows 50000 --rounds 1",
    "local": "--rows 50000 --rounds 1 --late 1000",
    "keys": "--devices 500",
    "due": "--aggregates 6 --sources 2 --rows 2000 --rounds 1",
    "slopes": "--percent 1 --rounds 1",
    "engines": "--rows 24000 --keys 200 --days 2",
    "gate": "--rows 100000 --late 1000 --rounds 3 --memory 2g",
    "dags": "--aggregates 20 --rounds 1",
    "logs": "--a-day 24",
    "page": "--aggregates 5 --refreshes 500",
    "airflow_tasks": "--rows 50000 --rounds 1",
}
"""Every benchmark, and the sizes of a first look."""


def commands(arguments: Sequence[str] | None = None) -> list[list[str]]:
    """Return the command line of each benchmark that is asked for; ends the process where one is not there."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--only", nargs="+", choices=list(QUICK), metavar="NAME", help=f"some of {', '.join(QUICK)}")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is kept")
    parser.add_argument("--json", action="store_true", help="print JSON, and keep it in docs/benchmarks/history.jsonl")
    parser.add_argument("--unkept", action="store_true", help="keep nothing")
    asked, others = parser.parse_known_args(arguments)
    if asked.json and (asked.quick or asked.unkept):
        parser.error(
            "--json keeps figures for the page of benchmarks, and those of --quick say little: give one of them"
        )
    return [
        [
            *(sys.executable, "-m", f"tests.benchmarks.{name}"),
            *(shlex.split(sizes) if asked.quick else ()),
            *(["--json"] if asked.json else () if asked.quick or asked.unkept else ["--keep"]),
            *others,  # the last of an option counts
        ]
        for name, sizes in QUICK.items()
        if asked.only is None or name in asked.only
    ]


def main() -> int:
    """Run them all, whatever becomes of one; return 1 when one failed."""
    failed = []
    for command in commands():
        print("$", shlex.join(["python", *command[1:]]), file=sys.stderr, flush=True)
        if status := subprocess.run(command, check=False).returncode:
            failed.append(f"{command[2]} ended with status {status}")
    print(*failed, sep="\n", end="\n" if failed else "", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
