"""What a plan says when it is printed."""

from __future__ import annotations

from pathlib import Path

from materializer.core.refresh.invalidation import Cause
from materializer.core.refresh.plan import Estimate, Lane, Plan, Recompute, Rejected, TableBase
from materializer.core.refresh.strategies import reason_of
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span, SpanSet
from materializer.services.refresh.preview import Preview
from tests.services.no_spark import LocalLake, each, view

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


def test_a_rollup_is_not_told_of_a_change_feed(tmp_path: Path) -> None:
    """
    What it reads is an output of ours, which needs none; a table of others is told that none was read.
    """
    lake = LocalLake(tmp_path)
    lake.add((0, 1))
    lake.apply(view("hourly", each("1 hour")), view("daily", each("1 day"), "hourly"))
    for value in (1, 2):
        lake.add((value, value))
        lake.opened.refresh("hourly")
        if value == 1:
            lake.opened.refresh("daily")

    plan = lake.opened.plan("daily").plan

    assert plan is not None
    [step] = [step for step in plan.steps if isinstance(step, Recompute)]
    assert "files that may hold rows of these buckets changed" == step.reason
    assert not [r.reason for r in step.rejected if "change feed" in r.reason]
    assert "change feed" in reason_of(Cause.FILES)
