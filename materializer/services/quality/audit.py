"""Auditing a frame: what can be compiled by one Spark aggregation, what is left by Great Expectations.

The library is an adapter that this package does not know; it is looked up by name when a suite needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from materializer.core.quality.checks import Check
from materializer.core.quality.compiled import compiled, plain
from materializer.core.quality.failing import Failing, FailingRow
from materializer.core.quality.library import Library
from materializer.core.quality.suite import Expectation, Suite
from materializer.core.quality.verdict import Verdict
from materializer.spark.run import audit as in_spark
from materializer.spark.run.audit import RowsToCheck
from materializer.spark.runtime.jvm import refuse_dead

MOST_ROWS: Final = 100
"""Failing rows of one expectation that are fetched."""


@dataclass(frozen=True, slots=True)
class AuditResult:
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


@dataclass(frozen=True, slots=True)
class CompiledSuite:
    """A suite that is bound to its parameters and compiled for the columns of some rows.

    Args:
        suite: The suite, with the values of its parameters.
        checks: What is compiled.
        left: What only Great Expectations can evaluate.
    """

    suite: Suite
    checks: tuple[Check, ...]
    left: tuple[Expectation, ...]

    @classmethod
    def of(
        cls, suite: Suite | None, parameters: Mapping[str, Any], columns: Mapping[str, str], *, is_compiled: bool = True
    ) -> CompiledSuite:
        """Compile *suite*; see :func:`audit`.

        Raises:
            DefinitionError: If a parameter has no value.
        """
        aggregate = Suite("", ()) if suite is None else suite.bound(parameters)
        expectations = [plain(e, columns) for e in aggregate.expectations]
        found = [(e, compiled(e, columns) if is_compiled else None) for e in expectations]
        checks = tuple(check for _, check in found if check is not None)
        return cls(aggregate, checks, tuple(e for e, check in found if check is None))


def audit(
    rows: RowsToCheck,
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
        built_in: Checks besides the suite's; see :func:`materializer.spark.run.audit.built_in`.
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
    findings = in_spark.audit(rows, checks)
    failing = Failing()
    if most:
        failing = in_spark.failing(rows, checks, findings, bucket_column, most=most, start_sql=bucket_sql)
    if asked.left:
        frame = rows.frame()
        answers, where = library().examine(frame, asked.suite, asked.left, bucket_column, most=most)
        refuse_dead(frame, "auditing")  # the library tells of failures as of expectations that are not met
        findings, failing = [*findings, *answers], failing | where
    findings.sort(key=lambda f: f.index)
    verdict = Verdict(asked.suite.name, tuple(findings), dict(parameters))
    return AuditResult(verdict, failing.rows, failing.critical_buckets(findings))
