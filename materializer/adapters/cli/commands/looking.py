"""``status``, ``history``, ``show``, ``export``, ``changes``, ``verify``, ``diff`` and ``doctor``: reading the lake, never writing into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed
from materializer.adapters.cli.options import (
    After,
    Against,
    All,
    Deep,
    Docs,
    End,
    ExportFile,
    ExportForm,
    Fresh,
    How,
    Limit,
    MaybeName,
    Name,
    NameOrAll,
    Now,
    Overwrite,
    Start,
    SuiteFile,
    WhyChanged,
)
from materializer.errors import QualityCheckError, VerifyFailedError
from materializer.machine import uncollected

if TYPE_CHECKING:
    from materializer.adapters.cli.render.show import ShowResult

PANEL = "Look"


def status(call: CommandCall, name: MaybeName = None, *, now: Now = None) -> None:
    """Print how fresh aggregates are and what is dirty."""
    from materializer.adapters.cli.render.status import StatusResult

    with uncollected():
        found, errors = tuple(call.lake.status(name, now)), call.lake.unusable() if name is None else []
        late = call.lake.lateness(name)
        nowhere = "" if found else call.no_folder
        call.show(StatusResult(found, name is not None, late, is_broken=bool(errors), no_folder=nowhere))
    for error in errors:
        call.fail(error)


def history(call: CommandCall, name: Name, *, limit: Limit = 20) -> None:
    """Print the last refreshes of an aggregate, newest first."""
    from materializer.adapters.cli.render.history import HistoryResult

    ended = call.lake.history(name, limit)
    call.show(HistoryResult(name, call.lake.grid(name).shown, tuple(ended)))


def show(
    call: CommandCall,
    name: Name,
    *,
    limit: Limit = 20,
    start: Start = None,
    end: End = None,
    fresh: Fresh = False,
    how: How = False,
) -> None:
    """Print rows of an aggregate, newest bucket first, or how other programs read them."""
    from materializer.adapters.cli.render.how import HowResult
    from materializer.adapters.cli.render.show import ShowResult

    if how:
        call.show(HowResult(name, call.lake.how_to_read(name)))
        return
    has_slice = call.lake.has_slice(name)
    if fresh:
        call.show(replace(_fresh(call, name, limit, start, end), times=call.lake.times(name), has_slice=has_slice))
        return
    columns, rows = call.lake.show(name, limit=limit, start=start, end=end)
    call.show(ShowResult(name, tuple(columns), tuple(rows), times=call.lake.times(name), has_slice=has_slice))


def export(
    call: CommandCall,
    name: Name,
    *,
    to: ExportFile,
    form: ExportForm = None,
    start: Start = None,
    end: End = None,
    force: Overwrite = False,
) -> None:
    """Write published rows into a file: Parquet, CSV or Arrow."""
    from materializer.adapters.cli.render.export import ExportResult

    call.show(ExportResult(call.lake.export(name, to, format=form, start=start, end=end, overwrite=force)))


def changes(
    call: CommandCall, name: Name, *, after: After = None, reason: WhyChanged = None, limit: Limit = 20
) -> None:
    """Print what refreshes changed in an output and why, oldest first; its definition asks for the feed."""
    from materializer.adapters.cli.render.show import ChangesResult

    columns, rows, total = call.lake.show_changes(name, limit=limit, after_refresh=after, reason=reason)
    call.show(ChangesResult(name, tuple(columns), tuple(rows), total, call.lake.times(name)))


def verify(
    call: CommandCall, name: NameOrAll = None, *, every: All = False, start: Start = None, end: End = None
) -> None:
    """Compare aggregates with plain Spark over their source; exits 1 when one differs."""
    from materializer.adapters.cli.render.verify import VerifyResult

    def one(name: str) -> VerifyResult:
        report = call.lake.verify(name, start, end)
        if not report.is_equal:
            what, hint = (
                f"{report.differing:,} rows",
                f"'materializer invalidate {name} --all-time' and a refresh compute it again",
            )
            if not report.differing:
                what = f"the types of {', '.join(column for column, _, _ in report.types)}"
                hint = f"'materializer doctor {name}' says whether something else wrote its tables"
            wrong.append(
                VerifyFailedError(f"'{name}' differs from plain Spark in {what}", hint=f"{hint}; report what differed")
            )
        return VerifyResult(report, call.lake.grid(name).shown, call.lake.times(name))

    wrong: list[VerifyFailedError] = []
    call.each("verified", call.names(name, is_all=every), one)
    for error in wrong:
        call.fail(error)


def diff(
    call: CommandCall, name: Name, *, against: Against, start: Start = None, end: End = None, limit: Limit = 10
) -> None:
    """Compare the rows of an aggregate in two lakes; exits 1 when they differ."""
    from materializer.adapters.cli.render.diff import DiffResult

    call.show(DiffResult(call.lake.diff(name, call.other(against), start, end, limit=limit)))


def check(
    call: CommandCall,
    name: NameOrAll = None,
    *,
    every: All = False,
    start: Start = None,
    end: End = None,
    suite: SuiteFile = None,
    docs: Docs = None,
) -> None:
    """Answer the suite of aggregates about what they publish; exits 1 when something critical is not met."""
    from materializer.adapters.cli.render.check import CheckResult

    def one(name: str) -> CheckResult:
        report = call.lake.check(name, start, end, suite=suite, docs=docs)
        if not report.verdict.is_publishable:
            text = "; ".join(f.words() for f in report.verdict.failed)
            hint = (
                "correct the source and refresh, or mend the suite; "
                f"'materializer invalidate {name} --all-time' and a refresh compute it again"
            )
            wrong.append(
                QualityCheckError(f"what '{name}' publishes does not meet its expectations: {text}", hint=hint)
            )
        return CheckResult(report, call.lake.grid(name).shown, call.lake.times(name))

    wrong: list[QualityCheckError] = []
    call.each("checked", call.names(name, is_all=every), one)
    for error in wrong:
        call.fail(error)


def doctor(call: CommandCall, name: MaybeName = None, *, deep: Deep = False) -> None:
    """Print what stands in the way of the next refresh and how to mend it; exits 1 when something does."""
    from materializer.adapters.cli.render.doctor import DoctorResult

    call.show(DoctorResult(tuple(call.lake.doctor(name, is_deep=deep))))


def _fresh(call: CommandCall, name: str, limit: int, start: str | None, end: str | None) -> ShowResult:
    from materializer.adapters.cli.render.show import FreshCost, ShowResult

    read = call.lake.fresh(name, start, end)
    found = read.fetch(limit)
    rows = tuple(tuple(row.values()) for row in found.table.to_pylist())
    return ShowResult(name, tuple(found.table.column_names), rows, FreshCost.of(read, found.cost))


COMMANDS: Final = listed(PANEL, status, history, show, export, changes, verify, diff, check, doctor)
