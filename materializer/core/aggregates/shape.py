"""Skewness and kurtosis: centred sums up to the fourth power, merged pairwise.

Source: Pébay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
moments", Sandia report SAND2008-6212 (2008).
"""

from __future__ import annotations

from typing import Final

from materializer.core.aggregates.layout import PartialColumn
from materializer.core.aggregates.moments import folded, mean_of, merged_mean, merged_product
from materializer.core.aggregates.parts import Parts, flag, partial_name, plain
from materializer.core.spec.spec import Call

_ZERO: Final = "named_struct('n', 0L, 'mean', 0D, 'm2', 0D, 'm3', 0D, 'm4', 0D)"
_FISHER: Final = {"skew": 3, "kurtosis": 4}
"""The least number of values that has an unbiased estimate."""


def shape(call: Call) -> Parts:
    """Decompose ``skew(x [, biased])``, ``kurtosis(x [, biased])`` and Spark's ``skewness(x)``.

    Kurtosis is not reduced by 3. Both are biased unless the flag is false. Both are null for fewer than two values (unbiased:
    skew three, kurtosis four) and where all values are equal. ``skewness`` is the biased ``skew`` as Spark has it.
    """
    is_biased = flag(call, 1, default=True)
    is_sparks = call.function == "skewness"
    x = call.args[:1]
    counted = plain("count", x, call.where)
    name = partial_name("moments of shape", *x, call.where)
    power = 4 if call.function == "kurtosis" else 3
    own = f"try_divide({name}.m{power} / {name}.n, pow({name}.m2 / {name}.n, {power / 2}D))"
    theirs = plain("skewness", x, call.where) if power == 3 else f"({plain('kurtosis', x, call.where)} + 3)"
    own = f"if({name}.m2 = 0, NULL, {own})"
    return Parts(
        (PartialColumn(name, _build(call), folded(name, _ZERO, _joined())),),
        own if is_sparks else _estimate(call.function, own, f"{name}.n", is_biased=is_biased),
        theirs if is_sparks else _estimate(call.function, theirs, counted, is_biased=is_biased),
        tolerance="float",
    )


def _build(call: Call) -> str:
    """Return the centred sums, computed from Spark's own skewness and kurtosis; null without rows."""
    x = call.args[:1]
    counted, spread = plain("count", x, call.where), plain("var_pop", x, call.where)
    third = f"coalesce({plain('skewness', x, call.where)} * pow({spread}, 1.5D) * {counted}, 0D)"
    fourth = f"coalesce(({plain('kurtosis', x, call.where)} + 3) * {spread} * {spread} * {counted}, 0D)"
    return (
        f"if({counted} = 0, NULL, named_struct('n', {counted}, 'mean', {mean_of(x[0], call.where)},"
        f" 'm2', {spread} * {counted}, 'm3', {third}, 'm4', {fourth}))"
    )


def _joined() -> str:
    d, left, right = "(b.mean - a.mean)", "(a.n / (a.n + b.n))", "(b.n / (a.n + b.n))"
    third = (
        f"a.m3 + b.m3 + {d} * {d} * {d} * a.n * {right} * ({left} - {right})"
        f" + 3 * {d} * ({left} * b.m2 - {right} * a.m2)"
    )
    fourth = (
        f"a.m4 + b.m4 + {d} * {d} * {d} * {d} * a.n * {right} * ({left} * {left} - {left} * {right} + {right} * {right})"
        f" + 6 * {d} * {d} * ({left} * {left} * b.m2 + {right} * {right} * a.m2)"
        f" + 4 * {d} * ({left} * b.m3 - {right} * a.m3)"
    )
    return (
        f"named_struct('n', a.n + b.n, 'mean', {merged_mean('mean')}, 'm2', {merged_product('m2', 'mean', 'mean')},"
        f" 'm3', {third}, 'm4', {fourth})"
    )


def _estimate(function: str, biased: str, n: str, *, is_biased: bool) -> str:
    if is_biased:
        return f"if({n} < 2, NULL, {biased})"
    if function == "skew":
        unbiased = f"{biased} * sqrt(CAST({n} AS DOUBLE) * ({n} - 1)) / ({n} - 2)"
    else:
        unbiased = f"(({n} + 1) * {biased} - 3 * ({n} - 1)) * ({n} - 1) / (({n} - 2D) * ({n} - 3)) + 3"
    return f"if({n} < {_FISHER[function]}, NULL, {unbiased})"
