"""The prices of a lake, learned from the refreshes that its journal reports, and the predicted seconds of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Final

from materializer.core.refresh.plan import Estimate, ExecutorKind, Merge, Plan, Recompute, Retract, RollUp
from materializer.core.refresh.price import Prices, Taken, unlearned
from materializer.core.time.spans import SpanSet
from materializer.journal.state import States
from materializer.lake.extent import Extent

GROUPS_PER_ROW: Final = 0.1
"""Groups that a row makes, where no refresh has shown it."""
MOST: Final = 200
"""Aggregates of which refreshes are looked at."""
LAST: Final = 5
"""The newest refreshes of each that are looked at."""


def prices_of(states: States) -> Prices:
    """Return the prices in a lake, from the newest refreshes that ended and were predicted."""
    newest = (e for state in islice(states.values(), MOST) for e in state.ended[-LAST:] if e.outcome == "done")
    ended = sorted(newest, key=lambda e: e.at)
    reports = [e.report for e in ended if e.report.unlearned]
    return Prices.learned(
        Taken(r.executor or ExecutorKind.SPARK, _computing(r.strategy), r.seconds, r.unlearned) for r in reports
    )


def pricing(prices: Prices, *, local_rows: int, local_bytes: int) -> Callable[[str, Estimate], float]:
    """Return what prices a strategy: with the rates of this process where it may read so much, else with those of Spark."""

    def price(strategy: str, estimate: Estimate) -> float:
        is_local = estimate.rows <= local_rows and estimate.bytes <= local_bytes
        return prices.reading(ExecutorKind.LOCAL if is_local else ExecutorKind.SPARK, strategy, estimate)

    return price


def written_by(plan: Plan, stored: Extent, groups_per_row: float | None) -> float:
    """Return how many rows of each table a plan writes, about: those of its buckets, and those between them that it copies."""
    rows = float(stored.estimate(plan.replaced).likely_rows)
    for step in plan.steps:
        match step:
            case Recompute(spans=spans, estimate=estimate) | RollUp(spans=spans, estimate=estimate) if not _has(
                stored, spans
            ):
                rows += estimate.likely_rows * (groups_per_row or GROUPS_PER_ROW)
            case Merge() | Retract() | Recompute() | RollUp():
                continue
    return rows


def predicted(plan: Plan, prices: Prices, written: float) -> Plan:
    """Return a plan with its predicted seconds and, where this process computes it, those of Spark."""
    strategy = _computing(plan.strategy)

    def base(executor: ExecutorKind) -> float:
        return unlearned(executor, strategy, plan.estimate, written, len(plan.steps))

    rates = base(plan.executor)
    reason = plan.executor_reason
    if plan.executor is ExecutorKind.LOCAL:
        seconds = base(ExecutorKind.SPARK) * prices.factor(ExecutorKind.SPARK, strategy)
        reason = f"{reason}; Spark would take about {seconds:.1f} s and its start"
    seconds = rates * prices.factor(plan.executor, strategy)
    return replace(plan, seconds=seconds, unlearned=rates, executor_reason=reason)


def _computing(strategy: str) -> str:
    """Return the strategies that compute something; a bucket that is settled or discarded has no price."""
    return "+".join(each for each in strategy.split("+") if each not in ("settle", "discard"))


def _has(stored: Extent, spans: SpanSet) -> bool:
    return bool(stored.estimate(spans).likely_rows)
