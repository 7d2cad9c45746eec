"""The places of failed checks: some failing rows, and the buckets that contain failing rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from materializer.core.quality.verdict import Finding, Severity

MOST_BUCKETS: Final = 10_000
"""Maximum number of failing buckets to fetch for one check; if there are more, all buckets count as failing."""


class FailingRow(Struct, frozen=True):
    """A row that does not meet an expectation.

    Args:
        index: Position of the expectation in the suite, or BUILT_IN.
        type: Type of the expectation, or name of the built-in check.
        values: All columns of the row, as Spark fetches them; in an audit's result timestamps have their zone.
    """

    index: int
    type: str
    values: Mapping[str, Any]


class Failing(Struct, frozen=True):
    """The places of failed checks.

    Args:
        rows: Some of the failing rows; for each check at most as many as requested.
        buckets: For (index, type) of each failed check, every bucket with a failing row, as an instant (None is the bucket of a
            null). The value is None when the failure is not about rows, or when some of these buckets are unknown.
    """

    rows: tuple[FailingRow, ...] = ()
    buckets: Mapping[tuple[int, str], frozenset[Any] | None] = field(default_factory=dict)

    def __or__(self, other: Failing) -> Failing:
        return Failing((*self.rows, *other.rows), {**self.buckets, **other.buckets})

    def critical_buckets(self, findings: Iterable[Finding]) -> frozenset[Any] | None:
        """Return the buckets that must not be published: None means all buckets, an empty set means none."""
        failed = [f for f in findings if not f.success and f.severity is Severity.CRITICAL]
        held: frozenset[Any] = frozenset()
        for finding in failed:
            buckets = self.buckets.get((finding.index, finding.type))
            if buckets is None:
                return None
            held |= buckets
        return held
