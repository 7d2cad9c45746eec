"""Metric expressions of case files over a list of rows, with nothing but the standard library.

An aggregate takes row expressions and constants; arithmetic stands inside and outside of aggregates. Rows come in their
order: "first" is the first of the list, a position counts from 0.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]
Values = list[Any]


def evaluate(expression: str, rows: Sequence[Row]) -> Any:
    """Return the value of a metric over rows.

    Raises:
        ValueError: If something in it is not known.

    Examples:
        >>> evaluate("sum(v) / count(v)", [{"v": 1}, {"v": None}, {"v": 4}])
        2.5
    """
    return _over(ast.parse(expression, mode="eval").body, rows)


def of_row(expression: ast.expr, row: Row) -> Any:
    """Return the value of an expression without aggregates in one row."""
    return _scalar(expression, lambda node: _column(node, row))


def compare(op: str, a: Any, b: Any) -> bool | None:
    """Return a comparison, null when a side is null."""
    return None if a is None or b is None else bool(_COMPARISONS[op](a, b))


def _over(node: ast.expr, rows: Sequence[Row]) -> Any:
    def leaf(inner: ast.expr) -> Any:
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in AGGREGATES:
            given = [_argument(a, rows) for a in inner.args]
            return AGGREGATES[inner.func.id](*given, **{k.arg or "": _constant(k.value) for k in inner.keywords})
        message = f"{ast.unparse(inner)!r} is no aggregate known here"
        raise ValueError(message)

    return _scalar(node, leaf)


def _argument(node: ast.expr, rows: Sequence[Row]) -> Any:
    """A constant stays one value; everything else is one value a row."""
    if not any(isinstance(n, ast.Name) and not _is_function(n, node) for n in ast.walk(node)):
        return _constant(node)
    return [of_row(node, row) for row in rows]


def _is_function(name: ast.Name, inside: ast.expr) -> bool:
    if name.id in ("true", "false"):
        return True
    return any(isinstance(n, ast.Call) and n.func is name for n in ast.walk(inside))


def _constant(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in ("true", "false"):
        return node.id == "true"
    return _scalar(node, lambda inner: _column(inner, {}))


def _column(node: ast.expr, row: Row) -> Any:
    if isinstance(node, ast.Name):
        folded = {name.lower(): value for name, value in row.items()}
        return row[node.id] if node.id in row else folded[node.id.lower()]
    message = f"{ast.unparse(node)!r} is not known in a row"
    raise ValueError(message)


def _scalar(node: ast.expr, leaf: Callable[[ast.expr], Any]) -> Any:
    """Arithmetic with nulls over leaves; division is that of reals, null by zero."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=of):
            value = _scalar(of, leaf)
            return None if value is None else -value
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _scalar(left, leaf), _scalar(right, leaf)
            return None if a is None or b is None else _ARITHMETIC[type(op)](a, b)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return compare(_SIGNS[type(op)], _scalar(left, leaf), _scalar(right, leaf))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            given = [_scalar(a, leaf) for a in args]
            return None if None in given else _FUNCTIONS[name](*given)
        case _:
            return leaf(node)


_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: None if b == 0 else a / b,
}
_SIGNS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs,
    "sqrt": lambda v: math.sqrt(v) if v >= 0 else None,
    "log": lambda v: math.log(v) if v > 0 else None,
    "exp": math.exp,
}


# -- aggregates: each takes one list a row expression, in the order of rows ------------------------------------------------


def _there(x: Values) -> Values:
    return [v for v in x if v is not None]


def _where(x: Values) -> list[int]:
    return [i for i, v in enumerate(x) if v is not None]


def _pairs(x: Values, y: Values) -> tuple[Values, Values]:
    """The rows where both values are there."""
    both = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    return [a for a, _ in both], [b for _, b in both]


def _total(x: Values) -> Any:
    return sum(x) if all(isinstance(v, int) for v in x) else math.fsum(x)


def _mean(x: Values) -> float:
    return float(_total(x) / len(x))


def _power(x: Values, p: int) -> float:
    """Sum of powers of the distances from the mean."""
    m = _mean(x)
    return math.fsum((v - m) ** p for v in x)


def _moment(x: Values, y: Values) -> float:
    mx, my = _mean(x), _mean(y)
    return math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))


def _unless_empty(function: Callable[[Values], Any], least: int = 1) -> Callable[[Values], Any]:
    return lambda x: function(_there(x)) if len(_there(x)) >= least else None


def _paired(function: Callable[[Values, Values], Any], least: int = 1) -> Callable[[Values, Values], Any]:
    return lambda x, y: function(*_pairs(x, y)) if len(_pairs(x, y)[0]) >= least else None


def _corr(x: Values, y: Values) -> float | None:
    n, mx, my = len(x), _power(x, 2), _power(y, 2)
    return None if mx / n < 1e-12 or my / n < 1e-12 else _moment(x, y) / math.sqrt(mx * my)


def _beta(y: Values, x: Values) -> float | None:
    return None if _power(x, 2) == 0 else _moment(x, y) / _power(x, 2)


