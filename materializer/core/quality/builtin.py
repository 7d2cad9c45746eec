"""The checks of every aggregate, even without a suite: one row for each bucket and keys, buckets on their grid, and counts that
add up to the rows of the source.

They are critical: a refresh that fails one of them has not computed what the definition says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from materializer.core.compiled.bucket_sql import bucket_start_sql
from materializer.core.compiled.definition import Definition
from materializer.core.quality.checks import COPIES, ROWS_SQL, Answer, Check, Predicate, total
from materializer.core.quality.verdict import BUILT_IN, Severity
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import SpanSet

UNIQUE: Final = "unique_bucket_and_keys"
ON_GRID: Final = "buckets_on_grid"
ADDS_UP: Final = "counts_add_up"


def unique(columns: Sequence[str]) -> Check:
    """Return the check that no two rows have the same bucket and keys; null equals null."""
    return _about_rows(UNIQUE, {"columns": list(columns)}, f"{COPIES} > 1", tuple(columns))


def on_grid(column: str, start_sql: str) -> Check:
    """Return the check that every bucket starts at an edge.

    Args:
        column: Column with the starts of buckets.
        start_sql: SQL of the start of the grid's bucket that contains the value of *column*.
    """
    where = f"NOT coalesce({quoted(column)} = ({start_sql}), false)"
    return _about_rows(ON_GRID, {"column": column}, where)


def adds_up(column: str, source_rows: int) -> Check:
    """Return the check that the counts of all groups add up to the source rows that the groups contain.

    Args:
        column: Column that counts the rows of a group; see :func:`counting_column`.
        source_rows: Number of source rows in the same range that have a time and pass the filter.
    """

    def judge(values: Sequence[Any]) -> Answer:
        counted = total(values[0])
        return Answer(counted == source_rows, counted)

    kwargs = {"column": column, "source_rows": source_rows}
    return Check(BUILT_IN, ADDS_UP, kwargs, Severity.CRITICAL, (f"sum({quoted(column)})",), judge)


def counting_column(definition: Definition) -> str | None:
    """Return the output column that is ``count(*)`` of all rows of a group; None without a column that must add up.

    With HAVING some groups are left out, so the counts need not add up. Results of an engine are not groups of rows.
    """
    if definition.spec.having or definition.engine is not None:
        return None
    for measure in definition.spec.measures:
        formula = measure.formula
        if formula.pieces == (0,) or [p for p in formula.pieces if p != ""] == [0]:
            call = formula.calls[0]
            if call.function == "count" and call.args == ("*",) and call.where is None and not call.distinct:
                return measure.name
    return None


def built_in(definition: Definition, columns: Collection[str], spans: SpanSet, source_rows: int | None) -> list[Check]:
    """Return the checks of a definition's output rows that need no suite.

    Args:
        definition: The definition of the output.
        columns: Columns of the rows.
        spans: The spans of the rows' buckets.
        source_rows: Number of source rows in *spans* that count; None if unknown.
    """
    spec = definition.spec
    start = spec.bucket_start
    by = [*spec.edges[:1], *(k.name for k in spec.keys)]
    checks = [unique(by)] if definition.engine is None and set(by) <= set(columns) else []
    if definition.engine is None and start in columns and start is not None:
        checks.append(on_grid(start, bucket_start_sql(definition.grid, quoted(start), spans)))
    counting = counting_column(definition)
    if counting in columns and counting is not None and source_rows is not None:
        checks.append(adds_up(counting, source_rows))
    return checks


def _about_rows(name: str, kwargs: dict[str, Any], where: str, alike: tuple[str, ...] = ()) -> Check:
    def judge(values: Sequence[Any]) -> Answer:
        rows, wrong = map(total, values)
        return Answer(wrong == 0, None, wrong, rows)

    aggregates = (ROWS_SQL, f"count_if({where})")
    return Check(BUILT_IN, name, kwargs, Severity.CRITICAL, aggregates, judge, Predicate(where, alike))
