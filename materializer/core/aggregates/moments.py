"""Variances, covariances and values derived from them: counts, means and centred sums, merged by Chan's rule.

Centred sums stay accurate where sums of squares cancel. Each family stores one struct, which is null without rows. So all
functions of the same arguments share it, and merging a single partial gives it back unchanged.

Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from materializer.core.aggregates.layout import PartialColumn
from materializer.core.aggregates.parts import Parts, group, partial_name, plain
from materializer.core.spec.spec import Call

LEAST_SQUARED: Final = 1e-150
MOST_SQUARED: Final = 1e150
"""Between these two, squares of numbers and sums of them are doubles of full precision. Beyond, Spark's results depend on how
the rows lie in partitions: 0, NaN, infinity or a number."""


def variance(call: Call) -> Parts:
    """Decompose ``var_pop``, ``var_samp``, ``stddev_pop`` and ``stddev_samp``."""
    x = group(call.args[0])
    name = partial_name("moments", *call.args, call.where)
    counted = plain("count", call.args, call.where)
    build = (
        f"if({counted} = 0, NULL, named_struct('n', {counted}, 'mean', {mean_of(x, call.where)},"
        f" 'm2', {plain('var_pop', call.args, call.where)} * {counted}))"
    )
    zero = "named_struct('n', 0L, 'mean', 0D, 'm2', 0D)"
    joined = (
        f"named_struct('n', a.n + b.n, 'mean', {merged_mean('mean')}, 'm2', {merged_product('m2', 'mean', 'mean')})"
    )
    squares, n = f"{name}.m2", f"{name}.n"
    root = "sqrt" if call.function.startswith("stddev") else ""
    final = f"{root}({_pop(squares, n) if call.function.endswith('pop') else _samp(squares, n)})"
    return _parts(
        PartialColumn(name, build, folded(name, zero, joined)), final, plain(call.function, call.args, call.where)
    )


def standard_error(call: Call) -> Parts:
    """Decompose ``sem``: the standard deviation of a sample over the root of its size; null for fewer than two values."""
    parts = variance(replace(call, function="var_samp"))
    (partial,) = parts.partials
    deviation, counted = plain("stddev_samp", call.args, call.where), plain("count", call.args, call.where)
    return replace(
        parts,
        final=f"sqrt({parts.final} / {partial.name}.n)",
        reference=f"try_divide({deviation}, sqrt({counted}))",
    )


def comoment(call: Call) -> Parts:
    """Decompose covariance, correlation and linear regression, over the rows where both arguments are not null."""
    a, b = (group(t) for t in call.args)
    both = f"{a} IS NOT NULL AND {b} IS NOT NULL"
    where = both if call.where is None else f"{group(call.where)} AND {both}"
    name = partial_name("comoments", *call.args, call.where)
    counted = plain("count", ("1",), where)
    build = (
        f"if({counted} = 0, NULL, named_struct('n', {counted}, 'ma', {mean_of(a, where)}, 'mb', {mean_of(b, where)},"
        f" 'cab', {plain('covar_pop', (a, b), where)} * {counted}, 'caa', {plain('var_pop', (a,), where)} * {counted},"
        f" 'cbb', {plain('var_pop', (b,), where)} * {counted}))"
    )
    zero = "named_struct('n', 0L, 'ma', 0D, 'mb', 0D, 'cab', 0D, 'caa', 0D, 'cbb', 0D)"
    joined = (
        f"named_struct('n', a.n + b.n, 'ma', {merged_mean('ma')}, 'mb', {merged_mean('mb')},"
        f" 'cab', {merged_product('cab', 'ma', 'mb')}, 'caa', {merged_product('caa', 'ma', 'ma')},"
        f" 'cbb', {merged_product('cbb', 'mb', 'mb')})"
    )
    reference = plain(call.function, call.args, call.where)
    if call.function == "corr":
        # Under ANSI, Spark's corr divides by zero where an argument is constant, which would fail the bucket. Without ANSI it
        # gives null there, and so does this reference.
        reference = (
            f"if({counted} < 2, NULL, try_divide({plain('covar_pop', (a, b), where)},"
            f" sqrt({plain('var_pop', (a,), where)}) * sqrt({plain('var_pop', (b,), where)})))"
        )
    parts = _parts(
        PartialColumn(name, build, folded(name, zero, joined)), _comoment_final(call.function, name), reference
    )
    return replace(parts, tolerance="exact") if call.function == "regr_count" else parts


def _parts(partial: PartialColumn, final: str, reference: str) -> Parts:
    return Parts((partial,), final, reference, tolerance="float")


def _comoment_final(function: str, p: str) -> str:
    # The first argument of the regressions is the dependent variable.
    slope = f"({p}.cab / {p}.cbb)"
    match function:
        case "covar_pop":
            return _pop(f"{p}.cab", f"{p}.n")
        case "covar_samp":
            return _samp(f"{p}.cab", f"{p}.n")
        case "corr":
            return f"if({p}.n < 2, NULL, try_divide({p}.cab, sqrt({p}.caa) * sqrt({p}.cbb)))"
        case "regr_slope":
            return f"if({p}.cbb = 0, NULL, {slope})"
        case "regr_count":
            return f"coalesce({p}.n, 0L)"
        case "regr_r2":
            return f"if({p}.cbb = 0, NULL, if({p}.caa = 0, 1D, ({p}.cab / {p}.caa) * {slope}))"
        case "regr_intercept":
            return f"if({p}.cbb = 0, NULL, {p}.ma - {slope} * {p}.mb)"
        case _:
            fields = {"regr_avgy": "ma", "regr_avgx": "mb", "regr_syy": "caa", "regr_sxx": "cbb", "regr_sxy": "cab"}
            return f"{p}.{fields[function]}"


def _pop(products: str, n: str) -> str:
    return f"({products} / {n})"


def _samp(products: str, n: str) -> str:
    return f"if({n} < 2, NULL, {products} / ({n} - 1))"


def mean_of(x: str, where: str | None) -> str:
    """Return the mean of a group; for equal values it is exactly that value."""
    # A sum divided by a count is not always exactly the constant that was summed, and constants must have variance zero.
    low, high = plain("min", (x,), where), plain("max", (x,), where)
    mean = plain("avg", (f"CAST({x} AS DOUBLE)",), where)
    return f"if({low} = {high}, CAST({low} AS DOUBLE), {mean})"


def merged_mean(mean: str) -> str:
    """Return the mean of two structs *a* and *b* with counts ``n``."""
    return f"a.{mean} + (b.{mean} - a.{mean}) * (b.n / (a.n + b.n))"


def merged_product(product: str, left: str, right: str) -> str:
    """Return the centred sum of products of the union of two structs *a* and *b*, from their sums and means."""
    weight = "(a.n * (b.n / (a.n + b.n)))"
    return f"a.{product} + b.{product} + (b.{left} - a.{left}) * (b.{right} - a.{right}) * {weight}"


def folded(name: str, zero: str, joined: str) -> str:
    """Return the merge of the structs in column *name*, two at a time; *joined* is the SQL that merges *a* and *b*."""
    # Sorted, so that the last digits do not depend on the order in which a shuffle delivers the partials.
    return (
        f"aggregate(sort_array(collect_list({name})), {zero}, (a, b) -> if(a.n = 0, b, {joined}),"
        " a -> if(a.n = 0, NULL, a))"
    )
