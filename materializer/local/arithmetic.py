"""Arithmetic and comparison with the types and the errors of Spark under ANSI."""

from __future__ import annotations

from typing import Final

from materializer.local.kinds import BIGINT, BOOLEAN, DOUBLE, MOST_DIGITS, Kind, NotLocal, common, decimal
from materializer.local.typed import Typed, cast, failing, unscaled

SIGNED_DIGITS: Final = 34
"""Spark rounds a decimal of more digits when it changes its sign."""


def arithmetic(operator: str, a: Typed, b: Typed) -> Typed:
    """Return ``a operator b`` for ``+``, ``-``, ``*``, ``/``, ``%`` and ``div``.

    Raises:
        NotLocal: If there is no exact form.
    """
    if not (a.kind.is_number or a.kind.name == "void") or not (b.kind.is_number or b.kind.name == "void"):
        raise NotLocal(f"{a.kind.text} {operator} {b.kind.text}")
    if operator == "div":
        return _whole(a, b)
    if a.kind.is_decimal or b.kind.is_decimal:
        if "void" in {a.kind.name, b.kind.name}:
            raise NotLocal(f"{a.kind.text} {operator} {b.kind.text}")
        if a.kind.is_fraction or b.kind.is_fraction:
            a, b = cast(a, DOUBLE), cast(b, DOUBLE)
        else:
            return _decimals(operator, _digits(a), _digits(b))
    kind = DOUBLE if operator == "/" else common([a.kind, b.kind])
    if kind.name == "void":
        raise NotLocal(f"NULL {operator} NULL")
    left, right = cast(a, kind).sql, cast(b, kind).sql
    if operator in {"/", "%"}:
        sql = f"({left} {operator} {right})"
        return Typed(sql if b.literal else _guarded(left, right, sql, kind), kind)
    return Typed(f"({left} {operator} {right})", kind)


SMALLEST: Final = (2**31, 2**63)
"""Numbers that are too large for their type without the sign that is written before them."""


def try_divide(a: Typed, b: Typed) -> Typed:
    """Return ``try_divide(a, b)``: null where *b* is zero."""
    if a.kind.is_decimal or b.kind.is_decimal:
        raise NotLocal("try_divide of decimals")
    left, right = cast(a, DOUBLE).sql, cast(b, DOUBLE).sql
    return Typed(f"CASE WHEN {right} <> 0 THEN {left} / {right} END", DOUBLE)


def positive_modulo(a: Typed, b: Typed) -> Typed:
    """Return ``pmod(a, b)`` for a *b* that is written out and positive."""
    if b.literal is None or b.literal <= 0 or not a.kind.is_integer:
        raise NotLocal(f"pmod({a.kind.text}, {b.kind.text})")
    kind = common([a.kind, b.kind])
    left, right = cast(a, kind).sql, cast(b, kind).sql
    rest = f"({left} % {right})"
    return Typed(f"CASE WHEN {rest} < 0 THEN {rest} + {right} ELSE {rest} END", kind)


def negated(value: Typed) -> Typed:
    """Return ``-value``."""
    if not value.kind.is_number or value.kind.precision > SIGNED_DIGITS:
        raise NotLocal(f"-{value.kind.text}")
    literal = None if value.literal is None else -value.literal
    return Typed(f"(-{value.sql})", value.kind, literal)


def comparison(operator: str, a: Typed, b: Typed) -> Typed:
    """Return a comparison, with ``<=>`` for one that null takes part in.

    Raises:
        NotLocal: If the types have to be brought together in a way that is not known to be matched.
    """
    kind = compared_as([a, b])
    sign = "IS NOT DISTINCT FROM" if operator == "<=>" else operator
    return Typed(f"({cast(a, kind).sql} {sign} {cast(b, kind).sql})", BOOLEAN)


def compared_as(values: list[Typed]) -> Kind:
    """Return the type in which Spark compares some values.

    Raises:
        NotLocal: If that is not known to be matched.
    """
    are_decimal = any(v.kind.is_decimal for v in values)
    kind = common([_digits(v).kind if are_decimal and v.kind.is_integer else v.kind for v in values])
    if kind.name in {"struct", "array"}:
        raise NotLocal(f"a comparison of {kind.text}")
    return kind


