"""The scalar functions of the proven set."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from sqlglot import exp

from materializer.local import sketch_forms
from materializer.local.arithmetic import SIGNED_DIGITS
from materializer.local.kinds import (
    ASKED,
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    VOID,
    Kind,
    NotLocal,
    common,
    decimal,
)
from materializer.local.refused import called, no_form
from materializer.local.typed import Compiling, Typed, cast, failing, nulls_first, restored, text_literal

Entry: TypeAlias = Callable[[Any, Compiling], Typed]

_UNITS: Final = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_EPOCH: Final = "DATE '1970-01-01'"


def compiled(node: Any, compiler: Compiling) -> Typed:
    """Return the DuckDB form of a call.

    Raises:
        NotLocal: If it is outside the proven set.
    """
    if isinstance(node, exp.Anonymous):
        entry = _BY_NAME.get(str(node.this).lower())
        name = str(node.this).lower()
    else:
        entry, name = _BY_NODE.get(type(node)), ""
    if entry is None:
        raise NotLocal(f"the function or form {name or called(node)}")
    return entry(node, compiler)


def _given(node: Any, compiler: Compiling, *kinds: str) -> list[Typed]:
    """Return the arguments of a call by position; each of the type that is named for it."""
    values = [compiler.of(v) for v in node.expressions]
    if len(values) != len(kinds) or any(v.kind.name != k for v, k in zip(values, kinds, strict=True)):
        raise no_form(node)
    return values


def _one(node: Any, compiler: Compiling, *kinds: str) -> Typed:
    value = compiler.of(node.this)
    if value.kind.name not in kinds:
        raise NotLocal(f"{called(node)} of {value.kind.text}")
    return value


# -- numbers -------------------------------------------------------------------------------------------------------------


def _abs(node: exp.Abs, compiler: Compiling) -> Typed:
    value = compiler.of(node.this)
    if not value.kind.is_number or value.kind.precision > SIGNED_DIGITS:
        raise NotLocal(f"abs of {value.kind.text}")
    return Typed(f"abs({value.sql})", value.kind)


def _round(node: exp.Round, compiler: Compiling) -> Typed:
    value, given = compiler.of(node.this), node.args.get("decimals")
    places = None if given is None else compiler.of(given).literal
    if given is not None and places is None:
        raise NotLocal("round to digits that are not written out")
    digits = places or 0
    if value.kind.is_decimal and digits >= 0:
        scale = min(digits, value.kind.scale)
        kind = decimal(value.kind.precision - value.kind.scale + scale + 1, scale)
        return Typed(f"CAST({value.sql} AS {kind.duck})", kind)
    if value.kind.is_integer and digits >= 0:
        return Typed(value.sql, value.kind)
    if value.kind == DOUBLE and digits == 0:
        return Typed(f"round({value.sql})", DOUBLE)
    raise NotLocal(f"round({value.kind.text}, {digits})")


def _floor_or_ceil(node: exp.Floor | exp.Ceil, compiler: Compiling) -> Typed:
    value = compiler.of(node.this)
    if node.args.get("decimals") is not None or node.args.get("to") is not None:
        raise no_form(node)
    name = "floor" if isinstance(node, exp.Floor) else "ceil"
    if value.kind == DOUBLE:
        return Typed(f"CAST({name}({value.sql}) AS BIGINT)", BIGINT)
    if value.kind == BIGINT:
        return value
    if value.kind.is_decimal:
        kind = decimal(value.kind.precision - value.kind.scale + 1, 0)
        return Typed(f"CAST({name}({value.sql}) AS {kind.duck})", kind)
    raise NotLocal(f"{name} of {value.kind.text}")


def _sqrt(node: exp.Sqrt, compiler: Compiling) -> Typed:
    value = cast(compiler.of(node.this), DOUBLE)
    return Typed(f"CASE WHEN {value.sql} < 0 THEN 'NaN'::DOUBLE ELSE sqrt({value.sql}) END", DOUBLE)


def _is_nan(node: exp.IsNan, compiler: Compiling) -> Typed:
    value = _one(node, compiler, "double", "float")
    return Typed(f"coalesce(isnan({value.sql}), false)", BOOLEAN)


def _shift_right(node: exp.BitwiseRightShift, compiler: Compiling) -> Typed:
    value, by = _one(node, compiler, "bigint"), compiler.of(node.expression)
    if by.literal is None or not 0 <= by.literal < 64:
        raise NotLocal("a shift by what is not written out")
    return Typed(f"({value.sql} >> {by.literal})", BIGINT)


def _greatest_or_least(node: exp.Greatest | exp.Least, compiler: Compiling) -> Typed:
    values = [compiler.of(v) for v in (node.this, *node.expressions)]
    if len(values) == 1:
        raise NotLocal(f"{called(node)} of one value")
    kind = common([v.kind for v in values])
    if not (kind.is_number or kind.name in {"date", "timestamp", "timestamp_ntz"}):
        raise NotLocal(f"{called(node)} of {kind.text}")
    name = "greatest" if isinstance(node, exp.Greatest) else "least"
    return Typed(f"{name}({', '.join(cast(v, kind).sql for v in values)})", kind)


# -- texts ---------------------------------------------------------------------------------------------------------------


def _concat(node: exp.Concat | exp.DPipe, compiler: Compiling) -> Typed:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    values = [compiler.of(part) for part in parts]
    if any(v.kind != STRING for v in values):
        raise NotLocal("concat of what is no text")
    return Typed(f"({' || '.join(v.sql for v in values)})", STRING)


def _upper_or_lower(node: exp.Upper | exp.Lower, compiler: Compiling) -> Typed:
    value = _one(node, compiler, "string")
    # the two engines know different versions of Unicode
    plain = f"{node.key}({value.sql})"
    return Typed(f"{failing(f'strlen({value.sql}) <> length({value.sql})', plain)}", STRING)


def _length(node: exp.Length, compiler: Compiling) -> Typed:
    return Typed(f"CAST(length({_one(node, compiler, 'string').sql}) AS INTEGER)", INT)


def _substring(node: exp.Substring, compiler: Compiling) -> Typed:
    given = node.args.get("length")
    count = None if given is None else compiler.of(given).literal
    if (text := _bytes_of(node.this)) and count is not None and count >= 0:
        # of such a text each byte is one character, which DuckDB finds at once
        place = compiler.of(node.args["start"])
        if place.kind != INT:
            raise no_form(node)
        part = f"CAST(substring({text_literal(text)}, {place.sql}::BIGINT, {count}) AS BLOB)"
        return Typed(failing(f"{place.sql} < 1", part), BINARY)
    value, start = _one(node, compiler, "string"), compiler.of(node.args["start"]).literal
    if start is None or start < 1 or (given is not None and (count is None or count < 0)):
        raise NotLocal("substr from the end, or from a place that is not written out")
    rest = "" if count is None else f", {count}"
    return Typed(f"substring({value.sql}, {start}{rest})", STRING)


def _bytes_of(node: Any) -> str:
    """Return the text of a literal that is cast to binary and has plain characters alone; "" for everything else."""
    if not isinstance(node, exp.Cast) or node.to.this != exp.DataType.Type.BINARY:
        return ""
    inside = node.this
    is_plain = isinstance(inside, exp.Literal) and inside.is_string and re.fullmatch(r"[\w.]+", inside.this, re.ASCII)
    return str(inside.this) if is_plain else ""


def _hex_string(node: exp.HexString, _: Compiling) -> Typed:
    digits = str(node.this)
    if len(digits) % 2:
        raise no_form(node)
    return Typed("'" + "".join(f"\\x{digits[i : i + 2]}" for i in range(0, len(digits), 2)) + "'::BLOB", BINARY)


def _array_to_string(node: exp.ArrayToString, compiler: Compiling) -> Typed:
    values, between = compiler.of(node.this), compiler.of(node.expression)
    is_text = values.kind.element == STRING and between.kind == STRING
    if not is_text or not isinstance(node.expression, exp.Literal) or node.args.get("null") is not None:
        raise no_form(node)
    return Typed(f"array_to_string({values.sql}, {between.sql})", STRING)


# -- time ----------------------------------------------------------------------------------------------------------------


def _date_trunc(node: exp.TimestampTrunc, compiler: Compiling) -> Typed:
    value, unit = compiler.of(node.this), node.args["unit"].name.upper()
    if unit not in _UNITS or value.kind.name not in {"date", "timestamp", "timestamp_ntz"}:
        raise NotLocal(f"date_trunc('{unit}', {value.kind.text})")
    instant = cast(value, TIMESTAMP).sql
    return Typed(f"CAST(date_trunc('{unit.lower()}', {instant}) AS TIMESTAMPTZ)", TIMESTAMP)


def _trunc(node: exp.DateTrunc, compiler: Compiling) -> Typed:
    value, unit = _one(node, compiler, "date"), node.args["unit"].name.upper()
    if unit not in {"YEAR", "QUARTER", "MONTH", "WEEK"}:
        raise NotLocal(f"trunc({value.kind.text}, '{unit}')")
    return Typed(f"CAST(date_trunc('{unit.lower()}', {value.sql}) AS DATE)", DATE)


def _unix_date(node: exp.UnixDate, compiler: Compiling) -> Typed:
    return Typed(f"CAST({_one(node, compiler, 'date').sql} - {_EPOCH} AS INTEGER)", INT)


def _unix_micros(node: exp.UnixMicros, compiler: Compiling) -> Typed:
    return Typed(f"epoch_us({_one(node, compiler, 'timestamp').sql})", BIGINT)


def _timestamp_micros(node: Any, compiler: Compiling) -> Typed:
    (value,) = _given(node, compiler, "bigint")
    return Typed(f"make_timestamptz({value.sql})", TIMESTAMP)


def _date_from_unix_date(node: Any, compiler: Compiling) -> Typed:
    value = compiler.of(
        node.this if node.this is not None and not isinstance(node, exp.Anonymous) else node.expressions[0]
    )
    if value.kind != INT:
        raise NotLocal(f"date_from_unix_date of {value.kind.text}")
    return Typed(f"({_EPOCH} + {value.sql})", DATE)


def _date_add(node: exp.TsOrDsAdd, compiler: Compiling) -> Typed:
    value, days = _one(node, compiler, "date"), compiler.of(node.expression)
    if days.kind.name not in {"int", "smallint", "tinyint"} or node.args["unit"].name.upper() != "DAY":
        raise no_form(node)
    return Typed(f"({value.sql} + CAST({days.sql} AS INTEGER))", DATE)


def _add_months(node: exp.AddMonths, compiler: Compiling) -> Typed:
    value, months = _one(node, compiler, "date"), compiler.of(node.expression)
    if months.kind != INT:
        raise no_form(node)
    return Typed(f"CAST({value.sql} + to_months({months.sql}) AS DATE)", DATE)


def _part(node: Any, compiler: Compiling) -> Typed:
    inside = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
    value = compiler.of(inside)
    is_clock = node.key in {"hour", "minute", "second"}
    if value.kind.name not in ({"timestamp", "timestamp_ntz"} if is_clock else {"date", "timestamp", "timestamp_ntz"}):
        raise NotLocal(f"{called(node)} of {value.kind.text}")
    return Typed(f"CAST({node.key}({value.sql}) AS INTEGER)", INT)


# -- lists ---------------------------------------------------------------------------------------------------------------


def _get(node: Any, compiler: Compiling) -> Typed:
    values, index = (compiler.of(v) for v in node.expressions)
    if values.kind.element is None or index.kind != INT:
        raise no_form(node)
    found = f"CASE WHEN {index.sql} >= 0 THEN list_extract({values.sql}, {index.sql}::BIGINT + 1) END"
    return Typed(f"({found})", values.kind.element)


def _sort_array(node: exp.ArraySort, compiler: Compiling) -> Typed:
    values = compiler.of(node.this)
    element = values.kind.element
    nulls = node.args.get("nulls_first")
    if element is None or element.name == "array" or (nulls is not None and not nulls.this):
        raise no_form(node)
    if element.name != "struct":
        return Typed(f"list_sort({values.sql}, 'ASC', 'NULLS FIRST')", values.kind)
    flagged = nulls_first(Typed("mz_s", element)).sql
    back = restored("mz_s", element)
    ordered = f"list_sort(list_transform({values.sql}, lambda mz_s: {flagged}), 'ASC', 'NULLS FIRST')"
    return Typed(f"list_transform({ordered}, lambda mz_s: {back})", values.kind)


def _lambda(node: exp.Lambda, compiler: Compiling, *kinds: Kind) -> tuple[list[str], Typed]:
    """Return the names of a lambda's variables in DuckDB, and its body."""
    variables = [variable.name for variable in node.expressions]
    if len(variables) != len(kinds):
        raise no_form(node)
    ours = compiler.names(len(variables))
    typed = {name: Typed(our, kind) for name, our, kind in zip(variables, ours, kinds, strict=True)}
    return ours, compiler.with_variables(typed).of(node.this)


