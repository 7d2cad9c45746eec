"""``backup`` and ``restore``: a copy of the journal, and what differs from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import count, duration, table, wrapped

if TYPE_CHECKING:
    from materializer.services.repair.backup import BackupReport, RestoreReport

_CHANGES = {
    "same": "the same",
    "older": "the backup is older",
    "newer": "the backup is newer",
    "gone": "not in the backup: its tables stay, nobody knows them",
    "back": "only in the backup",
    "another": "dropped and made anew since the backup",
}


class BackupResult(Result, frozen=True):
    """What ``backup`` copied."""

    report: BackupReport

    def form(self) -> dict[str, Any]:
        return _manifest_form(self.report) | {"seconds": round(self.report.seconds, 3)}

    def lines(self, width: int) -> Iterator[str]:
        r, made = self.report, self.report.manifest
        text = (
            f"version {made.version} of the journal, {count(len(made.aggregates), 'aggregate')}, {duration(r.seconds)}"
        )
        yield from wrapped(f"{r.folder}: {text}", width=width)
        yield "  the copy was read and is whole; tables are not in it"


class RestoreResult(Result, frozen=True):
    """What ``restore`` did, or would do."""

    report: RestoreReport

    def form(self) -> dict[str, Any]:
        r = self.report
        repairs = None if r.repairs is None else [{"name": name, "wrong": list(w)} for name, w in r.repairs.items()]
        return _manifest_form(r) | {
            "outcome": r.outcome,
            "problem": r.problem,
            "differences": [
                {"name": d.name, "backup": d.backup, "current": d.current, "change": d.change} for d in r.differences
            ],
            "aside": r.aside or None,
            "repairs": repairs,
            "given_up": list(r.given_up),
            "outlived": [{"name": o.name, "below": o.below, "groups": o.groups} for o in r.outlived],
            "seconds": round(r.seconds, 3),
        }

    def lines(self, width: int) -> Iterator[str]:
        r = self.report
        made = f"version {r.manifest.version} of the journal, made {r.manifest.made_at}"
        yield from wrapped(f"{r.folder}: {made}", width=width)
        if r.problem:
            yield from wrapped(r.problem, "  in place ", width=width)
        rows = [(d.name, _n(d.backup), _n(d.current), _CHANGES[d.change]) for d in r.differences]
        yield from table(("aggregate", "backup", "in place", ""), rows, right=[1, 2], indent=2)
        for o in r.outlived:
            stays = (
                "--as-stored freezes it, else a refresh would remove it"
                if r.outcome == "planned"
                else "frozen as it is stored"
            )
            text = f"about {count(o.groups, 'group')} below {o.below}, whose raw rows are gone: {stays}"
            yield from wrapped(text, f"  {o.name}: ", width=width)
        if r.outcome == "planned":
            yield "  nothing was written; with --yes the backup is put in place, and what is there is kept beside it"
            return
        if r.aside:
            yield from wrapped(r.aside, "  kept     ", width=width)
        for name, wrong in (r.repairs or {}).items():
            yield from wrapped(f"{'; '.join(wrong)}: run 'materializer repair {name}'", f"  {name}: ", width=width)
        for name in r.given_up:
            why = "its tables are not those of the backup: apply the definition again"
            yield from wrapped(f"the next version was given up, {why}", f"  {name}: ", width=width)
        if not r.repairs:
            yield "  every table agrees with it"


def _manifest_form(report: BackupReport | RestoreReport) -> dict[str, Any]:
    m = report.manifest
    aggregates = [{"name": name, "refresh": n} for name, n in m.aggregates.items()]
    return {
        "folder": report.folder,
        "made_at": m.made_at,
        "lake": m.lake,
        "version": m.version,
        "aggregates": aggregates,
    }


def _n(n: int | None) -> str:
    return "-" if n is None else str(n)
