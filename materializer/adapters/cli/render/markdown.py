"""Text in Markdown that GitHub renders as it is: cells of tables, code, and blocks that nothing inside can end.

Names and expressions come from files of other people. In a cell each sign of punctuation is a numeric reference, which is never
syntax: it starts no markup, ends no cell, makes no tag, and notifies no user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_PLAIN = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?", re.ASCII)


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line.

    Only what can be no syntax stays: a full stop unless it is that of ``www.``, a comma, a semicolon, a quote, a hyphen, a percent
    sign.

    Examples:
        >>> escaped("a|b <i>"), escaped("@all, see #1"), escaped("plain words, 1.5 s"), escaped("www.a.b")
        ('a&#124;b &#60;i&#62;', '&#64;all, see &#35;1', 'plain words, 1.5 s', 'www&#46;a.b')
    """
    return re.sub(r"(?i)(?<=www)\.|[!-$&(-+/:<-@\[-`{-~]", lambda m: f"&#{ord(m[0])};", _line(text))


def code(text: str) -> str:
    """Return a text as code in a cell: in backquotes if it is a plain name, else escaped in an element.

    Examples:
        >>> code("trades_daily"), code("a`|b")
        ('`trades_daily`', '<code>a&#96;&#124;b</code>')
    """
    line = _line(text)
    return f"`{line}`" if _PLAIN.fullmatch(line) else f"<code>{escaped(line)}</code>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, whose cells are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join('---' for _ in header)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def block(lines: Iterable[str], language: str = "") -> Iterator[str]:
    """Yield lines in a fence that is longer than any row of backquotes in them."""
    shown = [_line(line) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from shown
    yield fence


def folded(summary: str, body: Iterable[str]) -> Iterator[str]:
    """Yield lines that are shown after a click on *summary*, which is Markdown without markup, or HTML."""
    yield f"<details><summary>{summary}</summary>"
    yield ""
    yield from body
    yield ""
    yield "</details>"


def _line(text: str) -> str:
    """Return a text without breaks of lines and without signs that are not printed."""
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in text)).strip()
