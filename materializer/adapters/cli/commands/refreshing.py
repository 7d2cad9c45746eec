"""``plan``, ``refresh``, ``backfill`` and ``invalidate``: keeping aggregates true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import (
    AcceptFewerRows,
    All,
    AllTime,
    AsMarkdown,
    AsOf,
    BucketsPerRun,
    Chain,
    End,
    ExecutorName,
    Force,
    MaxRuns,
    Name,
    NameOrAll,
    NameOrDefinitions,
    Order,
    PlannedDefinitions,
    PublishAnyway,
    Reason,
    Reasons,
    RunOrder,
    Start,
    Strict,
)
from materializer.adapters.cli.output import JsonOutput
from materializer.errors import UsageError

if TYPE_CHECKING:
    from materializer.services.definitions.sources import MissingFeed

PANEL = "Refresh"


def plan(
    call: CommandCall,
    name: NameOrDefinitions = None,
    *,
    start: Start = None,
    end: End = None,
    force: Force = False,
    strict: Strict = False,
    chain: Chain = False,
    why: Reasons = False,
    definitions: PlannedDefinitions = None,
    markdown: AsMarkdown = False,
) -> None:
    """Print what a refresh, or applying definitions, would do, and why; write nothing."""
    from materializer.adapters.cli.render.plan import PlanResult

    if definitions:
        from materializer.adapters.cli.render.proposal import ProposalResult

        if name is not None or start is not None or end is not None or force or strict or chain or why:
            raise UsageError("--definitions plans no refresh", hint="leave out NAME and what is said of a refresh")
        if markdown and isinstance(call.output, JsonOutput):
            raise UsageError("--markdown and --json are two forms of one result", hint="leave one of the two out")
        call.show(ProposalResult(call.lake.plan_definitions(definitions), is_markdown=markdown))
        return
    if markdown:
        raise UsageError(
            "--markdown shows what definitions change", hint="give --definitions and their files or folder"
        )
    if name is None:
        hint = "'materializer status' lists the names"
        raise UsageError("give NAME, an aggregate, or --definitions, got neither", hint=hint)
    if chain:
        call.each(
            "plans", call.lake.plan_chain(name, start, end, force=force, strict=strict), lambda p: PlanResult(p, why)
        )
        return
    call.show(PlanResult(call.lake.plan(name, start, end, force=force, strict=strict), why))


def refresh(
    call: CommandCall,
    name: NameOrAll = None,
    *,
    every: All = False,
    start: Start = None,
    end: End = None,
    force: Force = False,
    strict: Strict = False,
    as_of: AsOf = None,
    max_runs: MaxRuns = None,
    publish_anyway: PublishAnyway = "",
    accept_fewer_rows: AcceptFewerRows = False,
    executor: ExecutorName = None,
    chain: Chain = False,
    why: Reasons = False,
) -> None:
    """Make every whole bucket of a window true; computes what is dirty and nothing else."""
    from materializer.adapters.cli.render.refresh import RefreshResult

    def one(name: str) -> RefreshResult:
        kind = call.lake.grid(name).shown
        with call.output.watch(name, kind, is_long=False, is_why=why) as w:
            report = call.lake.refresh(
                name,
                start,
                end,
                force=force,
                strict=strict,
                as_of=as_of,
                max_runs=max_runs,
                publish_anyway=publish_anyway,
                accept_fewer_rows=accept_fewer_rows,
                executor=executor,
                on_plan=w.on_plan,
                on_run=w.on_run,
            )
        return RefreshResult(report, kind)

    names = call.names(name, is_all=every)
    names = call.lake.chain(names[0]) if chain and not every else names
    with call.lake.together(names):
        call.each("refreshes", names, one)


def backfill(
    call: CommandCall,
    name: NameOrAll = None,
    *,
    every: All = False,
    start: Start = None,
    end: End = None,
    buckets_per_run: BucketsPerRun = None,
    order: RunOrder = Order.NEWEST,
    max_runs: MaxRuns = None,
    force: Force = False,
    publish_anyway: PublishAnyway = "",
    accept_fewer_rows: AcceptFewerRows = False,
    executor: ExecutorName = None,
) -> None:
    """Refresh a window in runs; can be stopped and run again, what is not done stays dirty."""
    from materializer.adapters.cli.render.refresh import RefreshResult

    def one(name: str) -> RefreshResult:
        kind = call.lake.grid(name).shown
        with call.output.watch(name, kind, is_long=True) as w:
            report = call.lake.backfill(
                name,
                start,
                end,
                buckets_per_run=buckets_per_run,
                order=order.value,
                max_runs=max_runs,
                force=force,
                publish_anyway=publish_anyway,
                accept_fewer_rows=accept_fewer_rows,
                executor=executor,
                on_plan=w.on_plan,
                on_run=w.on_run,
            )
        feed = call.lake.missing_feed(name)
        if feed in said:
            return RefreshResult(report, kind)
        said.append(feed)
        return RefreshResult(report, kind, feed=feed)

    said: list[MissingFeed | None] = []
    names = call.names(name, is_all=every)
    with call.lake.together(names):
        call.each("refreshes", names, one)


def invalidate(
    call: CommandCall,
    name: Name,
    *,
    start: Start = None,
    end: End = None,
    all_time: AllTime = False,
    reason: Reason = "",
) -> None:
    """Declare a window dirty, rounded outward to whole buckets; the next refresh computes it again."""
    from materializer.adapters.cli.render.invalidate import InvalidateResult

    if all_time == (start is not None or end is not None):
        raise UsageError("give --start or --end, or --all-time, and not both", hint="an end that is left out is open")

    declared = call.lake.invalidate(name, start, end, reason=reason)
    call.show(InvalidateResult(name, call.lake.grid(name).shown, declared, reason))


COMMANDS: Final = listed(PANEL, plan, refresh, backfill, invalidate)
