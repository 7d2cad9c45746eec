"""Maintenance as lines for people: what is about to be done, and what was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.words import count, duration, labelled, size, wrapped

if TYPE_CHECKING:
    from materializer.services.maintenance.maintain import MaintainReport, TableDone, TablePlan


def maintain_lines(report: MaintainReport, width: int) -> Iterator[str]:
    """Yield what was done, or what would be where nothing was done yet."""
    subject = report.name or "journal of the lake"
    if not report.has_work:
        yield from wrapped(f"nothing to maintain, {duration(report.seconds)}", f"{subject}: ", width=width)
        return
    if report.done:
        yield from wrapped(f"maintained, {duration(report.seconds)}", f"{subject}: ", width=width)
        yield from labelled([(d.table, _done(d)) for d in report.done], width=width)
        return
    yield from wrapped("would be maintained" if report.is_dry_run else "maintaining", f"{subject}: ", width=width)
    yield from labelled([(p.table, plan_text(p)) for p in report.plans], width=width)


def plan_text(plan: TablePlan) -> str:
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


def _done(done: TableDone) -> str:
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
    tables = done["tables"]
    rewritten, added, removed = (sum(t[key] for t in tables) for key in ("rewritten", "added", "removed"))
    what = [f"{count(rewritten, 'file')} became {added:,}" if rewritten else ""]
    what.append(f"{count(removed, 'file')} removed" if removed else "")
    told = ", ".join(filter(None, what)) or "logs shortened"
    return f"{done['at']}, after refresh {done['n']}: {told}, {duration(done['seconds'])}"
