"""Which aggregates there are, kept beside the journal as one file of JSON.

Whoever only looks at definitions, and does so again and again in new processes (Airflow reads a file in ``dags/`` every few
seconds), shall not pay for opening a Delta table each time. The file can be thrown away at any time: it names the version
of the journal that it was made of, and that version's commit file. It holds for newer versions too as long as their commits
say that they did nothing of what is listed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from materializer.core.codec import as_json, from_json

if TYPE_CHECKING:
    from materializer.journal.view import View

_FILE: Final = "_materializer/listing.json"
_LOG: Final = "_materializer/journal/_delta_log"
_FORMAT: Final = 1
"""Raised when what the file holds changes its meaning."""
_LISTS_NOTHING_ELSE: Final = frozenset(
    {
        "lease_taken",
        "lease_renewed",
        "lease_released",
        "captured",
        "invalidated",
        "frozen",
        "retired",
        "planned",
        "audited",
        "delivered",
        "policy_ran",
        "checked",
        "maintained",
        "build_started",
        "switch_planned",
        "build_closed",
        "build_opened",
        "snapshot",
    }
)
"""Events that change neither an aggregate's name, definition and source nor its last refresh; others may."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One aggregate as it is listed.

    Args:
        name: Its name.
        spec: Its definition as JSON; empty when an event of it cannot be read.
        source: Where the table lies that it reads, absolute.
        last: Its last refresh in a few words, or empty.
    """

    name: str
    spec: Mapping[str, Any]
    source: str
    last: str


def listed(view: View) -> list[Listed]:
    """Return what there is to list, from the journal itself."""
    rows = [Listed(broken.name or broken.id, {}, "", "") for broken in view.broken.values()]
    for state in view.states.values():
        last = ""
        if state.ended:
            ended, did = state.ended[-1], state.ended[-1].report
            last = (
                f"refresh {ended.n} {ended.outcome} at {ended.at}: {did.strategy or 'nothing'}, {did.buckets} buckets, "
                f"{did.rows_read} rows read, {did.seconds:.1f} s, source version {did.source_version}"
            )
        rows.append(Listed(state.name, state.spec, state.source.path, last))
    return rows


def write(root: Path, view: View) -> None:
    """Keep the list for :func:`read`; not being able to costs its readers time and nothing else."""
    commit = _commit(root, view.version)
    if commit is None or view.broken:
        return
    rows = [as_json(row) for row in listed(view)]
    text = json.dumps({"format": _FORMAT, "version": view.version, "commit": commit, "rows": rows})
    own = root / f"{_FILE}.{os.getpid()}"
    with suppress(OSError, ValueError):
        if (root / _FILE).read_text(encoding="utf-8") == text:
            return
    with suppress(OSError):
        own.write_text(text, encoding="utf-8")
        own.replace(root / _FILE)  # a whole file or none, whoever else writes it
    with suppress(OSError):
        own.unlink(missing_ok=True)


def read(root: Path) -> list[Listed] | None:
    """Return what was kept, or None when it may not be what the journal says now."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((root / _FILE).read_text(encoding="utf-8"))
        if kept["format"] != _FORMAT or kept["commit"] != _commit(root, kept["version"]):
            return None
        version = kept["version"] + 1
        while (commit := root / _LOG / f"{version:020d}.json").exists():
            if not _kinds(commit) <= _LISTS_NOTHING_ELSE:
                return None
            version += 1
        return [from_json(Listed, row) for row in kept["rows"]]
    return None


def _commit(root: Path, version: int) -> list[int] | None:
    """Return what tells the commit file of *version* from any other file, None when it is gone."""
    with suppress(OSError):
        stat = (root / _LOG / f"{version:020d}.json").stat()
        return [stat.st_ino, stat.st_mtime_ns, stat.st_size]
    return None


def _kinds(commit: Path) -> set[str]:
    """Return the kinds of events that a commit says it holds.

    Raises:
        ValueError, KeyError: If it does not say.
    """
    lines = (json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines())
    [info] = (line["commitInfo"] for line in lines if "commitInfo" in line)
    return set(json.loads(info["userMetadata"])["kinds"])
