"""The comment for a pull request, rendered by a library of Markdown."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace

from materializer.adapters.cli.render.markdown import block
from materializer.adapters.cli.render.proposal import MARK, ProposalResult
from materializer.adapters.cli.render.result import DONE, IDLE
from materializer.errors import Problem
from materializer.services.definitions.changes import DefinitionChange
from materializer.services.versions.proposal import ChangedReader, DefinitionsPlan, PlannedChange
from tests.adapters.cli import samples

RENDERER = MarkdownIt("commonmark").enable("table")
HOSTILE = (
    "a|b",
    "`code`",
    "``",
    "a\\|b\\",
    "<script>alert(1)</script>",
    "</code></details>",
    "@everyone",
    "see #1 and http://evil.example",
    "www.evil.example",
    "[a](http://b)",
    "![x](y)",
    "**bold** _under_ ~~gone~~",
    "two\nlines\r\n\r\n# a heading",
    "&amp;",
    "-->",
    "```\n</details>",
    "a\u2028b",
    "",
)


def comment(plan: DefinitionsPlan) -> str:
    return "\n".join(ProposalResult(plan, is_markdown=True).lines(100))


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table as a reader sees them."""
    found: list[list[list[str]]] = []
    tokens = RENDERER.parse(text)
    for at, token in enumerate(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in {"th_open", "td_open"}:
            found[-1][-1].append(shown(tokens[at + 1]))
    return found


def shown(cell: Token) -> str:
    """The text of a cell. The elements of ours are marks; any other element would be one that a name has made."""
    assert {t.content for t in cell.children or () if t.type == "html_inline"} <= {"<code>", "</code>"}
    assert not {t.type for t in cell.children or ()} & {"link_open", "image"}
    return "".join(t.content for t in cell.children or () if t.type != "html_inline")


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in text)).strip()


def of(planned: PlannedChange, *problems: Problem) -> DefinitionsPlan:
    return DefinitionsPlan((planned,), (), problems)


def test_a_comment_has_a_row_for_each_change() -> None:
    """
    With the kind, the parts that differ, the price, what computes it and who reads it; unchanged ones are a line below.
    """
    found = tables(comment(samples.PROPOSAL))
    [header, hourly, daily] = found[1]

    assert ["aggregate", "change", "price", "reads", "computed by", "read by"] == header
    assert ["flights_hourly", "its data: measure mean, where", "about 12.3 s in 2 runs"] == hourly[:3]
    assert ["about 336,776 rows, 12.3 MB in 12 files", "Spark: a run reads 168,388 rows"] == hourly[3:5]
    assert "flights_daily (breaks), flights_monthly" == hourly[5]
    assert ["flights_daily", "metadata only: comment", "nothing is computed", "", "", "nothing"] == daily
    assert comment(samples.PROPOSAL).startswith(f"{MARK}\n")
    assert "Unchanged: `flights_yearly`." in comment(samples.PROPOSAL)


def test_a_comment_names_problems_and_readers_that_break() -> None:
    """
    Each with its place, and why.
    """
    problems, _, broken, warnings = tables(comment(samples.PROPOSAL))

    assert samples.PROBLEM.code == problems[1][1] == warnings[1][1]
    assert samples.PROBLEM.message.replace("\n", " ") == problems[1][2]
    assert ["flights_daily", "flights_hourly", "it reads the column `mean`, which would be gone"] == broken[1]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_shown_as_they_are(text: str) -> None:
    """
    In every cell: no markup, no new cell, no element, no link.
    """
    change = DefinitionChange(text, "data", (f"- where: {text}", f"+ where: {text}"), "lake/a", 1)
    reader = ChangedReader(text, is_direct=True, problem=text or "gone")
    plan = of(
        PlannedChange(change, (text,), None, (text,), (reader,)), Problem("definition.join", text, text, text, 1, 1)
    )

    problems, changes, broken = tables(comment(plan))

    assert [f"{flat(text) or 'definition'}:1:1", "definition.join", flat(text), flat(text)] == problems[1]
    assert [flat(text), f"its data: {flat(text)}".strip()] == [changes[1][0], changes[1][1].strip()]
    assert [flat(text), flat(text), flat(text or "gone")] == broken[1]


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_no_text_leaves_its_cell_or_its_block(texts: list[str]) -> None:
    """
    Whatever names, expressions and messages contain, the comment has the same tables, and one block of differences whose lines
    are those texts.
    """
    change = DefinitionChange("bars", "data", tuple(f"+ {text}" for text in texts), "lake/a", 1)
    readers = tuple(ChangedReader(text, is_direct=True, problem="gone") for text in texts)
    text = comment(of(PlannedChange(change, tuple(texts), None, (), readers)))
    changes, broken = tables(text)
    fences = [t for t in RENDERER.parse(text) if t.type == "fence"]
    elements = [t.content for t in RENDERER.parse(text) if t.type == "html_block"]

    assert ", ".join(map(flat, texts)).strip() == changes[1][1].removeprefix("its data: ").strip()
    assert [[flat(t), "bars", "gone"] for t in texts] == broken[1:]
    assert [f"{flat(f'+ {t}')}" for t in texts] == fences[0].content.rstrip("\n").split("\n")
    assert ["diff"] == [f.info for f in fences]
    assert [f"{MARK}\n", "<details><summary>What differs in bars</summary>\n", "</details>\n"] == elements


@pytest.mark.parametrize("line", ["```", "`````", "~~~", "    ````"])
def test_a_line_of_backquotes_ends_no_block(line: str) -> None:
    """
    The fence is longer, so what follows is still in the block.
    """
    found = RENDERER.parse("\n".join(block([line, "after"], "diff")))

    assert [("fence", f"{line.strip()}\nafter\n")] == [(t.type, t.content) for t in found]


def test_the_exit_status_says_whether_something_would_change() -> None:
    """
    Idle without a change, 65 with a problem.
    """
    same = PlannedChange(DefinitionChange("bars", "unchanged"))
    new = PlannedChange(DefinitionChange("bars", "new"))
    problem = Problem("definition.join", "a join")

    assert [IDLE, DONE, DONE, 65] == [
        ProposalResult(plan).exit_status
        for plan in (
            of(same),
            of(new),
            of(replace(same, change=replace(same.change, next="abandoned"))),
            of(same, problem),
        )
    ]


def test_text_has_all_that_a_comment_has() -> None:
    """
    Each cell, in words.
    """
    text = " ".join(" ".join(ProposalResult(samples.PROPOSAL).lines(100)).split())
    cells: list[Any] = [cell for table in tables(comment(samples.PROPOSAL)) for row in table[1:] for cell in row]

    for cell in cells:
        for part in re.split(r", (?=flights)| \(breaks\)|: (?=measure)|(?<=flights_hourly)", cell):
            assert html.unescape(part).strip() in f"{text} nothing", part
