"""``build``, ``switch``, ``rollback`` and ``abandon``: another version of an aggregate beside what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import (
    Back,
    BucketsPerRun,
    MaxRuns,
    Name,
    NoSwitch,
    Order,
    PublishAnyway,
    RunOrder,
)

if TYPE_CHECKING:
    from materializer.services.versions.build import BuildReport

PANEL = "Define"


def build(
    call: CommandCall,
    name: Name,
    *,
    max_runs: MaxRuns = None,
    buckets_per_run: BucketsPerRun = None,
    order: RunOrder = Order.NEWEST,
    no_switch: NoSwitch = False,
    publish_anyway: PublishAnyway = "",
) -> None:
    """Build the next version of an aggregate in runs, and publish it when it covers what is published."""
    from materializer.adapters.cli.render.build import BuildResult

    report = build_one(
        call,
        name,
        max_runs=max_runs,
        buckets_per_run=buckets_per_run,
        order=order.value,
        switch=not no_switch,
        publish_anyway=publish_anyway,
    )
    call.show(BuildResult(report))


def switch(call: CommandCall, name: Name) -> None:
    """Publish the next version of an aggregate in one commit, if it covers what is published."""
    from materializer.adapters.cli.render.build import SwitchResult

    call.show(SwitchResult(call.lake.switch(name)))


def rollback(
    call: CommandCall,
    name: Name,
    *,
    back: Back = 1,
    no_switch: NoSwitch = False,
    publish_anyway: PublishAnyway = "",
) -> None:
    """Bring a previous version of an aggregate up to date from its kept partials, and publish it again."""
    from materializer.adapters.cli.render.build import BuildResult

    call.lake.rollback(name, back=back)
    call.show(BuildResult(build_one(call, name, switch=not no_switch, publish_anyway=publish_anyway)))


def abandon(call: CommandCall, name: Name) -> None:
    """Give the next version of an aggregate up; what is published stays."""
    from materializer.adapters.cli.render.build import AbandonResult

    call.lake.abandon(name)
    call.show(AbandonResult(name))


def build_one(call: CommandCall, name: str, **how: Any) -> BuildReport:
    """Build the next version of one aggregate, showing its runs."""
    kind = call.lake.next_grid(name).shown
    with call.output.watch(name, kind, is_long=True) as w:
        return call.lake.build(name, on_plan=w.on_plan, on_run=w.on_run, **how)


COMMANDS: Final = listed(PANEL, build, switch, rollback, abandon)
