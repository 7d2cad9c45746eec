"""The column of a table of ours that says to which bucket a row belongs.

An output that selects ``window.end`` and no ``window.start`` has a column of bucket ends. The instant before an end is in the
bucket, and the end itself is not.
"""

from __future__ import annotations

from msgspec import Struct

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet


class SliceColumn(Struct, frozen=True):
    """The column by which the rows of a table are replaced, bucket by bucket.

    Args:
        name: The name of the column.
        holds_end: Whether it holds the ends of buckets; if not, it holds their starts.
        type: The type of the column.
    """

    name: str
    holds_end: bool
    type: TimeType

    def values_in(self, spans: SpanSet) -> SpanSet:
        """Return the values of the column in the rows of some buckets; for a span of ends these are (start, end].

        Examples:
            >>> SliceColumn("until", True, TimeType.BIGINT).values_in(SpanSet.of(Span(0, 10)))
            SpanSet(spans=(Span(start=1, end=11),))
        """
        if not self.holds_end:
            return spans
        return SpanSet.union(Span(_next(s.start), _next(s.end)) for s in spans)

    def span_of(self, value: int) -> Span:
        """Return one instant of the bucket of a row with *value*, as a span."""
        instant = value - 1 if self.holds_end else value
        return Span(instant, instant + 1)


def _next(instant: int) -> int:
    return instant if instant in (NEG_INF, POS_INF) else instant + 1
