"""Build the wheel, install it into a new environment outside of the source tree, and do a small job with it.

    python .ci/wheel.py [--python PYTHON] [--newest]

The job defines, backfills, refreshes and verifies an aggregate by the installed command alone. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("materializer", "dbt/adapters/materializer")
ROWS = """
import sys
from datetime import UTC, datetime, timedelta
import pyarrow as pa
from deltalake import write_deltalake
first, last, size = map(int, sys.argv[1:])
times = [datetime(2024, 3, 1, tzinfo=UTC) + timedelta(minutes=n) for n in range(first, last)]
rows = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "sym": ["AB"[n % 2] for n in range(first, last)],
                 "size": pa.array([size] * (last - first), pa.int64())})
write_deltalake("lake/trades", rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})
"""
INSIDE = """
import materializer, pathlib, sys
from importlib.metadata import distribution
from materializer.core.engines.guides import GUIDES
from materializer.demo.earlier import DEFINITIONS
from materializer.errors.explained import all_codes
home = pathlib.Path(materializer.__file__).parent
assert home.is_relative_to(sys.prefix), home
assert distribution("delta-materializer").version == materializer.__version__
assert sorted(p.name for p in DEFINITIONS.glob("*.sql")) and DEFINITIONS.is_relative_to(home), DEFINITIONS
assert (DEFINITIONS.parent / "expectations").is_dir()
assert len(GUIDES) == 10 and len(all_codes()) > 200
assert (home / "spark" / "runtime" / "conf" / "log4j2.properties").is_file()
from materializer import *
print(f"delta-materializer {materializer.__version__} in Python {sys.version.split()[0]}")
"""
JOB = (
    ("python", "-c", ROWS, "0", "2880", "1"),
    ("materializer", "version"),
    ("materializer", "new", "trades", "--name", "bars", "--bucket", "1 hour", "--key", "sym", "--yes"),
    ("materializer", "apply", "sql"),
    ("materializer", "backfill", "bars", "--buckets-per-run", "24"),
    ("python", "-c", ROWS, "60", "62", "5"),
    ("materializer", "plan", "bars"),
    ("materializer", "refresh", "bars"),
    ("materializer", "verify", "bars"),
    ("materializer", "check", "bars"),
    ("materializer", "explain", "window.frozen"),
    ("materializer", "completion", "bash"),
)


def said(command: Sequence[str | Path], *, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed; show it if it fails."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        raise SystemExit(f"{' '.join(str(c) for c in command)[:200]} ended with {done.returncode}")
    return done.stdout


def outside() -> dict[str, str]:
    """Return an environment that knows nothing of the source tree and of settings of this machine's user."""
    ours = ("MATERIALIZER_", "PYTHON", "VIRTUAL_ENV", "PIP_CONSTRAINT")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def built(folder: Path) -> Path:
    """Build the wheel and return it; it has every file that is read at run time, and no test."""
    said([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT], cwd=folder)
    [wheel] = folder.glob("delta_materializer-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    files = [p for package in PACKAGES for p in (ROOT / package).rglob("*") if p.is_file()]
    wanted = {str(p.relative_to(ROOT)) for p in files if "__pycache__" not in p.parts}
    if missing := sorted(wanted - inside):
        raise SystemExit(f"the wheel lacks {', '.join(missing)}")
    known = (*(f"{package}/" for package in PACKAGES), "delta_materializer-")
    if foreign := sorted(n for n in inside if not n.startswith(known)):
        raise SystemExit(f"the wheel has {', '.join(foreign)}")
    return wheel


def installing(programs: Path, wheel: Path, *, is_pinned: bool) -> list[str]:
    """Return the command that installs a wheel, with the pinned releases or with the newest that fit."""
    pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [str(word) for word in [*pip, *(["-c", ROOT / "constraints.txt"] if is_pinned else []), wheel]]


def main(arguments: Sequence[str]) -> int:
    """Do all of it, and print what was done with the seconds that it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python of the new environment")
    parser.add_argument("--newest", action="store_true", help="without constraints.txt: the newest releases that fit")
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="wheel-"))
    began = time.monotonic()
    try:
        wheel = built(folder)
        print(f"built {wheel.name} in {time.monotonic() - began:.0f} s")
        programs = folder / "venv" / "bin"
        said([asked.python, "-m", "venv", folder / "venv"], cwd=folder, env=outside())
        said(installing(programs, wheel, is_pinned=not asked.newest), cwd=folder, env=outside())
        print(f"installed after {time.monotonic() - began:.0f} s")
        work = folder / "work"
        (work / "lake").mkdir(parents=True)
        env = outside() | {"MATERIALIZER_LAKE": "lake"}
        print(said([programs / "python", "-c", INSIDE], cwd=work, env=env).strip())
        for program, *rest in JOB:
            said([programs / program, *rest], cwd=work, env=env)
        print(f"{len(JOB)} commands worked, {time.monotonic() - began:.0f} s in all")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
