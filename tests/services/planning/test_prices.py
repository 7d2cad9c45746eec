"""Prices of strategies: what they would read, and for how many spans."""

from __future__ import annotations

from dataclasses import replace

from materializer.core.refresh.plan import Estimate, Lane, Plan, Recompute, TableBase
from materializer.core.refresh.price import Prices
from materializer.core.time.spans import Span, SpanSet
from materializer.services.planning.prices import predicted, pricing

PICKED = 500_000
RAW = Estimate(501_000, 5_802_097, 6, 16_000)
STORED = Estimate(129_000, 4_524_336, 6, 10_634)
FEWER = replace(RAW, rows=PICKED)
BY_SPARK = pricing(Prices(), local_rows=0, local_bytes=0, picked=PICKED)
HERE = pricing(Prices(), local_rows=10**9, local_bytes=10**9, picked=PICKED)


def spans(count: int) -> SpanSet:
    """Return spans with gaps between them."""
    return SpanSet.of(*(Span(10 * i, 10 * i + 5) for i in range(count)))


def seconds(found: SpanSet, estimate: Estimate) -> float:
    """Return the predicted seconds of a recompute on Spark."""
    plan = Plan(
        "p", 2, 1, Span(0, 1), (), (Recompute(found, "", estimate),), Lane.DRIVER, TableBase("", 0), TableBase("", 0)
    )
    return predicted(plan, Prices(), 0.0, PICKED).seconds or 0.0


def test_a_query_names_no_more_than_a_few_spans() -> None:
    """
    Many more spans are told apart by a join, so that they cost no more.
    """
    assert BY_SPARK("recompute", RAW, spans(7)) < BY_SPARK("recompute", RAW, spans(8))
    assert BY_SPARK("recompute", RAW, spans(8)) == BY_SPARK("recompute", RAW, spans(500))


def test_spans_cost_nothing_where_the_driver_picks_the_rows() -> None:
    """
    That is where few rows are opened, however many spans they lie in, and in this process.
    """
    assert BY_SPARK("recompute", FEWER, spans(1)) == BY_SPARK("recompute", FEWER, spans(500))
    assert HERE("recompute", RAW, spans(1)) == HERE("recompute", RAW, spans(64))


def test_the_prediction_of_a_plan_counts_spans_as_its_price_does() -> None:
    """
    Otherwise what a lake learns from how long refreshes took would count them twice.
    """
    for estimate, most in ((RAW, 60), (FEWER, 60), (FEWER, 70)):
        more = BY_SPARK("recompute", estimate, spans(most)) - BY_SPARK("recompute", estimate, spans(1))
        assert abs(seconds(spans(most), estimate) - seconds(spans(1), estimate) - more) < 1e-9