def _transform(node: exp.Transform, compiler: Compiling) -> Typed:
    values = compiler.of(node.this)
    if values.kind.element is None or not isinstance(node.expression, exp.Lambda):
        raise no_form(node)
    (name,), body = _lambda(node.expression, compiler, values.kind.element)
    return Typed(f"list_transform({values.sql}, lambda {name}: {body.sql})", Kind("array", element=body.kind))


def _zip_with(node: exp.Anonymous, compiler: Compiling) -> Typed:
    if len(node.expressions) != 3 or not isinstance(node.expressions[2], exp.Lambda):
        raise no_form(node)
    lists = [compiler.of(v) for v in node.expressions[:2]]
    variables = [v.name for v in node.expressions[2].expressions]
    elements = [v.kind.element for v in lists if v.kind.element is not None]
    if len(elements) != 2 or len(variables) != 2:
        raise no_form(node)
    (pair, _) = compiler.names(2)
    typed = {name: Typed(f"{pair}[{i}]", k) for i, (name, k) in enumerate(zip(variables, elements, strict=True), 1)}
    body = compiler.with_variables(typed).of(node.expressions[2].this)
    a, b = (v.sql for v in lists)
    made = f"list_transform(list_zip({a}, {b}), lambda {pair}: {body.sql})"
    return Typed(f"(CASE WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN {made} END)", Kind("array", element=body.kind))


