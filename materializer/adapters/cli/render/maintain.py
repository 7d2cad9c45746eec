"""``maintain``: what is about to be done to tables, and what was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import DONE, IDLE, Result
from materializer.adapters.cli.words import count, duration, labelled, size, wrapped
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.maintenance.maintain import MaintainReport, TableDone, TablePlan


class MaintainResult(Result, frozen=True):
    """What ``maintain`` found in one aggregate or the journal, and did."""

    listing = "maintained"
    report: MaintainReport

    @property
    def exit_status(self) -> int:
        return DONE if self.report.has_work else IDLE

    def form(self) -> dict[str, Any]:
        r = self.report
        done = {d.table: as_dict(d) for d in r.done}
        return {
            "name": r.name,
            "dry_run": r.is_dry_run,
            "tables": [_table_form(p, done.get(p.table)) for p in r.plans],
            "seconds": round(r.seconds, 3),
        }

    def lines(self, width: int) -> Iterator[str]:
        report, took = self.report, duration(self.report.seconds)
        tables: list[tuple[str, str]] = []
        if not report.has_work:
            what = f"nothing to maintain, {took}"
        elif report.done:
            what = f"maintained, {took}"
            tables = [(d.table, _done_text(d)) for d in report.done]
        else:
            what = "would be maintained" if report.is_dry_run else "maintaining"
            tables = [(p.table, _plan_text(p)) for p in report.plans]
        yield from wrapped(what, f"{report.name or 'journal of the lake'}: ", width=width)
        yield from labelled(tables, width=width)


def _table_form(p: TablePlan, done: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "table": p.table,
        "files": p.files,
        "rows": p.rows,
        "bytes": p.bytes,
        "small_files": p.small,
        "deepest": p.deepest,
        "rewrite": {
            "commits": len(p.groups),
            "files": sum(len(g.pieces) for g in p.groups),
            "rows": sum(g.rows for g in p.groups),
            "bytes": sum(g.bytes for g in p.groups),
        },
        "leftovers": {"files": p.leftovers, "bytes": p.leftover_bytes},
        "log": {"since_checkpoint": p.since_checkpoint, "expired": p.expired},
        "fold": p.fold,
        "done": None if done is None else {k: v for k, v in done.items() if k != "table"},
    }


def _plan_text(plan: TablePlan) -> str:
    """Return what one table has and what maintenance would do to it."""
    has = f"{count(plan.files, 'file')}, {count(plan.rows, 'row')}, {size(plan.bytes)}"
    if plan.small or plan.deepest > 1:
        has += f"; {plan.small:,} small, at most {plan.deepest:,} over each other"
    parts = []
    if plan.groups:
        files, rows = sum(len(g.pieces) for g in plan.groups), sum(g.rows for g in plan.groups)
        amount = size(sum(g.bytes for g in plan.groups))
        commits = count(len(plan.groups), "commit")
        parts.append(f"write {count(files, 'file')} again ({count(rows, 'row')}, {amount}) in {commits}")
    if plan.fold:
        parts.append(f"fold {count(plan.fold, 'commit')} into one file")
    if plan.leftovers:
        parts.append(f"remove {count(plan.leftovers, 'file')} that nobody needs ({size(plan.leftover_bytes)})")
    if plan.is_log_long:
        gone = f" and let go of {count(plan.expired, 'old file')} of the log" if plan.expired else ""
        parts.append(f"write a checkpoint, {count(plan.since_checkpoint, 'commit')} after the last{gone}")
    return f"{has}\n{'; '.join(parts) or 'nothing to do'}"


def _done_text(done: TableDone) -> str:
    parts = []
    if done.rewritten:
        what = f"{count(done.rewritten, 'file')} became {done.added:,} ({count(done.rows, 'row')})"
        parts.append(f"{what} in {count(done.commits, 'commit')}")
    elif done.commits:
        parts.append("folded into one file")
    if done.removed:
        parts.append(f"{count(done.removed, 'file')} removed ({size(done.removed_bytes)})")
    if done.checkpoint:
        parts.append("checkpoint written")
    return f"{'; '.join(parts) or 'nothing to do'}; now {count(done.files, 'file')}, {size(done.bytes)}"


def maintained_text(done: Mapping[str, Any]) -> str:
    """Return what the last maintenance of an aggregate did, from the journal."""
    rewritten, added, removed = (sum(t[key] for t in done["tables"]) for key in ("rewritten", "added", "removed"))
    parts = [
        f"{count(rewritten, 'file')} became {added:,}" if rewritten else "",
        f"{count(removed, 'file')} removed" if removed else "",
    ]
    what = ", ".join(filter(None, parts)) or "logs shortened"
    return f"{done['at']}, after refresh {done['n']}: {what}, {duration(done['seconds'])}"
