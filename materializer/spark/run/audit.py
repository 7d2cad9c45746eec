"""Run quality checks over a frame: all checks in one aggregation, then the rows that failed.

A window, not a distinct count, finds rows that are not unique: the same job then counts the offending rows, and the same
predicate selects them. Adaptive execution is off during the checks, because it makes a job of every shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from msgspec import Struct, field
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from materializer.core.compiled.bucket_sql import instant_of_sql
from materializer.core.quality.checks import COPIES, Check, copies_of
from materializer.core.quality.failing import MOST_BUCKETS, Failing, FailingRow
from materializer.core.quality.verdict import Finding
from materializer.core.spec.spec import TimeType
from materializer.core.spec.table_names import quoted
from materializer.spark.runtime.failures import spoken

if TYPE_CHECKING:
    from materializer.lake.computed import Computed

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_COPIES: Final = "materializer copies "
_CHECK: Final = "materializer check"
_COMPARABLE: Final = frozenset(
    {"tinyint", "smallint", "int", "bigint", "boolean", "string", "date", "timestamp", "timestamp_ntz"}
)
"""Types whose values are equal for Arrow if and only if they are equal for Spark: no collation, no NaN, no negative zero."""


def columns_of(frame: DataFrame) -> Mapping[str, str]:
    """Return the Spark type of each column of a frame, by name and in order."""
    return MappingProxyType({f.name: f.dataType.simpleString() for f in frame.schema})


class RowsToCheck(Struct, frozen=True):
    """The rows that checks are about.

    Args:
        columns: Spark type of each column, by name and in order.
        frame: Returns the rows as a frame; called only when Spark has to read them.
        answers: Known values of SQL aggregates over the rows, by SQL; see :attr:`Check.questions`.
    """

    columns: Mapping[str, str]
    frame: Callable[[], DataFrame]
    answers: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: DataFrame) -> RowsToCheck:
        """Return the rows of a frame, of which nothing is known."""
        return cls(columns_of(frame), lambda: frame)

    def audit(self, checks: Sequence[Check]) -> list[Finding]:
        """Return a finding for each check, from one Spark job; from none if all answers are known.

        Raises:
            DataError: If a row makes an expression fail.
            SparkError: If Spark refuses an expression, such as a pattern that Java does not understand.
        """
        left = [check for check in checks if not self.answers.keys() >= set(check.questions)]
        found = dict(self.answers)
        if any(check.aggregates for check in left):
            frame = self.frame()
            seen, windows = _windowed(frame, left)
            wanted = {q: sql for c in left for q, sql in zip(c.questions, c.asked(windows), strict=True)}
            names = {sql: f"a_{i}" for i, sql in enumerate(sorted(set(wanted.values())))}
            with spoken("auditing"), _one_job(frame):
                row = seen.agg(*[sf.expr(sql).alias(name) for sql, name in names.items()]).collect()[0]
            found |= {question: row[names[sql]] for question, sql in wanted.items()}
        return [check.finding([found[question] for question in check.questions]) for check in checks]

    def failing(
        self, checks: Sequence[Check], findings: Sequence[Finding], bucket: str, *, most: int, start_sql: str = ""
    ) -> Failing:
        """Return the rows and buckets on which checks failed; this takes two Spark jobs, or none if nothing failed.

        Args:
            checks: The checks.
            findings: The findings of *checks*, in the same order.
            bucket: Column that holds the bucket of a row: a date, a timestamp or an integer.
            most: Maximum number of rows to fetch for each check.
            start_sql: Start of a row's bucket, in the type of *bucket*. It is needed where *bucket* holds times inside buckets,
                because there are more of those times than can be fetched.
        """
        failed = [check for check, finding in zip(checks, findings, strict=True) if not finding.success]
        buckets: dict[tuple[int, str], frozenset[Any] | None] = {(c.index, c.type): None for c in failed}
        about_rows = [(i, c) for i, c in enumerate(failed) if c.failing is not None]
        if not about_rows:
            return Failing((), buckets)
        frame = self.frame()
        seen, windows = _windowed(frame, [c for _, c in about_rows])
        tests = [(i, sf.expr(c.predicate(windows))) for i, c in about_rows]
        with spoken("looking for the rows that failed"), _one_job(frame):
            parts = [
                seen.where(test).limit(most).select(*map(_column, frame.columns), sf.lit(i).alias(_CHECK))
                for i, test in tests
            ]
            examples = reduce(DataFrame.unionAll, parts).collect()
            place = sf.struct(sf.expr(instant_of_sql(start_sql or quoted(bucket), TimeType(self.columns[bucket]))))
            found_at = ((i, sf.collect_set(sf.when(test, place))) for i, test in tests)
            sets = [sf.slice(places, 1, MOST_BUCKETS + 1).alias(f"s_{i}") for i, places in found_at]
            held = seen.agg(*sets).collect()[0]
        for i, check in about_rows:
            if len(held[f"s_{i}"]) <= MOST_BUCKETS:
                buckets[check.index, check.type] = frozenset(entry[0] for entry in held[f"s_{i}"])
        found = [(failed[r[_CHECK]], {n: r[n] for n in frame.columns}) for r in examples]
        return Failing(tuple(FailingRow(c.index, c.type, values) for c, values in found), buckets)


def answers_of(computed: Computed, checks: Sequence[Check], columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the answers to questions of checks that a computation holds, without Spark.

    They are the metrics that were evaluated on the way and, where the output was fetched and has no two rows that are
    alike, the number of rows that are alike: 0.

    Args:
        computed: The computation.
        checks: Checks of its output.
        columns: Spark type of each output column.
    """
    found = dict(computed.metrics)
    for check in checks:
        if (
            check.failing is not None
            and check.failing.alike
            and computed.is_fetched
            and _is_distinct(computed.output, check.failing.alike, columns)
        ):
            asked = zip(check.aggregates, check.questions, strict=True)
            found |= {question: 0 for sql, question in asked if COPIES in sql}
    return found


def _is_distinct(rows: pa.Table, names: Sequence[str], columns: Mapping[str, str]) -> bool:
    """Whether no two rows have equal values in all of some columns; False where Arrow may not compare as Spark does."""
    if not all(columns[name] in _COMPARABLE for name in names):
        return False
    return bool(rows.select(list(names)).group_by(list(names)).aggregate([]).num_rows == rows.num_rows)


def _windowed(frame: DataFrame, checks: Sequence[Check]) -> tuple[DataFrame, dict[tuple[str, ...], str]]:
    """Return the frame with one column for each set of columns that rows are compared by, and the names of these columns."""
    windows = copies_of(checks, _COPIES)
    copies = {c.failing.alike: c.failing.copies_sql for c in checks if c.failing is not None and c.failing.alike}
    added = {name: sf.expr(copies[columns]) for columns, name in windows.items()}
    return (frame.withColumns(added) if added else frame), windows


def _column(name: str) -> Any:
    return sf.col(quoted(name))


@contextmanager
def _one_job(frame: DataFrame) -> Iterator[None]:
    conf = frame.sparkSession.conf
    before = conf.get(_ADAPTIVE)
    conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        conf.set(_ADAPTIVE, str(before))
