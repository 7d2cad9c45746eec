"""A newcomer's path: what the README says is typed, in a terminal, and ends with a verified number in time."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.newcomer import __main__ as newcomer
from tests.newcomer import journey
from tests.newcomer.journey import Shell, Step, exceeded, summed, walk


def test_the_readme_has_what_is_typed() -> None:
    """
    Every command of its first minutes, in the order of this path, and no other.
    """
    expected = [journey.ENVIRONMENT, journey.INSTALL, journey.NEW, *journey.FIRST, *journey.AGAIN]
    typed = [
        line.removeprefix("$ ").partition("  #")[0].strip()
        for block in blocks("README.md")
        if block.language in {"sh", "console"} and not block.text.startswith("make ")
        for line in block.text.splitlines()
    ]

    assert expected == typed


def test_limits_are_of_all_and_of_typing() -> None:
    """
    A path is too long if all of it takes more than ten minutes, and if typing takes more than two.
    """
    quick = Step("materializer apply sql", 500.0, characters=300)

    assert [] == exceeded([quick])
    assert [] == exceeded([quick, Step("waited", 10.0)])
    assert 1 == len(exceeded([quick, Step("waited", 11.0)]))
    assert 1 == len(exceeded([Step("asked", 1.0, questions=25)]))
    assert 2 == len(exceeded([Step("both", 600.0, questions=25)]))


def test_examples_are_true() -> None:
    """
    Every example in the docstrings gives what it says.
    """
    assert doctest.testmod(journey).failed == 0
    assert doctest.testmod(journey).attempted > 1


@pytest.mark.spark
def test_a_folder_of_parquet_becomes_right_numbers(tmp_path: Path) -> None:
    """
    With this environment, and without the commands after the refresh: the output is what plain Python counts, and typing is counted.
    """
    shell = Shell(tmp_path / "work", newcomer.here(tmp_path))
    shell.folder.mkdir()
    shown = walk(shell, "parquet", 2_000, journey.AGAIN[:1])
    others = "".join(f"{line}\n" for line in (journey.ENVIRONMENT, journey.INSTALL, *journey.AGAIN[1:]))
    typed = summed([*shell.steps, Step("typed elsewhere", 0.0, len(others))])

    assert "read 40 rows" in shown
    assert len(journey.QUESTIONS) + 1 == typed.questions
    assert [] == exceeded([typed])


@pytest.mark.slow
def test_a_newcomer_has_a_verified_number_in_ten_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The wheel is installed into a new environment; both kinds of source, each with a table of the steps.
    """
    assert 0 == newcomer.main(["--rows", "200000"])
    assert 2 == capsys.readouterr().out.count("| all |")
