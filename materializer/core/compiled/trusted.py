"""Definitions that are read from a lake are checked like those that a person types: names, types, and what expressions call.

A process that can write to the journal would else run any function of Spark as the next refresh. The check is made when an
event that changes a definition is folded. A text whose calls all have known names needs no parser, which is nearly every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from materializer.core.spec.spec import NAME, AggregateSpec, Call, Formula
from materializer.core.sql import functions as known

_BRACKET: Final = re.compile(r"(\w*)(\s*)\(", re.ASCII)
_WORDS: Final = known.SCALARS | known.BUCKETS | known.AGGREGATES
_GROUPING: Final = known.names_in(
    "and or not in then when else case between like from as by where filter group over on using"
)
"""Words before a bracket that opens no call."""
_OPERATORS: Final = frozenset({"", *"(,+-*/%<>=!|&^~["})
"""What stands before a bracket that groups."""
_NO_AGGREGATES: Final = known.REFLECTION | known.names_in("ai_query http_request sleep")
"""Functions of Spark that must not pass for the name of a Python aggregate."""
_DOUBTFUL: Final = ("`", "--", "/*", "{", "$", ";", "\\")
"""What a text may hide a call behind: the parser has to look."""
_PLAIN_TYPE: Final = re.compile(
    r"[a-z][a-z0-9_]*( [a-z0-9_ .]+)?(\([\w ,:.-]*\))?( collate [\w.]+)?", re.ASCII | re.IGNORECASE
)
_NESTED: Final = re.compile(r"(array|map|struct)\s*<", re.IGNORECASE)
_QUOTED: Final = re.compile(r"`(?:[^`]|``)*`" r"|'(?:\\.|[^'\\])*'" r'|"(?:\\.|[^"\\])*"', re.DOTALL)
_COMMENT: Final = re.compile(r"/\*|--[^\n]*\n")


def problems_of(spec: AggregateSpec) -> Iterator[str]:
    """Yield what `apply` would have refused of a definition, in words."""
    if not NAME.match(spec.name):
        yield f"its name is {spec.name[:60]!r}"
    width = spec.grid.width
    if not any((width.months, width.days, width.micros, width.ticks)):
        yield "its buckets have no length"
    formulas = [measure.formula for measure in spec.measures] + ([spec.having] if spec.having else [])
    calls = [call for formula in formulas for call in formula.calls]
    for text in _texts(spec, formulas, calls):
        yield from _refusals(text)
    for function in {call.function: None for call in calls}:  # one that is not known is a Python aggregate
        if not function.isidentifier() or function in _NO_AGGREGATES:
            yield f"it aggregates by {function[:60]!r}"
    for kind in [*(kind for _, kind in spec.read_types), *(kind for call in calls for kind in call.types)]:
        if kind and not _is_type(kind):
            yield f"it has a type {kind[:60]!r}"
    if spec.rolls_up is not None:
        yield from problems_of(spec.rolls_up)


@lru_cache(4_096)
def _refusals(text: str) -> tuple[str, ...]:
    """Return what :func:`why_not_called` yields, once for each text: many definitions have the same ones."""
    return tuple(why_not_called(text))


def why_not_called(text: str) -> Iterator[str]:
    """Yield what a text of Spark SQL calls and no definition may call, in words."""
    is_plain = not any(mark in text for mark in _DOUBTFUL) and "select" not in text.lower()
    if is_plain and all(_opens_nothing_else(text, found) for found in _BRACKET.finditer(text)):
        return
    from materializer.core.sql.expressions import refused_calls  # noqa: PLC0415 (it loads a parser)

    yield from refused_calls(text)


@lru_cache(1_024)
def _is_type(text: str) -> bool:
    """Return whether a text is one type, whatever the fields of a struct are called: behind its last bracket nothing stands."""
    if not _NESTED.match(text):
        return bool(_PLAIN_TYPE.fullmatch(text))
    bare, depth = _QUOTED.sub("", text), 0
    for at, sign in enumerate(bare):
        depth += (sign == "<") - (sign == ">")
        if depth == 0 and sign == ">":
            return at == len(bare) - 1 and not _COMMENT.search(bare)
    return False


def _opens_nothing_else(text: str, found: re.Match[str]) -> bool:
    """Return whether a bracket groups, or opens a call that is allowed."""
    word = found[1].lower()
    before = text[: found.start()].rstrip()[-1:]
    return before in _OPERATORS if not word else before != "." and (word in _WORDS or word in _GROUPING)


def _texts(spec: AggregateSpec, formulas: list[Formula], calls: list[Call]) -> list[str]:
    """Return the texts of Spark SQL in a definition."""
    return [
        *(key.sql for key in spec.keys),
        *filter(None, [spec.where]),
        *(formula.fill(["x"] * len(formula.calls)) for formula in formulas if formula.pieces != (0,)),
        *(arg for call in calls for arg in call.args if arg != "*"),
        *filter(None, (text for call in calls for text in (call.where, call.order_by))),
    ]


def why_not_asked(text: str, *, is_query: bool) -> Iterator[str]:
    """Yield what a text of an expectation does that none may do, in words.

    Args:
        text: Spark SQL.
        is_query: Whether it is a whole query, which may have sub-queries, windows and generators, but only reads.
    """
    from materializer.core.sql.expressions import CLOCK, refused_calls, refused_in_query  # noqa: PLC0415 (it loads a parser)

    yield from refused_in_query(text) if is_query else refused_calls(text, CLOCK)
