"""Spark SQL as the parser reads it: its tokens, and when two texts are the same.

Where a literal, a quoted name or a comment ends is never decided by hand: an escaped backslash, a doubled quote or a raw string
turns such a scanner inside out. Nor are syntax trees compared: the parser ignores the case of raw strings in them.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, ClassVar, Final

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.parsers.spark import SparkParser

# Without a handler Python prints warnings of a library to stderr; who configures logging gets them as before.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

MOST_TEXTS: Final = 4_096
"""Texts of which it is remembered how they are read: of many definitions most parts are the same."""
_PARSED_SPECIALLY: Final = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTR", "SUBSTRING", "OVERLAY", "POSITION")
_VALUES: Final = ("null", "true", "false")
TEXTS: Final = (TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.HEX_STRING)
"""The tokens that are literals in quotes."""


class SparkTokens(Spark.Tokenizer):
    """Tokens whose literals end where those of Spark 4 end: a doubled quote inside of quotes is one quote."""

    STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


class SparkSql(Spark):
    """Spark SQL with the literals of Spark 4."""

    Tokenizer = SparkTokens


class DefinitionDialect(SparkSql):
    """Spark SQL with `window` and `rollup` as ordinary names and all function calls kept as written.

    While WINDOW is a keyword, `GROUP BY window(…)` does not parse; ROLLUP would be a grouping. The functions that the parser
    knows lose their name, and sometimes an argument.
    """

    class Tokenizer(SparkTokens):
        """Tokens without the keywords that would consume the text after them."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            text: kind
            for text, kind in Spark.Tokenizer.KEYWORDS.items()
            if kind not in (TokenType.WINDOW, TokenType.ROLLUP)
        }
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(SparkParser):
        """Grammar that keeps the names and arguments of functions."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkParser.FUNCTION_PARSERS[name] for name in _PARSED_SPECIALLY
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items()
            if name in ("ANY", "CASE", "IF")
        }


DIALECT: Final = DefinitionDialect()


def spelling(text: str, token: Token) -> str:
    """Return the canonical spelling of a token: strings as written, the rest in lower case, names unquoted where possible."""
    if token.token_type in TEXTS:
        return text[token.start : token.end + 1]
    if token.token_type == TokenType.IDENTIFIER:
        is_plain = token.text.isidentifier() and token.text.lower() not in _VALUES
        return token.text.lower() if is_plain else f"`{token.text.lower().replace('`', '``')}`"
    return " ".join(token.text.lower().split())


@lru_cache(maxsize=MOST_TEXTS)
def normalised(sql: str) -> str:
    """Return *sql* with single spaces, no comments, and names and keywords in lower case.

    Examples:
        >>> normalised("SUM( `Price`*2 )  -- cents")
        'sum ( price * 2 )'
    """
    try:
        return " ".join(spelling(sql, token) for token in DIALECT.tokenize(sql))
    except TokenError:
        return sql


@lru_cache(maxsize=MOST_TEXTS)
def words_in(text: str) -> frozenset[str]:
    """Return the names and words in *text*, in lower case; none of a literal or a comment.

    Examples:
        >>> sorted(words_in("upper(`My K`) = 'a' -- b"))
        ['my k', 'upper']
    """
    return frozenset(token.text.casefold() for token in DIALECT.tokenize(text) if is_name(token))


def is_name(token: Token) -> bool:
    """Whether the token can be a name: a quoted name or a word."""
    return token.token_type == TokenType.IDENTIFIER or (token.token_type not in TEXTS and token.text.isidentifier())
