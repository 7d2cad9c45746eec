"""Changed keys: their values as JSON holds them exactly, as a table of an executor, and the files that may hold their rows.

A string, an integer and a truth value are themselves; a date is its days and a timestamp its microseconds since 1970; a decimal
is its digits as text, and bytes are hexadecimal text. A value that has no such form is unknown, never rounded.
"""

# ruff: noqa: PLC0415 - logs alone are read without Arrow

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from materializer.core.compiled.definition import FROM, KEY, Definition
from materializer.core.refresh.invalidation import Key
from materializer.core.time.spans import Span

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST: Final = 256
"""Most characters or bytes of a value that the journal records."""

_PLAIN: Final = frozenset(
    {"string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
)
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_MICROSECONDS: Final = 86_400_000_000
_FIRST: Final = (date(1902, 1, 1) - date(1970, 1, 1)).days
"""Older versions of Spark wrote earlier days in another calendar or with another offset."""
_LAST: Final = (date(9999, 12, 31) - date(1970, 1, 1)).days
_TRUNCATED: Final = 32
"""A text of so many bytes in statistics may have been cut."""
_MILLISECOND: Final = 1_000

Groups: TypeAlias = Sequence[tuple[Span, Key]]
"""Buckets, each with a key."""
Within: TypeAlias = Mapping[str, frozenset[Any]]
"""Source columns, each with the only values that are wanted."""


def why_not_recorded(definition: Definition) -> str:
    """Return why the changed keys of a definition are never recorded; "" when they are."""
    for key, kind in zip(definition.spec.keys, definition.key_types, strict=True):
        if not _is_recorded(kind):
            return f"the key {key.name} is of type {kind}, whose changed values are not recorded"
    return ""


def _is_recorded(kind: str) -> bool:
    return kind in _PLAIN or _DECIMAL.fullmatch(kind) is not None


def wanted(definition: Definition, keys: Iterable[Key]) -> Within:
    """Return the values of some keys, by the source columns that hold them."""
    values = list(zip(*keys, strict=True))
    return {name: frozenset(of) for name, of in zip(definition.key_sources, values, strict=False) if name}


def coded(column: Any) -> tuple[Any, Any] | None:
    """Return an Arrow column of keys by whose values rows can be grouped, and which rows have an unknown one.

    Returns:
        None if values of the type are not recorded. :func:`json_value` gives the recorded form of a returned value.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    types, kind = pa.types, column.type
    if types.is_string_view(kind) or types.is_dictionary(kind):
        column = column.cast(pa.string())
    if types.is_binary_view(kind):
        column = column.cast(pa.binary())
    kind = column.type
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal128(kind):
        return column, None
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return column, pc.greater(pc.binary_length(column), LONGEST)
    if types.is_date32(kind):
        days = column.cast(pa.int32()).cast(pa.int64())
        return days, pc.or_(pc.less(days, _FIRST), pc.greater(days, _LAST))
    if types.is_timestamp(kind) and kind.unit in {"us", "ms"}:
        micros = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
        return micros, pc.or_(pc.less(micros, _FIRST * _MICROSECONDS), pc.greater(micros, _LAST * _MICROSECONDS))
    return None


def json_value(value: Any) -> Any:
    """Return the recorded form of a value."""
    match value:
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
        case _:
            return value


def table_of(groups: Groups, kinds: Sequence[str]) -> pa.Table:
    """Return groups as a table.

    Args:
        groups: Buckets and keys.
        kinds: The Spark type of each key.

    Shape:
        ``FROM``: a 64-bit instant. ``KEY`` with 0, 1, …: the keys.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {FROM: pa.array([start_of(span) for span, _ in groups], pa.int64())}
    for i, kind in enumerate(kinds):
        columns[f"{KEY}{i}"] = typed_column([key[i] for _, key in groups], kind)
    return pa.table(columns)


def start_of(span: Span) -> int:
    """Return the first instant of a span that 64 bits hold."""
    return max(span.start, -(1 << 63))


def typed_column(values: Sequence[Any], kind: str) -> Any:
    """Return values in their recorded form as an Arrow column of a Spark type."""
    import pyarrow as pa

    if found := _DECIMAL.fullmatch(kind):
        exact = [None if v is None else Decimal(v) for v in values]
        return pa.array(exact, pa.decimal128(int(found[1]), int(found[2])))
    match kind:
        case "date":
            return pa.array(values, pa.int32()).cast(pa.date32())
        case "timestamp" | "timestamp_ntz":
            return pa.array(values, pa.int64()).cast(pa.timestamp("us", tz="UTC" if kind == "timestamp" else None))
        case "binary":
            return pa.array([None if v is None else bytes.fromhex(v) for v in values], pa.binary())
        case _:
            integers = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
            return pa.array(values, integers.get(kind) or (pa.bool_() if kind == "boolean" else pa.string()))


def may_hold(actions: pa.Table, within: Within, folders: Sequence[str]) -> list[bool]:
    """Return which files may have a row whose every column has a wanted value.

    Args:
        actions: The files of a table, as the library lists them, flattened.
        within: The wanted values, by column.
        folders: Columns by which the table is partitioned.
    """
    found = [True] * actions.num_rows
    for name, values in within.items():
        if name in folders:
            continue  # a folder's name is read by rules of its own
        nulls = statistic(actions, f"null_count.{name}")
        low, high = (statistic(actions, f"{which}.{name}") for which in ("min", "max"))
        known = sorted(v for v in values if v is not None)
        for i, cell in enumerate(zip(nulls, low, high, strict=True)):
            found[i] = found[i] and _may_hold(*cell, known, wants_null=None in values)
    return found


def _may_hold(nulls: int | None, low: Any, high: Any, known: Sequence[Any], *, wants_null: bool) -> bool:
    if wants_null and nulls != 0:
        return True
    high = high if has_whole_text(high) else None
    return any((low is None or low <= v) and (high is None or v <= high) for v in known)


def has_whole_text(value: Any) -> bool:
    """Return whether a largest value is whole: writers cut texts, and some do not say so."""
    return not isinstance(value, str) or len(value.encode()) < _TRUNCATED


def statistic(actions: pa.Table, name: str) -> list[Any]:
    """Return a statistic of each file in the recorded form; None where it is unknown or not exact."""
    import pyarrow as pa

    column = actions[name] if name in actions.column_names else None
    found = None if column is None else coded(column)
    if column is None or found is None or pa.types.is_decimal(column.type) or pa.types.is_binary(column.type):
        return [None] * actions.num_rows
    values: list[Any] = found[0].to_pylist()
    if pa.types.is_timestamp(column.type) and name.startswith("max."):  # truncated to milliseconds
        return [None if v is None else v + _MILLISECOND - 1 for v in values]
    return values
