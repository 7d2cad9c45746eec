"""``maintain``: tables laid out in time again, and files that no reader needs removed."""

from __future__ import annotations

from typing import Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import All, DryRun, Names
from materializer.errors import UsageError

PANEL = "Refresh"


def maintain(call: CommandCall, names: Names = None, *, every: All = False, dry_run: DryRun = False) -> None:
    """Lay tables out in time again, remove files that nobody needs, keep logs and journal short; changes no row."""
    from materializer.adapters.cli.render.maintain import MaintainResult

    if bool(names) == every:
        raise UsageError(
            f"give names of aggregates or --all, got {'both' if names else 'neither'}",
            hint="'materializer status' lists the names",
        )
    maintainer, view = call.lake.maintainer, call.lake.journal.view()
    for name in names or []:
        view.named(name)

    def one(name: str | None) -> MaintainResult:
        def on_plan(report: MaintainResult) -> None:
            if report.report.has_work and not dry_run:
                call.output.announce(report)

        if name is None:
            return MaintainResult(maintainer.journal(is_dry_run=dry_run, on_plan=lambda r: on_plan(MaintainResult(r))))
        return MaintainResult(
            maintainer.aggregate(name, is_dry_run=dry_run, on_plan=lambda r: on_plan(MaintainResult(r)))
        )

    call.each("maintained", [*(call.names(None, is_all=True) if every else names or []), None], one)


COMMANDS: Final = listed(PANEL, maintain)
