"""Every code: its error is provoked and its hint followed, or the table says why not and what else looks at it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from materializer.errors.explained import all_codes
from tests.hints.cases import BY_SPARK, CASES
from tests.hints.world import HOURLY, World
from tests.paths import ROOT

LEFT = tomllib.loads((Path(__file__).parent / "left.toml").read_text(encoding="utf-8"))
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


def test_every_code_is_followed_or_is_left_with_a_reason() -> None:
    """
    No code of an error is in both lists or in none.
    """
    assert sorted(CODES) == sorted([*CASES, *LEFT])


@pytest.mark.parametrize("code", LEFT)
def test_what_is_left_says_why_and_what_provokes_it(code: str) -> None:
    """
    A reason, and a test that names the code or its class; only what has no hint to follow needs none.
    """
    entry = LEFT[code]
    assert len(entry["why"]) > 10
    if "test" in entry:
        text = (ROOT / entry["test"]).read_text(encoding="utf-8")
        assert any(name in text for name in (f'"{code}"', f"{code}", entry.get("name", code)))
