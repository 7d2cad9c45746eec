"""Repairs, backups and restores in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from materializer.adapters.cli.words import count, duration, table, wrapped

if TYPE_CHECKING:
    from materializer.services.repair.apply import RepairReport
    from materializer.services.repair.backup import BackupReport, RestoreReport

_CHANGES = {
    "same": "the same",
    "older": "the backup is older",
    "newer": "the backup is newer",
    "gone": "not in the backup: its tables stay, nobody knows them",
    "back": "only in the backup",
    "another": "dropped and made anew since the backup",
}


def repair_lines(report: RepairReport, width: int) -> Iterator[str]:
    """Yield what was found and what was, or would be, done."""
    if report.outcome == "sound":
        yield f"{report.name}: nothing to repair"
        return
    yield f"{report.name}:"
    for _, words in report.mending.wrong:
        yield from wrapped(words, "  wrong    ", width=width)
    for n, how in report.recovered:
        yield from wrapped(f"refresh {n} had not ended, it is {how} now", "  done     ", width=width)
    head = "  done     " if report.outcome == "repaired" else "  would do "
    for step in report.mending.steps:
        yield from wrapped(step, head, width=width)
    for folder in report.left:
        yield from wrapped(folder, "  left     ", width=width)
    if report.outcome == "repaired":
        next_ = f"'materializer refresh {report.name}' computes what is dirty"
        yield from wrapped(f"{duration(report.seconds)}; {next_}", "  ", width=width)
    else:
        yield "  nothing was written; with --yes it is done"


def backup_lines(report: BackupReport, width: int) -> Iterator[str]:
    """Yield what was copied."""
    made = report.manifest
    text = (
        f"version {made.version} of the journal, {count(len(made.aggregates), 'aggregate')}, {duration(report.seconds)}"
    )
    yield from wrapped(f"{report.folder}: {text}", width=width)
    yield "  the copy was read and is whole; tables are not in it"


def restore_lines(report: RestoreReport, width: int) -> Iterator[str]:
    """Yield what differs, what was done, and what needs a repair."""
    made = report.manifest
    yield from wrapped(f"{report.folder}: version {made.version} of the journal, made {made.made_at}", width=width)
    if report.problem:
        yield from wrapped(report.problem, "  in place ", width=width)
    rows = [(d.name, _n(d.backup), _n(d.current), _CHANGES[d.change]) for d in report.differences]
    yield from table(("aggregate", "backup", "in place", ""), rows, right=[1, 2], indent=2)
    if report.outcome == "planned":
        yield "  nothing was written; with --yes the backup is put in place, and what is there is kept beside it"
        return
    if report.aside:
        yield from wrapped(report.aside, "  kept     ", width=width)
    for name, wrong in (report.repairs or {}).items():
        yield from wrapped(f"{'; '.join(wrong)}: run 'materializer repair {name}'", f"  {name}: ", width=width)
    for name in report.given_up:
        yield from wrapped(
            "the next version was given up, its tables are not those of the backup: apply the definition again",
            f"  {name}: ",
            width=width,
        )
    if not report.repairs:
        yield "  every table agrees with it"


def _n(n: int | None) -> str:
    return "-" if n is None else str(n)
