"""Repairs, backups and restores as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from materializer.journal.snapshot import Manifest
    from materializer.services.repair.apply import RepairReport
    from materializer.services.repair.backup import BackupReport, RestoreReport


def repair_form(r: RepairReport) -> dict[str, Any]:
    """Return the form of what was found and done."""
    m = r.mending
    return {
        "name": r.name,
        "outcome": r.outcome,
        "wrong": [{"code": code, "message": words} for code, words in m.wrong],
        "steps": list(m.steps),
        "everything_dirty": m.is_everything_dirty,
        "partials": m.partials.value,
        "output": m.output.value,
        "old_output": m.old_output.value,
        "refresh": m.n,
        "abandoned": m.abandons,
        "source_rows": m.source_rows,
        "partial_rows": m.partial_rows,
        "recovered": [{"refresh": n, "outcome": how} for n, how in r.recovered],
        "left": list(r.left),
        "seconds": round(r.seconds, 3),
    }


def backup_form(r: BackupReport) -> dict[str, Any]:
    """Return the form of a backup."""
    return _manifest(r.folder, r.manifest) | {"seconds": round(r.seconds, 3)}


def restore_form(r: RestoreReport) -> dict[str, Any]:
    """Return the form of a restore."""
    return _manifest(r.folder, r.manifest) | {
        "outcome": r.outcome,
        "problem": r.problem,
        "differences": [
            {"name": d.name, "backup": d.backup, "current": d.current, "change": d.change} for d in r.differences
        ],
        "aside": r.aside or None,
        "repairs": None
        if r.repairs is None
        else [{"name": name, "wrong": list(wrong)} for name, wrong in r.repairs.items()],
        "given_up": list(r.given_up),
        "seconds": round(r.seconds, 3),
    }


def _manifest(folder: str, m: Manifest) -> dict[str, Any]:
    aggregates = [{"name": name, "refresh": n} for name, n in m.aggregates.items()]
    return {"folder": folder, "made_at": m.made_at, "lake": m.lake, "version": m.version, "aggregates": aggregates}
