"""Aggregates whose partial is one or two values: counts, sums, averages, extremes, booleans and bits."""

from __future__ import annotations

from msgspec.structs import replace

from materializer.core.aggregates.layout import SIGN, PartialColumn
from materializer.core.aggregates.parts import (
    INTEGERS,
    Parts,
    Tolerance,
    decimal_of,
    group,
    partial_name,
    plain,
    type_of,
)
from materializer.core.spec.spec import Call

_MAX_PRECISION = 38
# Holds a bigint of either sign; sums of it have ten more digits.
_WIDE = "decimal(20,0)"
_WHOLE = "decimal(38,0)"
_HALF = f"{10**19}BD"
# A bucket holds fewer rows than this many digits can count; a narrow count leaves digits for the quotient.
_COUNT_DIGITS = 12
_COUNT = f"decimal({_COUNT_DIGITS},0)"
# Spark rounds a decimal of more digits when it changes its sign; the sum of a column has ten more digits than the column.
_MAX_SUBTRACTED = 24


def same(call: Call) -> Parts:
    """Decompose a function that merges by itself and ignores duplicates: ``min``, ``bool_and``, ``bit_or`` …"""
    name = partial_name(call.function, *call.args, call.where)
    partial = PartialColumn(name, plain(call.function, call.args, call.where), f"{call.function}({name})")
    return Parts((partial,), name, partial.build)


def count(call: Call) -> Parts:
    """Decompose ``count(*)``, ``count(a, b)`` (rows where none is null) and ``count_if``."""
    partial = _count(call.function, call.args, call.where)
    return Parts((partial,), partial.name, partial.build)


def total(call: Call) -> Parts:
    """Decompose ``sum``; integers and decimals raise an error on overflow, also when partial sums are merged."""
    partial = _sum(call)
    exact = _is_exact(type_of(call))
    return Parts(
        (partial,),
        partial.name,
        partial.build,
        tolerance="exact" if exact else "float",
    )


def average(call: Call, *, is_summed: bool) -> Parts:
    """Decompose ``avg``.

    Args:
        call: The call.
        is_summed: Whether the definition also has the ``sum`` of the same bigint. Then an overflow of the sum fails the bucket
            anyway, and ``avg`` can share the sum. Spark's own ``avg`` of bigints never overflows.
    """
    of = type_of(call)
    counted = _count("count", call.args, call.where)
    reference = plain("avg", call.args, call.where)
    decimal = decimal_of(of)
    if of == "bigint" and not is_summed:
        high, low = _halves(call)
        quotient = f"try_divide({high.name} * 4294967296D + {low.name}, {counted.name})"
        return Parts((high, low, counted), quotient, reference, tolerance="float")
    summed = _sum(call)
    if decimal:
        final = _decimal_quotient(summed.name, counted.name, decimal)
    else:
        final = f"try_divide(CAST({summed.name} AS DOUBLE), {counted.name})"
    tolerance: Tolerance = "exact" if decimal else "float"
    return Parts((summed, counted), final, reference, tolerance=tolerance)


def tried_total(call: Call) -> Parts | None:
    """Decompose ``try_sum``, which is the sum where it cannot overflow; None where it is null after an overflow on the way."""
    of = type_of(call)
    may_overflow = of == "bigint" or of not in {*INTEGERS, "float", "double"}
    return None if may_overflow else replace(total(call), reference=plain("try_sum", call.args, call.where))


def tried_average(call: Call, *, is_summed: bool) -> Parts | None:
    """Decompose ``try_avg``, which is the average where it cannot overflow; None for decimals and lengths of time."""
    if type_of(call) not in {*INTEGERS, "float", "double"}:
        return None
    return replace(average(call, is_summed=is_summed), reference=plain("try_avg", call.args, call.where))


def sum_name(call: Call) -> str:
    """Return the name of the column that holds the sum of the argument of *call*."""
    return partial_name("sum", *call.args, call.where)


def sum_text(call: Call) -> str:
    """Return SQL of the sum of the argument of *call*."""
    return plain("sum", call.args, call.where)


def _is_exact(spark_type: str) -> bool:
    return spark_type in INTEGERS or decimal_of(spark_type) is not None


def row_count() -> PartialColumn:
    """Return the partial of ``count(*)``, which every partials table has."""
    return _count("count", ("*",), None)


def _count(function: str, args: tuple[str, ...], where: str | None) -> PartialColumn:
    name = partial_name(function, *args, where)
    return PartialColumn(name, plain(function, args, where), f"sum({name})", _signed(name))


def _signed(partial: str, kind: str | None = None) -> str:
    """Return the aggregate that adds and subtracts a partial, if given by way of another type."""
    value = f"CAST({partial} AS {kind})" if kind else partial
    return f"sum(if({SIGN} > 0, {value}, -{value}))"


