"""The functions over windows of the proven set."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from materializer.local.expressions import Compiler, Scope, parsed
from materializer.local.kinds import BIGINT, INT, NotLocal
from materializer.local.refused import no_form, text_of
from materializer.local.typed import Typed

_RANKS: Final[dict[type, str]] = {exp.RowNumber: "row_number", exp.DenseRank: "dense_rank"}
_EXTREMES: Final[dict[type, str]] = {exp.Max: "max", exp.Min: "min"}
_ORDERED: Final = frozenset({"boolean", "date", "timestamp", "timestamp_ntz"})


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
            raise NotLocal(f"{tree.key} of {value.kind.text} over a window")
        return Typed(f"{_EXTREMES[type(tree)]}({value.sql}) OVER ({window})", value.kind)
    if isinstance(tree, exp.Count) and not isinstance(tree.this, exp.Distinct) and not tree.expressions:
        what = "*" if isinstance(tree.this, exp.Star) else compiler.of(tree.this).sql
        return Typed(f"count({what}) OVER ({window})", BIGINT)
    raise NotLocal(f"{text_of(tree)} over a window")


def _offset(tree: Any, compiler: Compiler) -> int:
    given = tree.args.get("offset")
    found = 1 if given is None else compiler.of(given).literal
    if found is None or tree.args.get("default") is not None:
        raise no_form(tree)
    return found
