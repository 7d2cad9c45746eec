"""The distribution: its name, its version, its extras, and what its build takes along."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import materializer
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAME = PROJECT["project"]["name"]
TEXTS = [
    p
    for folder in ("materializer", "docs")
    for p in (ROOT / folder).rglob("*")
    if p.suffix in {".py", ".md", ".toml"} and "design" not in p.parts
]


def test_every_extra_that_is_named_exists() -> None:
    """
    In hints and on pages, under the name of the distribution and no other.
    """
    found = {
        (name, extra)
        for path in [*TEXTS, ROOT / "README.md"]
        for name, extras in re.findall(r"([\w-]*materializer)\[([\w,]+)\]", path.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }

    assert {NAME} == {name for name, _ in found}
    assert {extra for _, extra in found} <= set(PROJECT["project"]["optional-dependencies"])


def test_the_version_is_the_one_that_the_build_reads() -> None:
    """
    A literal, so that the build needs to import nothing.
    """
    text = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")

    assert [materializer.__version__] == re.findall(r'^__version__ = "([\d.]+)"$', text, flags=re.MULTILINE)
    assert ["version"] == PROJECT["project"]["dynamic"]


def test_the_demo_is_taken_along_whole() -> None:
    """
    Each definition that a checkout has, and each suite, to the place where the demo looks for it.
    """
    taken = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    wanted = [*(ROOT / "sql").glob("*.sql"), *(ROOT / "expectations").glob("*.json")]

    assert taken == {
        (name := p.relative_to(ROOT).as_posix()): f"materializer/demo/{name}" for p in sorted(wanted, key=Path)
    }


def test_every_extra_has_a_row() -> None:
    """
    On the page about installing; those of developers need none.
    """
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    rows = {
        name for line in re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE) for name in re.findall(r"`(\w+)`", line)
    }

    assert rows == set(PROJECT["project"]["optional-dependencies"]) - {"dev", "docs", "notebooks", "browser"}


@pytest.mark.slow
def test_the_wheel_does_a_job_without_the_source_tree() -> None:
    """
    As CI does it: built, installed into a new environment, and used there.
    """
    done = subprocess.run([sys.executable, ROOT / ".ci" / "wheel.py"], capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr
    assert "commands worked" in done.stdout
