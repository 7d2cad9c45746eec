"""The types of a definition, as Spark would find them, from the local forms of its expressions: no JVM is asked."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.registry import find
from materializer.core.aggregates.rollup import calls_of
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.compiled.texts_as_numbers import texts_as_numbers
from materializer.core.language.plain import is_plain
from materializer.core.spec.spec import AggregateSpec, Call, Formula
from materializer.core.time.grid import Grid, build
from materializer.errors import DefinitionError
from materializer.local.compiled_before import compiled
from materializer.local.kinds import Kind, NotLocal, bugs_left_to_spark, kind_of
from materializer.local.scope import Scope

_SHARE: Final = re.compile(r"0|1|1\.0|0?\.\d{1,9}")
_ARRAY: Final = re.compile(r"array\s*\(([^()]+)\)", re.IGNORECASE)
_SIZE: Final = re.compile(r"[1-9]\d{0,8}")


def described(spec: AggregateSpec) -> Definition:
    """Return a definition with all its types.

    Args:
        spec: The definition, resolved against its source.

    Raises:
        NotLocal: If a part of it has no local form; the message names the part.
        DefinitionError: If a call takes texts for numbers, or cannot be decomposed.
    """
    if spec.is_engine:
        raise NotLocal(f"the engine {spec.engine}")
    if spec.rolls_up is not None:
        raise NotLocal("a roll-up, which merges partials and reads no rows")
    if foreign := [call.function for call in calls_of(spec) if find(call.function) is None]:
        raise NotLocal(f"the Python aggregate {foreign[0]}")
    if spec.time_type is None:
        msg = f"the definition of {spec.name} was not resolved"
        raise ValueError(msg)
    grid = build(spec.grid, spec.time_type, spec.resolution)
    with bugs_left_to_spark():
        return _described(spec, grid, Kind(spec.time_type.value))


def _described(spec: AggregateSpec, grid: Grid, time: Kind) -> Definition:
    columns = {name: kind_of(kind) for name, kind in spec.read_types}
    raw, rows = Scope(columns), Scope(columns, are_rows=True)
    keys = {key.name: compiled(key.sql, raw).kind for key in spec.keys}
    measures = tuple(replace(m, formula=_with_types(m.formula, raw)) for m in spec.measures)
    having = _with_types(spec.having, raw) if spec.having else None
    spec = replace(spec, measures=measures, having=having)
    if problems := [*texts_as_numbers(spec)]:
        raise DefinitionError(problems)
    layout = decompose(spec)
    partials = {SLICE: time} | {key_column(name): kind for name, kind in keys.items()}
    partials |= {p.name: compiled(p.build, rows).kind for p in layout.partials}
    named = keys | dict.fromkeys(spec.edges, time)
    taken = {name.lower() for name in partials}
    final = Scope(partials | {n: k for n, k in named.items() if n.lower() not in taken})
    outputs = named | {name: compiled(sql, final).kind for name, sql in layout.finals}
    return Definition(
        spec,
        layout,
        grid,
        tuple((name, kind.text) for name, kind in partials.items()),
        tuple((name, outputs[name].text) for name in spec.columns),
    )


def _with_types(formula: Formula, scope: Scope) -> Formula:
    return replace(formula, calls=tuple(replace(c, types=_types(c, scope)) for c in formula.calls))


def _types(call: Call, scope: Scope) -> tuple[str, ...]:
    return tuple("" if arg == "*" else compiled(arg, scope).kind.text for arg in call.args)


def _is_doubtful(call: Call) -> bool:
    """Return whether Spark may refuse what is written beside the value of a sketch."""
    ranks, *more = call.args[1:] or ("0.5",)
    match found.family if (found := find(call.function)) else "":
        case "hll":
            return len(call.args) > 1 and not (
                _SHARE.fullmatch(ranks) and Decimal("0.001") <= Decimal(ranks) <= Decimal("0.39")
            )
        case "kll":
            array = _ARRAY.fullmatch(ranks)
            shares = array[1].split(",") if array else [ranks]
            return not all(_SHARE.fullmatch(share.strip()) for share in shares) or not all(map(_SIZE.fullmatch, more))
    return False


def accepted(spec: AggregateSpec, columns: Collection[str]) -> Definition | None:
    """Return a definition with all its types if it is certain that Spark's analysis takes it with these types; else None.

    What may be wrong with a definition only Spark tells, so a refusal has one set of words.

    Args:
        spec: The definition, resolved against its source.
        columns: The columns of the source.
    """
    calls = list(calls_of(spec))
    if any(call.order_by or _is_doubtful(call) for call in calls):
        return None
    if not (spec.sql and is_plain(spec, columns)):
        return None
    try:
        definition = described(spec)
        with bugs_left_to_spark():
            rows = Scope({name: kind_of(kind) for name, kind in spec.read_types})
            conditions = [text for text in (spec.where, *(call.where for call in calls)) if text is not None]
            are_right = all(compiled(text, rows).kind.text == "boolean" for text in conditions)
            if having := definition.layout.having:
                partials = Scope({name: kind_of(kind) for name, kind in definition.partial_columns})
                are_right = are_right and compiled(having, partials).kind.text == "boolean"
    except (NotLocal, DefinitionError):
        return None
    kinds = {kind for _, kind in (*definition.partial_columns, *definition.output_columns)}
    return definition if are_right and "void" not in kinds else None
