"""The forms of Spark's sketch functions and of ``xxhash64``; what they call is Python's, see :mod:`.sketch_calls`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from materializer.local.kinds import BIGINT, BINARY, CALL, DOUBLE, Kind, NotLocal
from materializer.local.refused import no_form
from materializer.local.typed import Compiling, Typed, unscaled

_LONG_DIGITS: Final = 18
_BY_KIND: Final = {
    "bigint": "long",
    "timestamp": "long",
    "timestamp_ntz": "long",
    "int": "int",
    "smallint": "int",
    "tinyint": "int",
    "boolean": "int",
    "date": "int",
    "double": "double",
    "float": "float",
    "string": "text",
    "binary": "bytes",
}


def _listed(value: Typed, only: str, distinct: str = "") -> str:
    tests = [*([f"({only})"] if only else []), f"{value.sql} IS NOT NULL"]
    return f"list({distinct}{value.sql}) FILTER (WHERE {' AND '.join(tests)})"


def _given(node: Any, compiler: Compiling, kind: Kind, count: int) -> tuple[Typed, str]:
    """Return the value of a call, which is of some kind, and what is written beside it."""
    if len(node.expressions) != count:
        raise no_form(node)
    value = compiler.of(node.expressions[0])
    if value.kind != kind:
        raise NotLocal(f"{str(node.this).lower()} of {value.kind.text}")
    if count == 1:
        return value, ""
    size = compiler.of(node.expressions[1])
    if size.literal is None:
        raise no_form(node)
    return value, str(size.literal)


def _kll_built(kind: str) -> Callable[[Any, Compiling, str], Typed]:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        value, k = _given(node, compiler, Kind(kind), 2)
        return Typed(f"{CALL}kll_built_{kind}({_listed(value, only)}, {k})", BINARY)

    return entry


def _kll_merged(kind: str) -> Callable[[Any, Compiling, str], Typed]:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        value, k = _given(node, compiler, BINARY, 2)
        return Typed(f"{CALL}kll_merged_{kind}({_listed(value, only)}, {k})", BINARY)

    return entry


def _hll_built(node: Any, compiler: Compiling, only: str) -> Typed:
    value, lg_k = _given(node, compiler, BIGINT, 2)
    return Typed(f"{CALL}hll_built({_listed(value, only, 'DISTINCT ')}, {lg_k})", BINARY)


def _hll_merged(node: Any, compiler: Compiling, only: str) -> Typed:
    value, _ = _given(node, compiler, BINARY, 1)
    return Typed(f"{CALL}hll_merged({_listed(value, only)})", BINARY)


def _kll_n(kind: str) -> Callable[[Any, Compiling], Typed]:
    def entry(node: Any, compiler: Compiling) -> Typed:
        value, _ = _given(node, compiler, BINARY, 1)
        return Typed(f"{CALL}kll_n_{kind}({value.sql})", BIGINT)

    return entry


def _kll_quantile(kind: str) -> Callable[[Any, Compiling], Typed]:
    def entry(node: Any, compiler: Compiling) -> Typed:
        value, ranks = (compiler.of(v) for v in node.expressions)
        call = f"{CALL}kll_quantiles_{kind}"
        if value.kind == BINARY and ranks.kind == DOUBLE:
            return Typed(f"list_extract({call}({value.sql}, [{ranks.sql}]), 1)", Kind(kind))
        if value.kind == BINARY and ranks.kind == Kind("array", element=DOUBLE):
            return Typed(f"{call}({value.sql}, {ranks.sql})", Kind("array", element=Kind(kind)))
        raise no_form(node)

    return entry


def _hll_union(node: Any, compiler: Compiling) -> Typed:
    values = [compiler.of(v) for v in node.expressions]
    if [v.kind for v in values] != [BINARY, BINARY]:
        raise no_form(node)
    a, b = (v.sql for v in values)
    return Typed(f"CASE WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN {CALL}hll_merged([{a}, {b}]) END", BINARY)


def _hll_estimate(node: Any, compiler: Compiling) -> Typed:
    value, _ = _given(node, compiler, BINARY, 1)
    return Typed(f"{CALL}hll_estimate({value.sql})", BIGINT)


def _xxhash64(node: Any, compiler: Compiling) -> Typed:
    if len(node.expressions) != 1:
        raise no_form(node)
    value = compiler.of(node.expressions[0])
    kind = value.kind
    if kind.is_decimal and kind.precision <= _LONG_DIGITS:
        return Typed(f"{CALL}xxhash64_long(CAST({unscaled(value)} AS BIGINT))", BIGINT)
    if kind.name not in _BY_KIND:
        raise NotLocal(f"xxhash64 of {kind.text}")
    if kind.name.startswith("timestamp"):
        sql = f"epoch_us({value.sql})"
    elif kind.name == "date":
        sql = f"CAST({value.sql} - DATE '1970-01-01' AS INTEGER)"
    elif _BY_KIND[kind.name] == "int":
        sql = f"CAST({value.sql} AS INTEGER)"
    else:
        sql = value.sql
    return Typed(f"{CALL}xxhash64_{_BY_KIND[kind.name]}({sql})", BIGINT)


_KINDS: Final = ("double", "float", "bigint")
AGGREGATES: Final[dict[str, Callable[[Any, Compiling, str], Typed]]] = {
    "hll_sketch_agg": _hll_built,
    "hll_union_agg": _hll_merged,
    **{f"kll_sketch_agg_{kind}": _kll_built(kind) for kind in _KINDS},
    **{f"kll_merge_agg_{kind}": _kll_merged(kind) for kind in _KINDS},
}
"""The entries of aggregates, by their names in Spark."""
SCALARS: Final[dict[str, Callable[[Any, Compiling], Typed]]] = {
    "hll_union": _hll_union,
    "hll_sketch_estimate": _hll_estimate,
    "xxhash64": _xxhash64,
    **{f"kll_sketch_get_n_{kind}": _kll_n(kind) for kind in _KINDS},
    **{f"kll_sketch_get_quantile_{kind}": _kll_quantile(kind) for kind in _KINDS},
}
"""The entries of scalar functions, by their names in Spark."""
