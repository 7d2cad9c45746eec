"""The aggregates that definitions may use, by name: their arguments and their properties."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Family: TypeAlias = Literal[
    "same", "count", "sum", "avg", "variance", "comoment", "end", "extreme_by", "list", "hll", "kll", "set", "mode",
    "within_group", "listagg", "percentile", "sem", "shape", "powers", "weighted_sum", "weighted_average", "product",
    "end_but", "at_extreme", "position_of_value", "position_of_extreme", "quantile", "kth_smallest", "distinct_values",
    "rollup", "try_sum", "try_avg", "value",
]  # fmt: skip
Distinct: TypeAlias = Literal["same", "recompute", "refused"]


class AggregateFunction(Struct, frozen=True):
    """One aggregate function.

    Args:
        name: Canonical name, lower case.
        family: Selects the function that decomposes it.
        least: Fewest arguments.
        most: Most arguments, or None for any number.
        distinct: The effect of DISTINCT: none (``same``), a value that must be recomputed (``recompute``), or an error
            (``refused``).
        is_mergeable: Whether stored partials and partials of new rows merge to the partials of all rows.
        is_ordered: Whether the value depends on the order of rows.
    """

    name: str
    family: Family
    least: int = 1
    most: int | None = 1
    distinct: Distinct = "recompute"
    is_mergeable: bool = True
    is_ordered: bool = False


def find(name: str) -> AggregateFunction | None:
    """Return the aggregate of a name or alias, in any case; None without one.

    Examples:
        >>> find("MEAN").name
        'avg'
        >>> find("upper") is None
        True
    """
    folded = name.lower()
    if folded == ROLLUP:
        return ROLLS_UP
    return BY_NAME.get(ALIASES.get(folded, folded))


def names() -> frozenset[str]:
    """Return every name of an aggregate of rows, aliases included."""
    return frozenset(BY_NAME) | frozenset(ALIASES)


ROLLUP: Final = "rollup"
ROLLS_UP: Final = AggregateFunction(ROLLUP, "rollup", distinct="refused")
"""Merges the partials of a measure of another aggregate; see :mod:`materializer.core.aggregates.rollup`."""

ALIASES: Final = MappingProxyType(
    {
        "mean": "avg",
        "std": "stddev_samp",
        "stddev": "stddev_samp",
        "variance": "var_samp",
        "var": "var_samp",
        "varp": "var_pop",
        "stdp": "stddev_pop",
        "covar": "covar_samp",
        "covarp": "covar_pop",
        "beta": "regr_slope",
        "med": "median",
        "every": "bool_and",
        "some": "bool_or",
        "any": "bool_or",
        "first_value": "first",
        "last_value": "last",
        "percentile_approx": "approx_percentile",
        "array_agg": "collect_list",
        "string_agg": "listagg",
    }
)
"""Other names that Spark has for an aggregate, each with the name that is used here."""


def _all() -> tuple[AggregateFunction, ...]:
    same = ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or")
    variances = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
    regressions = ("slope", "intercept", "r2", "sxx", "sxy", "syy", "avgx", "avgy", "count")
    comoments = ("covar_pop", "covar_samp", "corr", *(f"regr_{n}" for n in regressions))
    return (
        AggregateFunction("count", "count", most=None),
        AggregateFunction("count_if", "count", distinct="refused"),
        AggregateFunction("sum", "sum"),
        AggregateFunction("avg", "avg"),
        *(AggregateFunction(n, "same", distinct="same") for n in same),
        AggregateFunction("bit_xor", "same"),
        *(AggregateFunction(n, "variance") for n in variances),
        *(AggregateFunction(n, "comoment", least=2, most=2, distinct="refused") for n in comoments),
        *(
            AggregateFunction(n, "end", most=2, distinct="refused", is_ordered=True)
            for n in ("first", "last", "any_value")
        ),
        *(AggregateFunction(n, "extreme_by", 2, 2, distinct="refused", is_ordered=True) for n in ("min_by", "max_by")),
        AggregateFunction("approx_count_distinct", "hll", most=2, distinct="same"),
        AggregateFunction("approx_percentile", "kll", least=2, most=3, distinct="refused"),
        AggregateFunction("percentile", "percentile", least=2, most=3, distinct="refused", is_mergeable=False),
        AggregateFunction("median", "percentile", is_mergeable=False),
        AggregateFunction("percentile_cont", "within_group", distinct="refused", is_mergeable=False),
        AggregateFunction("percentile_disc", "within_group", distinct="refused", is_mergeable=False),
        AggregateFunction("mode", "mode", least=0, most=2, distinct="refused", is_mergeable=False),
        AggregateFunction("collect_set", "set", distinct="same", is_mergeable=False),
        AggregateFunction("collect_list", "list", is_mergeable=False, is_ordered=True),
        AggregateFunction("listagg", "listagg", most=2, is_mergeable=False),
        AggregateFunction("try_sum", "try_sum", distinct="refused"),
        AggregateFunction("try_avg", "try_avg", distinct="refused"),
        AggregateFunction("skewness", "shape", distinct="refused"),
        _recomputed("count_min_sketch", "value", 4, 4),
        _recomputed("theta_sketch_agg", "value", 1, 2),
        *_metrics(),
    )


def _metrics() -> tuple[AggregateFunction, ...]:
    """Return the aggregates that Spark does not have."""
    powers, extremes = ("sum2", "sum3", "sum4"), ("atimax", "atimin")
    ends, values, places = ("firstnot", "lastnot"), ("ifirstnot", "ilastnot"), ("imax", "imin")
    return (
        AggregateFunction("sem", "sem", distinct="refused"),
        *(AggregateFunction(n, "shape", most=2, distinct="refused") for n in ("skew", "kurtosis")),
        *(AggregateFunction(n, "powers", distinct="refused") for n in powers),
        AggregateFunction("wsum", "weighted_sum", 2, 2, distinct="refused"),
        AggregateFunction("wavg", "weighted_average", 2, 2, distinct="refused"),
        AggregateFunction("prod", "product", distinct="refused"),
        *(AggregateFunction(n, "end_but", most=2, distinct="refused", is_ordered=True) for n in ends),
        *(AggregateFunction(n, "at_extreme", 2, 2, distinct="refused", is_ordered=True) for n in extremes),
        *(_recomputed(n, "position_of_value", is_ordered=True) for n in values),
        *(_recomputed(n, "position_of_extreme", is_ordered=True) for n in places),
        _recomputed("quantile", "quantile", 2, 3),
        _recomputed("searchk", "kth_smallest", 2, 2),
        _recomputed("nunique", "distinct_values", 1, 2),
    )


def _recomputed(
    name: str, family: Family, least: int = 1, most: int = 1, *, is_ordered: bool = False
) -> AggregateFunction:
    return AggregateFunction(name, family, least, most, distinct="refused", is_mergeable=False, is_ordered=is_ordered)


BY_NAME: Final = MappingProxyType({a.name: a for a in _all()})
"""Every aggregate by its name."""
