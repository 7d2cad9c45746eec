"""SQL texts and the fragments cut out of them.

A :class:`Fragment` is a run of tokens of a :class:`Script`. Its text is always a slice of the user's text, never a printed
syntax tree, because printing can change the meaning (``percentile_cont`` is printed as another function). The syntax tree
only shows whether a text parses, and which columns it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from msgspec import Struct, field
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError

from materializer.core.dialect import DIALECT, TEXTS, is_name, spelling
from materializer.errors import Problem
from materializer.structs import ComparedInPart

SYNTAX: Final = "definition.syntax"

_ESCAPED: Final = re.compile(r"""\\['"](?=[\s,);]|\Z)""")
_NO_SPACE: Final = re.compile(r"\S")
_SELECT: Final = DIALECT.tokenize("SELECT")[0]
_OPEN: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_PARAMETERS: Final = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.L_BRACE)


class Refused(Exception):  # noqa: N818
    """Carries one problem to the code that collects problems; never raised outside of the core."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Script(ComparedInPart, Struct, frozen=True):
    """A text that holds definitions, or one argument of the Python form.

    Args:
        text: The whole text.
        file: Name of the file that holds the text, shown in problems.
        label: Name of the argument that holds the text; problems then have no line and column.
    """

    _UNCOMPARED: ClassVar = frozenset({"trees"})

    text: str
    file: str = ""
    label: str = ""
    trees: dict[tuple[int, int], exp.Expression] = field(default_factory=dict)
    """The syntax trees of its fragments, by their first and last character: readers ask for each several times, and change none."""

    def problem(self, at: int, code: str, message: str, hint: str = "") -> Problem:
        """Return a problem at the character with index *at* (0-based)."""
        if self.label:
            return Problem(code, f"{self.label}: {message}", hint, self.file)
        line = self.text.count("\n", 0, at) + 1
        return Problem(code, message, hint, self.file, line, at - self.text.rfind("\n", 0, at))

    def tokens(self) -> tuple[Token, ...]:
        """Return the tokens of the text.

        Raises:
            Refused: If a quote or a comment is never closed, or a comment takes the next line in Spark.
        """
        try:
            found = tuple(DIALECT.tokenize(self.text))
        except TokenError:
            at, what = _unclosed(self.text)
            hint = (
                "close it"
                if _escaped(self.text) is None
                else "close it: a backslash takes the quote after it, so write two"
            )
            raise Refused(self.problem(at, SYNTAX, f"{what} that begins here is never closed", hint)) from None
        for comment in (c for token in found for c in token.comments if c.endswith("\\") and "\n" not in c):
            if (at := self.text.find(f"--{comment}\n")) >= 0:
                message = "a comment that ends with a backslash goes on in the next line in Spark"
                raise Refused(self.problem(at, SYNTAX, message, "end it with another character"))
        return tuple(DIALECT.tokenize(_without_comments(self.text, found))) if any(t.comments for t in found) else found

    def mended(self) -> Script | None:
        """Return the text with the end of the literal that is never closed, or without its statement, to look for other problems; or None."""
        with suppress(TokenError):
            DIALECT.tokenize(self.text)
            return None  # each literal is closed
        if (escaped := _escaped(self.text)) is not None:
            text = _ended(self.text, escaped)
        else:
            text = self.text[: self.text.rfind(";", 0, _unclosed(self.text)[0]) + 1]
        with suppress(Refused):
            found = Script(text, self.file, self.label)
            return found if found.tokens() else None
        return None


class Fragment(ComparedInPart, Struct, frozen=True):
    """A run of tokens of a script, usually one expression.

    Args:
        script: The script that holds the tokens.
        tokens: The tokens.
        at: Offset in the script of an empty fragment.
        parsed: Its syntax tree, when it was parsed as part of a longer fragment.
    """

    _UNCOMPARED: ClassVar = frozenset({"parsed"})

    script: Script
    tokens: tuple[Token, ...]
    at: int = 0
    parsed: exp.Expression | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def start(self) -> int:
        """Offset of the first character in the script."""
        return self.tokens[0].start if self.tokens else self.at

    @property
    def stop(self) -> int:
        """Offset after the last character in the script."""
        return self.tokens[-1].end + 1 if self.tokens else self.at

    @property
    def text(self) -> str:
        """The slice of the script from the first token to the last, comments between them included."""
        return self.script.text[self.start : self.stop]

    @property
    def normal(self) -> tuple[str, ...]:
        """The canonical spelling of each token, so that more texts with equal meaning compare equal."""
        return tuple(spelling(self.script.text, token) for token in self.tokens)

    def part(self, start: int, stop: int | None = None) -> Fragment:
        """Return the tokens from index *start* up to, not including, index *stop*."""
        found = self.tokens[start:stop]
        at = start % len(self.tokens) if self.tokens and start < len(self.tokens) else len(self.tokens)
        return Fragment(self.script, found, self.tokens[at].start if at < len(self.tokens) else self.stop)

    def refused(self, code: str, message: str, hint: str = "", *, token: int = 0) -> Refused:
        """Return an exception with a problem at the given token."""
        return Refused(self.problem(code, message, hint, token=token))

    def problem(self, code: str, message: str, hint: str = "", *, token: int = 0) -> Problem:
        """Return a problem at the given token, or at the place of an empty fragment."""
        return self.script.problem(self.tokens[token].start if self.tokens else self.at, code, message, hint)

    def closing(self, opening: int) -> int:
        """Return the index of the bracket that closes the one at index *opening*; the last index without such a bracket."""
        depth = 0
        for at in range(opening, len(self.tokens)):
            depth += depth_change(self.tokens[at])
            if depth == 0:
                return at
        return len(self.tokens) - 1

    def split(self) -> list[Fragment]:
        """Return the pieces between the commas outside of all brackets."""
        pieces, begin = [], 0
        for at in self.top_level():
            if self.tokens[at].token_type == TokenType.COMMA:
                pieces.append(self.part(begin, at))
                begin = at + 1
        pieces.append(self.part(begin))
        return pieces

    def top_level(self) -> Iterator[int]:
        """Yield the indexes of the tokens outside of all brackets and of `::` types."""
        depth = angle = 0
        for at, token in enumerate(self.tokens):
            depth += depth_change(token)
            if token.token_type == TokenType.LT and (angle or self._opens_type(at)):
                angle += 1
            elif angle and token.text in (">", ">>"):
                angle -= len(token.text)
            elif depth == 0 and angle <= 0:
                yield at

    def _opens_type(self, at: int) -> bool:
        return at > 1 and self.tokens[at - 2].token_type == TokenType.DCOLON

    def tree(self) -> exp.Expression:
        """Return the syntax tree of the fragment as one expression, with its alias if it has one.

        Raises:
            Refused: If the fragment does not parse as one expression.
        """
        known = self.parsed or self.script.trees.get((self.start, self.stop))
        if known is not None:
            return known
        if not self.tokens:
            raise self.refused(SYNTAX, "an expression is missing here", "write one, or take the comma or keyword away")
        if self.tokens[0].token_type in (TokenType.ALIAS, TokenType.ALL, TokenType.DISTINCT):
            raise self.refused(SYNTAX, f"`{self.tokens[0].text}` may not begin an expression", "take it away")
        self.check_brackets()
        for at, token in enumerate(self.tokens):
            following = self.tokens[at + 1 : at + 2]
            if token.text == "?" and following and following[0].text == ":":
                raise self.refused(SYNTAX, "the operator `?:` is not understood here", "write coalesce(a, b)", token=at)
            if token.token_type in _PARAMETERS or (token.token_type == TokenType.COLON and self._begins_operand(at)):
                raise self.refused(
                    SYNTAX,
                    f"`{token.text}` is not understood: a definition has no parameters",
                    "write the value",
                    token=at,
                )
        try:
            parser = DIALECT.parser(error_level=ErrorLevel.IMMEDIATE)
            trees = parser.parse([_SELECT, *self.tokens], self.script.text)
        except ParseError as error:
            at = self._place(error)
            found = self.tokens[at].text if at < len(self.tokens) else "the end"
            field = self.part(at - 1, at + 2).text.replace(":", ".") if found == ":" and at else ""
            hint = f"write `{field}` of a struct, get_json_object of a text" if field else "compare it with Spark SQL"
            message = f"`{_short(self.text)}` is not understood near `{found}`"
            raise self.refused(SYNTAX, message, hint, token=at) from None
        select = trees[0] if len(trees) == 1 else None
        if not isinstance(select, exp.Select) or len(select.expressions) != 1 or _has_clauses(select):
            raise self.refused(SYNTAX, f"`{_short(self.text)}` is not one expression", "write one expression here")
        self.script.trees[self.start, self.stop] = select.expressions[0]
        return select.expressions[0]  # type: ignore[no-any-return]

    def _begins_operand(self, at: int) -> bool:
        before = self.tokens[at - 1] if at else None
        return before is None or not (is_name(before) or before.token_type in _CLOSE)

    def check_brackets(self) -> None:
        """Check that brackets match.

        Raises:
            Refused: If a bracket is never closed, or closes nothing.
        """
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.token_type in _OPEN:
                opened.append(at)
            elif token.token_type in _CLOSE:
                if not opened:
                    raise self.refused(SYNTAX, f"`{token.text}` closes nothing", "take it away, or open it", token=at)
                opened.pop()
        if opened:
            raise self.refused(
                SYNTAX, f"`{self.tokens[opened[-1]].text}` is never closed", "close it", token=opened[-1]
            )

    def _place(self, error: ParseError) -> int:
        where = (error.errors or [{}])[0]
        for at, token in enumerate(self.tokens):
            if (token.line, token.col) == (where.get("line"), where.get("col")):
                return at
        return 0


def depth_change(token: Token) -> int:
    """Return 1 for an opening bracket, -1 for a closing one, else 0."""
    return (token.token_type in _OPEN) - (token.token_type in _CLOSE)


def fragment_of(text: str, label: str) -> Fragment:
    """Return the tokens of one argument of the Python form.

    Raises:
        Refused: If a quote or a comment in it is never closed.
    """
    script = Script(text, label=label)
    return Fragment(script, script.tokens())


def string_value(token: Token) -> str | None:
    """Return the value of a string literal, or None for any other token."""
    return token.text if token.token_type in (TokenType.STRING, TokenType.RAW_STRING) else None


def text_of(fragment: Fragment) -> str | None:
    """Return the text of one literal, or of several side by side, as Spark joins them; None for anything else."""
    values = [string_value(token) for token in fragment.tokens]
    return "".join(v for v in values if v is not None) if values and None not in values else None


def words(tokens: Sequence[Token]) -> str:
    """Return the tokens as one upper-case text, for comparison with keywords, which no literal is."""
    return " ".join("''" if t.token_type in TEXTS else " ".join(t.text.upper().split()) for t in tokens)


def _has_clauses(select: exp.Select) -> bool:
    return any(value for name, value in select.args.items() if name != "expressions")


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _without_comments(text: str, tokens: Sequence[Token]) -> str:
    """Return a text with spaces for its comments, which part the words of a keyword such as GROUP BY for the parser."""
    pieces, at = [], 0
    for token in tokens:  # of a number with a suffix there are three, in one place
        pieces += [_NO_SPACE.sub(" ", text[at : token.start]), text[max(at, token.start) : token.end + 1]]
        at = max(at, token.end + 1)
    return "".join(pieces) + _NO_SPACE.sub(" ", text[at:])


def _unclosed(text: str) -> tuple[int, str]:
    """Return where the quote or comment begins that is never closed, and what it is."""
    if (escaped := _escaped(text)) is not None:
        tokens = DIALECT.tokenize(_ended(text, escaped))
        return next(token.start for token in tokens if token.start <= escaped <= token.end), "the string"
    for end, what in (("'", "the string"), ('"', "the string"), ("`", "the quoted name"), ("*/", "the comment")):
        with suppress(TokenError):
            tokens = DIALECT.tokenize(f"{text} {end}")
            return text.rfind("/*") if end == "*/" else tokens[-1].start, what
    return max(len(text) - 1, 0), "a quote or comment"


def _escaped(text: str) -> int | None:
    """Return where the backslash is that took the quote which was meant to end a literal, or None."""
    for found in _ESCAPED.finditer(text):
        with suppress(TokenError):
            tokens = DIALECT.tokenize(_ended(text, found.start()))
            if any(token.start <= found.start() <= token.end for token in tokens):
                return found.start()
    return None


def _ended(text: str, at: int) -> str:
    return f"{text[:at]} {text[at + 1 :]}"
