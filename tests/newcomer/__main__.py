"""Time a newcomer's path, from an empty environment to a verified number on a table of their own.

    python -m tests.newcomer [--source parquet|delta] [--here] [--cold] [--rows N] [--python PYTHON] [--newest]

The wheel is built first, which no newcomer does, and is not counted. ``--here`` installs nothing and uses this environment and this source tree.
``--cold`` begins with empty caches, so that packages and the jars of Spark are fetched. Exits 1 if a path takes more than ten minutes, or more than
two of typing.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tests.newcomer.journey import ENVIRONMENT, INSTALL, KINDS, Shell, Step, exceeded, table, walk
from tests.paths import ROOT


def of_ci(name: str) -> ModuleType:
    """Return a script of ``.ci`` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def here(folder: Path) -> dict[str, str]:
    """Return an environment in which `materializer` and `python` are those of this process."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name, runs in (("materializer", f"{sys.executable} -m materializer"), ("python", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec {runs} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    wheel = of_ci("wheel")
    return wheel.outside() | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def installed(folder: Path, *, python: str, is_pinned: bool, is_cold: bool) -> tuple[dict[str, str], list[Step]]:
    """Install the wheel into a new environment; return how its programs are found, and the steps."""
    wheel = of_ci("wheel")
    file = wheel.built(folder)
    cold = {"XDG_CACHE_HOME": str(folder / "cache")} if is_cold else {}
    programs = folder / ".venv" / "bin"
    env = wheel.outside() | cold | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    shell = Shell(folder, env)
    shell.type(ENVIRONMENT, runs=[python, "-m", "venv", ".venv"])
    shell.type(INSTALL, runs=wheel.installing(programs, file, is_pinned=is_pinned))
    return env, shell.steps


def main(arguments: Sequence[str] | None = None) -> int:
    """Walk, and print a table for each source."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.newcomer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", choices=KINDS, help="a folder of Parquet files or a Delta table; else both")
    parser.add_argument("--here", action="store_true", help="without an installation")
    parser.add_argument("--cold", action="store_true", help="with empty caches")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the newcomer's table")
    parser.add_argument("--python", default=sys.executable, help="the Python of the new environment")
    parser.add_argument("--newest", action="store_true", help="without constraints.txt: the newest releases that fit")
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="newcomer-"))
    problems: list[str] = []
    try:
        if asked.here:
            env, steps = here(folder), []
        else:
            env, steps = installed(folder, python=asked.python, is_pinned=not asked.newest, is_cold=asked.cold)
        for kind in [asked.source] if asked.source else KINDS:
            work = folder / kind
            work.mkdir()
            shell = Shell(work, env, list(steps))
            assert "equal" in walk(shell, kind, asked.rows)
            assert (work / "report" / "index.html").exists()
            print(f"{kind}, {asked.rows:,} rows\n\n{table(shell.steps)}\n", flush=True)
            problems += [f"{kind}: {problem}" for problem in exceeded(shell.steps)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(problems) or "within ten minutes, of which two are typing")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
