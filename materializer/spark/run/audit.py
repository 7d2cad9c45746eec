"""Checks over a frame: all of them in one aggregation, and the rows that failed afterwards.

Rows that must be unique are counted by a window and not by a distinct count, so that the number of offending rows comes out
of the same job, and the same predicate finds them. Adaptive execution is off meanwhile: it makes a job of every shuffle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from materializer.core.compiled.definition import Definition, quoted
from materializer.core.quality import builtin
from materializer.core.quality.checks import Check
from materializer.core.quality.failing import Failing, FailingRow
from materializer.core.quality.verdict import Finding
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import SpanSet
from materializer.spark.query.bucket_sql import bucket_start_sql, instant_of_sql
from materializer.spark.runtime.failures import spoken

MOST_BUCKETS: Final = 10_000
"""Failing buckets of one check that are fetched; more count as all of them."""
_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_COPIES: Final = "materializer copies "
_CHECK: Final = "materializer check"


def columns_of(frame: DataFrame) -> Mapping[str, str]:
    """Return name → Spark type of a frame's columns, in order."""
    return MappingProxyType({f.name: f.dataType.simpleString() for f in frame.schema})


def audit(frame: DataFrame, checks: Sequence[Check]) -> list[Finding]:
    """Answer *checks* about *frame* in one Spark job; none when they need no aggregate.

    Raises:
        DataError: If a row makes an expression fail.
        SparkError: If Spark refuses an expression, such as a pattern that Java does not understand.
    """
    seen, windows = _windowed(frame, checks)
    wanted = {sql for check in checks for sql in _aggregates(check, windows)}
    names = {sql: f"a_{i}" for i, sql in enumerate(sorted(wanted))}
    found: Mapping[str, Any] = {}
    if names:
        with spoken("auditing"), _one_job(frame):
            row = seen.agg(*[sf.expr(sql).alias(name) for sql, name in names.items()]).collect()[0]
        found = {sql: row[name] for sql, name in names.items()}
    return [check.finding([found[sql] for sql in _aggregates(check, windows)]) for check in checks]


def failing(
    frame: DataFrame,
    checks: Sequence[Check],
    findings: Sequence[Finding],
    bucket: str,
    *,
    most: int,
    start_sql: str = "",
) -> Failing:
    """Return the rows and buckets that the failed *checks* failed on; two Spark jobs, none when nothing failed.

    Args:
        frame: What was audited.
        checks: What was checked.
        findings: The answers, in the same order.
        bucket: Column that holds the bucket of a row: a date, a timestamp or an integer.
        most: Rows to fetch of each check.
        start_sql: Start of a row's bucket, in the type of *bucket*, where that holds times inside buckets: there are more
            of those than can be fetched.
    """
    failed = [check for check, finding in zip(checks, findings, strict=True) if not finding.success]
    buckets: dict[tuple[int, str], frozenset[Any] | None] = {(c.index, c.type): None for c in failed}
    about_rows = [(i, c) for i, c in enumerate(failed) if c.failing is not None]
    if not about_rows:
        return Failing((), buckets)
    seen, windows = _windowed(frame, [c for _, c in about_rows])
    tests = [(i, sf.expr(_predicate(c, windows))) for i, c in about_rows]
    with spoken("looking for the rows that failed"), _one_job(frame):
        parts = [
            seen.where(test).limit(most).select(*map(_column, frame.columns), sf.lit(i).alias(_CHECK))
            for i, test in tests
        ]
        rows = reduce(DataFrame.unionAll, parts).collect()
        place = sf.struct(sf.expr(instant_of_sql(start_sql or quoted(bucket), TimeType(columns_of(frame)[bucket]))))
        found_at = ((i, sf.collect_set(sf.when(test, place))) for i, test in tests)
        sets = [sf.slice(places, 1, MOST_BUCKETS + 1).alias(f"s_{i}") for i, places in found_at]
        held = seen.agg(*sets).collect()[0]
    for i, check in about_rows:
        if len(held[f"s_{i}"]) <= MOST_BUCKETS:
            buckets[check.index, check.type] = frozenset(entry[0] for entry in held[f"s_{i}"])
    found = [(failed[r[_CHECK]], {n: r[n] for n in frame.columns}) for r in rows]
    return Failing(tuple(FailingRow(c.index, c.type, values) for c, values in found), buckets)


def built_in(definition: Definition, columns: Collection[str], spans: SpanSet, source_rows: int | None) -> list[Check]:
    """Return the checks that need no suite, for the output rows of a definition.

    Args:
        definition: What was computed.
        columns: Columns of the frame.
        spans: Where its buckets lie.
        source_rows: Rows of the source in *spans* that count; None when not known.
    """
    spec = definition.spec
    start = spec.bucket_start
    by = [n for n in (start or spec.bucket_end, *(k.name for k in spec.keys)) if n]
    checks = [builtin.unique(by)] if definition.engine is None and set(by) <= set(columns) else []
    if definition.engine is None and start in columns and start is not None:
        checks.append(builtin.on_grid(start, bucket_start_sql(definition.grid, quoted(start), spans)))
    counting = builtin.counting_column(definition)
    if counting in columns and counting is not None and source_rows is not None:
        checks.append(builtin.adds_up(counting, source_rows))
    return checks


def _windowed(frame: DataFrame, checks: Sequence[Check]) -> tuple[DataFrame, dict[tuple[str, ...], str]]:
    """Return the frame with a column for each set of columns that rows are compared by, and the columns' names."""
    alike = dict.fromkeys(c.failing.alike for c in checks if c.failing is not None and c.failing.alike)
    windows = {columns: f"{_COPIES}{i}" for i, columns in enumerate(alike)}
    copies = {c.failing.alike: c.failing.copies_sql for c in checks if c.failing is not None and c.failing.alike}
    added = {name: sf.expr(copies[columns]) for columns, name in windows.items()}
    return (frame.withColumns(added) if added else frame), windows


def _aggregates(check: Check, windows: Mapping[tuple[str, ...], str]) -> list[str]:
    if check.failing is None or not check.failing.alike:
        return list(check.aggregates)
    copies = quoted(windows[check.failing.alike])
    return [check.failing.over(copies, sql) for sql in check.aggregates]


def _predicate(check: Check, windows: Mapping[tuple[str, ...], str]) -> str:
    assert check.failing is not None
    where = check.failing
    return where.over(quoted(windows[where.alike])) if where.alike else where.sql


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
