"""Metric expressions of case files, in Python syntax, as Spark SQL.

What Spark has is written in Spark's words; the other metrics of the design page stay calls by their own names, such as
``wavg(x, w)`` and ``mavg(x, 3)``.
"""

from __future__ import annotations

import ast
from typing import Final

_FUNCTIONS: Final = {
    "sum": "sum({})",
    "count": "count({})",
    "avg": "avg({})",
    "mean": "avg({})",
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
    "med": "median({})",
    "mode": "mode({}, true)",
    "size": "count(*)",
    "sum2": "sum(power({}, 2))",
    "sum3": "sum(power({}, 3))",
    "sum4": "sum(power({}, 4))",
    "abs": "abs({})",
    "sqrt": "sqrt({})",
    "log": "ln({})",
    "exp": "exp({})",
}
NAMED: Final = (
    *("firstNot", "lastNot", "ifirstNot", "ilastNot", "imax", "imin", "atImax", "atImin"),
    *("prod", "sem", "beta", "wsum", "wavg", "skew", "kurtosis", "quantile", "searchK"),
)
"""Aggregates of the design page that Spark does not have."""

STATES: Final = (
    *("mavg", "msum", "mmax", "mmin", "mstd", "mcount", "prev", "deltas", "ratios", "move", "ema"),
    *("cumsum", "cummax", "cummin", "cumcount", "cumavg"),
)
"""State functions of the reactive state engine."""

_SIGNS: Final = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_COMPARED: Final = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "=", ast.NotEq: "<>"}


def to_sql(expression: str) -> str:
    """Return the Spark SQL that a metric expression stands for.

    Division is that of reals, null by zero.

    Raises:
        ValueError: If something in it is not known.

    Examples:
        >>> to_sql("max(v) / (min(v) - 1)")
        'try_divide(max(`v`), (min(`v`) - 1))'
        >>> to_sql("percentile(v, 5, 'lower')"), to_sql("percentile(v, 5)"), to_sql("wavg(v, w)")
        ("quantile(`v`, 0.05, 'lower')", 'percentile(`v`, 0.05)', 'wavg(`v`, `w`)')
    """
    return _sql(ast.parse(expression, mode="eval").body)


def columns_of(expression: str) -> list[str]:
    """Return the columns in a metric expression.

    Examples:
        >>> columns_of("percentile(ask - bid, 99) / sum(ask)")
        ['ask', 'bid']
    """
    tree = ast.parse(expression, mode="eval")
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return sorted(found - called - {"true", "false"})


def _sql(node: ast.expr) -> str:
    match node:
        case ast.Name(id="true" | "false" as value):
            return value
        case ast.Name(id=name):
            return f"`{name}`"
        case ast.Constant(value=bool() as value):
            return str(value).lower()
        case ast.Constant(value=int() | float() as value):
            return str(value)
        case ast.Constant(value=str() as value):
            return "'" + value.replace("'", "''") + "'"
        case ast.UnaryOp(op=ast.USub(), operand=of):
            return f"(- {_sql(of)})"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return f"try_divide({_sql(left)}, {_sql(right)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return f"({_sql(left)} {_SIGNS[type(op)]} {_sql(right)})"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({_sql(left)} {_COMPARED[type(op)]} {_sql(right)})"
        case ast.Call(func=ast.Name(id=name), args=args):
            return _call(name, args, node)
    msg = f"metric expression {ast.unparse(node)!r} is not known yet"
    raise ValueError(msg)


def _call(name: str, args: list[ast.expr], node: ast.expr) -> str:
    match name, args:
        case "percentile", [of, ast.Constant(value=int() | float() as percent)]:
            return f"percentile({_sql(of)}, {percent / 100})"
        case "percentile", [of, ast.Constant(value=int() | float() as percent), how]:
            return f"quantile({_sql(of)}, {percent / 100}, {_sql(how)})"
        case "corr", [of, by]:  # null where one of the two hardly varies
            x, y = _sql(of), _sql(by)
            spread = f"least(var_pop({x}) FILTER (WHERE {y} IS NOT NULL), var_pop({y}) FILTER (WHERE {x} IS NOT NULL))"
            return f"CASE WHEN {spread} >= 1e-12 THEN corr({x}, {y}) END"
        case "quantile", [of, part]:
            return f"percentile({_sql(of)}, {_sql(part)})"
        case "nunique", [of]:
            return f"(count(DISTINCT {_sql(of)}) + CASE WHEN count(*) > count({_sql(of)}) THEN 1 ELSE 0 END)"
        case "nunique", [of, ast.Name(id="true") | ast.Constant(value=True)]:
            return f"count(DISTINCT {_sql(of)})"
        case "nunique", [of, ast.Name(id="false") | ast.Constant(value=False)]:
            return _call("nunique", [of], node)
        case _ if name in _FUNCTIONS:
            return _FUNCTIONS[name].format(", ".join(map(_sql, args)))
        case _ if name in NAMED or name in STATES:
            return f"{name}({', '.join(map(_sql, args))})"
    msg = f"metric expression {ast.unparse(node)!r} is not known yet"
    raise ValueError(msg)
