"""Which aggregates there are, read without Spark: from the journal of a lake, or from a folder of definitions.

Airflow reads files in ``dags/`` again and again, each time in a new process. What is read is therefore kept: in this
process as the journal keeps it, and between processes in one file of Airflow's home, which holds for one version of the
journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from materializer.core.parse import parse_report
from materializer.core.spec import AggregateSpec
from materializer.errors import DefinitionError, MaterializerError

_NAME: Final = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?MATERIALIZED\s+VIEW\s+[`\"]?(\w+)", re.IGNORECASE)
_FORMAT: Final = 1
"""Raised when what the kept file holds changes its meaning."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One aggregate, or what is wrong with it.

    Args:
        name: Its name.
        spec: Its definition, or None when that cannot be read.
        source: Where the table lies that it reads, absolute; empty when unknown.
        last: Its last refresh in a few words, or empty.
        problem: Why there is no definition.
    """

    name: str
    spec: AggregateSpec | None = None
    source: str = ""
    last: str = ""
    problem: str = ""


def read_lake(root: Path, *, kept: Path | None = None, only: str | None = None) -> list[Entry]:
    """Return the aggregates of the lake at *root*, by name.

    Args:
        root: Root folder of the lake.
        kept: Folder in which what was read is kept between processes, or None.
        only: Return this one alone; the others are not even decoded.

    Raises:
        MaterializerError: If the journal as a whole cannot be read.
    """
    stamp = _stamp(root)
    file = kept / f"materializer-{hashlib.sha256(str(root).encode()).hexdigest()[:16]}.json" if kept else None
    rows = _kept(file, stamp) if file else None
    if rows is None:
        rows = list(_journal_rows(root))
        if file is not None:
            _keep(file, stamp, rows)
    wanted = (row for row in rows if only is None or row["name"] == only)
    return sorted((_entry(row) for row in wanted), key=lambda e: e.name.lower())


def read_folder(folder: Path, root: Path) -> list[Entry]:
    """Return the aggregates that the ``*.sql`` files of a folder define, by name; a broken file spoils only itself.

    Args:
        folder: Where the files lie.
        root: Root folder of the lake that sources are looked for in.
    """
    entries: dict[str, Entry] = {}
    for file in sorted(folder.glob("*.sql")):
        for entry in _file_entries(file):
            twice = entries.get(entry.name.lower())
            if twice is None:
                entries[entry.name.lower()] = entry
            else:
                problem = f"{entry.name} is defined twice, the second time in {file}"
                entries[entry.name.lower()] = Entry(twice.name, problem=twice.problem or problem)
    names = {e.name.lower(): e.name for e in entries.values()}
    placed = [replace(e, source=_source(e.spec, names, root)) if e.spec else e for e in entries.values()]
    return sorted(placed, key=lambda e: e.name.lower())


def output_of(root: Path, name: str) -> str:
    """Return where the output of an aggregate lies."""
    return str(root / name / "output")


def _file_entries(file: Path) -> Iterator[Entry]:
    text = ""
    try:
        text = file.read_text(encoding="utf-8")
        specs: Iterable[AggregateSpec] = parse_report(text, file=str(file)).specs
    except (MaterializerError, OSError, ValueError) as exc:
        problem = exc.message if isinstance(exc, MaterializerError) else f"{file}: {exc}"
        yield from (Entry(name, problem=problem) for name in _NAME.findall(text) or [file.stem])
    else:
        yield from (Entry(spec.name, spec) for spec in specs)


def _source(spec: AggregateSpec, names: Mapping[str, str], root: Path) -> str:
    if spec.source.lower() in names:
        return output_of(root, names[spec.source.lower()])
    path = Path(spec.source)
    return str(path if path.is_absolute() else root / path)


# -- from the journal ----------------------------------------------------------------------------------------------------


def _stamp(root: Path) -> str:
    """What changes with every version of the journal: its newest commit file, and which file that is."""
    log = root / "_materializer" / "journal" / "_delta_log"
    try:
        newest = max((e for e in os.scandir(log) if e.name.endswith(".json")), key=lambda e: e.name)
        return f"{_FORMAT}/{newest.name}/{newest.stat().st_mtime_ns}/{newest.inode()}"
    except (OSError, ValueError):
        return f"{_FORMAT}/none"


def _journal_rows(root: Path) -> Iterator[dict[str, Any]]:
    from materializer.journal.journal import Journal  # noqa: PLC0415 - loads Arrow, which kept rows do without

    view = Journal(root).view()
    for broken in view.broken.values():  # its DAG says that it cannot be read
        yield {"name": broken.name or broken.id, "spec": {}, "source": "", "last": ""}
    for state in view.states.values():
        ended = state.ended[-1] if state.ended else None
        last = ""
        if ended is not None:
            did = asdict(ended.report)
            last = (
                f"refresh {ended.n} {ended.outcome} at {ended.at}: {did['strategy'] or 'nothing'}, "
                f"{did['buckets']} buckets, {did['rows_read']} rows read, {did['seconds']:.1f} s, "
                f"source version {did['source_version']}"
            )
        yield {"name": state.name, "spec": dict(state.spec), "source": state.source.path, "last": last}


def _entry(row: Mapping[str, Any]) -> Entry:
    name = str(row["name"])
    try:
        spec = AggregateSpec.from_json(row["spec"])
    except (KeyError, TypeError, ValueError, DefinitionError) as exc:
        return Entry(name, problem=f"the journal holds a definition that cannot be read: {exc!r}")
    return Entry(name, spec, str(row["source"]), str(row["last"]))


def _kept(file: Path, stamp: str) -> list[dict[str, Any]] | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["stamp"] == stamp:
            return list(data["rows"])
    return None


def _keep(file: Path, stamp: str, rows: list[dict[str, Any]]) -> None:
    # a whole file or none, whoever else writes it; not being able to keep it costs only time
    own = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(json.dumps({"stamp": stamp, "rows": rows}), encoding="utf-8")
        own.replace(file)
