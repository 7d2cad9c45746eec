"""What benchmarks found, kept as one line of JSON for each run with ``--keep`` or ``--json``: ``docs/benchmarks/history.jsonl``."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.paths import ROOT

FILE: Final = ROOT / "docs" / "benchmarks" / "history.jsonl"


_NOT_KEPT: Final = frozenset({"folder", "timescaledb", "json", "keep"})
"""Options that say where somebody works, hold a password, or change no figure."""


def keep(benchmark: str, found: Mapping[str, Any], file: Path = FILE) -> dict[str, Any]:
    """Append what a benchmark found, with when, of which commit and on what machine, and return the entry."""
    kept = dict(found)
    if "options" in kept:
        kept["options"] = {name: value for name, value in kept["options"].items() if name not in _NOT_KEPT}
    entry = {"benchmark": benchmark, "at": now(), "commit": commit(), "machine": machine(), "found": kept}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")
    return entry


def every(file: Path = FILE) -> list[dict[str, Any]]:
    """Return every entry, the oldest first; raises ValueError for a line that cannot be read."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.is_file() else [], 1):
        try:
            entry = json.loads(line)
            found.append(entry)
            assert isinstance(entry["benchmark"], str)
        except (ValueError, KeyError, TypeError) as exc:
            raise ValueError(f"line {number} of {file} is no entry: {exc!r}") from exc
    return found


def newest(file: Path = FILE) -> dict[str, dict[str, Any]]:
    """Return the last entry of each benchmark; raises ValueError for a line that cannot be read."""
    return {entry["benchmark"]: entry for entry in every(file)}


def now() -> str:
    """Return the time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def machine() -> dict[str, Any]:
    """Return what a figure depends on: cores, memory in GB, versions; neither a name nor a folder."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory),
        "python": platform.python_version(),
        "java": _java(),
    }


def commit() -> str:
    """Return the commit that is checked out, with a ``+`` where files other than pages and records differ from it."""
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    changed = subprocess.run(
        ["git", "status", "--porcelain", "-uno", "--", ".", ":!docs"], cwd=ROOT, capture_output=True, check=False
    )
    return (said.stdout.strip() or "unknown") + ("+" if changed.stdout.strip() else "")


def _java() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return said.split('"')[1] if '"' in said else "unknown"