def _sequence(node: exp.GenerateSeries, compiler: Compiling) -> Typed:
    start, stop, given = (node.args.get(name) for name in ("start", "end", "step"))
    ends = [compiler.of(start), compiler.of(stop)]
    kind = common([end.kind for end in ends])
    if not kind.is_integer:
        raise NotLocal(f"sequence of {kind.text}")
    first, last = (cast(end, kind).sql for end in ends)
    if given is None:
        step, least = f"CASE WHEN {first} <= {last} THEN 1 ELSE -1 END", ""
    else:
        by = compiler.of(given)
        if not by.literal or by.literal < 1 or by.kind != kind:
            raise NotLocal("a sequence whose step is not written out")
        step, least = str(by.literal), f"{first} > {last}"
    listed = f"CAST(generate_series({first}::BIGINT, {last}::BIGINT, {step}) AS {kind.duck}[])"
    nulls = (
        f"CASE WHEN {first} IS NOT NULL AND {last} IS NOT NULL THEN {failing(least, listed) if least else listed} END"
    )
    return Typed(f"({nulls})", Kind("array", element=kind))


def _raise(node: exp.Anonymous, _: Compiling) -> Typed:
    if len(node.expressions) != 1:  # what it says is for Spark to say, too
        raise no_form(node)
    return Typed(f"error('{ASKED}')", VOID)


