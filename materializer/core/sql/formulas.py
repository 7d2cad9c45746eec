"""Builds a formula from an expression: its aggregate calls, and the text around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlglot import TokenType

from materializer.core.aggregates.registry import AggregateFunction, find
from materializer.core.spec.spec import Call, Formula
from materializer.core.sql.expressions import Expression, FunctionUse
from materializer.core.sql.functions import names_in
from materializer.core.sql.tokens import Fragment

_NULLS_OPTION: Final = names_in("first first_value last last_value any_value")


def read_call(expression: Expression, use: FunctionUse) -> Call:
    """Return the aggregate call at *use*.

    Raises:
        Refused: If its brackets hold something that cannot be read.
    """
    fragment, tokens = expression.fragment, expression.fragment.tokens
    first, distinct = use.at + 2, False
    if first < use.closing and tokens[first].token_type in (TokenType.DISTINCT, TokenType.ALL):
        distinct, first = tokens[first].token_type == TokenType.DISTINCT, first + 1
    args = _arguments(expression, first, use.closing)
    where, order_by, at = None, None, use.closing + 1
    while at <= use.last:
        word = tokens[at].text.lower()
        if word == "filter":
            closing = fragment.closing(at + 1)
            if tokens[at + 2].token_type != TokenType.WHERE or closing == at + 3:
                raise fragment.refused(
                    "definition.syntax", "FILTER must read FILTER (WHERE condition)", "add WHERE", token=at
                )
            where, at = expression.cut(at + 3, closing - 1), closing + 1
        elif word == "within":
            closing = fragment.closing(at + 2)
            if tokens[at + 3].token_type != TokenType.ORDER_BY or closing == at + 4:
                raise fragment.refused(
                    "definition.syntax",
                    "WITHIN GROUP must read WITHIN GROUP (ORDER BY column)",
                    "add ORDER BY",
                    token=at,
                )
            order_by, at = expression.cut(at + 4, closing - 1), closing + 1
        else:
            args, at = _with_nulls_option(fragment, use, args, word, at), at + 2
    aggregate = find(use.name)
    if aggregate is not None and not aggregate.least <= len(args) <= (aggregate.most or len(args)):
        message = f"`{expression.cut(use.at, use.last)}` has {len(args)} arguments, expected {_expected(aggregate)}"
        raise fragment.refused("definition.wrong-arguments", message, "give these arguments", token=use.at)
    return Call(
        aggregate.name if aggregate else use.name, args, distinct, where, order_by, expression.cut(use.at, use.last)
    )


def _expected(aggregate: AggregateFunction) -> str:
    if aggregate.most == aggregate.least:
        return str(aggregate.least)
    return f"{aggregate.least} to {aggregate.most}" if aggregate.most else f"at least {aggregate.least}"


def _arguments(expression: Expression, first: int, closing: int) -> tuple[str, ...]:
    if first >= closing:
        return ()
    args = []
    for piece in expression.fragment.part(first, closing).split():
        at = first
        if not piece.tokens:
            raise expression.fragment.refused("definition.syntax", "an argument is missing", "write it", token=closing)
        while expression.fragment.tokens[at] is not piece.tokens[0]:
            at += 1
        if len(piece) > 1 and piece.tokens[1].token_type == TokenType.FARROW:
            raise piece.refused(
                "definition.named-argument", "arguments of an aggregate have no names", "give them in order"
            )
        args.append(expression.cut(at, at + len(piece) - 1))
    return tuple(args)


def _with_nulls_option(
    fragment: Fragment, use: FunctionUse, args: tuple[str, ...], word: str, at: int
) -> tuple[str, ...]:
    if use.name not in _NULLS_OPTION:
        raise fragment.refused(
            "definition.nulls-option", f"`{use.name}` takes no {word.upper()} NULLS", "take it away", token=at
        )
    return (args[0], "true") if word == "ignore" and args else args


class FormulaBuilder:
    """Collects the pieces of a formula and stores equal calls once."""

    def __init__(self) -> None:
        self._pieces: list[str | int] = []
        self._calls: list[Call] = []

    def text(self, text: str) -> None:
        """Append text."""
        if self._pieces and isinstance(self._pieces[-1], str):
            self._pieces[-1] += text
        elif text:
            self._pieces.append(text)

    def call(self, call: Call) -> None:
        """Append an aggregate call."""
        if call not in self._calls:
            self._calls.append(call)
        self._pieces.append(self._calls.index(call))

    def formula(self, other: Formula) -> None:
        """Append another formula in brackets."""
        self.text("(")
        for piece in other.pieces:
            if isinstance(piece, str):
                self.text(piece)
            else:
                self.call(other.calls[piece])
        self.text(")")

    def build(self) -> Formula:
        """Return the formula of the collected pieces."""
        return Formula(tuple(self._pieces), tuple(self._calls))


def build_formula(expression: Expression, replacements: Iterable[tuple[int, int, str | Formula]]) -> Formula:
    """Return the formula of an expression: its aggregate calls as calls, with some runs of tokens replaced.

    Args:
        expression: The expression.
        replacements: (first token, last token included, replacement); none of them lies inside a call.

    Raises:
        Refused: If a call cannot be read.
    """
    edits: list[tuple[int, int, str | Formula | Call]] = [
        (c.at, c.last, read_call(expression, c)) for c in expression.calls
    ]
    edits += list(replacements)
    builder, tokens, offset = FormulaBuilder(), expression.fragment.tokens, expression.fragment.start
    for first, last, what in sorted(edits, key=lambda e: e[:2]):
        if tokens[first].start < offset:
            continue
        builder.text(expression.slice(offset, tokens[first].start))
        match what:
            case Call():
                builder.call(what)
            case Formula():
                builder.formula(what)
            case str():
                builder.text(what)
        offset = tokens[last].end + 1
    builder.text(expression.slice(offset, expression.fragment.stop))
    return builder.build()