def _digits(value: Typed) -> Typed:
    """Return a whole number as a decimal; one that is written out has as many digits as it needs."""
    if value.kind.is_decimal:
        return value
    if value.literal is None:
        return cast(value, value.kind.as_decimal())
    return cast(value, decimal(len(str(abs(value.literal))), 0))


def _guarded(left: str, right: str, sql: str, kind: Kind) -> str:
    guarded = failing(f"{right} = 0 AND {left} IS NOT NULL", sql)
    return f"CAST({guarded} AS {kind.duck})"


def _whole(a: Typed, b: Typed) -> Typed:
    if not a.kind.is_integer or not b.kind.is_integer:
        raise NotLocal(f"{a.kind.text} div {b.kind.text}")
    left, right = cast(a, BIGINT).sql, cast(b, BIGINT).sql
    least = f"({right} = -1 AND {left} = (-9223372036854775807 - 1))"
    guarded = failing(f"({right} = 0 AND {left} IS NOT NULL) OR {least}", f"({left} // {right})")
    return Typed(f"CAST({guarded} AS BIGINT)", BIGINT)


def _decimals(operator: str, a: Typed, b: Typed) -> Typed:
    (p, s), (q, t) = ((v.kind.precision, v.kind.scale) for v in (a, b))
    match operator:
        case "+" | "-":
            scale = max(s, t)
            kind = decimal(max(p - s, q - t) + scale + 1, scale)
            return Typed(f"CAST({cast(a, kind).sql} {operator} {cast(b, kind).sql} AS {kind.duck})", kind)
        case "*":
            kind = decimal(p + q + 1, s + t)
            return Typed(f"CAST({a.sql} * {b.sql} AS {kind.duck})", kind)
        case "/":
            return _quotient(a, b)
        case _:
            raise NotLocal(f"{a.kind.text} {operator} {b.kind.text}")


def _quotient(a: Typed, b: Typed) -> Typed:
    """Return a quotient of decimals, rounded half up to the digits of its type."""
    (p, s), (q, t) = ((v.kind.precision, v.kind.scale) for v in (a, b))
    scale = max(6, s + q + 1)
    precision = p - s + t + scale
    if precision > MOST_DIGITS:  # Spark gives up digits after the point, but keeps six of them
        scale = max(MOST_DIGITS - (precision - scale), min(scale, 6))
        precision = MOST_DIGITS
    shift = scale - s + t
    # The numerator has to fit. No quotient may lie so near the middle of two results that Spark's 39 digits hide it. And the
    # digits after the point are made by a product of twice as many.
    if shift < 0 or p + shift > MOST_DIGITS or scale + q > MOST_DIGITS or 2 * scale > MOST_DIGITS:
        raise NotLocal(f"{a.kind.text} / {b.kind.text}")
    kind = decimal(precision, scale)
    n, d = f"({unscaled(a)} * {10**shift}::HUGEINT)", unscaled(b)
    rest = f"({n} % {d})"
    is_up = f"abs({rest}) >= abs({d}) - abs({rest})"  # twice the rest could leave the type's range
    away = f"CASE WHEN {is_up} THEN CASE WHEN ({n} < 0) = ({d} < 0) THEN 1 ELSE -1 END ELSE 0 END"
    digits, power = f"({n} // {d} + {away})", f"{10**scale}::HUGEINT"
    unit = f"CAST('0.{1:0{scale}}' AS DECIMAL({scale},{scale}))"
    point = f"CAST({digits} % {power} AS DECIMAL({scale},0)) * {unit}"
    value = f"CAST({digits} // {power} AS {kind.duck}) + CAST({point} AS {kind.duck})"
    guarded = failing(f"{b.sql} = 0 AND {a.sql} IS NOT NULL", value)
    return Typed(f"CAST({guarded} AS {kind.duck})", kind)
