"""The aggregates of the proven set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from sqlglot import exp

from materializer.core.aggregates.moments import LEAST_SQUARED, MOST_SQUARED
from materializer.local import sketch_forms
from materializer.local.kinds import BIGINT, BOOLEAN, DOUBLE, Kind, NotLocal, decimal, quoted
from materializer.local.refused import called, no_form
from materializer.local.typed import Compiling, Typed, cast, failing, nulls_first, restored

LARGEST: Final = 2**63 - 1
"""The largest BIGINT."""
Entry: TypeAlias = Callable[[Any, Compiling, str], Typed]


def is_aggregate(node: Any) -> bool:
    """Return whether a node is an aggregate call, with or without a FILTER, that :func:`compiled` may know."""
    return isinstance(node, exp.Filter) or _entry(node) is not None


def compiled(node: Any, compiler: Compiling) -> Typed:
    """Return the DuckDB form of an aggregate call over rows.

    Args:
        node: The call.
        compiler: Compiles its arguments.

    Raises:
        NotLocal: If it is outside the proven set.
    """
    only = ""
    if isinstance(node, exp.Filter):
        only = compiler.condition(node.expression.this)
        node = node.this
    entry = _entry(node)
    if entry is None:
        raise NotLocal(f"the aggregate {called(node)}")
    return entry(node, compiler, only)


def _entry(node: Any) -> Entry | None:
    return (
        sketch_forms.AGGREGATES.get(node.name.lower()) if isinstance(node, exp.Anonymous) else _ENTRIES.get(type(node))
    )


def _call(text: str, only: str, *more: str) -> str:
    tests = [t for t in (only, *more) if t]
    return f"{text} FILTER (WHERE {' AND '.join(f'({t})' for t in tests)})" if tests else text


def _count(node: exp.Count, compiler: Compiling, only: str) -> Typed:
    if isinstance(node.this, exp.Star):
        return Typed(_call("count(*)", only), BIGINT)
    if isinstance(node.this, exp.Distinct):
        (inside,) = node.this.expressions if len(node.this.expressions) == 1 else (None,)
        if inside is None:
            raise NotLocal("count of several distinct values")
        value = _ordered(compiler.of(inside))
        return Typed(_call(f"count(DISTINCT {value.sql})", only), BIGINT)
    values = [compiler.of(v) for v in (node.this, *node.expressions)]
    if len(values) == 1:
        return Typed(_call(f"count({values[0].sql})", only), BIGINT)
    return Typed(_call("count(*)", only, *(f"{v.sql} IS NOT NULL" for v in values)), BIGINT)


def _count_if(node: exp.CountIf, compiler: Compiling, only: str) -> Typed:
    return Typed(_call("count(*)", only, compiler.condition(node.this)), BIGINT)


def _sum(node: exp.Sum, compiler: Compiling, only: str) -> Typed:
    if isinstance(node.this, exp.Distinct):
        raise NotLocal("a sum of distinct values")
    value = compiler.of(node.this)
    if value.kind == BIGINT:
        # Spark raises where a sum leaves the type on its way, in some order of the rows
        whole = failing(f"{_most(value, only)} > {2**63 - 1}", _call(f"sum({value.sql})", only))
        return Typed(f"CAST({whole} AS BIGINT)", BIGINT)
    if value.kind.is_integer:
        return Typed(f"CAST({_call(f'sum({value.sql})', only)} AS BIGINT)", BIGINT)
    if value.kind.is_fraction:
        return Typed(_call(f"sum({cast(value, DOUBLE).sql})", only), DOUBLE)
    if value.kind.is_decimal:
        kind = decimal(min(38, value.kind.precision + 10), value.kind.scale)
        return Typed(f"CAST({_call(f'sum({value.sql})', only)} AS {kind.duck})", kind)
    raise NotLocal(f"sum of {value.kind.text}")


def _avg(node: exp.Avg, compiler: Compiling, only: str) -> Typed:
    if isinstance(node.this, exp.Distinct):
        raise NotLocal("an average of distinct values")
    value = compiler.of(node.this)
    mean = _call(f"avg({cast(value, DOUBLE).sql})", only)
    if value.kind.is_integer:
        # Spark adds doubles, whose sum depends on the order of the rows once it is no exact whole number
        return Typed(f"CAST({failing(f'{_most(value, only)} > {2**53}', mean)} AS DOUBLE)", DOUBLE)
    if not value.kind.is_fraction:
        raise NotLocal(f"avg of {value.kind.text}")
    return Typed(mean, DOUBLE)


def _most(value: Typed, only: str) -> str:
    """Return the largest sum of whole numbers that any order of the rows comes by."""
    return _call(f"sum(abs({value.sql}::HUGEINT))", only)


def _extreme(name: str) -> Entry:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        if node.expressions or isinstance(node.this, exp.Distinct):
            raise no_form(node)
        value = compiler.of(node.this)
        if pair := _extreme_pair(name, value, only):
            return pair
        if value.kind.name == "struct":
            return Typed(restored(_call(f"{name}({nulls_first(value).sql})", only), value.kind), value.kind)
        return Typed(_call(f"{name}({_ordered(value).sql})", only), value.kind)

    return entry


def _extreme_pair(name: str, value: Typed, only: str) -> Typed | None:
    """Return the least or greatest pair that is built of two numbers or times; None for other values.

    Both are packed into one whole number of 128 bits, which DuckDB compares several times faster than a struct.
    """
    kinds = value.kind.fields
    ranks = [_rank(field, kind) for field, (_, kind) in zip(value.fields, kinds, strict=False)]
    if (
        len(ranks) != 2 or None in ranks or kinds[0][1].is_fraction
    ):  # 0.0 and -0.0 are equal, so that the second decides
        return None
    found = _call(f"{name}({ranks[0]}::HUGEINT * {1 << 64} + ({ranks[1]}::HUGEINT + {LARGEST + 1}))", only)
    parts = f"({found} >> 64)", f"(({found} & {(1 << 64) - 1}) - {LARGEST + 1})"
    pair = ", ".join(
        f"{quoted(n)} := {_of_rank(f'{part}::BIGINT', kind)}" for part, (n, kind) in zip(parts, kinds, strict=True)
    )
    return Typed(f"CASE WHEN {found} IS NOT NULL THEN struct_pack({pair}) END", value.kind)


def _rank(sql: str, kind: Kind) -> str | None:
    """Return a BIGINT that orders values as Spark does, null first; None for types that have no such number."""
    if kind.is_fraction:
        value = f"{sql}::DOUBLE"
        bits = f"({value}::BIT)::BIGINT"  # those of a negative number grow as it falls
        rank = f"CASE WHEN isnan({value}) THEN {LARGEST} WHEN {bits} < 0 THEN {-LARGEST} - ({bits} + 2) ELSE {bits} END"
    elif kind == BIGINT:
        rank = failing(f"{sql} < {-LARGEST}", sql)
    elif kind.is_integer or kind.name == "boolean":
        rank = f"{sql}::BIGINT"
    elif kind.name in {"timestamp", "timestamp_ntz"}:
        rank = f"epoch_us({sql})"
    elif kind.name == "date":
        rank = f"({sql} - DATE '1970-01-01')"
    else:
        return None
    return f"coalesce({rank}, {-LARGEST} - 1)"


def _of_rank(rank: str, kind: Kind) -> str:
    """Return the value of a number that :func:`_rank` gives."""
    if kind.is_fraction:
        bits = f"CASE WHEN {rank} < 0 THEN {-LARGEST} - ({rank} + 2) ELSE {rank} END"
        value = f"CASE WHEN {rank} = {LARGEST} THEN 'nan' ELSE ({bits})::BIT::DOUBLE END"
    elif kind.name == "timestamp":
        value = f"make_timestamptz({rank})"
    elif kind.name == "timestamp_ntz":
        value = f"make_timestamp({rank})"
    elif kind.name == "date":
        value = f"DATE '1970-01-01' + {rank}::INTEGER"
    else:
        value = rank
    return f"CASE WHEN {rank} > {-LARGEST} - 1 THEN CAST({value} AS {kind.duck}) END"


def _extreme_by(name: str) -> Entry:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        value, by = compiler.of(node.this), compiler.of(node.expression)
        order = nulls_first(by) if by.kind.name == "struct" else _ordered(by)
        # as a struct, because DuckDB passes over rows whose value is null
        packed = f"struct_pack(v := {value.sql})"
        return Typed(f"struct_extract({_call(f'{name}({packed}, {order.sql})', only)}, 'v')", value.kind)

    return entry


def _ordered(value: Typed) -> Typed:
    if value.kind.name in {"struct", "array", "void"}:
        raise NotLocal(f"the order of a {value.kind.text}")
    return value


def _booleans(name: str) -> Entry:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        return Typed(_call(f"{name}({compiler.condition(node.this)})", only), BOOLEAN)

    return entry


def _bits(name: str) -> Entry:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        value = compiler.of(node.this)
        if not value.kind.is_integer:
            raise NotLocal(f"{name} of {value.kind.text}")
        return Typed(_call(f"{name}({value.sql})", only), value.kind)

    return entry


def _moments(name: str) -> Entry:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        value = cast(compiler.of(node.this), DOUBLE)
        return Typed(_of_squares(_call(f"{name}({value.sql})", only), only, value), DOUBLE)

    return entry


def _covariance(node: Any, compiler: Compiling, only: str) -> Typed:
    a, b = (cast(compiler.of(v), DOUBLE) for v in (node.this, node.expression))
    return Typed(_of_squares(_call(f"covar_pop({a.sql}, {b.sql})", only), only, a, b), DOUBLE)


def _of_squares(sql: str, only: str, *values: Typed) -> str:
    """Return a formula of centred sums; where squares leave the range of doubles, each executor has its own results."""
    largest = [_call(f"max(abs({v.sql}))", only) for v in values]
    odd = " OR ".join(f"NOT ({m} = 0 OR {m} BETWEEN {LEAST_SQUARED} AND {MOST_SQUARED})" for m in largest)
    return f"CAST({failing(odd, sql)} AS DOUBLE)"


def _finite(sql: str) -> str:
    """Return what a formula gives; where it is not finite, each executor has its own way there."""
    return f"CAST({failing(f'NOT isfinite({sql})', sql)} AS DOUBLE)"


def _listed(word: str) -> Entry:
    def entry(node: Any, compiler: Compiling, only: str) -> Typed:
        value = compiler.of(node.this)
        if word and value.kind.name in {"struct", "array"}:
            raise NotLocal(f"a set of {value.kind.text}")
        if word and value.kind.name in {"float", "double"}:
            # Spark compares the values of a set as Scala does, for which no NaN equals another, and keeps each NaN
            others = _call(f"list({word}{value.sql})", only, f"NOT isnan({value.sql})")
            nans = _call(f"list({value.sql})", only, f"isnan({value.sql})")
            listed = f"list_concat({others}, {nans})"
        else:
            listed = _call(f"list({word}{value.sql})", only, f"{value.sql} IS NOT NULL")
        return Typed(f"coalesce({listed}, [])", Kind("array", element=value.kind))

    return entry


def _percentile(node: Any, compiler: Compiling, only: str) -> Typed:
    given = exp.Literal.number("0.5") if node.args.get("quantile") is None else node.args["quantile"].unnest()
    share = str(given.this) if isinstance(given, exp.Literal) and not given.is_string else None
    if share is None or not 0 <= float(share) <= 1 or isinstance(node.this, exp.Distinct):
        raise no_form(node)
    value = cast(compiler.of(node.this), DOUBLE)
    return Typed(_finite(_call(f"quantile_cont({value.sql}, {share})", only, f"{value.sql} IS NOT NULL")), DOUBLE)


def _approx_percentile(node: Any, compiler: Compiling, only: str) -> Typed:
    """Return a percentile that Spark estimates, where its estimate is exact: of few values it leaves out none."""
    value, given = compiler.of(node.this), node.args["quantile"].unnest()
    ranks = compiler.of(given)
    accuracy = 10_000 if node.args.get("accuracy") is None else compiler.of(node.args["accuracy"]).literal
    is_written = all(isinstance(n, exp.Array | exp.Cast | exp.Literal | exp.Paren | exp.DataType) for n in given.walk())
    if not accuracy or accuracy < 2 or not is_written:
        raise no_form(node)
    if not (value.kind.is_integer or value.kind.is_fraction or value.kind.name in {"date", "timestamp"}):
        raise NotLocal(f"approx_percentile of {value.kind.text}")
    ordered = f"list_sort({_call(f'list({value.sql})', only, f'{value.sql} IS NOT NULL')})"
    count = _call(f"count({value.sql})", only)

    def at(rank: str) -> str:
        return f"list_extract({ordered}, greatest(1, CAST(ceil({rank} * {count}) AS BIGINT)))"

    if ranks.kind.element is not None:
        each = cast(Typed("mz_r", ranks.kind.element), DOUBLE).sql
        found = f"CASE WHEN {count} > 0 THEN list_transform({ranks.sql}, lambda mz_r: {at(each)}) END"
        kind = Kind("array", element=value.kind)
    else:
        found, kind = at(cast(ranks, DOUBLE).sql), value.kind
    odd = f"{count} > {accuracy // 2}"
    if value.kind.is_fraction:
        odd += f" OR {_call('count(*)', only, f'isnan({value.sql})')} > 0"
    elif value.kind == BIGINT or value.kind.name == "timestamp":  # Spark goes through doubles
        whole = value.sql if value.kind == BIGINT else f"epoch_us({value.sql})"
        odd += f" OR coalesce({_call(f'max(abs({whole}::HUGEINT))', only)}, 0) > {2**53}"
    return Typed(f"CAST({failing(odd, found)} AS {kind.duck})", kind)


def _mode(node: exp.Mode, compiler: Compiling, only: str) -> Typed:
    flag = node.args.get("deterministic")
    if flag is None or not flag.this:
        raise no_form(node)
    value = compiler.of(node.this)
    if not (value.kind.is_integer or value.kind.name in {"string", "date", "boolean", "timestamp"}):
        raise NotLocal(f"mode of {value.kind.text}")
    entries = f"map_entries({_call(f'histogram({value.sql})', only)})"
    ranked = f"list_transform({entries}, lambda mz_e: struct_pack(n := -(mz_e.value::BIGINT), k := mz_e.key))"
    return Typed(f"list_extract(list_sort({ranked}), 1).k", value.kind)


_ENTRIES: Final[dict[type, Entry]] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Min: _extreme("min"),
    exp.Max: _extreme("max"),
    exp.ArgMin: _extreme_by("arg_min"),
    exp.ArgMax: _extreme_by("arg_max"),
    exp.LogicalAnd: _booleans("bool_and"),
    exp.LogicalOr: _booleans("bool_or"),
    exp.BitwiseAndAgg: _bits("bit_and"),
    exp.BitwiseOrAgg: _bits("bit_or"),
    exp.BitwiseXorAgg: _bits("bit_xor"),
    exp.VariancePop: _moments("var_pop"),
    exp.CovarPop: _covariance,
    exp.ArrayAgg: _listed(""),
    exp.ArrayUniqueAgg: _listed("DISTINCT "),
    exp.ApproxQuantile: _approx_percentile,
    exp.Quantile: _percentile,
    exp.Median: _percentile,
    exp.Mode: _mode,
}
