"""What stands in a fenced block is done: every block of every page, in order, on a small real lake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer

from materializer.adapters.cli.application import app
from materializer.core.language.parse import parse_definitions
from tests.docs import stories
from tests.docs.blocks import PAGES, Block, blocks, commands
from tests.paths import ROOT

EVERY = [block for page in PAGES for block in blocks(page)]
TOLD = {
    page: todo
    for page in PAGES
    if (todo := [b for b in blocks(page) if b.language in stories.LANGUAGES and not stories.is_done_elsewhere(b)])
}
"""What is to be done on each page."""


def named(block: Block) -> str:
    return block.name


def test_no_block_slips_by() -> None:
    """
    Every block says what language it is in, one that is known here; in `text` are those that the tables list, with a reason.
    """
    known = (*stories.LANGUAGES, "{toctree}", "{eval-rst}")
    listed = {*stories.SHOWN, *stories.CRONTABS}

    assert [] == [f"{b.page}:{b.line}: {b.language or 'no language'}" for b in EVERY if b.language not in known]
    assert listed == {b.name for b in EVERY if b.language == "text"}
    assert {*stories.ELSEWHERE, *stories.FILES, *stories.MEANWHILE} <= {b.name for b in EVERY}
    assert all((ROOT / file).exists() for file in stories.ELSEWHERE.values())


def test_what_a_page_shows_of_an_output_is_compared() -> None:
    """
    With what the commands print; the pages of which it is not are listed with the reason. No command stands outside of the blocks.
    """
    shown = {
        b.page
        for b in EVERY
        if b.language == "console"
        and not stories.is_done_elsewhere(b)
        and any("".join(c.output).strip() for c in commands(b))
    }

    assert shown == {page for page in (*stories.COMPARED, *stories.UNCOMPARED) if page in shown}
    assert set(stories.UNCOMPARED) <= shown
    for page in PAGES:
        inside = {n for b in blocks(page) for n in range(b.line, b.line + len(b.text.splitlines()) + 2)}
        lines = enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), start=1)
        assert [] == [
            f"{page}:{n}" for n, line in lines if n not in inside and re.match(r"\s*\$ \w|\s{4,}materializer ", line)
        ]


def test_what_is_left_out_is_there_and_done_by_the_test_that_is_named() -> None:
    """
    No command is listed that no page has, and the test of a block that is done elsewhere names its page.
    """
    words = {c.words[0] for b in EVERY if b.language in {"sh", "console"} for c in commands(b)}

    assert set(stories.NOT_HERE) <= words
    for name, file in stories.ELSEWHERE.items():
        assert name.partition("#")[0] in (ROOT / file).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("block", [b for b in EVERY if b.language == "sql" and "MATERIALIZED" in b.text], ids=named)
def test_a_definition_is_one(block: Block) -> None:
    """
    It is read without a problem.
    """
    assert parse_definitions(block.text)


def test_what_a_page_shows_of_a_file_is_in_it() -> None:
    """
    The definition in the tour is that of the demo.
    """
    [shown] = [b for b in blocks("docs/tour.md") if b.language == "sql"]

    assert (ROOT / "sql" / "destinations_monthly.sql").read_text(encoding="utf-8").endswith(shown.text)


# -- commands ------------------------------------------------------------------------------------------------------------


def shapes() -> Iterator[tuple[str, str]]:
    """Every call of ours: in a block, or in backquotes within the text."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for call in re.findall(r"`materializer ([^`]+)`", text):
            yield page, call
        for block in blocks(page):
            for command in commands(block) if block.language in {"sh", "console"} else ():
                if command.words[0].endswith("materializer"):
                    yield page, " ".join(command.words[1:])
            if block.name in stories.CRONTABS:
                yield page, block.text.split("materializer ", 1)[1].strip()


@pytest.mark.parametrize(("page", "call"), sorted(set(shapes())))
def test_a_command_takes_what_it_is_given(page: str, call: str) -> None:
    """
    It exists, and so does every option; `NAME` and `COMMAND` stand for what a reader fills in.
    """
    command: Any = typer.main.get_command(app)
    words = [word.strip("[]") for word in call.split()]
    while words and hasattr(command, "commands") and words[0] != "COMMAND":
        command = command.commands[words.pop(0)]
    known = {name for p in command.params for name in p.opts} | {"--help"}

    assert {w for w in words if w.startswith("--")} <= known


@pytest.mark.parametrize("page", PAGES)
def test_a_module_that_a_page_runs_is_there(page: str) -> None:
    """
    `python -m tests.…` names a module.
    """
    for module in re.findall(r"`?python -m (tests\.[\w.]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert find_spec(module) is not None, module


# -- stories -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """What the sources hold."""
    return {"flights": stories.some_flights(), "trades": stories.trades()}


@pytest.mark.one_of(6)
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in stories.LONG else page for page in TOLD]
)
def test_a_page_can_be_followed(page, spark, tables, tmp_path: Path, monkeypatch, capsys) -> None:
    """
    Its blocks are done one after the other, and what is left is refreshed.
    """
    monkeypatch.chdir(tmp_path)
    stories.sources("lake", tables)

    def printed() -> str:
        said = capsys.readouterr()
        return said.out or said.err

    story = stories.Story(page, spark, monkeypatch, printed)
    for block in TOLD[page]:
        story.do(block)
    story.end()

    assert "queue" not in story.names or not story.names["queue"].empty()
