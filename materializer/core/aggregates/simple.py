"""Aggregates whose partial is one or two values: counts, sums, averages, extremes, booleans and bits."""

from __future__ import annotations

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
# A bucket holds fewer rows than this many digits can count; a narrow count leaves digits for the quotient.
_COUNT = "decimal(12,0)"
# A column of a larger scale leaves no room for the four more digits of a quotient; its average has the column's scale.
_MAX_LONG_DIVISION = 24
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
    tolerance: Tolerance = "exact" if decimal and decimal[1] <= _MAX_LONG_DIVISION else "float"
    return Parts((summed, counted), final, reference, tolerance=tolerance)


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
    """Return sum / count, rounded half up once to Spark's type for ``avg``, as Spark's own ``avg`` does.

    Spark divides decimals to at most 38 digits, and a second rounding of a wide quotient would give another result. So wide
    sums are divided as by hand: the whole part, the digits of the column's scale, and the four digits that ``avg`` adds. Every
    intermediate sum is narrow enough that Spark keeps all digits of its scale.
    """
    precision, scale = decimal
    width = _sum_precision(precision)
    more = min(_MAX_PRECISION, scale + 4)
    result = f"decimal({min(_MAX_PRECISION, precision + 4)},{more})"
    n = f"CAST(nullif({counted}, 0) AS {_COUNT})"
    if width + 13 <= _MAX_PRECISION or scale > _MAX_LONG_DIVISION:
        return f"CAST({summed} / {n} AS {result})"
    inner = f"decimal({12 + scale},{scale})"
    fraction = f"decimal({more + 1},{more})"
    unit = f"CAST('1E-{scale}' AS decimal({max(scale, 1)},{scale}))"
    rest = f"CAST({summed} % {n} AS {inner})"
    whole = f"CAST(({summed} - {rest}) / {n} AS decimal({_MAX_PRECISION - 1 - more},0))"
    last = f"CAST({rest} % CAST({n} * {unit} AS {inner}) AS {inner})"
    digits = f"CAST(({rest} - {last}) / {n} AS {fraction})"
    tail = f"CAST(CAST(round(CAST({last} / {unit} AS {_COUNT}) / {n}, 4) AS decimal(5,4)) * {unit} AS {fraction})"
    return f"CAST({whole} + CAST({digits} + {tail} AS {fraction}) AS {result})"
