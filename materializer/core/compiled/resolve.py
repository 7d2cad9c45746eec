"""Resolves a definition against the columns of its source: their existence, their spelling and the type of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from materializer.core.refresh.lateness import KNOWN_AT
from materializer.core.spec.spec import AggregateSpec, Resolution, TimeType
from materializer.core.sql.functions import nearest
from materializer.core.sql.tokens import Refused, Script
from materializer.core.time.grid import build
from materializer.errors import DefinitionError, MaterializerError, Problem

_SPELLINGS: Final = {"short": "smallint", "integer": "int", "long": "bigint", "timestamp_ltz": "timestamp"}
_UNORDERED: Final = ("map<", "variant", "calendarinterval", "interval", "void", "geometry", "geography")


def resolve(spec: AggregateSpec, schema: Sequence[tuple[str, str]]) -> AggregateSpec:
    """Return *spec* with the type of its time column, the types of the columns it reads, and the source's spelling of names.

    Column names are compared without case, as in Spark. Expressions keep the user's text. The types of arguments stay
    unknown here.

    Args:
        spec: A definition, resolved before or not.
        schema: (name, Spark type text such as ``decimal(10,2)``) of every column of the source.

    Raises:
        DefinitionError: If a column is missing, the time column cannot be divided as declared, or the sequence has no order.
    """
    columns = {name.lower(): (name, kind) for name, kind in schema}
    problems = _missing(spec, columns)
    problems += [] if spec.time_type else _quoted_names(spec, columns)
    kind = columns.get(spec.time_column.lower(), ("", ""))[1]
    time_type = _time_type(kind.lower())
    if kind and time_type is None:
        message = f"{spec.name}: the time column `{spec.time_column}` has type {kind}"
        problems.append(Problem("definition.time-type", message, _time_hint(kind), about=spec.time_column))
    if spec.bucket_time and time_type not in (None, TimeType.TIMESTAMP, TimeType.TIMESTAMP_NTZ):
        message = (
            f"{spec.name}: `window_time` is a microsecond before the end, and `{spec.time_column}` has type {kind}"
        )
        problems.append(Problem("definition.time-type", message, "select window.end in its place", about="window_time"))
    if time_type is not None:
        problems += _grid_problems(spec, time_type)
    problems += _order_problems(spec, columns)
    problems += known_at_problems(spec, schema, time_type)
    if problems:
        raise DefinitionError(problems)
    found = sorted(columns[name.lower()] for name in spec.reads)
    return replace(
        spec,
        time_column=columns[spec.time_column.lower()][0],
        time_type=time_type,
        sequence=columns[spec.sequence.lower()][0] if spec.sequence else None,
        reads=tuple(name for name, _ in found),
        read_types=tuple(found),
    )


def _missing(spec: AggregateSpec, columns: dict[str, tuple[str, str]]) -> list[Problem]:
    problems = []
    names = tuple(name for name, _ in columns.values())
    for name in sorted({*spec.reads, spec.time_column, *((spec.sequence,) if spec.sequence else ())}):
        if name.lower() in columns:
            continue
        hint = nearest(name, names) or f"the columns are {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
        if name == spec.time_column:
            code, what = "definition.missing-time-column", "time column"
        elif name == spec.sequence:
            code, what = "definition.missing-sequence", "sequence column"
        else:
            code, what = "definition.unknown-column", "column"
        message = f"{spec.name}: the source {spec.source} has no {what} `{name}`"
        problems.append(Problem(code, message, hint, about=name))
    return problems


def _quoted_names(spec: AggregateSpec, columns: dict[str, tuple[str, str]]) -> Iterator[Problem]:
    """Yield columns that are written in double quotes, as in other systems: Spark reads a text there, the same in every row."""
    try:
        tokens = Script(spec.sql).tokens() if '"' in spec.sql else ()
    except Refused:  # the parser has said why
        return
    select = next((at for at, token in enumerate(tokens) if token.text.upper() == "SELECT"), len(tokens))
    for token in tokens[select:]:
        name = columns.get(token.text.lower(), ("", ""))[0]
        if name and spec.sql[token.start] == '"':
            message = f'{spec.name}: "{token.text}" is a text in Spark, and the source {spec.source} has a column of that name'
            hint = f"write `{name}` for the column, '{token.text}' for the text"
            yield Problem("definition.unknown-column", message, hint, about=f'"{token.text}"')


def _time_type(kind: str) -> TimeType | None:
    name = _SPELLINGS.get(kind, kind)
    return TimeType(name) if name in set(TimeType) else None


def _time_hint(kind: str) -> str:
    if kind.startswith(("timestamp", "time")) and "(" in kind:
        what = "times of day" if kind.startswith("time(") else "nanoseconds"
        return f"{what} cannot be divided; store a timestamp of microseconds"
    if kind in ("string", "float", "double", "tinyint") or kind.startswith(("decimal", "varchar", "char")):
        return "store it as timestamp, date, or bigint with 'time.resolution'"
    return "it must be date, timestamp, timestamp_ntz, smallint, int or bigint"


def _grid_problems(spec: AggregateSpec, time_type: TimeType) -> list[Problem]:
    if spec.resolution != Resolution.NONE and not time_type.is_integer:
        message = (
            f"{spec.name}: 'time.resolution' is for integer times, and `{spec.time_column}` has type {time_type.value}"
        )
        return [Problem("definition.resolution", message, "leave the property away", about="time.resolution")]
    if spec.is_engine:
        return []  # slices are added once the type of time is known
    try:
        build(spec.grid, time_type, spec.resolution)
    except DefinitionError as error:
        return list(error.problems)
    except (MaterializerError, ValueError) as error:
        hint = getattr(error, "hint", "")
        return [Problem("definition.grid", f"{spec.name}: {getattr(error, 'message', error)}", hint)]
    return []


def known_at_problems(
    spec: AggregateSpec, schema: Sequence[tuple[str, str]], time_type: TimeType | None
) -> list[Problem]:
    """Return what stands against the column that says when a row was known.

    Args:
        spec: The definition.
        schema: (name, Spark type) of every column of the source.
        time_type: Type of the time column; None if it is none.
    """
    asked = spec.property_map.get(KNOWN_AT)
    if asked is None:
        return []
    name, kind = next(((n, k.lower()) for n, k in schema if n.lower() == asked.lower()), (asked, ""))
    if not kind:
        hint = nearest(asked, [n for n, _ in schema]) or f"the columns are {', '.join(n for n, _ in schema[:12])}"
        message = f"{spec.name}: the source {spec.source} has no column `{asked}`, which '{KNOWN_AT}' names"
        return [Problem("definition.unknown-column", message, hint, about=asked)]
    found = _time_type(kind)
    if found is not None and not found.is_integer and not (time_type is not None and time_type.is_integer):
        return []
    message = f"{spec.name}: '{KNOWN_AT}' is for times, and `{name}` has type {kind}"
    if found is not None and not found.is_integer:
        message = (
            f"{spec.name}: '{KNOWN_AT}' is for sources that are divided by a time, and `{spec.time_column}` is a number"
        )
    return [Problem("definition.property", message, "name a date or timestamp, or leave it away", about=asked)]


def _order_problems(spec: AggregateSpec, columns: dict[str, tuple[str, str]]) -> list[Problem]:
    problems = []
    name, kind = columns.get((spec.sequence or "").lower(), ("", ""))
    if kind.startswith(_UNORDERED):
        message = f"{spec.name}: the sequence column `{name}` has type {kind}, which has no order"
        hint = "name a column of numbers, texts or times"
        problems.append(Problem("definition.sequence-type", message, hint, about=name))
    for key in spec.keys:
        name, kind = columns.get(key.sql.strip("`").lower(), ("", ""))
        if kind.startswith(("map<", "variant", "calendarinterval")):
            message = f"{spec.name}: the key `{key.name}` has type {kind}, which cannot be grouped"
            hint = "group by a field of it, or by to_json of it"
            problems.append(Problem("definition.key-type", message, hint, about=key.name))
    return problems
