"""Metric expressions of case files, in Python syntax, as Spark SQL."""

from __future__ import annotations

import ast
from typing import Final

_FUNCTIONS: Final = {
    "sum": "sum({})",
    "count": "count({})",
    "avg": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "first": "first({})",
    "last": "last({})",
    "var": "var_samp({})",
    "varp": "var_pop({})",
    "std": "stddev_samp({})",
    "stdp": "stddev_pop({})",
    "covar": "covar_samp({})",
    "covarp": "covar_pop({})",
    "corr": "corr({})",
    "med": "median({})",
    "size": "count(*)",
    "abs": "abs({})",
    "sqrt": "sqrt({})",
}
_SIGNS: Final = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


def to_sql(expression: str) -> str:
    """Return the Spark SQL that a metric expression stands for.

    Division is that of reals, null by zero.

    Raises:
        ValueError: If something in it is not known.

    Examples:
        >>> to_sql("max(v) / (min(v) - 1)")
        'try_divide(max(`v`), (min(`v`) - 1))'
    """
    return _sql(ast.parse(expression, mode="eval").body)


def _sql(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return f"`{name}`"
        case ast.Constant(value=bool() | int() | float() as value):
            return str(value)
        case ast.UnaryOp(op=ast.USub(), operand=of):
            return f"(- {_sql(of)})"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return f"try_divide({_sql(left)}, {_sql(right)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return f"({_sql(left)} {_SIGNS[type(op)]} {_sql(right)})"
        case ast.Call(func=ast.Name(id="sum2"), args=[of]):
            return f"sum({_sql(of)} * {_sql(of)})"
        case ast.Call(func=ast.Name(id="nunique"), args=[of]):
            return f"(count(DISTINCT {_sql(of)}) + CASE WHEN count(*) > count({_sql(of)}) THEN 1 ELSE 0 END)"
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name].format(", ".join(map(_sql, args)))
    msg = f"metric expression {ast.unparse(node)!r} is not known yet"
    raise ValueError(msg)
