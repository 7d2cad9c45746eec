"""How people write the same thing: the value of a text as a literal, a name, and a statement with comments and both cases."""

from __future__ import annotations

import random
import re
from typing import Final

from msgspec import Struct

COLUMNS: Final = ("ts", "sym", "n", "x", "p", "note", "d", "flag", "größe", "select", "a-b", "x`y")
"""The columns of the source."""
NOTES: Final = (
    "a", "A", "", " ", "it's", "its", 'say "x"', "C:\\", "C:\\d", "\\", "\\'", "\\%", "100%", "${env:HOME}", "${x}", "$", "a -- b", "/* x */",
    "/*", "*/", "--", "é", "É", "日本", "𝄞", "a\nb", "a\tb", "`", ";", "a;b", "''", "{x}", "{{x}}", "?", ":n", "r'", "NULL", "_", "\\u0041", "1",
    "C:\\' AND sym = 'a", "GROUP BY", "FROM", "%s", "\x00", "\u2028", "ß", "$$",
)  # fmt: skip
"""Texts that rows have and that statements compare with."""
PLAIN: Final = tuple(note for note in NOTES if not set(note) & set('\\"\x00'))
"""Those that are written without an escape."""
_GAPS: Final = (
    " ", " ", " ", " ", " ", " ", "  ", "\n", "\t", "\r\n", " /* c */ ", " /* it's */ ", " -- it's\n", " --\n", '/* " */', " /* /* nested */ ; */ ",
    " -- GROUP BY 1\n", "/**/", " /* -- */ ", " -- /* \n", " /* FROM `x */ ", " -- \\\n", "\u00a0", "\f", " /* ${env:HOME} */ ",
)  # fmt: skip
_QUOTES: Final = ("'", '"')
_NAMED: Final = {"\n": ("\\n", "\n"), "\t": ("\\t", "\t", "\\u0009"), "\x00": ("\\0",)}
_PIECES: Final = re.compile(
    r"""(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*"|`(?:``|[^`])*`|--[^\n]*\n)|(?P<gap>\s+)|(?P<word>[A-Za-z_]\w*)""",
    re.DOTALL,
)


class Writing(Struct, frozen=True):
    """Writes literals.

    Args:
        choose: What everything follows from.
        is_plain: Whether most are written as all systems do: in single quotes, without a backslash.
    """

    choose: random.Random
    is_plain: bool = False

    def literal(self, value: str) -> str:
        """Return a literal that has a value, in one of the ways that Spark has for it."""
        if self.is_plain and "\\" not in value and "\x00" not in value:
            return f"'{value.replace(chr(39), chr(39) * 2)}'"
        quote, way = self.choose.choice(("'", "'", "'", '"')), self.choose.random()
        if way < 0.15 and quote not in value:
            return f"{self.choose.choice('rR')}{quote}{value}{quote}"
        if way < 0.22 and len(value) > 1 and "\\" not in value:
            at = self.choose.randrange(1, len(value))
            return f"{self._quoted(value[:at], quote)} {self._quoted(value[at:], self.choose.choice(_QUOTES))}"
        return self._quoted(value, quote)

    def _quoted(self, value: str, quote: str) -> str:
        return quote + "".join(self._letter(c, value[at + 1 : at + 2], quote) for at, c in enumerate(value)) + quote

    def _letter(self, c: str, following: str, quote: str) -> str:
        if c == "\\":
            return c if following in ("%", "_") else c * 2
        if c == quote:
            return self.choose.choice((f"\\{c}", c * 2))
        if c in _NAMED:
            return self.choose.choice(_NAMED[c])
        chance = self.choose.random()
        if chance < 0.03 and c not in "%_":
            ways = (
                [f"\\U{ord(c):08X}"]
                + [f"\\u{ord(c):04x}"] * (ord(c) < 1 << 16)
                + [f"\\{ord(c):03o}"] * (ord(c) < 1 << 7)
            )
            return self.choose.choice(ways)
        return f"\\{c}" if chance < 0.05 and c in "acdCS ;$-" else c


def spelled(name: str, choose: random.Random) -> str:
    """Return a name as it is typed: in one of the cases, with back-quotes where it needs them or by habit."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name == "select" or choose.random() < 0.15:
        return f"`{name.replace('`', '``')}`"
    return choose.choice((name, name, name, name.upper(), name.capitalize()))


def as_typed_by_people(text: str, choose: random.Random, *, is_calm: bool = False) -> str:
    """Return a statement with other gaps, comments and cases of its words; literals and quoted names stay as they are."""
    is_calm = is_calm or choose.random() < 0.3
    way = choose.choice((str, str, str.lower, str.upper, str.swapcase))

    def again(found: re.Match[str]) -> str:
        if found["text"]:
            return found["text"]
        if found["word"] == "src":
            return "src"
        if found["word"]:
            return way(found["word"]) if choose.random() < 0.5 else found["word"]
        return " " if is_calm or choose.random() < 0.75 else choose.choice(_GAPS)

    return _PIECES.sub(again, text)
