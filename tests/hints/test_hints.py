"""Every code: its error is provoked and its hint followed, or the table says why not and what else looks at it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from materializer import errors
from materializer.errors.explained import all_codes
from tests.hints.cases import BY_SPARK, CASES
from tests.hints.elsewhere import FAMILIES, followed_elsewhere
from tests.hints.world import HOURLY, World

LEFT = tomllib.loads((Path(__file__).parent / "left.toml").read_text(encoding="utf-8"))
NAMES = {error.code: name for name, error in vars(errors).items() if isinstance(error, type)}
CODES = [code for code in all_codes() if not code.startswith((*FAMILIES, "doctor.")) or code in CASES]


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


@pytest.mark.one_of(4)
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
    Here, or by a test elsewhere that needs a cluster, a catalog or a store; none is in two lists. Those of definitions have a file
    of their own.
    """
    elsewhere = [code for code in followed_elsewhere() if not code.startswith(FAMILIES)]
    assert sorted(CODES) == sorted([*CASES, *elsewhere, *LEFT])


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