def _wavg(x: Values, w: Values) -> float | None:
    weight = _total(w)
    return None if weight == 0 else float(_total([a * b for a, b in zip(x, w, strict=True)]) / weight)


def _skew(x: Values, biased: bool = True) -> float | None:
    there = _there(x)
    n = len(there)
    if n < 2 or _power(there, 2) == 0 or (not biased and n < 3):
        return None
    plain = _power(there, 3) / n / math.pow(_power(there, 2) / n, 1.5)
    return plain if biased else plain * math.sqrt(n * (n - 1)) / (n - 2)


def _kurtosis(x: Values, biased: bool = True) -> float | None:
    there = _there(x)
    n = len(there)
    if n < 2 or _power(there, 2) == 0 or (not biased and n < 4):
        return None
    plain = _power(there, 4) / n / (_power(there, 2) / n) ** 2
    return plain if biased else (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * plain - 3 * (n - 1)) + 3


def _quantile(x: Values, q: float, how: str = "linear") -> Any:
    v = sorted(_there(x))
    if not v:
        return None
    position = (len(v) - 1) * q
    low = math.floor(round(position, 9))
    fraction, high = max(0.0, position - low), min(low + 1, len(v) - 1)
    if fraction < 1e-9:
        return v[low]
    return {
        "linear": v[low] + (v[high] - v[low]) * fraction,
        "lower": v[low],
        "higher": v[high],
        "nearest": v[low] if fraction <= 0.5 else v[high],
        "midpoint": (v[low] + v[high]) / 2,
    }[how]


def _search(x: Values, k: int) -> Any:
    v = sorted(_there(x))
    return v[k - 1] if 1 <= k <= len(v) else None


def _nunique(x: Values, ignore: bool = False) -> int:
    return len(set(_there(x) if ignore else x))


def _mode(x: Values) -> Any:
    return min(x, key=lambda v: (-x.count(v), v))


def _not(pick: int) -> Callable[..., Any]:
    """The first or last value that is neither null nor the value to skip."""

    def found(x: Values, skipped: Any = None) -> Any:
        kept = [v for v in _there(x) if skipped is None or v != skipped]
        return kept[pick] if kept else None

    return found


def _position(pick: Callable[[Values], Any]) -> Callable[[Values], int]:
    """The position among all rows of the first extreme."""
    return lambda x: x.index(pick(_there(x))) if _there(x) else -1


def _at(pick: Callable[[Values], Any]) -> Callable[[Values, Values], Any]:
    """The value in the row of the first extreme location."""
    return lambda location, value: value[location.index(pick(_there(location)))] if _there(location) else None


AGGREGATES: Final[Mapping[str, Callable[..., Any]]] = {
    "sum": _unless_empty(_total),
    "count": lambda x: len(_there(x)),
    "size": len,
    "avg": _unless_empty(_mean),
    "mean": _unless_empty(_mean),
    "min": _unless_empty(min),
    "max": _unless_empty(max),
    "first": lambda x: x[0] if x else None,
    "last": lambda x: x[-1] if x else None,
    "firstNot": _not(0),
    "lastNot": _not(-1),
    "ifirstNot": lambda x: _where(x)[0] if _where(x) else -1,
    "ilastNot": lambda x: _where(x)[-1] if _where(x) else -1,
    "imax": _position(max),
    "imin": _position(min),
    "atImax": _at(max),
    "atImin": _at(min),
    "sum2": _unless_empty(lambda x: float(_total([v**2 for v in x]))),
    "sum3": _unless_empty(lambda x: float(_total([v**3 for v in x]))),
    "sum4": _unless_empty(lambda x: float(_total([v**4 for v in x]))),
    "prod": _unless_empty(math.prod),
    "var": _unless_empty(lambda x: _power(x, 2) / (len(x) - 1), 2),
    "std": _unless_empty(lambda x: math.sqrt(_power(x, 2) / (len(x) - 1)), 2),
    "varp": _unless_empty(lambda x: _power(x, 2) / len(x)),
    "stdp": _unless_empty(lambda x: math.sqrt(_power(x, 2) / len(x))),
    "sem": _unless_empty(lambda x: math.sqrt(_power(x, 2) / (len(x) - 1) / len(x)), 2),
    "covar": _paired(lambda x, y: _moment(x, y) / (len(x) - 1), 2),
    "covarp": _paired(lambda x, y: _moment(x, y) / len(x)),
    "corr": _paired(_corr),
    "beta": _paired(_beta),
    "wsum": _paired(lambda x, y: float(_total([a * b for a, b in zip(x, y, strict=True)]))),
    "wavg": _paired(_wavg),
    "skew": _skew,
    "kurtosis": _kurtosis,
    "med": lambda x: _quantile(x, 0.5),
    "percentile": lambda x, p, how="linear": _quantile(x, p / 100, how),
    "quantile": _quantile,
    "searchK": _search,
    "nunique": _nunique,
    "mode": _unless_empty(_mode),
}
"""Every metric of the design page, by name."""
