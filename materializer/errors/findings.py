"""What was computed or published is not what it should be: exit status 1."""

from __future__ import annotations

from materializer.errors.base import UnwrittenError


class VerifyFailedError(UnwrittenError):
    """An aggregate differs from the result of plain Spark."""

    code = "verify.differs"
    exit_status = 1


class QualityGateError(UnwrittenError):
    """The computed result does not meet the aggregate's expectations; it is not published and stays dirty."""

    code = "quality.gate"
    exit_status = 1
    default_hint = (
        "look at the failing rows, correct the source or the suite, and refresh again; "
        "--publish-anyway REASON publishes it as it is"
    )


class CanaryError(QualityGateError):
    """Buckets that were computed again from their raw rows differ; they are dirty, and the next refresh recomputes them."""

    code = "quality.canary"
    default_hint = (
        "refresh again: the buckets are recomputed from their raw rows; what was expected and found stands among the "
        "failing rows, and 'materializer verify' compares everything"
    )


class QualityCheckError(UnwrittenError):
    """The published output does not meet the aggregate's expectations."""

    code = "quality.check"
    exit_status = 1


class TestFailedError(UnwrittenError):
    """A definition does not make of given rows what a test expects."""

    code = "test.failed"
    exit_status = 1
    __test__ = False
