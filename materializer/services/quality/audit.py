"""Auditing rows: what can be compiled by one aggregation, in Spark or in this process; what is left by Great Expectations.

The library is an adapter that this package does not know; it is looked up by name when a suite needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.quality.checks import Check
from materializer.core.quality.compiled import CompiledSuite
from materializer.core.quality.failing import Failing, FailingRow
from materializer.core.quality.library import Library
from materializer.core.quality.suite import Suite
from materializer.core.quality.verdict import Finding, Verdict
from materializer.core.time.fetched import zoned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS: Final = 100
"""Failing rows of one expectation that are fetched."""


class Auditable(Protocol):
    """The rows that checks are about, in Spark or in this process."""

    @property
    def columns(self) -> Mapping[str, str]:
        """Spark type of each column, by name and in order."""

    @property
    def frame(self) -> Callable[[], DataFrame]:
        """Returns the rows as a frame of Spark."""

    def audit(self, checks: Sequence[Check]) -> list[Finding]:
        """Return a finding for each check."""

    def failing(
        self, checks: Sequence[Check], findings: Sequence[Finding], bucket: str, *, most: int, start_sql: str = ""
    ) -> Failing:
        """Return the rows and buckets on which checks failed."""


class AuditResult(Struct, frozen=True):
    """What an audit found.

    Args:
        verdict: The answers.
        rows: Failing rows of every severity, bounded for each expectation.
        buckets: Buckets that must not be published, each as one or more instants inside it: those with a row that fails
            something critical. Empty when nothing critical failed; None, for all, when a critical failure cannot be put down to rows.
    """

    verdict: Verdict
    rows: tuple[FailingRow, ...]
    buckets: frozenset[Any] | None


def audit(
    rows: Auditable,
    suite: Suite | None,
    parameters: Mapping[str, Any] = MappingProxyType({}),
    bucket_column: str = "slice",
    *,
    library: Library,
    built_in: Sequence[Check] = (),
    is_compiled: bool = True,
    most: int = MOST_ROWS,
    bucket_sql: str = "",
) -> AuditResult:
    """Answer a suite about some rows.

    Args:
        rows: The rows. Persist their frame first: every job reads it again.
        suite: None for the built-in checks alone.
        parameters: Values for the suite's parameters.
        bucket_column: Holds the bucket of a row: a date, a timestamp or an integer.
        library: Loads the library that evaluates what is not compiled.
        built_in: Checks besides the suite's; see :func:`materializer.core.quality.builtin.built_in`.
        is_compiled: Whether what can be compiled is; else Great Expectations answers the whole suite.
        most: Failing rows to fetch of each expectation; 0 where neither rows nor buckets matter, which saves the jobs that
            look for them: a critical failure is then put down to no bucket.
        bucket_sql: SQL of the start of a row's bucket, where *bucket_column* holds times inside buckets.

    Raises:
        DefinitionError: If a parameter has no value, or Great Expectations refuses an argument.
        QualityLibraryMissingError: If an expectation is left for Great Expectations and it is not installed.
    """
    asked = CompiledSuite.of(suite, parameters, rows.columns, is_compiled=is_compiled)
    checks = [*built_in, *asked.checks]
    findings = rows.audit(checks)
    failing = Failing()
    if most:
        failing = rows.failing(checks, findings, bucket_column, most=most, start_sql=bucket_sql)
    if asked.left:
        from materializer.spark.runtime.jvm import refuse_dead  # noqa: PLC0415 (loads Spark)

        frame = rows.frame()
        answers, where = library().examine(frame, asked.suite, asked.left, bucket_column, most=most)
        refuse_dead(frame, "auditing")  # the library tells of failures as of expectations that are not met
        findings, failing = [*findings, *answers], failing | where
    findings.sort(key=lambda f: f.index)
    verdict = Verdict(asked.suite.name, tuple(findings), dict(parameters))
    seen = tuple(replace(row, values=zoned(row.values, rows.columns)) for row in failing.rows)
    return AuditResult(verdict, seen, failing.critical_buckets(findings))
