"""Whether the text of a definition leaves no doubt: then Spark takes the whole if it takes each expression alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Final

from sqlglot import Token, TokenType

from materializer.core.language.selection import item_of
from materializer.core.language.statement import split_statement
from materializer.core.spec.spec import AggregateSpec
from materializer.core.sql.tokens import Fragment, Refused, Script
from materializer.errors import Problem

_DOUBTFUL: Final = ("\\", "--", "/*", "${", "::")
"""What the parser and Spark may read in different ways."""
_QUOTED: Final = re.compile(r"`[^\W\d]\w*([ -]\w+)*`")
"""A name in quotes that is read in one way: of words, as nearly all are."""
_MISPLACED: Final = re.compile(
    r"\bnot\b(?!\s+(null|in|like|between)\b)|\bis\s+(not\s+)?(null|true|false)\s*([=<>!+*/%|&^-]|(in|is|like|between|not)\b)",
    re.IGNORECASE,
)
"""A negation or a test for null where the parser takes one and Spark may not."""
_NEGATED: Final = re.compile(r"([(,]|\b(?:where|having|and|or|when|then|else))\s*\bnot\b", re.IGNORECASE)
"""A negation where a condition may begin, which has one reading. A bound of BETWEEN may begin so, too; it has no local form."""
_CLAUSES: Final = frozenset({"SELECT", "FROM", "WHERE", "GROUP BY", "HAVING"})
_JOINED: Final = re.compile(r"\b(and|or|not)\b", re.IGNORECASE)
_ENDS_VALUE: Final = frozenset(
    [
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.NUMBER,
        TokenType.STRING,
        TokenType.R_PAREN,
        TokenType.R_BRACKET,
    ]
)
_WORD: Final = re.compile(r"\w+")
_CALLED: Final = re.compile(r"[a-z_][a-z0-9_]*\s*\(", re.IGNORECASE)
_CAST: Final = re.compile(r"\bas\s+([^(),]+?)\s*(\([\d\s,]*\))?\s*\)", re.IGNORECASE)
"""A type in CAST, which stands before its closing bracket."""
_TYPES: Final = frozenset(
    [
        "boolean",
        "tinyint",
        "byte",
        "smallint",
        "short",
        "int",
        "integer",
        "bigint",
        "long",
        "float",
        "real",
        "double",
        "decimal",
        "dec",
        "numeric",
        "date",
        "timestamp",
        "timestamp_ntz",
        "timestamp_ltz",
        "string",
        "binary",
    ]
)
"""Names that types have in Spark; the parser also takes those of other systems."""
_WINDOW: Final = "window"
"""Spark's function of time, and the column that it makes of a group."""
_NAMED: Final = re.compile(r"[^\W\d]|['\"`]")


def is_plain(spec: AggregateSpec, columns: Collection[str]) -> bool:
    """Return whether a statement is plain: no key hides a column of the source, and each group stands in SELECT as it is written.

    Args:
        spec: A definition that was parsed without a problem, resolved against its source.
        columns: The columns of the source.
    """
    formulas = [measure.formula for measure in spec.measures]
    beside = (piece for formula in formulas for piece in formula.pieces if isinstance(piece, str))
    if any(mark in spec.sql for mark in _DOUBTFUL) or _MISPLACED.search(_NEGATED.sub(r"\1", spec.sql)):
        return False
    if any(_NAMED.search(_CALLED.sub("(", piece)) for piece in beside) or not _is_plain_having(spec):
        return False
    if not {" ".join(found[1].lower().split()) for found in _CAST.finditer(spec.sql)} <= _TYPES:
        return False
    problems: list[Problem] = []
    try:
        script = Script(spec.sql)
        clauses, _ = split_statement(Fragment(script, script.tokens()))
    except Refused:
        return False
    if _has_sign(script.tokens()) or any(_has_odd_quotes(piece) for name, piece in clauses.items() if name != "FROM"):
        return False
    items = [item_of(piece, problems) for piece in clauses["SELECT"].split()]
    written = {item.name.lower(): item.expression.normal for item in items if item is not None}
    if problems or len(written) < len(items) or not clauses.keys() <= _CLAUSES:
        return False
    taken = {column.lower() for column in columns}
    hiding = {name for name, normal in written.items() if name in taken and [w.lower() for w in normal] != [name]}
    pieces = [piece.normal for piece in clauses["GROUP BY"].split()]
    groups = [_item(piece, written) for piece in pieces]
    windows = sum(
        pair == (_WINDOW, "(") for piece in pieces for pair in pairwise(piece)
    )  # two may be too many for Spark
    is_clear = max(groups.count(_WINDOW), windows) <= (_WINDOW not in taken)
    return is_clear and None not in groups and not hiding & set(groups)


def _has_sign(tokens: Sequence[Token]) -> bool:
    """Return whether a plus stands before a value and not between two: the parser drops it, and Spark asks for a number behind it."""
    return any(
        token.token_type == TokenType.PLUS and (at == 0 or tokens[at - 1].token_type not in _ENDS_VALUE)
        for at, token in enumerate(tokens)
    )


def _has_odd_quotes(piece: Fragment) -> bool:
    """Return whether a name in quotes is not of words alone, or is that of a function, of a field or of what has fields."""
    script, tokens = piece.script, piece.tokens
    for at, token in enumerate(tokens):
        if not script.text.startswith("`", token.start):
            continue
        beside = {near.token_type for near in (*tokens[max(at - 1, 0) : at], *tokens[at + 1 : at + 2])}
        is_call = at + 1 < len(tokens) and tokens[at + 1].token_type == TokenType.L_PAREN
        if is_call or TokenType.DOT in beside or not _QUOTED.fullmatch(script.text[token.start : token.end + 1]):
            return True
    return False


def _is_plain_having(spec: AggregateSpec) -> bool:
    """Return whether HAVING compares aggregates with numbers, and names nothing that SELECT names too: Spark may read it as that."""
    if spec.having is None:
        return True
    beside = (_JOINED.sub("", piece) for piece in spec.having.pieces if isinstance(piece, str))
    read = [text for call in spec.having.calls for text in (*call.args, call.where or "", call.order_by or "")]
    if any("`" in text for text in read):
        return False
    words = {word.lower() for text in read for word in _WORD.findall(text)}
    return not any(map(_NAMED.search, beside)) and not words & {name.lower() for name in spec.columns}


def _item(group: tuple[str, ...], written: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the name of the item of SELECT that is grouped: by its place, its name, or its expression; None if it is none of these."""
    if [word.lower() for word in group[:2]] == [_WINDOW, "("]:
        return _WINDOW  # of which SELECT has the start and the end
    word = group[0].lower() if len(group) == 1 else ""
    if len(group) > 1 and "".join(group).strip("()+-").isdecimal():
        return None  # Spark may take it for the place of an item
    if word in written:
        return word
    if word.isascii() and word.isdecimal():
        return dict(enumerate(written, 1)).get(int(word))
    return next((name for name, normal in written.items() if normal == group), None)
