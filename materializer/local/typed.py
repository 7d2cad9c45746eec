"""Expressions of DuckDB with the type that Spark gives them, and casts between types.

Where Spark raises under ANSI, the DuckDB text raises too. Its error is never shown: the computation is then left to Spark,
which says what is wrong in its own words and code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Protocol

from msgspec import Struct

from materializer.local.kinds import ASKED, BIGINT, DOUBLE, INTEGERS, VOID, Kind, NotLocal, quoted

EXACT_DIGITS: Final = 15
"""A decimal of up to this many digits is a whole number below 2^53 over a power of ten that a double holds, so that one
division gives the nearest double."""


class Typed(Struct, frozen=True):
    """An expression of DuckDB, and its type in Spark.

    Args:
        sql: The text, safe anywhere in an expression.
        kind: The type.
        literal: Its value, for a whole number that is written out.
        fields: The text of each field, for a struct that is built from them here.
    """

    sql: str
    kind: Kind
    literal: int | None = None
    fields: tuple[str, ...] = ()


NULL: Final = Typed("NULL", VOID)


class Compiling(Protocol):
    """What the entries of functions and aggregates need of the compiler."""

    def of(self, node: Any) -> Typed:
        """Return the DuckDB form of a node; raise :class:`NotLocal` where there is none."""

    def condition(self, node: Any) -> str:
        """Return the DuckDB form of a boolean node."""

    def names(self, count: int) -> list[str]:
        """Return names for the variables of a lambda that nothing around it has."""

    def with_variables(self, variables: Mapping[str, Typed]) -> Compiling:
        """Return the compiler inside a lambda."""


def failing(condition: str, otherwise: str) -> str:
    """Return SQL that raises where *condition* is true."""
    return f"CASE WHEN {condition} THEN error('{ASKED}') ELSE {otherwise} END"


def number(value: int) -> Typed:
    """Return a whole number as Spark types it: int, else bigint, else a decimal of its digits."""
    if -(2**31) <= value < 2**31:
        return Typed(f"({value}::INTEGER)", Kind("int"), value)
    if -(2**63) <= value < 2**63:
        return Typed(f"({value}::BIGINT)", BIGINT, value)
    kind = Kind("decimal", len(str(abs(value))))
    if kind.precision > 38:
        raise NotLocal(f"the number {value}")
    return Typed(f"({value}::{kind.duck})", kind, value)


def cast(value: Typed, to: Kind) -> Typed:
    """Return a value in another type, as Spark's CAST under ANSI does.

    Raises:
        NotLocal: If there is no exact form.
    """
    of = value.kind
    if of == to:
        return value
    plain = Typed(f"CAST({value.sql} AS {to.duck})", to)
    if of == VOID or _is_widening(of, to):
        return plain
    if to.is_integer and (of.is_fraction or of.is_decimal):
        return Typed(f"CAST(trunc({value.sql}) AS {to.duck})", to)
    if (to.is_integer and (of.is_integer or of.name == "boolean")) or (to.is_decimal and of.is_integer):
        return plain
    if to.is_decimal and of.is_decimal:
        return plain
    if to == DOUBLE and of.is_decimal:
        if of.precision > EXACT_DIGITS:
            return Typed(f"CAST(CAST({value.sql} AS VARCHAR) AS DOUBLE)", to)  # rounds once, as Spark does
        whole = f"CAST({value.sql} * {10**of.scale}::{_shift(of).duck} AS BIGINT)"
        return Typed(f"({whole}::DOUBLE / {10**of.scale}::DOUBLE)", to)
    if to.name == "boolean" and of.is_integer:
        return Typed(f"({value.sql} <> 0)", to)
    if to.name == "string" and of.is_integer:
        return plain
    if {of.name, to.name} <= {"date", "timestamp", "timestamp_ntz"}:
        return plain
    if of.element is not None and to.element is not None:
        each = cast(Typed("mz_c", of.element), to.element)
        return Typed(f"list_transform({value.sql}, lambda mz_c: {each.sql})", to)
    raise NotLocal(f"CAST({of.text} AS {to.text})")


def same_zero(key: Typed) -> str:
    """Return a key as Spark groups by it: the two zeros of floating-point numbers are one."""
    return f"CASE WHEN {key.sql} = 0 THEN 0 ELSE {key.sql} END" if key.kind.is_fraction else key.sql


def unscaled(value: Typed) -> str:
    """Return a decimal as the whole number of its last digit, which HUGEINT holds."""
    kind = value.kind
    if kind.scale == 0:
        return f"CAST({value.sql} AS HUGEINT)"
    if kind.precision + 1 > 38 or kind.precision + kind.scale + 1 > 38:
        raise NotLocal(f"the digits of a {kind.text}")
    return f"CAST({value.sql} * {10**kind.scale}::{_shift(kind).duck} AS HUGEINT)"


def _shift(kind: Kind) -> Kind:
    return Kind("decimal", kind.scale + 1)


def _is_widening(of: Kind, to: Kind) -> bool:
    if of.is_integer and to.is_integer:
        return INTEGERS.index(of.name) <= INTEGERS.index(to.name)
    if to == DOUBLE:
        return of.is_integer or of.name == "float"
    return False


def nulls_first(value: Typed) -> Typed:
    """Return a struct whose order in DuckDB is Spark's order of *value*: null fields come first.

    The result has a flag beside each field; :func:`restored` takes them off.

    Raises:
        NotLocal: If a field has an order that is not known to be matched.
    """
    if value.kind.name != "struct":
        return value
    of = value.kind.fields
    for _, kind in of:
        if kind.name in {"struct", "array"}:
            raise NotLocal(f"the order of a {kind.text}")
    fields = value.fields or [f"struct_extract({value.sql}, {text_literal(name)})" for name, _ in of]
    packed = ", ".join(f"n{i} := {text} IS NOT NULL, v{i} := {text}" for i, text in enumerate(fields))
    is_built = bool(value.fields)  # and so never null
    sql = f"struct_pack({packed})"
    return Typed(sql if is_built else f"CASE WHEN {value.sql} IS NOT NULL THEN {sql} END", value.kind)


def restored(sql: str, kind: Kind) -> str:
    """Return what :func:`nulls_first` made *sql* from; the text has *sql* once, because it may be long."""
    if kind.name != "struct":
        return sql
    fields = ", ".join(f"{quoted(name)} := struct_extract(mz_r, 'v{i}')" for i, (name, _) in enumerate(kind.fields))
    return f"list_extract(list_transform([{sql}], lambda mz_r: CASE WHEN mz_r IS NOT NULL THEN struct_pack({fields}) END), 1)"


def text_literal(value: str) -> str:
    """Return a text as a literal of DuckDB."""
    return "'" + value.replace("'", "''") + "'"


LIMITS: Final = {"tinyint": 1 << 7, "smallint": 1 << 15, "int": 1 << 31, "bigint": 1 << 63}
"""The least numbers that types do not have."""
_MOMENT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?(Z)?")


def written(text: str, to: Kind) -> Typed:
    """Return a value that is written as a text."""
    found = _MOMENT.fullmatch(text)
    if found and to.name in {"date", "timestamp", "timestamp_ntz"}:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise NotLocal(f"the text {text!r} as a {to.text}") from None
    if to.name == "date" and found and not found[4] and not found[6]:
        return Typed(f"DATE '{text}'", to)
    if to.name in {"timestamp", "timestamp_ntz"} and found and found[1] != "0000":
        if found[6] and to.name == "timestamp_ntz":
            raise NotLocal(f"the text {text!r} as a {to.text}")
        plain = text.removesuffix("Z")
        return Typed(f"{to.duck} '{plain}{'+00' if to.name == 'timestamp' else ''}'", to)
    if to.is_decimal and re.fullmatch(r"-?\d+(\.\d+)?|1E-?\d+", text):
        return Typed(f"CAST('{Decimal(text):f}' AS {to.duck})", to)
    if to.name in {"double", "float"} and text.lower() in {"infinity", "-infinity", "nan"}:
        return Typed(f"CAST('{text}' AS {to.duck})", to)
    raise NotLocal(f"the text {text!r} as a {to.text}")
