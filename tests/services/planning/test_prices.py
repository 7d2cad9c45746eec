"""Prices of strategies: what they would read, and for how many spans."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from materializer.budget import Budget
from materializer.core.refresh.plan import Estimate, ExecutorKind, Lane, Plan, Recompute, TableBase
from materializer.core.refresh.price import Factor, Prices
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import RunReport, SourceIdentity
from materializer.journal.state import AggregateState, Ended
from materializer.services.planning.prices import groups_per_row, predicted, pricing

BUDGET = Budget()
RAW = Estimate(501_000, 5_802_097, 6, 16_000)
STORED = Estimate(129_000, 4_524_336, 6, 10_634)
FEWER = replace(RAW, rows=BUDGET.opened)
BY_SPARK = pricing(Prices(), local_rows=0, local_bytes=0, budget=BUDGET)
HERE = pricing(Prices(), local_rows=10**9, local_bytes=10**9, budget=BUDGET)


def spans(count: int) -> SpanSet:
    """Return spans with gaps between them."""
    return SpanSet.of(*(Span(10 * i, 10 * i + 5) for i in range(count)))


def seconds(found: SpanSet, estimate: Estimate) -> float:
    """Return the predicted seconds of a recompute on Spark."""
    plan = Plan(
        "p", 2, 1, Span(0, 1), (), (Recompute(found, "", estimate),), Lane.DRIVER, TableBase("", 0), TableBase("", 0)
    )
    return predicted(plan, Prices(), 0.0, BUDGET, None).seconds or 0.0


@pytest.mark.parametrize(
    ("slower", "starting", "wanted"),
    [(1.0, 0.0, "local"), (10.0, 0.0, "spark"), (10.0, 60.0, "local"), (10.0, None, "local")],
)
def test_what_takes_less_time_computes(slower: float, starting: float | None, wanted: str) -> None:
    """
    This process is left for Spark where that is faster, what starting it takes counted in, and never where it was asked for.
    """
    estimate = Estimate(3_000_000, 30_000_000, 10, 3_000_000)
    plan = Plan(
        "p", 2, 1, Span(0, 1), (), (Recompute(spans(1), "", estimate),), Lane.DRIVER, TableBase("", 0), TableBase("", 0),
        ExecutorKind.LOCAL, "it is small",
    )  # fmt: skip
    known = Prices({(ExecutorKind.LOCAL, ""): Factor(slower, 5)})

    found = predicted(plan, known, 100_000.0, BUDGET, starting)

    assert wanted == found.executor
    assert ("s here, and" in found.executor_reason) == (wanted == "spark")


def test_many_spans_make_a_recompute_dearer_than_a_merge() -> None:
    """
    Of the 500,000 trades of the quick benchmark, 91 spans took longer to compute again than to merge.
    """
    assert BY_SPARK("recompute", RAW, spans(1)) < BY_SPARK("merge", STORED, spans(1))
    assert BY_SPARK("recompute", RAW, spans(91)) > BY_SPARK("merge", STORED, spans(91))


def test_spans_beyond_those_of_a_commit_cost_no_more() -> None:
    """
    Their buckets are joined, and a commit replaces no more spans.
    """
    assert BY_SPARK("recompute", RAW, spans(63)) < BY_SPARK("recompute", RAW, spans(64))
    assert BY_SPARK("recompute", RAW, spans(64)) == BY_SPARK("recompute", RAW, spans(500))


def test_spans_cost_nothing_where_the_driver_picks_the_rows() -> None:
    """
    That is where it opens few rows and passes few on, however many spans they lie in, and in this process.
    """
    many = replace(FEWER, likely_rows=BUDGET.raw + 1)
    assert BY_SPARK("recompute", FEWER, spans(1)) == BY_SPARK("recompute", FEWER, spans(500))
    assert BY_SPARK("recompute", many, spans(1)) < BY_SPARK("recompute", many, spans(500))
    assert HERE("recompute", RAW, spans(1)) == HERE("recompute", RAW, spans(64))


def test_the_prediction_of_a_plan_counts_spans_as_its_price_does() -> None:
    """
    Otherwise what a lake learns from how long refreshes took would count them twice.
    """
    for estimate, most in ((RAW, 60), (FEWER, 60), (FEWER, 70)):
        more = BY_SPARK("recompute", estimate, spans(most)) - BY_SPARK("recompute", estimate, spans(1))
        assert abs(seconds(spans(most), estimate) - seconds(spans(1), estimate) - more) < 1e-9


def test_merges_do_not_hide_how_many_groups_a_row_makes() -> None:
    """
    A merge says nothing about it, so the recompute before many merges does.
    """
    recompute = RunReport(1, "recompute", commits=1, seconds=1.0, rows_read=10_000, partials_written=2_000)
    reports = [recompute, *[replace(recompute, strategy="merge")] * 20]
    ended = tuple(Ended(n, "", "done", Span(0, 1), report) for n, report in enumerate(reports))
    state = AggregateState("a", "it", {}, "d", SourceIdentity("/s", "s"), {}, {}, 0, ended=ended)

    assert 0.2 == groups_per_row(state)
