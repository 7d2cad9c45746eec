"""The parts of one aggregate call, and the few ways of writing SQL that all families share.

Text from the user enters a larger expression only through :func:`group` and :func:`filtered`, so that an ``or`` or a comment
in it cannot change the meaning of what follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from hashlib import sha256
from typing import Literal, TypeAlias

from msgspec import Struct

from materializer.core.aggregates.layout import PartialColumn
from materializer.core.spec.spec import Call

Tolerance: TypeAlias = Literal["exact", "float", "rank"]

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBERS = INTEGERS | {"float", "double", "void"}


class CallError(ValueError):
    """A call that cannot be decomposed; caught where all problems of a definition are collected."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Parts(Struct, frozen=True):
    """The parts of one aggregate call; all texts are Spark SQL.

    Args:
        partials: Columns to store.
        final: Scalar expression over these columns that gives the value of the call.
        reference: Plain aggregate expression over source rows that defines the value of the call.
        tolerance: How much a value may differ from the reference.
        not_mergeable: Why its partials cannot be merged, or "".
        bracket: For quantiles, (lowest, highest) aggregate expressions; the value lies between them, both included.
    """

    partials: tuple[PartialColumn, ...]
    final: str
    reference: str
    tolerance: Tolerance = "exact"
    not_mergeable: str = ""
    bracket: tuple[str, str] | None = None


def group(text: str) -> str:
    """Return *text* in parentheses, safe anywhere in an expression."""
    return f"({text}\n)" if "--" in text else f"({text})"


def filtered(aggregate: str, *conditions: str | None) -> str:
    """Return *aggregate* with a FILTER over all *conditions* that are not None.

    Examples:
        >>> filtered("sum(a)", "b > 0", None)
        'sum(a) FILTER (WHERE (b > 0))'
    """
    present = [group(c) for c in conditions if c is not None]
    return f"{aggregate} FILTER (WHERE {' AND '.join(present)})" if present else aggregate


def plain(function: str, args: Iterable[str], *conditions: str | None, distinct: bool = False) -> str:
    """Return the plain Spark call of *function*, with a FILTER over *conditions*."""
    inside = ", ".join(a if a == "*" else group(a) for a in args)
    return filtered(f"{function}({'DISTINCT ' if distinct else ''}{inside})", *conditions)


def column_of(text: str) -> str | None:
    """Return the column that *text* consists of, in lower case; None when *text* is anything but a column name."""
    bare = text.strip()
    if bare.startswith("`") and bare.endswith("`") and "`" not in bare[1:-1]:
        return bare[1:-1].casefold()
    return bare.casefold() if bare.isidentifier() else None


def partial_name(kind: str, *texts: str | None) -> str:
    """Return a column name from *kind* and *texts*; differences in case and blanks outside of quotes do not count.

    Texts that mean something else may get the same name, see :func:`materializer.core.aggregates.decompose.decompose`.
    """
    parts = "\x1f".join("\x1e" if t is None else _squeezed(t) for t in (kind, *texts))
    return f"p_{sha256(parts.encode()).hexdigest()[:12]}"


def is_same(one: str, other: str) -> bool:
    """Return whether two texts of Spark SQL have the same tokens.

    Examples:
        >>> is_same("Price  * 'A b'", "price*'A b'"), is_same("price * 'A b'", "price * 'a b'")
        (True, False)
    """
    return one == other or normalised(one) == normalised(other)


def normalised(text: str) -> str:
    """Return the tokens of Spark SQL as one text; see :func:`materializer.core.dialect.normalised`."""
    # importing sqlglot takes longer than a refresh without work
    from materializer.core.dialect import normalised as tokens  # noqa: PLC0415

    return tokens(text)


def _squeezed(text: str) -> str:
    """Return *text* in lower case and without blanks, except inside of quotes; text with comments is left as it is.

    It knows no escaped backslash and no raw string, so that two texts may become one. Names of stored columns depend on it.
    """
    if "--" in text or "/*" in text:
        return text
    out: list[str] = []
    quote, gap = "", False
    for i, char in enumerate(text):
        if quote:
            out.append(char)
            if char == quote and text[i - 1] != "\\":
                quote = ""
        elif char.isspace():
            gap = True
        else:
            if gap and out and _is_word(out[-1]) and _is_word(char):
                out.append(" ")
            gap = False
            out.append(char.lower())
            quote = char if char in "'\"`" else ""
    return "".join(out)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def type_of(call: Call, position: int = 0) -> str:
    """Return the Spark type of an argument.

    Raises:
        ValueError: If the types are unknown (:func:`materializer.spark.describe.analyse.analyse` adds them).
    """
    if position >= len(call.types):
        msg = f"the argument types of {call.function} are not known, the definition has to be analysed first"
        raise ValueError(msg)
    return call.types[position].strip().lower()


def decimal_of(spark_type: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type, or None for another type.

    Examples:
        >>> decimal_of("decimal(18,4)")
        (18, 4)
    """
    if not spark_type.startswith("decimal("):
        return None
    precision, scale = spark_type[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def as_double(call: Call, position: int = 0) -> str:
    """Return an argument as a double, safe anywhere in an expression.

    Raises:
        CallError: If the argument is no number.
    """
    of = type_of(call, position)
    if of not in _NUMBERS and decimal_of(of) is None:
        message = f"argument {position + 1} of {call.text or call.function} is of type {of}, expected a number"
        raise CallError("definition.wrong-type", message, "cast it")
    return f"CAST({group(call.args[position])} AS DOUBLE)"


def flag(call: Call, position: int, *, default: bool) -> bool:
    """Return the value of an argument that must be the literal ``true`` or ``false``; *default* without the argument.

    Raises:
        CallError: If it is anything else.
    """
    if position >= len(call.args):
        return default
    word = call.args[position].strip().lower()
    if word not in ("true", "false"):
        message = (
            f"argument {position + 1} of {call.text or call.function} is {call.args[position]}, expected true or false"
        )
        hint = "write the literal"
        if call.function in ("first", "last"):
            first = call.function == "first"
            hint = f"{call.function}({call.args[0]}) goes by the time column; by another: {'min' if first else 'max'}_by({', '.join(call.args[:2])})"
        raise CallError("definition.wrong-arguments", message, hint)
    return word == "true"


def number(text: str) -> Decimal | None:
    """Return the number of a literal, or None for any other text.

    Examples:
        >>> number(" 0.5BD"), number("-2L"), number("1e-3"), number("x"), number("1/2")
        (Decimal('0.5'), Decimal('-2'), Decimal('0.001'), None, None)
    """
    found = re.fullmatch(
        r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?:bd|[dflsy])?\s*", text, re.ASCII | re.IGNORECASE
    )
    return Decimal(found[1]) if found else None


def is_orderable(spark_type: str) -> bool:
    """Whether values of a Spark type have an order.

    Examples:
        >>> is_orderable("array<map<string,int>>"), is_orderable("struct<a:int>")
        (False, True)
    """
    return not any(word in spark_type.lower() for word in ("map<", "variant", "calendarinterval"))
