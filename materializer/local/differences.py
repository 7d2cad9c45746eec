"""How the rows of two outputs differ, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct

from materializer.local.comparison import TOLERANCE
from materializer.local.connection import opened
from materializer.local.forms import OURS
from materializer.local.kinds import quoted

_ROW: Final = f"{OURS}row"


class Law(StrEnum):
    """When two values count as the same."""

    EXACT = "exact"
    FLOAT = "float"
    RANK = "rank"
    """Of sketches: where both are null or none is; other values are counted, and are no difference."""


class ComparedColumn(Struct, frozen=True):
    """A column of both outputs.

    Args:
        name: Its name.
        law: When two values of it count as the same.
        is_number: Whether it has numbers on both sides.
        is_list: Whether it has lists of doubles on both sides.
    """

    name: str
    law: Law = Law.EXACT
    is_number: bool = False
    is_list: bool = False


class ColumnDifference(Struct, frozen=True):
    """How a column differs in the groups that both outputs have.

    Args:
        name: The column.
        rows: In how many groups.
        largest: The largest difference of two finite numbers; None for other values.
        law: When two values of it count as the same.
    """

    name: str
    rows: int
    largest: float | None
    law: Law


class GroupDifference(Struct, frozen=True):
    """A group that differs.

    Args:
        place: Its bucket and keys.
        here: Its differing values here, by column; None if it is not here.
        there: Its differing values there, by column; None if it is not there.
    """

    place: dict[str, Any]
    here: dict[str, Any] | None
    there: dict[str, Any] | None


class RowDifferences(Struct, frozen=True):
    """How the rows of two outputs differ.

    Args:
        equal: Groups that are equal.
        only_here: Groups without a counterpart there.
        only_there: Groups without a counterpart here.
        differing: Groups that both have and whose values differ.
        columns: The columns that differ.
        examples: The first differing groups, in the order of bucket and keys.
    """

    equal: int
    only_here: int
    only_there: int
    differing: int
    columns: tuple[ColumnDifference, ...]
    examples: tuple[GroupDifference, ...]


def compared(
    here: pa.Table, there: pa.Table, place: Sequence[str], columns: Sequence[ComparedColumn], *, limit: int
) -> RowDifferences:
    """Compare two tables of output rows that have the same names of columns.

    Args:
        here: Rows of one output.
        there: Rows of the other.
        place: The columns of the bucket and the keys, in which null equals null.
        columns: The columns that are compared.
        limit: How many differing groups are returned.

    Raises:
        NotLocal: If this process cannot compare them, for example because they take too much memory.
    """
    both = f"h.{_ROW} IS NOT NULL AND t.{_ROW} IS NOT NULL"
    differs = f"({both}) AND NOT ({' AND '.join([_is_same(c) for c in columns] or ['true'])})"
    counts = [
        f"count(*) FILTER (WHERE t.{_ROW} IS NULL) AS only_here",
        f"count(*) FILTER (WHERE h.{_ROW} IS NULL) AS only_there",
        f"count(*) FILTER (WHERE {differs}) AS differing",
        f"count(*) FILTER (WHERE {both}) AS common",
    ]
    for at, column in enumerate(columns):
        counts += [
            f"count(*) FILTER (WHERE ({both}) AND {_is_other(column)}) AS n_{at}",
            f"{_largest(column, both)} AS m_{at}",
        ]
    sides = [_numbered(side, place, columns) for side in ("here", "there")]
    on = " AND ".join(f"h.{name} IS NOT DISTINCT FROM t.{name}" for name in (*map(quoted, place), _ROW))
    pairs = f"FROM ({sides[0]}) h FULL OUTER JOIN ({sides[1]}) t ON {on}"
    with opened() as connection:
        connection.register("here", here)
        connection.register("there", there)
        [found] = connection.query(f"SELECT {', '.join(counts)} {pairs}").to_pylist()
        examples: list[dict[str, Any]] = []
        if limit and (found["only_here"] or found["only_there"] or found["differing"]):
            values = [f"coalesce(h.{name}, t.{name}) AS p_{at}" for at, name in enumerate(map(quoted, place))]
            values += [f"h.{_ROW} AS h, t.{_ROW} AS t"]
            for at, column in enumerate(columns):
                values.append(
                    f"h.{quoted(column.name)} AS h_{at}, t.{quoted(column.name)} AS t_{at}, {_is_other(column)} AS d_{at}"
                )
            order = ", ".join(f"p_{at} NULLS FIRST" for at in range(len(place)))
            either = f"WHERE h.{_ROW} IS NULL OR t.{_ROW} IS NULL OR ({differs}) ORDER BY {order} LIMIT {limit}"
            examples = connection.query(f"SELECT {', '.join(values)} {pairs} {either}").to_pylist()
    differing = [(c, found[f"n_{at}"], found[f"m_{at}"]) for at, c in enumerate(columns)]
    return RowDifferences(
        found["common"] - found["differing"],
        found["only_here"],
        found["only_there"],
        found["differing"],
        tuple(ColumnDifference(c.name, rows, largest, c.law) for c, rows, largest in differing if rows),
        tuple(_example(row, place, columns) for row in examples),
    )


def _numbered(side: str, place: Sequence[str], columns: Sequence[ComparedColumn]) -> str:
    """Return SQL of the rows of one side; rows of one group, which engines may have, are numbered by their values."""
    by, values = (", ".join(map(quoted, names)) for names in (place, [c.name for c in columns]))
    order = f" ORDER BY {values}" if values else ""
    return f"SELECT *, row_number() OVER (PARTITION BY {by}{order}) AS {_ROW} FROM {side}"


def _is_same(column: ComparedColumn) -> str:
    if column.law is Law.RANK:
        name = quoted(column.name)
        return f"((h.{name} IS NULL) = (t.{name} IS NULL))"
    return f"NOT {_is_other(column)}"


def _is_other(column: ComparedColumn) -> str:
    """Return SQL that holds where two values are not the same; never null."""
    here, there = (f"{side}.{quoted(column.name)}" for side in "ht")
    same = f"{here} IS NOT DISTINCT FROM {there}"
    if column.law is Law.FLOAT and column.is_number:
        same += f" OR coalesce({_near(here, there)}, false)"
    elif column.law is Law.FLOAT and column.is_list:
        each = f"x[1] IS NOT DISTINCT FROM x[2] OR coalesce({_near('x[1]', 'x[2]')}, false)"
        near = f"len({here}) = len({there}) AND len(list_filter(list_zip({here}, {there}), lambda x: {each})) = len({here})"
        same += f" OR coalesce({near}, false)"
    return f"(NOT ({same}))"


def _near(here: str, there: str) -> str:
    a, b = (f"CAST({value} AS DOUBLE)" for value in (here, there))
    most = f"{TOLERANCE} * greatest(abs({a}), abs({b}), 1)"
    return f"(isfinite({a}) AND isfinite({b}) AND abs({a} - {b}) <= {most})"


def _largest(column: ComparedColumn, both: str) -> str:
    if not column.is_number:
        return "NULL"
    a, b = (f"CAST({side}.{quoted(column.name)} AS DOUBLE)" for side in "ht")
    return f"max(abs({a} - {b})) FILTER (WHERE ({both}) AND {_is_other(column)} AND isfinite({a}) AND isfinite({b}))"


def _example(row: dict[str, Any], place: Sequence[str], columns: Sequence[ComparedColumn]) -> GroupDifference:
    where = {name: row[f"p_{at}"] for at, name in enumerate(place)}
    is_pair = row["h"] is not None and row["t"] is not None
    shown = [
        (at, c.name)
        for at, c in enumerate(columns)
        if not is_pair or (row[f"d_{at}"] and (c.law is not Law.RANK or None in (row[f"h_{at}"], row[f"t_{at}"])))
    ]
    here, there = (
        None if row[side] is None else {name: row[f"{side}_{at}"] for at, name in shown} for side in ("h", "t")
    )
    return GroupDifference(where, here, there)
