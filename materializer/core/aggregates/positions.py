"""Positions in the order of rows, counted from 0 over all rows of the group; -1 without a matching row.

A position changes when an earlier row arrives, so none of these can be merged.
"""

from __future__ import annotations

from materializer.core.aggregates.order import RowOrder
from materializer.core.aggregates.ordered import in_order, recompute
from materializer.core.aggregates.parts import Parts, group
from materializer.core.spec.spec import Call


def position_of_value(call: Call, order: RowOrder) -> Parts:
    """Decompose ``ifirstNot`` and ``ilastNot``: the position of the first or last value that is not null."""
    given = in_order(call, order, f"{group(call.args[0])} IS NOT NULL")
    if call.function == "ifirstnot":
        return recompute(call, f"coalesce(array_position({given}, true), 0L) - 1", order)
    backwards = "coalesce(nullif(array_position(reverse(g), true), 0L), size(g) + 1L)"
    return recompute(call, f"transform(array({given}), g -> size(g) - {backwards})[0]", order)


def position_of_extreme(call: Call, order: RowOrder) -> Parts:
    """Decompose ``imax`` and ``imin``: the position of the first of the greatest or smallest values.

    Rows with null have a position, but null is never the extreme. NaN is the greatest number.
    """
    values = in_order(call, order, group(call.args[0]))
    at = f"coalesce(array_position(g, array_{call.function[1:]}(g)), 0L) - 1"
    return recompute(call, f"transform(array({values}), g -> {at})[0]", order)
