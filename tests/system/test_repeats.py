"""Which tests of a lake are repeated with the second executor, and that each of the others has a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests import drawn
from tests.paths import ROOT
from tests.system.repeats import EXCLUDED

LAKE: Final = "def test_a_lake(site):\n    pass\n"
OWN: Final = "@pytest.fixture\ndef site():\n    return None\n\n\ndef test_a_lake(site):\n    pass\n"
TESTS: Final = {
    "test_new.py": LAKE,
    "test_with_a_reason.py": '@pytest.mark.of_spark("counts jobs")\n' + LAKE,
    "test_together.py": OWN,
    "test_no_reason.py": "@pytest.mark.of_spark\n" + LAKE,
    "test_an_empty_reason.py": '@pytest.mark.of_spark("")\n' + LAKE,
    "test_a_lake_of_its_own.py": OWN,
}
REPEATED: Final = {
    "test_new.py::test_a_lake",
    "test_new.py::test_a_lake[auto]",
    "test_with_a_reason.py::test_a_lake",
    "test_together.py::test_a_lake",
}
BOTH: Final = """import pytest


@pytest.fixture(params=["spark", "auto"])
def site(request):
    return None


def test_a_lake(site):
    pass


@pytest.mark.parametrize("name", range(20))
def test_many(site, name):
    pass
"""
"""A file whose lakes are computed by each of both executors."""
REFUSED: Final = {
    "test_no_reason.py": "the mark `of_spark` has no reason",
    "test_an_empty_reason.py": "the mark `of_spark` has no reason",
    "test_a_lake_of_its_own.py": "a lake of its own is not repeated",
}


@pytest.mark.parametrize("file", EXCLUDED)
def test_what_is_excluded_is_there(file: str) -> None:
    """
    A file that is gone, or none of whose tests has a lake any more, is excluded from nothing.
    """
    text = (ROOT / "tests" / "system" / file).read_text(encoding="utf-8")

    assert "(site: Site" in text
    assert EXCLUDED[file]


@pytest.mark.slow
def test_what_is_repeated(tmp_path: Path) -> None:
    """
    Every test of a lake, unless its file or itself has a reason; one that is left out without a reason is not collected.
    """
    (tmp_path / "conftest.py").write_text((ROOT / "tests/system/conftest.py").read_text(encoding="utf-8"), "utf-8")
    for name, text in TESTS.items():
        (tmp_path / name).write_text(f"import pytest\n\n\n{text}", "utf-8")
    words = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "--collect-only", "-q", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()

    assert set(REFUSED) == {Path(line.split()[1]).name for line in said if line.startswith("ERROR ")}, said
    assert REPEATED == {line for line in said if line.startswith("test_") and ": " not in line}
    for name, complaint in REFUSED.items():
        assert any(name in line and complaint in line for line in said), (name, said)


@pytest.mark.slow
def test_one_of_both_is_drawn_where_a_file_has_lakes_of_both(tmp_path: Path) -> None:
    """
    Of each test of such a file a run takes one executor by its seed, each for some; the shards take both.
    """
    (tmp_path / "conftest.py").write_text((ROOT / "tests/system/conftest.py").read_text(encoding="utf-8"), "utf-8")
    (tmp_path / "test_presence.py").write_text(BOTH, "utf-8")
    words = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "--collect-only", "-q", str(tmp_path)]

    def taken(marks: str, **variables: str) -> set[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", marks, *words]
        env = os.environ | {drawn.SEED: "3"} | variables
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env).stdout
        return {line.partition("::")[2] for line in said.splitlines() if "::" in line}

    one, other = taken("not slow"), taken("slow")
    assert 21 == len(one) == len(other)
    assert 1 == len(one & {"test_a_lake[spark]", "test_a_lake[auto]"})
    assert {True, False} == {"spark" in test for test in one}
    assert 42 == len(taken("slow", **{drawn.ALL: "1"}))