def _aggregate(node: exp.Reduce, compiler: Compiling) -> Typed:
    values, start = compiler.of(node.this), compiler.of(node.args["initial"])
    if values.kind.element is None or node.args.get("merge") is None:
        raise no_form(node)
    (a, b), body = _lambda(node.args["merge"], compiler, start.kind, values.kind.element)
    if body.kind != start.kind:
        raise no_form(node)
    # the start stands as the first element, so that an empty list has one, too
    if values.kind.element != start.kind:
        raise NotLocal(f"aggregate of {values.kind.text} into {start.kind.text}")
    folded = Typed(f"list_reduce(list_prepend({start.sql}, {values.sql}), lambda {a}, {b}: {body.sql})", start.kind)
    finish = node.args.get("finish")
    if finish is None:
        return folded
    (name,), final = _lambda(finish, compiler, start.kind)
    return Typed(f"list_extract(list_transform([{folded.sql}], lambda {name}: {final.sql}), 1)", final.kind)


_BY_NODE: Final[dict[type, Entry]] = {
    exp.Abs: _abs,
    exp.Round: _round,
    exp.Floor: _floor_or_ceil,
    exp.Ceil: _floor_or_ceil,
    exp.Sqrt: _sqrt,
    exp.IsNan: _is_nan,
    exp.BitwiseRightShift: _shift_right,
    exp.Greatest: _greatest_or_least,
    exp.Least: _greatest_or_least,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Upper: _upper_or_lower,
    exp.Lower: _upper_or_lower,
    exp.Length: _length,
    exp.Substring: _substring,
    exp.HexString: _hex_string,
    exp.ArrayToString: _array_to_string,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _trunc,
    exp.UnixDate: _unix_date,
    exp.UnixMicros: _unix_micros,
    exp.DateFromUnixDate: _date_from_unix_date,
    exp.TsOrDsAdd: _date_add,
    exp.AddMonths: _add_months,
    exp.Year: _part,
    exp.Quarter: _part,
    exp.Month: _part,
    exp.Day: _part,
    exp.Hour: _part,
    exp.Minute: _part,
    exp.Second: _part,
    exp.ArraySort: _sort_array,
    exp.Transform: _transform,
    exp.Reduce: _aggregate,
    exp.GenerateSeries: _sequence,
}
_BY_NAME: Final[dict[str, Entry]] = {
    "timestamp_micros": _timestamp_micros,
    "date_from_unix_date": _date_from_unix_date,
    "get": _get,
    "raise_error": _raise,
    "zip_with": _zip_with,
    **sketch_forms.SCALARS,
}
