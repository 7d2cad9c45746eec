"""Partials of ``first`` and ``last`` from buffers of fixed size, which Spark aggregates by hash instead of by sorting.

The partial of ``first(x)`` is the least struct of the time, the columns that decide among equal times, and *x*. Spark's hash
aggregation has no place for a struct, so Spark sorts all rows. Where all rows of the first instant of a group are equal in these
columns, ``min_by(x, time)`` gives the same. So the values are taken that way, and the other groups, which are *tied*, are found at the same
time, to be computed from structs.

How they are found: a number has the time since the start of the bucket in its upper bits, and bits of the value below. Over the
rows of a group, ``min(time, bits)`` has the least bits among the rows of the first instant, and ``min(time, mask - bits)`` the
greatest. They are equal only if all these rows have the same bits. The bits of a value are its ``xxhash64`` and whether it is null.
Each step of that hash can be undone for values of up to 64 bits, so different values have different bits, and nothing is left to
chance. Where one number has too few bits, several numbers share them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from materializer.core.aggregates.layout import Pick
from materializer.core.aggregates.parts import decimal_of, filtered
from materializer.core.compiled.bucket_sql import instant_of_sql, value_of_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.spec.table_names import quoted
from materializer.core.time.grid import CalendarGrid, FixedGrid, Grid
from materializer.core.time.instants import DAY
from materializer.core.time.wallclock import FixedLattice

OFFSET: Final = "materializer offset"
"""Scratch column of source rows: the time since the start of the bucket, in instants."""
TIED: Final = "materializer tied"
"""Column beside the partials: whether the group has to be computed from structs."""

_VALUE_BITS: Final = 65
"""Bits of a value: its hash, and whether it is null."""
_NUMBER_BITS: Final = 63
"""Bits of a BIGINT without its sign."""
_LONGEST_MONTH: Final = 31 * DAY
_MOST_PAIRS: Final = 16
"""The most pairs of numbers of a group; with more, sorting is as fast."""
_SHORT_DECIMAL: Final = 18
"""The most digits of a decimal that is hashed as one number."""
_SIMPLE: Final = frozenset(
    {"tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz"}
)
_FIELD: Final = re.compile(r"(\w+):(\w+(?:\(\d+,\d+\))?)(?:,|$)")


class ByHash(Struct, frozen=True):
    """The partials of a definition from buffers of fixed size; all texts are Spark SQL.

    Args:
        aggregates: (scratch column, aggregate over source rows that have :data:`OFFSET`).
        partials: (partial column, expression over the scratch columns and :data:`~.definition.SLICE`).
        tied: Whether a group has to be computed from structs: a predicate over the scratch columns.
    """

    aggregates: tuple[tuple[str, str], ...]
    partials: tuple[tuple[str, str], ...]
    tied: str


def by_hash(definition: Definition) -> ByHash | None:
    """Return this form of the partials of a definition; None if there is none, or if it is not faster."""
    types, bits = dict(definition.partial_columns), _bits(definition.grid)
    aggregates: list[tuple[str, str]] = []
    partials, ties = [], []
    for i, partial in enumerate(definition.layout.partials):
        name, spark_type = f"a{i}", types[partial.name]
        if partial.pick is None:
            if partial.is_foreign or not _has_place(spark_type):
                return None
            aggregates.append((name, partial.build))
            partials.append((partial.name, name))
            continue
        fields = _values_of(partial.pick, spark_type)
        if fields is None or bits < 1:
            return None
        for field, sql in fields.items():
            pairs = list(_pairs(sql, bits))
            taken = f"{partial.pick.extreme}_by({sql}, {pairs[0][0]})"
            aggregates.append((f"{name}_{field}", filtered(taken, *partial.pick.conditions)))
            for j, pair in enumerate(pairs):
                both = f"{name}_{field}_{j}", f"{name}_{field}_{j}_not"
                for column, number in zip(both, pair, strict=True):
                    aggregates.append((column, filtered(f"{partial.pick.extreme}({number})", *partial.pick.conditions)))
                mask = (1 << bits) - 1
                ties.append(f"({both[0]} & {mask}L) + ({both[1]} & {mask}L) != {mask}L")
        any_number = f"{name}_v_0"
        at = f"{instant_of_sql(SLICE, definition.time_type)} + shiftright({any_number}, {bits})"
        values = ", ".join(f"'{field}', {name}_{field}" for field in fields)
        struct = f"named_struct('o0', {value_of_sql(at, definition.time_type)}, {values})"
        partials.append((partial.name, f"if({any_number} IS NULL, NULL, {struct})"))
    if not 0 < len(ties) <= _MOST_PAIRS:
        return None
    return ByHash(tuple(aggregates), tuple(partials), f"coalesce({' OR '.join(ties)}, false)")


def _bits(grid: Grid) -> int:
    """Return how many bits a number has below the time since the start of a bucket."""
    match grid:
        case FixedGrid():
            width = grid.width
        case CalendarGrid():
            lattice = grid.wall.lattice
            micros = lattice.width if isinstance(lattice, FixedLattice) else lattice.months * _LONGEST_MONTH
            width = grid.instant_of(micros + DAY)  # a wall clock may be put back by a day
        case _:
            return 0
    return _NUMBER_BITS - width.bit_length()


def _values_of(pick: Pick, spark_type: str) -> Mapping[str, str] | None:
    """Return SQL of what a pick stores beside the time, by field of its struct; None if a value may share its hash with another."""
    inside = spark_type.removeprefix("struct<").removesuffix(">")
    types = dict(_FIELD.findall(inside))
    if len(_FIELD.sub("", inside)) or not pick.columns or not all(map(_is_reversible, types.values())):
        return None
    others = {f"o{i}": quoted(column) for i, column in enumerate(pick.columns) if i}
    found = others | {"v": pick.value}
    return found if types.keys() == {"o0", *found} else None


def _pairs(sql: str, bits: int) -> Iterator[tuple[str, str]]:
    """Yield numbers that order rows by time and then by some bits of a value, and the same with the bits reversed."""
    time, mask = f"shiftleft({quoted(OFFSET)}, {bits})", (1 << bits) - 1
    for done in range(0, _VALUE_BITS, bits):
        if done:
            part = f"(shiftrightunsigned(xxhash64({sql}), {done - 1}) & {mask}L)"
        else:
            part = f"(if({sql} IS NULL, 0L, 1L) | (shiftleft(xxhash64({sql}), 1) & {mask}L))"
        yield f"{time} | {part}", f"{time} | ({mask}L - {part})"


def _has_place(spark_type: str) -> bool:
    return spark_type in _SIMPLE or decimal_of(spark_type) is not None


def _is_reversible(spark_type: str) -> bool:
    digits = decimal_of(spark_type)
    return spark_type in _SIMPLE if digits is None else digits[0] <= _SHORT_DECIMAL
