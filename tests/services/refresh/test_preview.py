"""What a plan says when it is printed."""

from __future__ import annotations

from materializer.core.refresh.plan import Estimate, Lane, Plan, Recompute, Rejected, TableBase
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span, SpanSet
from materializer.services.refresh.preview import Preview

HOUR = Span(0, 3_600_000_000)


def test_a_plan_prints_what_it_reads_and_why() -> None:
    """
    Strategy, buckets, reason, cost and every rejected strategy stand in the text, instants as ISO.
    """
    dirty = SpanSet.of(HOUR)
    step = Recompute(dirty, "rows changed", Estimate(10, 100, 1), (Rejected("merge", "rows were deleted"),))
    base = TableBase("t", 1)
    plan = Plan("p", 3, 7, HOUR, (), (step,), Lane.DRIVER, base, base)

    text = str(Preview("bars", TimeType.TIMESTAMP, HOUR, 7, None, dirty, SpanSet(), plan, 1))

    for part in (
        "refresh 3",
        "version 7",
        "recompute",
        "1970-01-01T01:00:00Z",
        "rows changed",
        "10 rows",
        "rows were deleted",
    ):
        assert part in text


def test_a_plan_of_nothing_says_so() -> None:
    """
    With nothing dirty, one line says so.
    """
    nothing = Preview("bars", TimeType.TIMESTAMP, None, 7, None, SpanSet(), SpanSet(), None, 0)

    assert str(nothing) == "bars: nothing to do at source version 7"