def _subtracted(partial: str, counted: str, kind: str, by_way_of: str | None) -> str:
    """Return the retract form of a sum, which is null where no value is left.

    Args:
        partial: The sum.
        counted: The partial that counts its values.
        kind: The type of the sum.
        by_way_of: A type that holds every sum on the way, whatever the order of the rows.
    """
    return f"CASE WHEN {_signed(counted)} > 0 THEN CAST({_signed(partial, by_way_of)} AS {kind}) END"


def _sum(call: Call) -> PartialColumn:
    name, counted = sum_name(call), partial_name("count", *call.args, call.where)
    merge, retract = f"sum({name})", None
    decimal = decimal_of(type_of(call))
    if type_of(call) in INTEGERS:
        retract = _subtracted(name, counted, "bigint", _WIDE)
    if decimal:
        # Spark widens the sum of a sum by another ten digits; the cast removes them, and raises an error where they are needed.
        kind = f"decimal({_sum_precision(decimal[0])},{decimal[1]})"
        merge = f"CAST({merge} AS {kind})"
        if decimal[0] <= _MAX_SUBTRACTED:
            retract = _subtracted(name, counted, kind, None)
    return PartialColumn(name, sum_text(call), merge, retract)


def _sum_precision(precision: int) -> int:
    return min(_MAX_PRECISION, precision + 10)


def _halves(call: Call) -> tuple[PartialColumn, PartialColumn]:
    # The sums of the upper and lower 32 bits are exact and do not overflow before two thousand million rows.
    x = group(call.args[0])
    name, counted = sum_name(call), partial_name("count", *call.args, call.where)
    return tuple(  # type: ignore[return-value]
        PartialColumn(
            f"{name}_{half}",
            plain("sum", (bits,), call.where),
            f"sum({name}_{half})",
            _subtracted(f"{name}_{half}", counted, "bigint", _WIDE),
        )
        for half, bits in (("hi", f"shiftright({x}, 32)"), ("lo", f"{x} & 4294967295L"))
    )


def _decimal_quotient(summed: str, counted: str, decimal: tuple[int, int]) -> str:
    """Return sum / count with the digits of Spark's type for ``avg``, rounded half up as Spark's own ``avg`` does.

    Spark gives up digits of a quotient or a sum of wide decimals. So wide sums are divided as by hand: as whole numbers, in two
    steps of nineteen digits, and then the digits that ``avg`` adds. Spark's ``avg`` rounds twice, first to 39 digits.
    """
    precision, scale = decimal
    more = min(_MAX_PRECISION, scale + 4)
    result = f"decimal({min(_MAX_PRECISION, precision + 4)},{more})"
    n = f"CAST(nullif({counted}, 0) AS {_COUNT})"
    if _sum_precision(precision) + 13 <= _MAX_PRECISION:
        return f"CAST({summed} / {n} AS {result})"
    digits = f"replace(CAST({summed} AS STRING), '.', '')" if scale else summed
    whole = f"CAST({digits} AS {_WHOLE})"
    low = f"({whole} % {_HALF})"
    high = f"CAST(({whole} - {low}) / {_HALF} AS decimal(19,0))"
    over = f"CAST({high} % {n} AS {_COUNT})"
    next_digits = f"CAST({over} * {_HALF} + {low} AS decimal(31,0))"
    rest = f"CAST({next_digits} % {n} AS {_COUNT})"
    upper, lower = f"({high} - {over}) / {n}", f"({next_digits} - {rest}) / {n}"
    quotient = f"CAST(CAST({upper} AS decimal(19,0)) * {_HALF} + CAST({lower} AS decimal(19,0)) AS {_WHOLE})"
    first = more - scale
    last = f"CAST({rest} * {_power(first)} AS decimal({_COUNT_DIGITS + first},0))"
    left = f"CAST({last} % {n} AS {_COUNT})"
    cut = f"CAST({quotient} * {_power(first)} + CAST(({last} - {left}) / {n} AS decimal({first + 1},0)) AS {_WHOLE})"
    # rounded up, too, if the first 39 digits, rounded, end with a 5 and zeros
    further = f"CAST(rpad('1', least(40 - length(CAST(abs({cut}) AS STRING)), 14), '0') AS decimal(14,0))"
    is_up = f"({n} - 2 * abs({left})) * {further} <= {n}"
    rounded = f"CAST({cut} + CASE WHEN {is_up} THEN if({summed} < 0, -1, 1) ELSE 0 END AS {_WHOLE})"
    return f"CAST(concat(CAST({rounded} AS STRING), 'E-{more}') AS {result})"


def _power(digits: int) -> str:
    return f"{10**digits}BD"
