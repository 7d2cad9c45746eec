"""Approximate aggregates whose partial is a sketch: distinct counts by HLL, quantiles by KLL."""

from __future__ import annotations

import math
import re

from materializer.core.aggregates.layout import PartialColumn
from materializer.core.aggregates.parts import (
    INTEGERS,
    CallError,
    Parts,
    decimal_of,
    group,
    partial_name,
    plain,
    type_of,
)
from materializer.core.spec.spec import Call

_DEFAULT_LG_K = 12
_MAX_RELATIVE_ERROR = 0.39
_DEFAULT_K = 200
_MAX_LONG_DIGITS = 18


def distinct_count(call: Call) -> Parts:
    """Decompose ``approx_count_distinct(x [, relative error])``.

    A sketch that received its rows one by one uses their history for its estimate, and a merged sketch has lost that history.
    The union of a sketch with itself loses the history too. So both sides estimate from the registers alone, and agree exactly.
    """
    lg_k = str(_lg_k(call))
    name = partial_name("hll", call.args[0], lg_k, call.where)
    x = group(call.args[0])
    build = plain("hll_sketch_agg", (f"if({x} IS NULL, NULL, xxhash64({x}))", lg_k), call.where)
    partial = PartialColumn(name, build, f"hll_union_agg({name})")

    def estimate(sketch: str) -> str:
        return f"hll_sketch_estimate(hll_union({sketch}, {sketch}))"

    return Parts((partial,), estimate(name), estimate(build))


def quantile(call: Call) -> Parts:
    """Decompose ``approx_percentile(x, percentage or array of them [, accuracy])``; NaN is the greatest number.

    The accuracy is Spark's (one over the rank error); without it the rank error is 1.33 %.
    """
    of = type_of(call)
    is_array = type_of(call, 1).startswith("array")
    kind, into, outof = _as_sketched(of)
    k = _k(call)
    name = partial_name("kll", call.args[0], str(k), call.where)
    x = group(call.args[0])
    build = plain(f"kll_sketch_agg_{kind}", (into.format(x=x), str(k)), call.where)
    partials = [PartialColumn(name, build, f"kll_merge_agg_{kind}({name}, {k})")]
    ranks = f"CAST({group(call.args[1])} AS {'array<double>' if is_array else 'double'})"
    picked = f"kll_sketch_get_quantile_{kind}({name}, {ranks})"
    n = f"kll_sketch_get_n_{kind}({name})"
    if kind in ("double", "float"):
        # The sketch drops NaN, so it receives infinity instead; the count then shows how many of the highest values were NaN.
        nans = partial_name("count_nan", call.args[0], call.where)
        partials.append(PartialColumn(nans, plain("count_if", (f"isnan({x})",), call.where), f"sum({nans})"))
        above = f"{nans} > 0 AND {{r}} > 1 - {nans} / {n}"
        if is_array:
            picked = f"zip_with({picked}, {ranks}, (v, r) -> if({above.format(r='r')}, {kind}('NaN'), v))"
        else:
            picked = f"if({above.format(r=ranks)}, {kind}('NaN'), {picked})"
    out = f"transform({picked}, v -> {outof.format(v='v')})" if is_array else outof.format(v=picked)
    return Parts(
        tuple(partials),
        f"if({n} > 0, {out}, NULL)",
        plain("approx_percentile", call.args, call.where),
        tolerance="rank",
        bracket=_bracket(call, k, is_array=is_array),
    )


def rank_error(k: int) -> float:
    """Return the rank error of a quantile sketch of size *k*, at 99 % confidence.

    Source: Apache DataSketches, ``KllHelper.getNormalizedRankError``.
    """
    return float(2.296 / k**0.9723)


def _as_sketched(of: str) -> tuple[str, str, str]:
    """Return the kind of sketch for a type, SQL of the value that enters it, and SQL of the value that it returns."""
    decimal = decimal_of(of)
    if of == "date":
        return "bigint", "CAST(unix_date({x}) AS BIGINT)", "date_from_unix_date(CAST({v} AS INT))"
    if of == "timestamp":
        return "bigint", "unix_micros({x})", "timestamp_micros({v})"
    if of == "timestamp_ntz":
        return "bigint", "unix_micros(CAST({x} AS TIMESTAMP))", "CAST(timestamp_micros({v}) AS TIMESTAMP_NTZ)"
    if of in INTEGERS:
        return "bigint", "CAST({x} AS BIGINT)", f"CAST({{v}} AS {of})"
    if of == "float":
        return "float", "if(isnan({x}), float('Infinity'), {x})", "{v}"
    if decimal and decimal[0] <= _MAX_LONG_DIGITS:
        scale = decimal[1]
        shift = f"CAST('1E{scale}' AS decimal({scale + 1},0))"
        back = f"CAST(CAST({{v}} AS decimal(19,0)) / {shift} AS {of})"
        return "bigint", f"CAST({{x}} * {shift} AS BIGINT)", back
    into = "if(isnan(CAST({x} AS DOUBLE)), double('Infinity'), CAST({x} AS DOUBLE))"
    return "double", into, f"CAST({{v}} AS {of})" if decimal else "{v}"


def _lg_k(call: Call) -> int:
    if len(call.args) == 1:
        return _DEFAULT_LG_K
    error = _number(call.args[1])
    if error is None or not 0 < error <= _MAX_RELATIVE_ERROR:
        raise CallError(
            "definition.wrong-arguments",
            f"the relative error of approx_count_distinct is {call.args[1]}, expected a number in (0, {_MAX_RELATIVE_ERROR}]",
            "write a literal such as 0.02",
        )
    return min(21, max(4, math.ceil(2 * math.log2(1.04 / error))))


def _k(call: Call) -> int:
    if len(call.args) == 2:
        return _DEFAULT_K
    accuracy = _number(call.args[2])
    if accuracy is None or accuracy < 1:
        raise CallError(
            "definition.wrong-arguments",
            f"the accuracy of approx_percentile is {call.args[2]}, expected a positive whole number",
            "write a literal such as 100, one over the rank error",
        )
    return min(65535, max(8, math.ceil(math.pow(2.296 * accuracy, 1 / 0.9723))))


def _bracket(call: Call, k: int, *, is_array: bool) -> tuple[str, str] | None:
    ranks = _literals(call.args[1])
    if ranks is None:
        return None
    # Twice the error: once for the sketch, once for its merges and for the 1 % of cases beyond the error.
    slack = 2 * rank_error(k)

    def at(shift: float) -> str:
        shifted = [f"{min(1.0, max(0.0, r + shift)):.9f}D" for r in ranks]
        text = f"array({', '.join(shifted)})" if is_array else shifted[0]
        return plain("approx_percentile", (call.args[0], text, "100000"), call.where)

    return at(-slack), at(slack)


def _literals(text: str) -> list[float] | None:
    """Return the numbers of a literal or of an array of literals; None for any other text."""
    array = re.fullmatch(r"\s*array\s*\((.*)\)\s*", text, re.IGNORECASE | re.DOTALL)
    numbers = [_number(item) for item in (array[1].split(",") if array else [text])]
    return None if None in numbers else [n for n in numbers if n is not None]


def _number(text: str) -> float | None:
    bare = text.strip().rstrip("dDlLfF").removesuffix("B").removesuffix("b")
    try:
        return float(bare)
    except ValueError:
        return None
