"""Carry out a query of :mod:`materializer.core.query` with Spark: as a frame, by the public API, so that it also runs over Spark Connect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.group import GroupedData

from materializer.core.query.nodes import (
    EQUAL,
    Columns,
    Explode,
    Filter,
    Frame,
    GroupBy,
    Join,
    Named,
    Over,
    Pass,
    Project,
    Query,
    Union,
)
from materializer.core.spec.table_names import quoted

if TYPE_CHECKING:
    import pyarrow as pa

_MADE: Final = {"double": st.DoubleType(), "bigint": st.LongType()}
"""The types of what a pass makes."""
_HOW: Final = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}


def named(name: str, frame: DataFrame) -> Named:
    """Return the rows of a frame as a query."""
    return Named(name, tuple(frame.dtypes))


def rendered(
    query: Query, frames: Mapping[str, DataFrame], unobserved: Mapping[str, DataFrame] | None = None
) -> DataFrame:
    """Return the rows of a query.

    Args:
        query: The query.
        frames: The rows that it names.
        unobserved: The same rows without an observation, for a second use of them: Spark Connect refuses a query in which one
            observation stands twice.
    """
    known: dict[int, DataFrame] = {}

    def frame(node: Query) -> DataFrame:
        if id(node) not in known:
            known[id(node)] = _frame(node, [frame(taken) for taken in node.inputs], frames, unobserved or {})
        return known[id(node)]

    return frame(query)


def _frame(
    node: Query, of: Sequence[DataFrame], frames: Mapping[str, DataFrame], unobserved: Mapping[str, DataFrame]
) -> DataFrame:
    match node:
        case Named():
            return frames[node.name]
        case Project():
            names = node.input.names
            if node.columns[: len(names)] == tuple((name, quoted(name)) for name in names):
                return of[0].select("*", *_columns(node.columns[len(names) :]))
            return of[0].select(*_columns(node.columns))
        case Filter():
            return of[0].where(node.test)
        case GroupBy():
            by = _columns(node.by)
            if not node.columns:
                return of[0].select(*by).distinct()
            again = rendered(node.input, {**frames, **unobserved}) if node.foreign and unobserved else of[0]
            keys = [name for name, _ in node.by]
            return aggregated(of[0].groupBy(*by), keys, node.columns, node.foreign, again.groupBy(*by))
        case Over():
            over = _framed(_over(node), node.frame)
            return of[0].select("*", *[sf.expr(text).over(over).alias(name) for name, text in node.columns])
        case Pass():
            made = [st.StructField(name, _MADE[kind]) for name, kind in node.made]
            stored = [st.StructField(f.name, f.dataType) for f in of[0].schema]
            grouped = of[0].groupBy(*map(quoted, node.by))
            return grouped.applyInArrow(_passing(node), st.StructType([*stored, *made]))
        case Explode():
            return of[0].select("*", sf.expr(f"explode{'_outer' * node.outer}({node.values})").alias(node.name))
        case Join():
            left, right = of
            on = reduce(Column.__and__, map(_holds, node.on))
            return left.join(sf.broadcast(right) if node.is_small else right, on, _HOW[node.how])
        case Union():
            lacks = any(len(part.names) < len(node.names) for part in node.parts)
            return reduce(lambda all_, more: all_.unionByName(more, allowMissingColumns=lacks), of)
    raise TypeError(node)


def _passing(node: Pass) -> Callable[[pa.Table], pa.Table]:
    """Return the function that Spark's workers run over the rows of a key; it refers to nothing in this package, either."""
    place = node.place
    folds = [(of.fold.code(), of.takes, of.makes) for of in node.folds]

    def passed(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        kinds = {"double": pa.float64(), "bigint": pa.int64()}
        table = table.sort_by(place)
        for code, takes, makes in folds:
            found = code(*(table[name].to_pylist() for name in takes))
            for (name, kind), values in zip(makes, found, strict=True):
                table = table.append_column(name, pa.array(values, kinds[kind]))
        return table

    return passed


def _holds(condition: tuple[str, str, str]) -> Column:
    left, operator, right = condition
    if operator == EQUAL:
        return sf.col(quoted(left)).eqNullSafe(sf.col(quoted(right)))
    return sf.expr(f"{quoted(left)} {operator} {quoted(right)}")


def _over(node: Over) -> WindowSpec:
    # without a key all rows are one partition, which Spark warns of unless it is said
    over = Window.partitionBy(*map(quoted, node.by)) if node.by else Window.partitionBy(sf.lit(0))
    return over.orderBy(*map(quoted, node.order)) if node.order else over


def _framed(over: WindowSpec, frame: Frame | None) -> WindowSpec:
    if frame is None:
        return over
    kind, first, last = frame
    since = Window.unboundedPreceding if first is None else first
    until = Window.unboundedFollowing if last is None else last
    return over.rowsBetween(since, until) if kind == "rows" else over.rangeBetween(since, until)


def _columns(columns: Columns) -> list[Column]:
    return [sf.col(text) if text == quoted(name) else sf.expr(text).alias(name) for name, text in columns]


def aggregated(
    grouped: GroupedData,
    groups: Sequence[str],
    columns: Sequence[tuple[str, str]],
    foreign: Collection[str],
    again: GroupedData | None = None,
) -> DataFrame:
    """Return aggregates of grouped rows.

    Aggregates in Python are grouped separately and joined, because Spark refuses them beside its own aggregates.

    Args:
        grouped: The grouped rows.
        groups: Names of the grouping columns.
        columns: (name, aggregate) of each column.
        foreign: SQL texts of the calls that only the session knows.
        again: The grouped rows for a second use, where the query may not have *grouped* twice.

    Shape:
        *groups*, then *columns*.
    """
    if not columns:
        return grouped.agg(sf.lit(1).alias("materializer one")).select(*[sf.col(quoted(g)) for g in groups])
    own = [(n, sql) for n, sql in columns if not any(f in sql for f in foreign)]
    apart = [(n, sql) for n, sql in columns if any(f in sql for f in foreign)]
    parts = [part for part in (own, apart) if part]
    frames = [
        rows.agg(*[sf.expr(sql).alias(n) for n, sql in part])
        for rows, part in zip((grouped, again or grouped), parts, strict=False)
    ]
    if len(frames) == 1:
        return frames[0]
    right = frames[1].select(
        *[sf.col(quoted(g)).alias(f"r_{g}") for g in groups], *[sf.col(quoted(n)) for n, _ in apart]
    )
    on = sf.expr(" AND ".join(f"{quoted(g)} <=> {quoted('r_' + g)}" for g in groups) or "true")
    return frames[0].join(right, on).select(*[sf.col(quoted(n)) for n in (*groups, *(n for n, _ in columns))])
