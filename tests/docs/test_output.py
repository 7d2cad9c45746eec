"""What pages show of real runs is what these said, and what the code would say now."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.docs import output
from tests.docs.blocks import Block, blocks
from tests.docs.stories import SHOWN
from tests.paths import ROOT


def test_the_tour_shows_what_the_demo_told() -> None:
    """
    Every block of its output is a part of the one run that is kept in ``docs/tour.txt``: `python -m tests.docs.output --demo`.
    """
    of_demo = {name for name, why in SHOWN.items() if why == "output of the demo"}
    texts = output.of_demo(output.TOLD.read_text(encoding="utf-8"))

    assert of_demo == set(texts)
    for name, text in texts.items():
        [block] = [b for b in blocks(name.partition("#")[0]) if b.name == name]
        assert text == block.text, name


def test_a_block_shows_what_its_commands_print() -> None:
    """
    Wall times may be others, and lines may break elsewhere; a row more, or a word, is a difference.
    """
    text = "$ materializer apply a.sql\n$ materializer refresh a\na: 1,024 rows,\n   0.52 s\n\n$ false; echo $?\n3\n"
    block = Block("page.md", 1, 1, "console", text)

    assert [] == output.differences(block, ["whatever\n", "a: 1,024 rows, 12.1 s\n", "", "3\n"])
    assert [] != output.differences(block, ["", "a: 1,025 rows, 0.52 s\n", "", "3\n"])
    assert [] != output.differences(block, ["", "a: 1,024 rows, 0.52 s\n", "", "0\n"])
    assert text == output.console(block, ["", "a: 1,024 rows,\n   0.52 s\n", "", "3\n"])


def test_rows_are_compared_as_they_are() -> None:
    """
    Among the rows that `show` prints, a number with a point is a value, not a wall time.
    """
    block = Block("page.md", 1, 1, "console", "$ materializer refresh a\n$ materializer show a\nday  mean\n  1   2.5\n")

    assert [] == output.differences(block, ["done in 1.5 s\n", "day  mean\n  1   2.5\n"])
    assert [] != output.differences(block, ["done in 1.5 s\n", "day  mean\n  1   2.6\n"])


def test_examples_are_true() -> None:
    """
    Every example in the docstrings gives what it says.
    """
    assert doctest.testmod(output).failed == 0


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_tells_what_is_kept(tmp_path: Path) -> None:
    """
    The whole demo again, and the commands after it: only wall times, sizes and what prices decide are others.
    """
    told, typed = output.demo(str(tmp_path))
    [block] = [b for b in blocks("docs/tour.md") if b.language == "console"]

    [kept, new] = [
        output.CHOSEN.sub("~ of", output.masked(text)) for text in (output.TOLD.read_text(encoding="utf-8"), told)
    ]
    assert kept == new
    assert output.masked(block.text) == output.masked(typed)
    assert (ROOT / "docs" / "tour.txt") == output.TOLD
