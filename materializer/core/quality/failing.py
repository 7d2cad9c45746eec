"""Where checks failed: some rows, and the buckets that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from materializer.core.quality.verdict import Finding, Severity


@dataclass(frozen=True, slots=True)
class FailingRow:
    """A row that does not meet an expectation.

    Args:
        index: Place of the expectation in the suite, or BUILT_IN.
        type: Its type, or the name of the built-in check.
        values: The row, all columns, as Spark fetches it.
    """

    index: int
    type: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failing:
    """Where checks failed.

    Args:
        rows: Some of the failing rows, of each check at most so many as were asked for.
        buckets: (index, type) of a failed check → every bucket with a failing row, as an instant (None is the bucket of a
            null); None where the failure cannot be put down to rows, or not all of them are known.
    """

    rows: tuple[FailingRow, ...] = ()
    buckets: Mapping[tuple[int, str], frozenset[Any] | None] = field(default_factory=dict)

    def __or__(self, other: Failing) -> Failing:
        return Failing((*self.rows, *other.rows), {**self.buckets, **other.buckets})

    def critical_buckets(self, findings: Iterable[Finding]) -> frozenset[Any] | None:
        """Return the buckets that must not be published; None for all of them, empty for none."""
        failed = [f for f in findings if not f.success and f.severity is Severity.CRITICAL]
        held: frozenset[Any] = frozenset()
        for finding in failed:
            buckets = self.buckets.get((finding.index, finding.type))
            if buckets is None:
                return None
            held |= buckets
        return held
