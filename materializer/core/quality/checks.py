"""A check: SQL aggregates over a frame, and a pure function from their values to a finding.

Every check that Spark itself evaluates has this form, whether it is compiled from an expectation or built in. So one
aggregation can evaluate any number of checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from materializer.core.quality.verdict import Finding, Severity
from materializer.core.spec.table_names import quoted

ROWS_SQL: Final = "count(*)"
COPIES: Final = "{copies}"
"""Placeholder in a predicate for the number of rows with equal values in the columns ``alike``."""


class Answer(Struct, frozen=True):
    """The result of a check, from its values.

    Args:
        success: Whether the check is met.
        observed: The compared value, for a check about a whole column or table.
        unexpected: Number of rows that do not meet the check; None when it is not about rows.
        elements: Number of rows that were checked; None when it is not about rows.
    """

    success: bool
    observed: Any = None
    unexpected: int | None = None
    elements: int | None = None


Judge: TypeAlias = Callable[[Sequence[Any]], Answer]


class Check(Struct, frozen=True):
    """One check: its SQL aggregates, and the function that judges their values.

    Args:
        index: Position of its expectation in the suite, or BUILT_IN.
        type: Type of its expectation, or name of the built-in check.
        kwargs: Arguments, for the finding.
        severity: How much a failure matters.
        aggregates: SQL aggregates over the frame and over the window column that *failing* refers to.
        judge: Function from their values, in the same order, to an answer.
        failing: SQL predicate of the rows that do not meet the check; None when it is not about rows.
    """

    index: int
    type: str
    kwargs: Mapping[str, Any]
    severity: Severity
    aggregates: tuple[str, ...]
    judge: Judge
    failing: Predicate | None = None

    @property
    def questions(self) -> tuple[str, ...]:
        """:attr:`aggregates` as complete SQL over the frame alone, with the window function in place of :data:`COPIES`."""
        if self.failing is None or not self.failing.alike:
            return self.aggregates
        return tuple(self.failing.over(self.failing.copies_sql, sql) for sql in self.aggregates)

    def asked(self, copies: Mapping[tuple[str, ...], str]) -> tuple[str, ...]:
        """Return :attr:`aggregates` over the frame with a column for each set of columns in *copies*, by their names."""
        if self.failing is None or not self.failing.alike:
            return self.aggregates
        column = quoted(copies[self.failing.alike])
        return tuple(self.failing.over(column, sql) for sql in self.aggregates)

    def predicate(self, copies: Mapping[tuple[str, ...], str]) -> str:
        """Return the predicate of the failing rows of such a frame; see :meth:`asked`."""
        assert self.failing is not None
        return self.failing.over(quoted(copies[self.failing.alike])) if self.failing.alike else self.failing.sql

    def metrics(self, columns: Mapping[str, str]) -> tuple[str, ...]:
        """Return those of :attr:`questions` that a query over the frame can answer on its way.

        They have no window and no distinct values, which Spark refuses, and no sum of decimals: Spark finds its overflow only
        when all rows have passed, then drops the values of the query, so that a reader of them waits for ever.

        Args:
            columns: Spark type of each column.
        """
        decimals = {quoted(name) for name, kind in columns.items() if kind.startswith("decimal")}
        late = {f"{function}({column})" for function in ("sum", "avg") for column in decimals}
        asked = (sql for sql in self.questions if " OVER (" not in sql and "DISTINCT" not in sql)
        return tuple(sql for sql in asked if sql not in late)

    def finding(self, values: Sequence[Any]) -> Finding:
        """Return the finding for the values of :attr:`aggregates`."""
        answer = self.judge(values)
        return Finding(
            self.index,
            self.type,
            self.kwargs,
            self.severity,
            answer.success,
            answer.observed,
            answer.unexpected,
            answer.elements,
        )


class Predicate(Struct, frozen=True):
    """A condition that holds for the rows that fail.

    Args:
        sql: Boolean SQL over the row, and over :data:`COPIES` when *alike* is given. Null counts as false.
        alike: Columns; :data:`COPIES` counts the rows with equal values in all of them, nulls included.
    """

    sql: str
    alike: tuple[str, ...] = ()

    @property
    def copies_sql(self) -> str:
        """The window function that counts the rows with the same values in *alike*."""
        return f"count(1) OVER (PARTITION BY {', '.join(map(quoted, self.alike))})"

    def over(self, copies: str, sql: str | None = None) -> str:
        """Return the predicate, or other *sql* with :data:`COPIES` in it, with column *copies* in place of :data:`COPIES`."""
        return (self.sql if sql is None else sql).replace(COPIES, copies)


def repeated(columns: Sequence[str], where: str) -> Predicate:
    """Return the predicate of rows, among those that fulfil *where*, whose values another row repeats."""
    return Predicate(f"({where}) AND {COPIES} > 1", tuple(columns))


def copies_of(checks: Sequence[Check], prefix: str) -> dict[tuple[str, ...], str]:
    """Return a name that begins with *prefix* for each set of columns in which some checks count equal rows."""
    alike = dict.fromkeys(c.failing.alike for c in checks if c.failing is not None and c.failing.alike)
    return {columns: f"{prefix}{i}" for i, columns in enumerate(alike)}


def total(value: Any) -> int:
    """Return a count; 0 for the null of an empty frame."""
    return 0 if value is None else int(value)
