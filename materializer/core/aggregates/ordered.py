"""Aggregates that select or list values by the order of rows: ``first``, ``last``, ``min_by``, ``max_by``, ``atImax``, lists.

A selected value is stored as the smallest (or greatest) struct of the deciding columns and the value. Rows with equal structs
are interchangeable, so partials merge by the same extreme.
"""

from __future__ import annotations

from msgspec.structs import replace

from materializer.core.aggregates.layout import PartialColumn, Pick
from materializer.core.aggregates.order import RowOrder, order_struct
from materializer.core.aggregates.parts import (
    INTEGERS,
    CallError,
    Parts,
    column_of,
    decimal_of,
    filtered,
    flag,
    group,
    is_orderable,
    partial_name,
    plain,
    type_of,
)
from materializer.core.spec.spec import Call
from materializer.core.spec.table_names import quoted


def end_of_order(call: Call, order: RowOrder) -> Parts:
    """Decompose ``first``, ``last`` and ``any_value`` (the same as ``first``), with or without ignoring nulls."""
    _require_order(call, order)
    extreme = "max" if call.function == "last" else "min"
    given = f"{group(call.args[0])} IS NOT NULL" if flag(call, 1, default=False) else None
    return _pick(call, order, extreme, by=None, conditions=(call.where, given))


def extreme_by(call: Call, order: RowOrder) -> Parts:
    """Decompose ``min_by`` and ``max_by``; the order of rows decides between equal values."""
    _require_order(call, order)
    given = f"{group(call.args[1])} IS NOT NULL"
    return _pick(call, order, call.function[:3], by=call.args[1], conditions=(call.where, given))


def end_but(call: Call, order: RowOrder) -> Parts:
    """Decompose ``firstNot(x [, k])`` and ``lastNot``: the first or last value that is neither null nor *k*."""
    _require_order(call, order)
    x = group(call.args[0])
    skipped = f"NOT ({x} <=> {group(call.args[1])})" if len(call.args) > 1 else None
    extreme = "max" if call.function == "lastnot" else "min"
    return _pick(call, order, extreme, by=None, conditions=(call.where, f"{x} IS NOT NULL", skipped))


def at_extreme(call: Call, order: RowOrder) -> Parts:
    """Decompose ``atImax(location, value)`` and ``atImin``: the value, null too, in the first row of the extreme location.

    NaN is the greatest location. Where the type of the location has no reversed order, ``atImax`` cannot be merged.
    """
    _require_order(call, order)
    location, value = call.args
    picked = replace(call, args=(value, location), types=(type_of(call, 1), type_of(call)))
    by = location if call.function == "atimin" else _reversed(location, type_of(call))
    if by is not None:
        return _pick(picked, order, "min", by=by, conditions=(call.where, f"{group(location)} IS NOT NULL"))
    both = f"named_struct('y', {group(location)}, 'x', {group(value)})"
    rows = in_order(call, order, both, by_value=_has_orderable_value(picked))
    first = "get(g.x, CAST(array_position(g.y, array_max(g.y)) - 1 AS INT))"
    return recompute(call, f"transform(array({rows}), g -> {first})[0]", order)


def in_order(call: Call, order: RowOrder, value: str, *conditions: str, by_value: bool = True) -> str:
    """Return SQL of an array with *value* of every row that passes the filters, in the order of rows.

    Args:
        call: The call, whose filter applies too.
        order: The order of rows.
        value: SQL over a row.
        conditions: Further filters, as SQL over a row.
        by_value: Whether values have an order, which makes the sort faster.

    Raises:
        CallError: If the rows have no order.
    """
    _require_order(call, order)
    if by_value:
        struct = order_struct(order.columns, value=value)
        return f"sort_array({plain('collect_list', (struct,), call.where, *conditions)}).v"
    struct = f"named_struct('o', {order_struct(order.columns)}, 'v', {value})"
    compare = "(l, r) -> CASE WHEN l.o < r.o THEN -1 WHEN l.o > r.o THEN 1 ELSE 0 END"
    return f"array_sort({plain('collect_list', (struct,), call.where, *conditions)}, {compare}).v"


def list_of(call: Call, order: RowOrder) -> Parts:
    """Decompose ``collect_list``: the values that are not null, in the order of rows; with DISTINCT, in the order of values."""
    x = group(call.args[0])
    if call.distinct:
        return recompute(call, f"sort_array({plain('collect_list', call.args, call.where, distinct=True)})")
    listed = in_order(call, order, x, f"{x} IS NOT NULL", by_value=_has_orderable_value(call))
    return recompute(call, listed, order)


def recompute(call: Call, reference: str, order: RowOrder | None = None, *, is_exact: bool = True) -> Parts:
    """Return parts that store the final value itself, for calls that cannot be merged."""
    words = ("distinct" if call.distinct else "", *call.args, call.order_by, call.where)
    name = partial_name(f"value {call.function}", *words, *(order.columns if order else ()))
    shown = call.text or plain(call.function, call.args, call.where, distinct=call.distinct)
    return Parts(
        (PartialColumn(name, reference, None),),
        name,
        reference,
        tolerance="exact" if is_exact else "float",
        not_mergeable=f"{shown} cannot be merged",
    )


def _pick(call: Call, order: RowOrder, extreme: str, *, by: str | None, conditions: tuple[str | None, ...]) -> Parts:
    x = group(call.args[0])
    y = None if by is None else group(by)
    by_column = None if by is None else column_of(by)
    reference = filtered(f"{extreme}_by({x}, {order_struct(order.before(None, without=by_column), by=y)})", *conditions)
    deciding = order.before(column_of(call.args[0]), without=by_column)
    name = partial_name(extreme, call.args[0], by, ",".join(map(quoted, deciding)), *conditions)
    if not _has_orderable_value(call):
        struct = order_struct(order.before(None, without=by_column), by=y)
        build = filtered(f"{extreme}_by(named_struct('o', {struct}, 'v', {x}), {struct})", *conditions)
        partial = PartialColumn(name, build, f"{extreme}_by({name}, {name}.o)")
        return Parts((partial,), f"{name}.v", reference)
    build = filtered(f"{extreme}({order_struct(deciding, by=y, value=x)})", *conditions)
    pick = Pick(extreme, deciding, x, conditions) if by is None and deciding else None
    return Parts((PartialColumn(name, build, f"{extreme}({name})", pick=pick),), f"{name}.v", reference)


def _reversed(text: str, spark_type: str) -> str | None:
    """Return SQL that sorts in reverse, NaN first; None for types without a reversed order."""
    x = group(text)
    if spark_type in INTEGERS:
        return f"~{x}"  # the negative of the smallest number would overflow
    if spark_type in ("double", "float"):
        return f"named_struct('n', NOT isnan({x}), 'x', -{x})"
    if decimal_of(spark_type):
        return f"-{x}"
    if spark_type == "date":
        return f"-unix_date({x})"
    if spark_type == "timestamp":
        return f"~unix_micros({x})"
    return f"~unix_micros(CAST({x} AS TIMESTAMP))" if spark_type == "timestamp_ntz" else None


def _has_orderable_value(call: Call) -> bool:
    return not call.types or is_orderable(call.types[0])


def _require_order(call: Call, order: RowOrder) -> None:
    if order.unorderable:
        names = ", ".join(order.unorderable)
        raise CallError(
            "definition.needs-sequence",
            f"{call.text or call.function} depends on the order of rows, and {names} cannot be ordered",
            "name a column that orders rows of equal time in the property 'sequence'",
        )
