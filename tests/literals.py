"""Literals of Spark's SQL with the values that they stand for, drawn piece by piece."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

_ANYWHERE: Final = [
    "a",
    "A",
    "B c",
    " ",
    "é",
    "𝄞",
    "--",
    "/* x */",
    ";",
    "`",
    ",",
    "${env:HOME}",
    "{x}",
    "?",
    ":n",
    "r",
]
_ESCAPED: Final = {
    "\\\\": "\\",
    "\\'": "'",
    '\\"': '"',
    "\\n": "\n",
    "\\d": "d",
    "\\%": "\\%",
    "\\u0041": "A",
}
_QUOTES: Final = ("'", '"')


def _quoted(quote: str) -> st.SearchStrategy[tuple[str, str]]:
    other = next(q for q in _QUOTES if q != quote)
    pieces = [*((p, p) for p in [*_ANYWHERE, other]), *_ESCAPED.items(), (quote * 2, quote)]
    return st.lists(st.sampled_from(pieces), max_size=5).map(
        lambda found: (quote + "".join(t for t, _ in found) + quote, "".join(v for _, v in found))
    )


def _raw(quote: str) -> st.SearchStrategy[tuple[str, str]]:
    other = next(q for q in _QUOTES if q != quote)
    pieces = st.lists(st.sampled_from([*_ANYWHERE, other, "\\", "\\d"]), max_size=5).map("".join)
    return st.tuples(st.sampled_from("rR"), pieces).map(lambda found: (f"{found[0]}{quote}{found[1]}{quote}", found[1]))


LITERALS: Final = st.one_of(*(made(quote) for quote in _QUOTES for made in (_quoted, _raw)))
"""(text, value) of a literal: with escapes, doubled quotes, backslashes, raw, in double quotes, with what looks like a comment."""
