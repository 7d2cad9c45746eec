"""``repair``, ``backup`` and ``restore``: when journal and tables do not agree, or the journal is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import (
    All,
    BackupFolder,
    DefinitionFiles,
    NameOrAll,
    NewFolder,
    RestoredAsStored,
    Yes,
)
from materializer.adapters.cli.render.result import FOUND
from materializer.errors import NOTHING, JournalLostError, UsageError

if TYPE_CHECKING:
    from materializer.services.repair.apply import RepairReport

PANEL = "Repair"


def repair(
    call: CommandCall,
    name: NameOrAll = None,
    *,
    every: All = False,
    definitions: DefinitionFiles = None,
    yes: Yes = False,
) -> None:
    """Say what is wrong between journal and tables, and mend it; exits 1 when something is wrong and is left."""
    lake = call.lake
    if definitions:
        if name or every:
            raise UsageError("--definitions says itself which aggregates are meant", hint="leave out NAME and --all")
        specs = {spec.name: spec for spec in lake.read_definitions(definitions)[0]}
        names = [report.name for report in lake.take_over(specs.values(), dry_run=True)]
        _mend(call, names, lambda n, dry_run: lake.take_over(specs[n], dry_run=dry_run)[0], yes=yes)
        return
    _mend(call, call.names(name, is_all=every), lambda n, dry_run: lake.repair(n, dry_run=dry_run), yes=yes)
    if lost := lake.lost() if every else []:
        call.fail(
            JournalLostError(
                f"the journal does not know {', '.join(lost)}, but tables of them are there", wrote=NOTHING
            )
        )


def _mend(call: CommandCall, names: Sequence[str], work: Callable[[str, bool], RepairReport], *, yes: bool) -> None:
    """Mend what is wrong; without ``--yes``, show it first and mend it only after a yes at the terminal."""
    from materializer.adapters.cli.render.repair import RepairResult

    wrong: list[str] = []

    def planned(name: str) -> RepairResult:
        report = work(name, True)
        wrong.extend([name] if report.outcome == "planned" else [])
        return RepairResult(report)

    if not yes:
        call.each("repairs", names, planned)
        if not wrong or not _agreed(call):
            return
    call.each("repairs", names if yes else wrong, lambda name: RepairResult(work(name, False)))


def _agreed(call: CommandCall) -> bool:
    if call.output.can_ask and call.output.ask("do it?"):
        return True
    call.status = call.status or FOUND
    return False


def backup(call: CommandCall, folder: NewFolder) -> None:
    """Copy the journal into a new folder, at one version, and check the copy; refreshes may go on."""
    from materializer.adapters.cli.render.backup import BackupResult

    call.show(BackupResult(call.lake.backup(folder)))


def restore(call: CommandCall, folder: BackupFolder, *, as_stored: RestoredAsStored = False, yes: Yes = False) -> None:
    """Put the journal of a backup in place; the one that is there is kept beside it. Says what needs a repair then."""
    from materializer.adapters.cli.render.backup import RestoreResult

    if not yes:
        call.show(RestoreResult(call.lake.restore(folder, dry_run=True)))
        if not _agreed(call):
            return
    call.show(RestoreResult(call.lake.restore(folder, as_stored=as_stored)))


COMMANDS: Final = listed(PANEL, repair, backup, restore)
