"""Aggregates that multiply: sums of powers, weighted sums and averages, and the product of all values.

All of them are computed in doubles, whatever the types of the arguments.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from materializer.core.aggregates import simple
from materializer.core.aggregates.layout import PartialColumn
from materializer.core.aggregates.parts import Parts, as_double, group, partial_name, plain
from materializer.core.spec.spec import Call

_ONE: Final = "named_struct('f', 1D, 'e', 0L)"
# Exponents of the smallest and the largest double; log2 is rounded and may be off by one at these ends.
_LEAST_EXPONENT, _MOST_EXPONENT = -1074, 1023


def sum_of_powers(call: Call) -> Parts:
    """Decompose ``sum2``, ``sum3`` and ``sum4``: the sums of squares, cubes and fourth powers."""
    return _sum(call, " * ".join([as_double(call)] * int(call.function[-1])))


def weighted_sum(call: Call) -> Parts:
    """Decompose ``wsum(x, y)``: the sum of the products, over the rows where both are not null."""
    return _sum(call, _weighted(call))


def weighted_average(call: Call) -> Parts:
    """Decompose ``wavg(x, w)``, over the rows where both are not null; null where the weights sum to zero."""
    x, w = map(group, call.args)
    pairs = f"{x} IS NOT NULL AND {w} IS NOT NULL"
    where = pairs if call.where is None else f"{group(call.where)} AND {pairs}"
    total, weights = _sum(call, _weighted(call)), _sum(replace(call, where=where), as_double(call, 1))
    return replace(
        total,
        partials=total.partials + weights.partials,
        final=f"try_divide({total.final}, {weights.final})",
        reference=f"try_divide({total.reference}, {weights.reference})",
    )


def product(call: Call) -> Parts:
    """Decompose ``prod``: the product of the values that are not null; null without such values.

    A running product is stored as ``f * 2^e``, so that no intermediate product overflows. So the result does not depend on the
    order of the multiplications, and it is infinite or zero only where no double can represent it.
    """
    name = partial_name("product", *call.args, call.where)
    counted = plain("count", call.args, call.where)
    values = f"transform(sort_array({plain('collect_list', (as_double(call),), call.where)}), v -> {_scaled('v')})"
    build = f"if({counted} = 0, NULL, aggregate({values}, {_ONE}, (a, b) -> {_times('a', 'b')}))"
    stored = f"aggregate(sort_array(collect_list({name})), {_ONE}, (a, b) -> {_times('a', 'b')})"
    whole = f"aggregate({values}, {_ONE}, (a, b) -> {_times('a', 'b')}, a -> {_value('a')})"
    return Parts(
        (PartialColumn(name, build, f"if(count({name}) = 0, NULL, {stored})"),),
        _value(name),
        f"if({counted} = 0, NULL, {whole})",
        tolerance="float",
    )


def _sum(call: Call, doubles: str) -> Parts:
    return simple.total(replace(call, function="sum", args=(doubles,), types=("double",)))


def _weighted(call: Call) -> str:
    return f"{as_double(call)} * {as_double(call, 1)}"


def _scaled(x: str) -> str:
    """Return a struct of a number from 1 to 2 and an exponent that together give *x*; zero and non-finite *x* stay whole."""
    exponent = f"greatest(least(floor(log2(abs({x}))), {_MOST_EXPONENT}L), {_LEAST_EXPONENT}L)"
    is_whole = f"{x} = 0 OR abs({x}) >= double('Infinity')"  # in the order of Spark, NaN is the greatest number
    return (
        f"if({is_whole}, named_struct('f', {x}, 'e', 0L),"
        f" named_struct('f', {x} / pow(2D, {exponent}), 'e', {exponent}))"
    )


def _times(a: str, b: str) -> str:
    both = f"({a}.f * {b}.f)"
    is_large = f"abs({both}) >= 2"
    return f"named_struct('f', if({is_large}, {both} / 2, {both}), 'e', {a}.e + {b}.e + if({is_large}, 1L, 0L))"


def _value(p: str) -> str:
    # in two steps, because the power of a subnormal number alone is outside the range of doubles
    half = f"({p}.e DIV 2)"
    scaled = f"{p}.f * pow(2D, {half}) * pow(2D, {p}.e - {half})"
    return f"if({p}.f = 0 OR abs({p}.f) >= double('Infinity'), {p}.f, {scaled})"
