"""What benchmarks found, kept as one line of JSON for each run with ``--json``: ``docs/benchmarks/history.jsonl``."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "docs" / "benchmarks" / "history.jsonl"


def keep(benchmark: str, found: Mapping[str, Any], file: Path = FILE) -> dict[str, Any]:
    """Append what a benchmark found, with when, of which commit and on what machine, and return the entry."""
    entry = {
        "benchmark": benchmark,
        "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "commit": _commit(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "java": _java()},
        "found": dict(found),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")
    return entry


def newest(file: Path = FILE) -> dict[str, dict[str, Any]]:
    """Return the last entry of each benchmark; raises ValueError for a line that cannot be read."""
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.is_file() else [], 1):
        try:
            entry = json.loads(line)
            found[entry["benchmark"]] = entry
        except (ValueError, KeyError, TypeError) as exc:
            raise ValueError(f"line {number} of {file} is no entry: {exc!r}") from exc
    return found


def _commit() -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    changed = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True, check=False)
    return (said.stdout.strip() or "unknown") + ("+" if changed.stdout.strip() else "")


def _java() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return said.split('"')[1] if '"' in said else "unknown"
