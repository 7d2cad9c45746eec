"""List aggregates without Spark, from the journal of a lake or from a folder of definitions.

Airflow parses files in ``dags/`` again and again, each time in a new process. So the list is cached. Within a process the
journal caches it. Between processes the list beside the journal is used, or else a file in Airflow's home. That file is valid
for one version of the journal, and for each definition file until the definition file changes. A lake on a store costs two requests
a parse, and a folder of definitions there one, as long as nothing changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from materializer import __version__
from materializer.core.codec import as_json
from materializer.core.spec.spec import NAME, AggregateSpec
from materializer.errors import DefinitionError, MaterializerError
from materializer.journal import catalog
from materializer.journal.catalog import Listed
from materializer.lake import places
from materializer.lake.failures import translated

_NAME: Final = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?MATERIALIZED\s+VIEW\s+[`\"]?(\w+)", re.IGNORECASE)
_JOURNAL: Final = "journal"
_FORMAT: Final = f"2 of {__version__}"
"""Format of the cache file; it changes with the meaning of the file's content, and with the version of the parser."""


class CatalogEntry(Struct, frozen=True):
    """One aggregate, or the reason why it cannot be read.

    Args:
        name: Name of the aggregate.
        spec: Its definition; None if the definition cannot be read.
        source: Absolute path of its source table; empty if unknown.
        last: Its last refresh in a few words, or empty.
        problem: The reason why there is no definition.
    """

    name: str
    spec: AggregateSpec | None = None
    source: str = ""
    last: str = ""
    problem: str = ""


def read_lake(root: str | Path, *, cache: Path | None = None, only: str | None = None) -> list[CatalogEntry]:
    """Return the aggregates of the lake at *root*, by name.

    Args:
        root: Root of the lake.
        cache: Folder for the cache between processes, or None.
        only: Name of the only aggregate to return; the others are not even decoded.

    Raises:
        MaterializerError: If the journal as a whole cannot be read.
    """
    place = places.resolved(root)
    rows = catalog.read(place)
    if rows is None:
        rows_cache = _Cache(cache, place)
        rows = [Listed(**row) for row in rows_cache.get(_JOURNAL, _stamp(place), lambda: _journal_rows(place))]
        rows_cache.close()
    wanted = (row for row in rows if only is None or row.name == only)
    return sorted((_entry(row) for row in wanted), key=lambda e: e.name.lower())


def read_folder(
    folder: str | Path,
    root: str | Path,
    *,
    cache: Path | None = None,
    sources: Mapping[str, str] = MappingProxyType({}),
) -> list[CatalogEntry]:
    """Return the aggregates that the ``*.sql`` files of a folder define, by name; a broken file affects only its aggregate.

    Args:
        folder: Folder of the files.
        root: Root of the lake in which sources are looked up.
        cache: Folder for the cache between processes, or None; with a cache only changed files are parsed.
        sources: Paths of the sources in the configuration, by name.

    Raises:
        StorageError: If the store of the folder cannot be read.
    """
    place, lake = places.resolved(folder), places.resolved(root)
    entries: dict[str, CatalogEntry] = {}
    rows_cache = _Cache(cache, place)
    with translated(place, "reading the definitions in"):
        files = places.identities(place)
    for name in sorted(name for name in files if name.endswith(".sql")):
        file = f"{place}/{name}"
        try:
            rows = rows_cache.get(name, _stamp_of(name, files[name]), partial(_file_rows, file))
        except OSError as exc:  # not cached: the next parse may be able to read it
            rows = [{"name": name.removesuffix(".sql"), "spec": {}, "problem": f"{file}: {exc}"}]
        for entry in (_entry(Listed(row["name"], row["spec"], "", ""), row["problem"]) for row in rows):
            twice = entries.get(entry.name.lower())
            if twice is None:
                entries[entry.name.lower()] = entry
            else:
                problem = f"{entry.name} is defined twice, the second time in {file}"
                entries[entry.name.lower()] = CatalogEntry(twice.name, problem=twice.problem or problem)
    rows_cache.close()
    names = {e.name.lower(): e.name for e in entries.values()}
    placed = [replace(e, source=_source(e.spec, names, lake, sources)) if e.spec else e for e in entries.values()]
    return sorted(placed, key=lambda e: e.name.lower())


