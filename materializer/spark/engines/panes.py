"""Aggregate rows into panes, and panes into overlapping windows, so that each row is read once.

A pane is the interval between two neighbouring edges of the grid; a window is a run of neighbouring panes. If every measure
can be merged, the query first aggregates rows by pane and then merges each pane's partials into all its windows. Otherwise each
row goes into each of its windows.

Intermediate columns: :data:`PANE` (null for a row that counts in no window but still advances time), :data:`AT` (the window, by
the name that the engine gives it), measures as ``v_<name>``, ``n``, ``first_t``, ``last_t``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from materializer.core.engines.engine_query import KNOWN_MAX, EngineQuery
from materializer.core.spec.table_names import quoted
from materializer.spark.engines.groups import COUNTS, Columns, aggregated, grouped

PANE: Final = "_pane"
AT: Final = "_at"
SIZE: Final = "_size"
KEY_MAX: Final = "_key_max"
PART_MAX: Final = "_part_max"
KNOWN: Final = "_known"
_COUNTS: Final = (*COUNTS, (KNOWN, f"max({KNOWN_MAX})"))
_MERGED: Final = (
    *(("n", "sum(n)"), ("first_t", "min(first_t)"), ("last_t", "max(last_t)")),
    (KNOWN, f"max({KNOWN})"),
)


def value(measure: str) -> str:
    """Return the column of a measure, as an SQL identifier."""
    return quoted(f"v_{measure}")


def over_rows(rows: DataFrame, e: EngineQuery, groups: Sequence[str], extra: Columns = ()) -> DataFrame:
    """Aggregate rows by *groups*, with measures in their reference form.

    Args:
        rows: Raw rows with the columns of *groups*.
        e: The definition.
        groups: Columns to group by.
        extra: Further (name, aggregate) columns.

    Shape:
        *groups*, ``v_<measure>``, ``n``, ``first_t``, ``last_t``, :data:`KNOWN`, *extra*. Grain: *groups*.
    """
    return aggregated(rows, groups, e, [(KNOWN, f"max({KNOWN_MAX})"), *extra])


def over_windows(
    rows: DataFrame,
    e: EngineQuery,
    marks: Sequence[str],
    windows: str,
    *,
    then: Callable[[DataFrame], DataFrame] | None = None,
    extra: Columns = (),
) -> DataFrame:
    """Aggregate rows into windows that overlap.

    Args:
        rows: Raw rows with the columns *marks*.
        e: The definition.
        marks: Columns that are equal for all rows of a pane; *windows* refers to these columns.
        windows: SQL of an array of structs, one for each window of a pane; null or empty for none. Its fields become columns.
        then: A step that is applied to panes in windows before they are merged; columns that it adds are grouping columns too.
        extra: Further (name, aggregate) columns, over *marks* and fields.

    Shape:
        Keys, part, the fields (null for rows in no window), ``v_<measure>``, ``n``, ``first_t``, ``last_t``, *extra*.
    """
    is_merged = e.layout.is_mergeable
    builds = [(p.name, p.build) for p in e.layout.partials]
    panes = grouped(rows, [*e.groups, *marks], [*builds, *_COUNTS], e) if is_merged else rows
    placed = panes.select("*", sf.expr(f"explode_outer({windows})").alias("_w")).select("*", "_w.*").drop("_w")
    placed = then(placed) if then else placed
    groups = [*e.groups, *(f for f in placed.columns if f not in panes.columns)]
    if not is_merged:
        return over_rows(placed, e, groups, extra)
    merges = [(p.name, p.merge) for p in e.layout.partials if p.merge is not None]
    merged = grouped(placed, groups, [*merges, *_MERGED, *extra], e)
    finals = [sf.expr(sql).alias(f"v_{name}") for name, sql in e.layout.finals]
    return merged.select("*", *_key_names(e, merged.columns)).select(
        *groups, *finals, *[n for n, _ in _MERGED], *[n for n, _ in extra]
    )


def sizes_side_by_side(found: DataFrame, e: EngineQuery, sizes: Sequence[int]) -> DataFrame:
    """Join windows of several sizes that end together into one row.

    Args:
        found: Windows with :data:`AT` and :data:`SIZE`, the index of a size.
        e: The definition.
        sizes: The index of the size of each measure.

    Shape:
        Keys, part, :data:`AT`, ``v_<measure>`` (null where its size has no rows), ``n``, ``first_t``, ``last_t`` of the
        largest window, and :data:`SIZE`: the number of sizes that have rows.
    """
    columns = [
        (f"v_{name}", f"any_value({value(name)}) FILTER (WHERE {SIZE} = {size})")
        for name, size in zip(e.measures, sizes, strict=True)
    ]
    whole = [("n", "max(n)"), *_MERGED[1:], (SIZE, f"count({SIZE})")]
    return grouped(found, [*e.groups, AT], [*columns, *whole], e)


def with_newest(found: DataFrame, e: EngineQuery) -> DataFrame:
    """Add the newest time of the key and of the part; call it before the rows that are in no window are dropped.

    Shape:
        *found* with :data:`KEY_MAX` and :data:`PART_MAX`, both bigint.
    """
    by_key, by_part = Window.partitionBy(*e.keys), Window.partitionBy(*e.groups)
    newest = sf.greatest(sf.max("last_t").over(by_key), sf.max(KNOWN).over(by_key))
    return found.select("*", newest.alias(KEY_MAX), sf.max("last_t").over(by_part).alias(PART_MAX))


def filled_value(kind: str, literal: str, measure: str, sql_type: str) -> str:
    """Return the SQL of a measure's value in a window without rows."""
    if kind == "ffill":
        return value(measure)
    return "NULL" if kind == "null" else f"CAST({literal} AS {sql_type})"


def _key_names(e: EngineQuery, columns: Sequence[str]) -> list[Column]:
    """Return keys under their output names too, because the final expressions may use these names."""
    taken = {c.lower() for c in columns}
    names = [k.removeprefix("k_") for k in e.keys]
    return [sf.col(quoted(f"k_{n}")).alias(n) for n in names if n.lower() not in taken]
