"""``apply`` and ``drop``: which aggregates there are."""

from __future__ import annotations

import typer

from materializer.adapters.cli.call import Call, command
from materializer.adapters.cli.options import DryRun, Name, Paths, Rebuild, Yes
from materializer.adapters.cli.results import Applied, Dropped
from materializer.errors import UsageError

PANEL = "Define"


def register(app: typer.Typer) -> None:
    """Add the commands of this module to *app*."""
    for body in (apply, drop):
        command(app, panel=PANEL)(body)


def apply(call: Call, paths: Paths, *, dry_run: DryRun = False, rebuild: Rebuild = False) -> None:
    """Make the definitions in SQL files known to the lake; print what changes."""
    specs, warnings = call.lake.read_definitions(paths)
    changes = call.lake.apply(specs, dry_run=dry_run, rebuild=rebuild)
    call.show(Applied(tuple(changes), tuple(warnings), is_dry_run=dry_run))


def drop(call: Call, name: Name, *, yes: Yes = False) -> None:
    """Remove an aggregate with its tables; its source is never touched."""
    if not yes:
        raise UsageError(f"'{name}' and its tables would be removed", hint=f"run 'materializer drop {name} --yes'")
    call.lake.drop(name)
    call.show(Dropped(name))