def output_of(root: str, name: str) -> str:
    """Return the place of an aggregate's output."""
    return f"{root}/{name}/output"


def _file_rows(file: str) -> list[dict[str, Any]]:
    text = ""
    try:
        from materializer.core.language.parse import parse_report  # noqa: PLC0415 (loads the SQL parser; the cache avoids it)

        text = places.read(file).decode()
        specs = parse_report(text, file=file).specs
    except (MaterializerError, ValueError) as exc:
        problem = exc.message if isinstance(exc, MaterializerError) else f"{file}: {exc}"
        return [
            {"name": name, "spec": {}, "problem": problem}
            for name in _NAME.findall(text) or [places.name(file).removesuffix(".sql")]
        ]
    return [{"name": spec.name, "spec": spec.as_json(), "problem": ""} for spec in specs]


def _source(spec: AggregateSpec, names: Mapping[str, str], root: str, sources: Mapping[str, str]) -> str:
    if spec.source in sources:
        return places.inside(root, sources[spec.source])
    if spec.source.lower() in names:
        return output_of(root, names[spec.source.lower()])
    return places.inside(root, spec.source)


def _journal_rows(root: str) -> list[dict[str, Any]]:
    from materializer.journal.journal import Journal  # noqa: PLC0415 (loads Arrow, which lists do not need)

    return [as_json(row) for row in catalog.listed(Journal(root).view())]


def _entry(row: Listed, problem: str = "") -> CatalogEntry:
    if problem:
        return CatalogEntry(row.name, problem=problem)
    try:
        spec = AggregateSpec.from_json(row.spec)
    except (KeyError, TypeError, ValueError, AttributeError, DefinitionError) as exc:
        return CatalogEntry(row.name, problem=f"the journal holds a definition that cannot be read: {exc!r}")
    if not NAME.match(row.name):
        return CatalogEntry(row.name, problem=f"no aggregate can have the name {row.name!r}")
    return CatalogEntry(row.name, spec, row.source, row.last)


# -- cache between processes ---------------------------------------------------------------------------------------------


def _stamp(root: str) -> str:
    """Return a stamp that changes with every version of the journal: its newest commit file and that file's identity."""
    with suppress(OSError, ValueError):
        files = places.identities(f"{root}/_materializer/journal/_delta_log")
        newest = max(name for name in files if name.endswith(".json"))
        return _stamp_of(newest, files[newest])
    return "none"


def _stamp_of(name: str, identity: places.Identity) -> str:
    return "/".join(map(str, (name, *identity)))


class _Cache:
    """A cache of rows, in one file for each lake or folder; if the cache cannot be written, only time is lost.

    Args:
        folder: Folder of the cache file, or None for no cache.
        of: The lake or folder.
    """

    def __init__(self, folder: Path | None, of: str) -> None:
        digest = hashlib.sha256(of.encode()).hexdigest()[:16]
        self._file = folder / f"materializer-{digest}.json" if folder else None
        self._before = self._read()
        self._now: dict[str, Any] = {}

    def get(self, key: str, stamp: str, read: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Return the rows of *key*; they are read again unless the cache has them with the same *stamp*."""
        stored = self._before.get(key)
        is_same = isinstance(stored, dict) and stored.get("stamp") == stamp and isinstance(stored.get("rows"), list)
        self._now[key] = stored if is_same else {"stamp": stamp, "rows": read()}
        rows: list[dict[str, Any]] = self._now[key]["rows"]
        return rows

    def close(self) -> None:
        """Write the rows that were requested to the cache, and drop the other rows."""
        if self._file is None or self._now == self._before:
            return
        own = self._file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(json.dumps({"format": _FORMAT, "kept": self._now}), encoding="utf-8")
            own.replace(self._file)  # readers see a whole file or none, even if other processes write it

    def _read(self) -> dict[str, Any]:
        if self._file is not None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                data = json.loads(self._file.read_text(encoding="utf-8"))
                if data["format"] == _FORMAT:
                    return dict(data["kept"])
        return {}
