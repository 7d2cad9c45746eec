"""Regular expressions of Java, in which Spark reads ``RLIKE``, as those of RE2, in which DuckDB finds the same.

The two agree on characters, classes, counts, groups and alternatives. Of what they read in different ways, the dot and the end
are written out: Java's dot matches no end of a line, of which it knows five, and its ``$`` matches before the last one, too.
All else is refused: references, looking around, flags, backslashes, possessive counts, classes of classes, and counts without
a limit over groups, which Java ends with an error in long texts, and counts over groups that may be empty, where it stops early.

Source: java.util.regex.Pattern; https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from materializer.local.kinds import NotLocal

_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
_DOT: Final = f"[^{_ENDS}]"
_END: Final = rf"(?:\r\n|[{_ENDS}])?\z"
_COUNT: Final = re.compile(r"(?:[*+?]|\{(\d{1,4})(?:(,)(\d{0,4}))?\})\??")
_CLASS: Final = re.compile(r"\[(\^?)([^\]]+)\]")
_SPECIAL: Final = frozenset("\\[](){}*+?|^$.")
_MOST: Final = 1_000
"""RE2's limit for counts, which those inside each other multiply."""


def of_java(pattern: str) -> str:
    r"""Return a pattern of RE2 that is found in a text if Java finds *pattern* there.

    Raises:
        NotLocal: If it has a part that is not known to be read in the same way.

    Examples:
        >>> print(of_java("^[A-Z]{2}"))
        \A(?:[A-Z]){2}
        >>> print(of_java("^a|b."))
        \Aa|b[^\n\r\x{85}\x{2028}\x{2029}]
    """
    return _Java(pattern).alternatives(is_outermost=True).text


class _Found(Struct, frozen=True):
    """A part of a pattern.

    Args:
        text: As RE2 reads it.
        size: How often counts repeat it.
        may_be_empty: Whether it may be found in nothing.
    """

    text: str
    size: int = 1
    may_be_empty: bool = False


class _Java:
    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0
        self._has_end = "$" in pattern

    def alternatives(self, *, is_outermost: bool) -> _Found:
        """Return the alternatives up to the end of a group or of the pattern."""
        branches: list[list[_Found]] = [[]]
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == ")" and not is_outermost:
                break
            if char == "|":
                self._at += 1
                branches.append([])
            elif char == "^":
                self._at += 1
                branches[-1].append(_Found(r"\A", may_be_empty=True))
            elif char == "$" and is_outermost and self._pattern[self._at + 1 : self._at + 2] in ("", "|"):
                self._at += 1
                branches[-1].append(_Found(_END, may_be_empty=True))
            else:
                branches[-1].append(self._counted(char))
        text = "|".join("".join(part.text for part in branch) for branch in branches)
        sizes = [part.size for branch in branches for part in branch]
        return _Found(
            text, max(sizes, default=1), any(all(part.may_be_empty for part in branch) for branch in branches)
        )

    def _counted(self, char: str) -> _Found:
        """Return one part with its count."""
        part = self._part(char)
        count = _COUNT.match(self._pattern, self._at)
        if count is None:
            return part
        self._at = count.end()
        if self._pattern[self._at : self._at + 1] in ("*", "+", "?", "{"):
            raise self._unknown()
        least, comma, upto = count.groups()
        is_open = count[0][0] in "*+" or (comma is not None and not upto)
        size = part.size * int(upto or least or 1)
        is_unlike = char == "(" and (is_open or part.may_be_empty)  # Java ends a loop that found nothing
        if is_unlike or size > _MOST or (upto and int(upto) < int(least)):
            raise self._unknown()
        greedy = count[0] if count[0] == "?" else count[0].removesuffix("?")
        return _Found(f"(?:{part.text}){greedy}", size, part.may_be_empty or greedy in "*?" or int(least or 1) == 0)

    def _part(self, char: str) -> _Found:
        if char == ".":
            self._at += 1
            return _Found(_DOT)
        if char == "[":
            return _Found(self._class())
        if char == "(":
            self._at += 3 if self._pattern.startswith("(?:", self._at) else 1
            inside = self.alternatives(is_outermost=False)
            if not inside.text or self._pattern[self._at : self._at + 1] != ")":
                raise self._unknown()
            self._at += 1
            return _Found(f"(?:{inside.text})", inside.size, inside.may_be_empty)
        if char in _SPECIAL or not char.isprintable():
            raise self._unknown()
        self._at += 1
        return _Found(_written(char))

    def _class(self) -> str:
        """Return a class of characters and ranges; a negated one may have the end of a line, before which ``$`` matches."""
        found = _CLASS.match(self._pattern, self._at)
        if found is None or (found[1] and self._has_end):
            raise self._unknown()
        inside = found[2]
        if not inside.isprintable() or any(each in inside for each in ("[", "\\", "&&", "^")):
            raise self._unknown()
        items = re.sub(r"(.)-(.)", lambda m: self._range(*m.groups()), inside, flags=re.DOTALL)
        if "-" in items.replace("\0", "")[1:-1]:
            raise self._unknown()
        self._at = found.end()
        return f"[{found[1]}{''.join('-' if each == chr(0) else _written(each) for each in items)}]"

    def _range(self, first: str, last: str) -> str:
        if first > last or "-" in (first, last):
            raise self._unknown()
        return f"{first}\0{last}"

    def _unknown(self) -> NotLocal:
        return NotLocal(f"rlike {self._pattern!r}")


def _written(char: str) -> str:
    return char if char.isalnum() and char.isascii() else f"\\x{{{ord(char):x}}}"
