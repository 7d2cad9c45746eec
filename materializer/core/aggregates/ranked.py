"""Values by rank and exact counts of distinct values: ``quantile``, ``searchK``, ``nunique``; none can be merged."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from materializer.core.aggregates.ordered import recompute
from materializer.core.aggregates.parts import CallError, Parts, flag, group, number, plain
from materializer.core.spec.spec import Call

_BETWEEN: Final = {
    "lower": "get(g, CAST(floor(p) AS INT))",
    "higher": "get(g, CAST(ceil(p) AS INT))",
    "nearest": "get(g, CAST(ceil(p - 0.5BD) AS INT))",
    "midpoint": "(get(g, CAST(floor(p) AS INT)) / 2D + get(g, CAST(ceil(p) AS INT)) / 2D)",
}
"""SQL of the value at position *p* (from 0, may be fractional) of the sorted array *g*."""


def quantile(call: Call) -> Parts:
    """Decompose ``quantile(x, q [, how])``: the value at ``(n - 1) * q`` of the n sorted values, null without values.

    Between two values ``linear`` (the default) interpolates, as ``percentile`` does; ``lower``, ``higher`` and ``nearest``
    (the lower on a tie) give one of the two, of the type of *x*, and ``midpoint`` gives the mean of both.
    """
    share, how = _share(call), _how(call)
    if how == "linear":
        return recompute(call, plain("percentile", (call.args[0], call.args[1]), call.where), is_exact=False)
    # In decimals, because a double may place an exact position a little beside its whole number.
    place = f"CAST(size(g) - 1 AS DECIMAL(12,0)) * CAST('{share:.17f}' AS DECIMAL(18,17))"
    found = f"transform(array({place}), p -> {_BETWEEN[how]})[0]"
    whole = f"transform(array({_sorted(call)}), g -> {found})[0]"
    return recompute(call, whole, is_exact=how != "midpoint")


def kth_smallest(call: Call) -> Parts:
    """Decompose ``searchK(x, k)``: the k-th smallest value, null where k is not from 1 to the number of values."""
    k = number(call.args[1])
    if k is None or k != int(k) or abs(k) >= 2**31 - 1:
        message = f"k of {call.text or call.function} is {call.args[1]}, expected a whole number"
        raise CallError("definition.wrong-arguments", message, "write a literal such as 3; 1 is the smallest")
    return recompute(call, f"get({_sorted(call)}, {int(k) - 1})")


def distinct_values(call: Call) -> Parts:
    """Decompose ``nunique(x [, ignore_nulls])``: the number of distinct values; null counts as one unless it is ignored."""
    distinct = plain("count", call.args[:1], call.where, distinct=True)
    if flag(call, 1, default=False):
        return recompute(call, distinct)
    nulls = plain("count_if", (f"{group(call.args[0])} IS NULL",), call.where)
    return recompute(call, f"{distinct} + least({nulls}, 1L)")


def _sorted(call: Call) -> str:
    return f"sort_array({plain('collect_list', call.args[:1], call.where)})"


def _share(call: Call) -> Decimal:
    share = number(call.args[1])
    if share is None or not 0 <= share <= 1:
        message = f"the share of {call.text or call.function} is {call.args[1]}, expected a number from 0 to 1"
        raise CallError("definition.wrong-arguments", message, "write a literal such as 0.95")
    return share


def _how(call: Call) -> str:
    if len(call.args) < 3:
        return "linear"
    given = call.args[2].strip()
    for how in ("linear", *_BETWEEN):
        if given.lower() in (f"'{how}'", f'"{how}"'):
            return how
    message = f"the third argument of {call.text or call.function} is {given}, expected one of: linear, "
    raise CallError("definition.wrong-arguments", message + ", ".join(_BETWEEN), "write a literal such as 'lower'")
