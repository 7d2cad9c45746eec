"""The prices of a lake, learned from the refreshes that its journal reports, and the predicted seconds of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Final

from msgspec.structs import replace

from materializer.budget import Budget
from materializer.core.refresh.plan import (
    BY_KEY,
    OPENED,
    RETRACT,
    Estimate,
    ExecutorKind,
    Merge,
    Plan,
    Recompute,
    Retract,
    RollUp,
    Settle,
    strategy_of,
)
from materializer.core.refresh.price import Prices, Taken, unlearned
from materializer.core.time.spans import SpanSet
from materializer.journal.state import AggregateState, NamedStates, States
from materializer.lake.extent import Extent

GROUPS_PER_ROW: Final = 0.1
"""Groups that a row makes, where no refresh has shown it."""
RECENT: Final = 10
"""The newest recomputes that tell how many groups a row makes."""
ENOUGH_ROWS: Final = 1_000
"""Recomputes of fewer rows say little about the next one."""
MOST: Final = 50
"""Aggregates of which refreshes are looked at: those that changed last."""
LAST: Final = 5
"""The newest refreshes of each that are looked at."""


def prices_of(states: States) -> Prices:
    """Return the prices in a lake, from the newest refreshes that ended and were predicted."""
    changed = states.mentioning() if isinstance(states, NamedStates) else states.values()
    newest = (e for state in islice(changed, MOST) for e in state.ended[-LAST:] if e.outcome == "done")
    ended = sorted(newest, key=lambda e: e.at)
    reports = [e.report for e in ended if e.report.unlearned]
    return Prices.learned(
        Taken(r.executor or ExecutorKind.SPARK, _computing(r.strategy), r.seconds, r.unlearned) for r in reports
    )


def pricing(
    prices: Prices, *, local_rows: int, local_bytes: int, budget: Budget
) -> Callable[[str, Estimate, SpanSet], float]:
    """Return what prices a strategy: with the rates of this process where it may read so much, else with those of Spark.

    Args:
        prices: The prices in the lake.
        local_rows: Rows that this process may hold; it opens files with eight times as many.
        local_bytes: Bytes of these rows; it opens files of eight times as many.
        budget: What the driver holds, so that it picks rows itself.
    """

    def price(strategy: str, estimate: Estimate, spans: SpanSet) -> float:
        opens = estimate.rows <= OPENED * local_rows and estimate.bytes <= OPENED * local_bytes
        is_local = opens and estimate.likely_rows <= local_rows
        executor = ExecutorKind.LOCAL if is_local else ExecutorKind.SPARK
        return prices.reading(executor, strategy, estimate, _told_apart(spans, estimate, budget))

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


def predicted(plan: Plan, prices: Prices, written: float, budget: Budget, starting: float | None) -> Plan:
    """Return a plan with its predicted seconds; one that this process can compute goes to Spark where that takes less time.

    Args:
        plan: The plan.
        prices: The prices in the lake.
        written: Rows of each of our two tables that it writes.
        budget: As for :func:`pricing`.
        starting: Seconds that starting Spark would take; None if it is not to be compared.
    """
    strategy, spans = _computing(plan.strategy), Counter[str]()
    for step in plan.steps:
        if not isinstance(step, Settle):
            spans[strategy_of(step)] += _told_apart(step.spans, step.estimate, budget)

    def base(executor: ExecutorKind) -> float:
        return unlearned(executor, strategy, plan.estimate, written, len(plan.steps), spans)

    executor, reason = plan.executor, plan.executor_reason
    if executor is ExecutorKind.LOCAL:
        here, there = (base(kind) * prices.factor(kind, strategy) for kind in (executor, ExecutorKind.SPARK))
        if starting is not None and there + starting < here:
            executor, reason = ExecutorKind.SPARK, f"it would take about {here:.1f} s here, and {there:.1f} s on Spark"
        else:
            reason = f"{reason}; Spark would take about {there:.1f} s and its start"
    rates = base(executor)
    seconds = rates * prices.factor(executor, strategy)
    return replace(plan, executor=executor, seconds=seconds, unlearned=rates, executor_reason=reason)


def _computing(strategy: str) -> str:
    """Return the strategies that compute something; a bucket that is settled or discarded has no price."""
    return "+".join(each for each in strategy.split("+") if each not in ("settle", "discard"))


def _told_apart(spans: SpanSet, estimate: Estimate, budget: Budget) -> int:
    """Return how many spans a query on Spark tells apart: none where the driver picks the rows itself."""
    is_picked = estimate.rows <= budget.opened and estimate.likely_rows <= budget.raw
    return 0 if is_picked else len(spans)


def _has(stored: Extent, spans: SpanSet) -> bool:
    return bool(stored.estimate(spans).likely_rows)


def groups_per_row(state: AggregateState) -> float | None:
    """Return the most groups that a source row made in recent recomputes, None when there were none."""
    since = max((i + 1 for i, e in enumerate(state.ended) if e.outcome == "switched"), default=0)
    reports = [
        e.report
        for e in state.ended[since:]
        if e.outcome == "done" and not {"merge", RETRACT, BY_KEY, "roll-up"} & {*e.report.strategy.split("+")}
    ]
    return max(
        (r.partials_written / r.rows_read for r in reports[-RECENT:] if r.rows_read >= ENOUGH_ROWS), default=None
    )
