"""The fenced blocks of README.md, CONTRIBUTING.md and the pages, and what each language in them is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tests.paths import ROOT

PAGES: Final = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md") if "design" not in p.parts),
)
"""Every page; the design records tell what was tried once, and may show what is there no more."""
_FENCE: Final = re.compile(r"^( *)(`{3,}|~{3,}|:{3,})(.*)$")
_HEREDOC: Final = re.compile(r"<<-?\s*'?(\w+)'?\s*$")


class Block(Struct, frozen=True):
    """One fenced block.

    Args:
        page: Its page, from the root of the repository.
        number: Its place among the blocks of the page, from 1.
        line: Where its fence stands, from 1.
        language: What stands behind the fence.
        text: What is inside.
        is_made: Whether it lies between ``<!-- made: NAME -->`` and ``<!-- end -->``.
    """

    page: str
    number: int
    line: int
    language: str
    text: str
    is_made: bool = False

    @property
    def name(self) -> str:
        """How tables name it."""
        return f"{self.page}#{self.number}"


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page.

    Raises:
        ValueError: If a fence has no end.
    """
    return list(_blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def _blocks(page: str, text: str) -> Iterator[Block]:
    lines = text.splitlines()
    at = number = 0
    is_made = False
    while at < len(lines):
        is_made = lines[at].startswith("<!-- made:") or (is_made and lines[at] != "<!-- end -->")
        if fence := _FENCE.match(lines[at]):
            indent, marks, language = fence.groups()
            ends = [i for i in range(at + 1, len(lines)) if lines[i].strip() == marks]
            if not ends:
                raise ValueError(f"{page}:{at + 1}: a fence without an end")
            number += 1
            inside = "".join(f"{line.removeprefix(indent)}\n" for line in lines[at + 1 : ends[0]])
            yield Block(page, number, at + 1, language.strip(), inside, is_made)
            at = ends[0]
        at += 1


class Command(Struct, frozen=True):
    """One simple command of a shell.

    Args:
        words: Its words.
        to: The file that its output is written to.
        document: What its heredoc gives it to read.
        output: What the page shows of its output.
    """

    words: tuple[str, ...]
    to: str | None = None
    document: str | None = None
    output: tuple[str, ...] = ()


def commands(block: Block) -> list[Command]:
    """Return the commands of a block: in ``console`` what stands behind ``$``, in ``sh`` every line."""
    lines = block.text.splitlines()
    found: list[Command] = []
    while lines:
        line = lines.pop(0)
        output: list[str] = []
        if block.language == "console":
            if not line.startswith("$ "):
                raise ValueError(f"{block.name}: output without a command: {line}")
            line = line.removeprefix("$ ")
            while lines and not lines[0].startswith("$ "):
                output.append(lines.pop(0))
        document = None
        if heredoc := _HEREDOC.search(line):
            end = lines.index(heredoc[1])
            document, lines = "".join(f"{text}\n" for text in lines[:end]), lines[end + 1 :]
            line = line[: heredoc.start()]
        found += [_command(words, document, tuple(output)) for words in _simple(line)]
    return found


def _simple(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in {";", "&&"}:
            words.append(word)
        elif words:
            yield words
            words = []


def _command(words: list[str], document: str | None, output: tuple[str, ...]) -> Command:
    to = None
    if ">" in words:
        at = words.index(">")
        to, words = words[at + 1], words[:at] + words[at + 2 :]
    return Command(tuple(words), to, document, output)
