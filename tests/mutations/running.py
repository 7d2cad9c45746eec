"""Plants mistakes in a copy of the repository, one after the other, and sees whether their tests fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from xml.etree import ElementTree as ET

from tests.mutations.catalogue import Mistake
from tests.paths import ROOT

Outcome = Literal["killed", "survived", "broken"]
SKIPPED: Final = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist", ".demo", ".cache"
)


@dataclass(frozen=True)
class Result:
    """What came out.

    Args:
        outcome: ``killed``: a test failed. ``survived``: none did. ``broken``: the entry says nothing, because its tests
            fail without the mistake as well, cannot be collected, have an error before they begin, or take too long.
        why: What failed, or what is broken.
        seconds: How long the tests took.
    """

    outcome: Outcome
    why: str
    seconds: float


@contextmanager
def copied(root: Path = ROOT) -> Iterator[Path]:
    """Copy the repository, as its files are now, into a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Path(folder) / root.name
        shutil.copytree(root, copy, ignore=SKIPPED)
        yield copy


def sound(copy: Path, mistakes: Sequence[Mistake], timeout: float) -> dict[str, Result]:
    """Run the tests of these without a mistake, and return what is broken of those whose tests do not pass."""
    tests = sorted({test for each in mistakes for test in each.tests})
    if _run(copy, tests, timeout).outcome == "survived":
        return {}
    alone = {each.id: _run(copy, each.tests, timeout) for each in mistakes}
    return {
        name: Result("broken", f"without the mistake: {found.why}", found.seconds)
        for name, found in alone.items()
        if found.outcome != "survived"
    }


def run(copy: Path, mistake: Mistake, timeout: float) -> Result:
    """Plant one mistake in the copy, run its tests, and take it back."""
    before = {place.file: (copy / place.file).read_text() for place in mistake.places}
    try:
        for place in mistake.places:
            if why := place.why_not(copy):
                return Result("broken", why, 0.0)
            place.plant(copy)
        _forget(copy, before)
        return _run(copy, mistake.tests, timeout)
    finally:
        for file, text in before.items():
            (copy / file).write_text(text)
        _forget(copy, before)


def _forget(copy: Path, files: Sequence[str] | dict[str, str]) -> None:
    """Remove what was kept of other contents: a compiled module of the same second and size would be taken for this one."""
    for file in files:
        path = copy / file
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
    shutil.rmtree(copy / ".hypothesis", ignore_errors=True)


def _run(copy: Path, tests: Sequence[str], timeout: float) -> Result:
    begun = time.perf_counter()
    report = copy / "mutation.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result("broken", f"not done after {timeout:g} s", timeout)
    outcome, why = _judged(done.returncode, report, done.stdout + done.stderr)
    return Result(outcome, why, round(time.perf_counter() - begun, 1))


def _judged(status: int, report: Path, output: str) -> tuple[Outcome, str]:
    if status == 0:
        return "survived", ""
    failed = _failed(report) if status == 1 else []
    if failed:
        return "killed", failed[0]
    told = [line for line in output.splitlines() if line.startswith(("E ", "ERROR", "ImportError"))]
    return "broken", f"pytest returned {status}: {' '.join((told or output.splitlines())[-1:])[:300]}"


def _failed(report: Path) -> list[str]:
    if not report.is_file():
        return []
    cases = ET.parse(report).iter("testcase")
    return [case.get("name", "") for case in cases if case.find("failure") is not None]
