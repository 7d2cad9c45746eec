"""The functions over windows of the proven set."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from materializer.core.query.nodes import Frame
from materializer.local.aggregates import LARGEST
from materializer.local.expressions import Compiler, parsed
from materializer.local.kinds import BIGINT, DOUBLE, INT, NotLocal, decimal
from materializer.local.refused import called, no_form, text_of
from materializer.local.scope import Scope
from materializer.local.typed import Typed, cast, failing

_RANKS: Final[dict[type, str]] = {exp.RowNumber: "row_number", exp.DenseRank: "dense_rank"}
_EXTREMES: Final[dict[type, str]] = {exp.Max: "max", exp.Min: "min"}
_ORDERED: Final = frozenset({"boolean", "date", "decimal", "double", "float", "string", "timestamp", "timestamp_ntz"})
_OF_DOUBLES: Final[dict[type, str]] = {exp.Sum: "sum", exp.Avg: "avg", exp.StddevSamp: "stddev_samp"}
_MOST_DIGITS: Final = 28
"""Digits of decimals of which no sum leaves the type of sums."""


def over(sql: str, scope: Scope, window: str) -> Typed:
    """Return a function over a window for DuckDB.

    Args:
        sql: The function, as a text of Spark SQL.
        scope: The columns that it may name.
        window: Partition, order and frame in DuckDB.

    Raises:
        NotLocal: If it is outside the proven set.
    """
    tree, compiler = parsed(sql), Compiler(scope)
    if type(tree) in _RANKS:
        return Typed(f"CAST({_RANKS[type(tree)]}() OVER ({window}) AS INTEGER)", INT)
    if isinstance(tree, exp.Lag | exp.Lead):
        value = compiler.of(tree.this)
        return Typed(f"{tree.key}({value.sql}, {_offset(tree, compiler)}) OVER ({window})", value.kind)
    if type(tree) in _EXTREMES and not tree.expressions:
        value = compiler.of(tree.this)
        if not (value.kind.is_integer or value.kind.name in _ORDERED):
            raise NotLocal(f"{called(tree)} of {value.kind.text} over a window")
        return Typed(f"{_EXTREMES[type(tree)]}({value.sql}) OVER ({window})", value.kind)
    if isinstance(tree, exp.Count) and not isinstance(tree.this, exp.Distinct) and not tree.expressions:
        what = "*" if isinstance(tree.this, exp.Star) else compiler.of(tree.this).sql
        return Typed(f"count({what}) OVER ({window})", BIGINT)
    if isinstance(tree, exp.Sum):
        return _sum(compiler.of(tree.this), window)
    raise NotLocal(f"{text_of(tree)} over a window")


def of_doubles(sql: str, scope: Scope, frame: Frame | None) -> tuple[str, Typed] | None:
    """Return the function of :mod:`materializer.local.passes` that a function over a window is, and the doubles that it takes; None for others.

    Args:
        sql: The function, as a text of Spark SQL.
        scope: The columns that it may name.
        frame: The rows that count around each row.

    Raises:
        NotLocal: If it has no exact form.
    """
    tree, compiler = parsed(sql), Compiler(scope)
    function = _OF_DOUBLES.get(type(tree))
    if function is None or isinstance(tree.this, exp.Distinct):
        return None
    value = compiler.of(tree.this)
    if not value.kind.is_number or (function == "avg" and value.kind.is_decimal):
        raise NotLocal(f"{function} of {value.kind.text} over a window")
    if function == "sum" and not value.kind.is_fraction:
        return None
    if frame is None or frame[0] != "rows" or frame[2] != 0 or (frame[1] is None and function != "sum"):
        raise NotLocal(f"{text_of(tree)} over such a window")
    return function, cast(value, DOUBLE)


def _sum(value: Typed, window: str) -> Typed:
    """Return a sum of exact numbers; Spark raises where one leaves its type on the way, in the order of rows."""
    if value.kind.is_integer:
        most = f"sum(abs({value.sql}::HUGEINT)) OVER ({window})"
        return Typed(f"CAST({failing(f'{most} > {LARGEST}', f'sum({value.sql}) OVER ({window})')} AS BIGINT)", BIGINT)
    if not value.kind.is_decimal or value.kind.precision > _MOST_DIGITS:
        raise NotLocal(f"sum of {value.kind.text} over a window")
    kind = decimal(value.kind.precision + 10, value.kind.scale)
    return Typed(f"CAST(sum({value.sql}) OVER ({window}) AS {kind.duck})", kind)


def _offset(tree: Any, compiler: Compiler) -> int:
    given = tree.args.get("offset")
    found = 1 if given is None else compiler.of(given).literal
    if found is None or tree.args.get("default") is not None:
        raise no_form(tree)
    return found
