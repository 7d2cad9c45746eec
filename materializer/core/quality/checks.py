"""A check: SQL aggregates over a frame, and a pure function from their values to a finding.

Everything that is audited by Spark itself is one of these, whether it was compiled from an expectation or is built in, so
that any number of them run in one aggregation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from materializer.core.compiled.definition import quoted
from materializer.core.quality.verdict import Finding, Severity

ROWS_SQL: Final = "count(*)"
COPIES: Final = "{copies}"
"""Stands in a predicate for the number of rows that are alike."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the values of a check say.

    Args:
        success: Whether it is met.
        observed: The value that was compared, of a check about a whole.
        unexpected: How many rows do not meet it; None where it is not about rows.
        elements: How many rows were looked at; None likewise.
    """

    success: bool
    observed: Any = None
    unexpected: int | None = None
    elements: int | None = None


Judge: TypeAlias = Callable[[Sequence[Any]], Answer]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at.

    Args:
        index: Place of its expectation in the suite, or BUILT_IN.
        type: Type of its expectation, or name of the built-in check.
        kwargs: Arguments, for the finding.
        severity: How much a failure matters.
        aggregates: SQL aggregates over the frame, and over the window columns that *failing* stands for.
        judge: Turns their values, in the same order, into an answer.
        failing: SQL predicate of the rows that do not meet it; None where it is not about rows.
    """

    index: int
    type: str
    kwargs: Mapping[str, Any]
    severity: Severity
    aggregates: tuple[str, ...]
    judge: Judge
    failing: Predicate | None = None

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


@dataclass(frozen=True, slots=True)
class Predicate:
    """Which rows fail.

    Args:
        sql: Boolean SQL over the row, and over :data:`COPIES` when *alike* is given. Null counts as false.
        alike: Columns; rows that agree in all of them, nulls included, are counted.
    """

    sql: str
    alike: tuple[str, ...] = ()

    def over(self, copies: str, sql: str | None = None) -> str:
        """Return the predicate, or other *sql* that speaks of it, with a column for the number of rows that are alike."""
        return (self.sql if sql is None else sql).replace(COPIES, copies)

    @property
    def copies_sql(self) -> str:
        """How many rows are like this one, as a window function."""
        return f"count(1) OVER (PARTITION BY {', '.join(map(quoted, self.alike))})"


def repeated(columns: Sequence[str], where: str) -> Predicate:
    """Return the predicate of rows, among those *where* holds, that another row is like."""
    return Predicate(f"({where}) AND {COPIES} > 1", tuple(columns))


def total(value: Any) -> int:
    """Return a count, 0 for the null of an empty frame."""
    return 0 if value is None else int(value)
