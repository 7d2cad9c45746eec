"""``apply`` and ``drop``: which aggregates there are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.commands.versions import build_one
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import (
    BuildNow,
    Cascade,
    DryRun,
    Name,
    Paths,
    PublishAnyway,
    TestedDefinitions,
    TestExecutor,
    Tests,
    Yes,
)
from materializer.errors import DefinitionError, TestFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from materializer.services.definitions.changes import DefinitionChange
    from materializer.services.versions.build import BuildReport

PANEL = "Define"


def apply(
    call: CommandCall,
    paths: Paths,
    *,
    dry_run: DryRun = False,
    build: BuildNow = False,
    publish_anyway: PublishAnyway = "",
) -> None:
    """Make the definitions in SQL files known to the lake; print what changes, and what building it costs."""
    from materializer.adapters.cli.render.apply import ApplyResult

    with call.output.waiting("apply"):
        try:
            specs, warnings = call.lake.read_definitions(paths)
        except DefinitionError:
            call.lake.apply(paths, dry_run=True)  # its error has what is wrong with the other definitions, too
            raise
        changes = call.lake.apply(specs, dry_run=dry_run, publish_anyway=publish_anyway)
    result = ApplyResult(tuple(changes), tuple(warnings), is_dry_run=dry_run)
    names = _to_build(changes) if build and not dry_run else []
    builds: list[BuildReport] = []
    while names:
        result = replace(result, building=(*result.building, *names))
        call.output.announce(replace(result, changes=tuple(changes)))
        for name in names:
            call.attempt(partial(_build, call, name, publish_anyway, builds))
        published = {report.name.lower() for report in builds if report.switched and report.name in names}
        # what rolls up data that was built could not be seen to change before
        specs = [spec for spec in specs if spec.source.lower() in published]
        changes = call.lake.apply(specs, publish_anyway=publish_anyway) if specs else []
        names = _to_build(changes)
        again = {change.name: change for change in changes if change.name in names}
        result = replace(result, changes=tuple(again.get(change.name, change) for change in result.changes))
    call.show(replace(result, builds=tuple(builds), is_announced=bool(result.building)))


def _to_build(changes: Sequence[DefinitionChange]) -> list[str]:
    return [change.name for change in changes if change.next in {"started", "replaced", "building"}]


def _build(call: CommandCall, name: str, publish_anyway: str, done: list[BuildReport]) -> None:
    done.append(build_one(call, name, publish_anyway=publish_anyway))


def run_tests(
    call: CommandCall, which: Tests = None, *, definitions: TestedDefinitions = None, executor: TestExecutor = "local"
) -> None:
    """Test definitions with the rows of files, in this process; exits 1 when one gives other rows than are expected."""
    from materializer.adapters.cli.render.testing import TestsResult

    outcomes = call.lake.test(*(which or ()), definitions=definitions or (), executor=executor)
    call.show(TestsResult(tuple(outcomes)))
    for outcome in outcomes:
        if outcome.error is not None:
            call.fail(outcome.error)
    if failed := [o.name for o in outcomes if o.differences]:
        what = (
            f"{failed[0]}: the rows differ" if len(failed) == 1 else f"{len(failed)} tests failed: {', '.join(failed)}"
        )
        hint = "mend the definition, or what the test expects, and run the tests again"
        call.fail(TestFailedError(what, hint=hint))


def drop(call: CommandCall, name: Name, *, cascade: Cascade = False, yes: Yes = False) -> None:
    """Remove an aggregate with its tables; its source is never touched."""
    from materializer.adapters.cli.render.drop import DropResult

    if not yes:
        what = f"'{name}', what reads it, and their tables" if cascade else f"'{name}' and its tables"
        flags = "--cascade --yes" if cascade else "--yes"
        raise UsageError(f"{what} would be removed", hint=f"run 'materializer drop {name} {flags}'")
    *also, gone = call.lake.drop(name, cascade=cascade)
    call.show(DropResult(gone, tuple(also)))


COMMANDS: Final = listed(PANEL, apply, drop, test=run_tests)
