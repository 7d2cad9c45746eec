"""Every code: its error is provoked and its hint followed, or the table says why not and what else looks at it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from materializer import errors
from materializer.errors.explained import all_codes
from tests.hints.cases import BY_SPARK, CASES
from tests.hints.world import HOURLY, World
from tests.paths import ROOT

LEFT = tomllib.loads((Path(__file__).parent / "left.toml").read_text(encoding="utf-8"))
NAMES = {error.code: name for name, error in vars(errors).items() if isinstance(error, type)}
CODES = [code for code in all_codes() if not code.startswith(("definition.", "suite.", "doctor.")) or code in CASES]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    """A lake in the working directory; of a machine without Java, unless Spark is to compute something."""
    monkeypatch.chdir(tmp_path)
    if request.getfixturevalue("code") in BY_SPARK:
        request.getfixturevalue("spark")
    else:
        monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    for name in ("MATERIALIZER_LAKE", "MATERIALIZER_CONFIG", "MATERIALIZER_JSON"):
        monkeypatch.delenv(name, raising=False)
    world = World(tmp_path)
    world.apply(HOURLY)
    return world


@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=[pytest.mark.spark] if code in BY_SPARK else []) for code in CASES]
)
def test_a_hint_is_followed_and_works(world: World, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """
    The situation gives the error; what its hint says is done, each command as it is printed; then the command that failed works.
    """
    CASES[code](world, monkeypatch)


def test_every_code_is_followed_or_has_no_hint() -> None:
    """
    Here, or by a test elsewhere that needs a cluster, a catalog or a store; none is in two lists.
    """
    assert sorted(CODES) == sorted([*CASES, *followed_elsewhere(), *LEFT])


def test_what_has_no_hint_says_why() -> None:
    """
    Two entries, for what is no error of a user.
    """
    assert {"bug", "error"} == LEFT.keys()
    assert all(len(entry["why"]) > 10 for entry in LEFT.values())


def test_a_mark_names_a_code_that_its_file_meets() -> None:
    """
    The code itself or its class stands in the file of the test, beside the mark.
    """
    for code, file in followed_elsewhere().items():
        text = re.sub(r"follows_hint\([^)]*\)", "", file.read_text(encoding="utf-8"))
        assert any(name in text for name in (code, NAMES.get(code, code))), code


def followed_elsewhere() -> dict[str, Path]:
    """Return the codes whose hints tests of other folders follow, and the file of each: what `follows_hint` marks."""
    found = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "follows_hint(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.follows_hint":
                        found |= {ast.literal_eval(code): file for code in mark.args}
    return found
