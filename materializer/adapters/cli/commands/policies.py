"""``policy add``, ``list``, ``remove`` and ``run``: rules that turn the time into a refresh window."""

from __future__ import annotations

from typing import Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import ListedGroup, listed
from materializer.adapters.cli.options import (
    CatchDirt,
    Due,
    EndOffset,
    MaybeName,
    MaybeOrder,
    MaybePolicy,
    Name,
    Now,
    PolicyName,
    PolicyRuns,
    Promise,
    Schedule,
    StartOffset,
)
from materializer.errors import UsageError

PANEL = "Refresh"
DEFAULT = "default"


def add(
    call: CommandCall,
    name: Name,
    *,
    policy: PolicyName = DEFAULT,
    start_offset: StartOffset = None,
    end_offset: EndOffset = None,
    schedule: Schedule = None,
    max_runs: PolicyRuns = None,
    order: MaybeOrder = None,
    catch_dirt: CatchDirt = False,
    max_staleness: Promise = None,
) -> None:
    """Add a policy to an applied definition; nothing is computed again."""
    from materializer.adapters.cli.render.apply import ApplyResult

    change = call.lake.add_policy(
        name,
        policy,
        start_offset=start_offset,
        end_offset=end_offset,
        schedule=schedule,
        max_runs=max_runs,
        order=None if order is None else order.value,
        catch_dirt=catch_dirt or None,
        max_staleness=max_staleness,
    )
    call.show(ApplyResult((change,)))


def show(call: CommandCall, name: MaybeName = None, *, now: Now = None) -> None:
    """Print the policies of an aggregate, or of all: windows, schedules, when they are due."""
    from materializer.adapters.cli.render.policy import PolicyListResult

    found, errors = tuple(call.lake.policies(name, now)), call.lake.unusable() if name is None else []
    call.show(PolicyListResult(found, is_broken=bool(errors)))
    for error in errors:
        call.fail(error)


def remove(call: CommandCall, name: Name, *, policy: PolicyName = DEFAULT) -> None:
    """Remove a policy from an applied definition; what it refreshed stays."""
    from materializer.adapters.cli.render.apply import ApplyResult

    call.show(ApplyResult((call.lake.remove_policy(name, policy),)))


def run(
    call: CommandCall, name: MaybeName = None, *, policy: MaybePolicy = None, now: Now = None, due: Due = False
) -> None:
    """Refresh the window that a policy has now; with --due, of every policy whose schedule came due."""
    from materializer.adapters.cli.render.refresh import RefreshResult

    if due and policy is not None:
        raise UsageError("--due finds the policies itself and takes no --policy", hint="leave one of the two out")
    if name is None and not due:
        raise UsageError("give the name of an aggregate or --due, got neither", hint="'materializer policy list'")
    wanted = call.lake.due(name, now) if due else [(name or "", policy or DEFAULT)]

    def one(which: tuple[str, str]) -> RefreshResult:
        aggregate, policy = which
        kind = call.lake.grid(aggregate).shown
        with call.output.watch(aggregate, kind, is_long=False) as w:
            done = call.lake.run_policy(aggregate, policy, now, on_plan=w.on_plan, on_run=w.on_run)
        return RefreshResult(done.report, kind, done.policy, done.now)

    with call.lake.together([aggregate for aggregate, _ in wanted]):
        call.each("refreshes", wanted, one)
    for error in call.lake.unusable() if due and name is None else []:
        call.fail(error)


COMMANDS: Final = {
    "policy": ListedGroup(
        listed(PANEL, add=add, list=show, remove=remove, run=run), "Refresh policies: add, list, remove, run.", PANEL
    )
}
