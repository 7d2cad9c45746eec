"""What computes a run: this process if it is small and has local forms, else Spark; and why."""

from __future__ import annotations

from materializer.config import Config
from materializer.core.quality.gates import has_gate
from materializer.core.refresh.plan import ExecutorKind, Lane, Plan
from materializer.errors import NotLocalError
from materializer.local.executor import LocalExecutor
from materializer.services.aggregate import Aggregate
from materializer.services.planning.row_loss import spans_by_gone


def chosen(
    aggregate: Aggregate, plan: Plan, config: Config, local: LocalExecutor | None, asked: str
) -> tuple[ExecutorKind, str]:
    """Return what computes a plan, and why.

    Args:
        aggregate: The aggregate.
        plan: The plan, with its lane.
        config: Settings.
        local: The local executor; None if there is none.
        asked: What the caller asked for, or "" for what the settings say.

    Raises:
        NotLocalError: If the local executor was asked for and cannot compute the plan. Nothing was written.
    """
    wanted = asked or config.executor
    if wanted == "spark" or local is None:
        return ExecutorKind.SPARK, "the settings say so" if wanted == "spark" else "nothing else is there"
    reason = _why_not(aggregate, plan, local)
    if not reason:
        return (
            ExecutorKind.LOCAL,
            f"it reads {plan.estimate.rows:,} rows, and up to {local.rows:,} are computed here",
        )
    if wanted == "local":
        raise NotLocalError(
            f"'{aggregate.name}' cannot be computed without Spark: {reason}", hint="leave the choice to 'auto'"
        )
    return ExecutorKind.SPARK, reason


def _why_not(aggregate: Aggregate, plan: Plan, local: LocalExecutor) -> str:
    rows, size = plan.estimate.rows, plan.estimate.bytes
    if rows > local.rows:
        return f"it reads {rows:,} rows, and up to {local.rows:,} are computed here"
    if size > local.size:
        return f"it reads {size:,} bytes, and up to {local.size:,} are computed here"
    if plan.lane is Lane.SPARK:
        return "its result may be larger than what the driver holds"
    if aggregate.source.name:
        return f"its source is read by its name {aggregate.source.name}, which a catalog guards"
    if has_gate(aggregate.definition.spec, plan.n):
        return "a gate checks what it computes"
    if spans_by_gone(plan):
        return "rows of its source may be gone, and Spark counts them"
    found = local.why_not(aggregate.definition)
    return f"the local executor has no form for {found}" if found else ""
