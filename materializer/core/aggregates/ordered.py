"""Aggregates that pick or list values by the order of rows: ``first``, ``last``, ``min_by``, ``max_by``, lists.

A picked value is stored as the smallest (or greatest) struct of what decides and the value itself, so rows that are
equal in it are interchangeable and merging needs nothing but the extreme again.
"""

from __future__ import annotations

from materializer.core.aggregates.layout import PartialColumn
from materializer.core.aggregates.order import RowOrder, order_struct
from materializer.core.aggregates.parts import (
    CallError,
    Parts,
    column_of,
    filtered,
    group,
    is_orderable,
    partial_name,
    plain,
    quoted,
)
from materializer.core.spec import Call


def end_of_order(call: Call, order: RowOrder) -> Parts:
    """Take apart ``first``, ``last`` and ``any_value`` (which is ``first``), with or without ignoring nulls."""
    _require_order(call, order)
    extreme = "max" if call.function == "last" else "min"
    given = f"{group(call.args[0])} IS NOT NULL" if _ignores_nulls(call) else None
    return _pick(call, order, extreme, by=None, conditions=(call.where, given))


def extreme_by(call: Call, order: RowOrder) -> Parts:
    """Take apart ``min_by`` and ``max_by``; ties of the deciding value go by the order of rows."""
    _require_order(call, order)
    given = f"{group(call.args[1])} IS NOT NULL"
    return _pick(call, order, call.function[:3], by=call.args[1], conditions=(call.where, given))


def list_of(call: Call, order: RowOrder) -> Parts:
    """Take apart ``collect_list``: the values that are not null, in the order of rows; DISTINCT ones by size."""
    x = group(call.args[0])
    if call.distinct:
        return recompute(call, f"sort_array({plain('collect_list', call.args, call.where, distinct=True)})")
    _require_order(call, order)
    given = f"{x} IS NOT NULL"
    if _has_orderable_value(call):
        struct = order_struct(order.columns, value=x)
        return recompute(call, f"sort_array({plain('collect_list', (struct,), call.where, given)}).v", order)
    struct = f"named_struct('o', {order_struct(order.columns)}, 'v', {x})"
    gathered = plain("collect_list", (struct,), call.where, given)
    compare = "(l, r) -> CASE WHEN l.o < r.o THEN -1 WHEN l.o > r.o THEN 1 ELSE 0 END"
    return recompute(call, f"array_sort({gathered}, {compare}).v", order)


def recompute(call: Call, reference: str, order: RowOrder | None = None, *, is_exact: bool = True) -> Parts:
    """Store the final value itself, for calls that cannot be merged."""
    words = ("distinct" if call.distinct else "", *call.args, call.order_by, call.where)
    name = partial_name(f"value {call.function}", *words, *(order.columns if order else ()))
    shown = call.text or plain(call.function, call.args, call.where, distinct=call.distinct)
    return Parts(
        (PartialColumn(name, reference, None),),
        name,
        reference,
        tolerance="exact" if is_exact else "float",
        not_mergeable=f"{shown} has no mergeable partial",
        not_retractable=f"{shown} has no mergeable partial",
    )


def _pick(call: Call, order: RowOrder, extreme: str, *, by: str | None, conditions: tuple[str | None, ...]) -> Parts:
    x = group(call.args[0])
    y = None if by is None else group(by)
    by_column = None if by is None else column_of(by)
    reference = filtered(f"{extreme}_by({x}, {order_struct(order.before(None, without=by_column), by=y)})", *conditions)
    deciding = order.before(column_of(call.args[0]), without=by_column)
    name = partial_name(extreme, call.args[0], by, ",".join(map(quoted, deciding)), *conditions)
    reason = f"{call.function} forgets the rows it did not pick"
    if not _has_orderable_value(call):
        struct = order_struct(order.before(None, without=by_column), by=y)
        build = filtered(f"{extreme}_by(named_struct('o', {struct}, 'v', {x}), {struct})", *conditions)
        partial = PartialColumn(name, build, f"{extreme}_by({name}, {name}.o)")
        return Parts((partial,), f"{name}.v", reference, not_retractable=reason)
    build = filtered(f"{extreme}({order_struct(deciding, by=y, value=x)})", *conditions)
    return Parts((PartialColumn(name, build, f"{extreme}({name})"),), f"{name}.v", reference, not_retractable=reason)


def _has_orderable_value(call: Call) -> bool:
    return not call.types or is_orderable(call.types[0])


def _ignores_nulls(call: Call) -> bool:
    if len(call.args) == 1:
        return False
    flag = call.args[1].strip().lower()
    if flag not in ("true", "false"):
        raise CallError(
            "definition.wrong-arguments",
            f"the second argument of {call.function} is {call.args[1]}, expected true or false",
            "true ignores nulls",
        )
    return flag == "true"


def _require_order(call: Call, order: RowOrder) -> None:
    if order.unorderable:
        names = ", ".join(order.unorderable)
        raise CallError(
            "definition.needs-sequence",
            f"{call.text or call.function} depends on the order of rows, and {names} cannot be ordered",
            "name a column that orders rows of equal time in the property 'sequence'",
        )
