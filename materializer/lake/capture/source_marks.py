"""Whether a source is still the one that was captured: by the commit at the cursor, its id, and its columns underneath.

A column is more than its name. With column mapping it keeps a physical name and a field id when it is renamed, and one that is
dropped and added again gets others. A commit is more than its number: a table that was put back from an older copy and then
written to has other commits under the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from deltalake.exceptions import DeltaError
from msgspec.structs import replace

from materializer.core.refresh.invalidation import SourceMark
from materializer.errors import LogGapError, MaterializerError, SourceDamagedError, TableNotFoundError
from materializer.lake import places
from materializer.lake.log import digest_of, lines_of
from materializer.lake.table import DeltaFolder, open_table

_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


def names_underneath(schema_json: str) -> dict[str, str]:
    """Return what Delta calls each column of a schema, with the fields inside it, by its name in small letters.

    It is the physical name, and the names of fields in brackets. Without column mapping it is the name itself, so a table that is
    upgraded to column mapping has the same columns as before.

    Examples:
        >>> names_underneath('{"fields": [{"name": "X", "type": "long", "metadata": {}}]}')
        {'x': 'X'}
    """
    return {field["name"].lower(): _underneath(field) for field in json.loads(schema_json)["fields"]}


def _underneath(field: Mapping[str, Any]) -> str:
    name = str((field.get("metadata") or {}).get(_NAME, field["name"]))
    return name + _inside(field["type"])


def _inside(kind: Any) -> str:
    if isinstance(kind, str):
        return ""
    match kind["type"]:
        case "struct":
            named = (f"{field['name'].lower()}={_underneath(field)}" for field in kind["fields"])
            return f"({', '.join(sorted(named))})"
        case "array":
            return _inside(kind["elementType"])
        case "map":
            return _inside(kind["keyType"]) + _inside(kind["valueType"])
    return ""


def digest(path: str, version: int) -> str:
    """Return the digest of a commit; "" if the log no longer has the commit."""
    try:
        return digest_of(lines_of(path, version))
    except (LogGapError, SourceDamagedError, TableNotFoundError):
        return ""


def mark(table: DeltaFolder, version: int, reads: Iterable[str], reason: str = "") -> SourceMark:
    """Return what a source is at its newest version.

    Args:
        table: The source.
        version: Its newest version.
        reads: The columns that are read.
        reason: Why everything is dirty; "" if it is not.
    """
    try:
        found = table.commits(version - 1, version)[0].digest  # which a capture has read
    except LogGapError:
        found = ""
    named = names_underneath(table.schema_json())
    columns = {name.lower(): named[name.lower()] for name in reads if name.lower() in named}
    return SourceMark(columns, {str(version): found} if found else {}, table.file_of(version) or (), reason)


def mark_anew(table: DeltaFolder, version: int, reads: Iterable[str], reason: str, known: SourceMark) -> SourceMark:
    """Return the mark of a source that is not the one that was *known*, with the newest commit that both have."""
    common, found = last_common(table, known), mark(table, version, reads, reason)
    before = {} if common is None else {str(common): known.commits[str(common)]}
    return replace(found, commits=before | dict(found.commits))


def has_other_commit(table: DeltaFolder, version: int, known: SourceMark) -> bool:
    """Return whether a captured version is another commit now; False where the log does not say it."""
    before = known.commits.get(str(version))
    # a store would be asked for an older file, while a process that captured its commit remembers the text
    is_at_hand = places.is_local(table.path) or table.head().version == version
    if not before or (is_at_hand and known.file == table.file_of(version)):
        return False
    found = digest(table.path, version)
    return bool(found) and found != before


def last_common(table: DeltaFolder, known: SourceMark) -> int | None:
    """Return the newest captured version whose commit is still the same; None if none of those that are remembered is."""
    same = (int(v) for v, before in known.commits.items() if digest(table.path, int(v)) == before)
    return max(same, default=None)


def columns_before(table: DeltaFolder, cursor: int, known: SourceMark, reads: Iterable[str]) -> Mapping[str, str]:
    """Return what the columns were called underneath at the cursor; by the log where no capture says it, {} where nothing does."""
    wanted = {name.lower() for name in reads}
    if not wanted - known.columns.keys():
        return known.columns
    try:
        named = names_underneath(open_table(table.path, cursor).schema().to_json())
    except (MaterializerError, DeltaError):
        return known.columns
    return {name: named[name] for name in wanted & named.keys()} | dict(known.columns)


def goes_on(table: DeltaFolder, cursor: int, table_id: str, known: SourceMark) -> bool:
    """Return whether the log of a table with another id goes on from what was captured: a commit after the cursor replaced it."""
    if table.head().version <= cursor or has_other_commit(table, cursor, known):
        return False
    try:
        return str(open_table(table.path, cursor).metadata().id) == table_id
    except (MaterializerError, DeltaError):
        return False


def what_happened(table: DeltaFolder, cursor: int, table_id: str, known: SourceMark) -> str:
    """Return what became of a table with another id, as far as its log says."""
    head = table.head().version
    if goes_on(table, cursor, table_id, known):
        return f"version {replaced_at(table, cursor, head, table_id)} of the source replaced the table"
    if head < cursor or digest(table.path, cursor):
        return "the source was dropped and recreated"
    return "the source was replaced, or dropped and recreated: its log no longer says which"


def replaced_at(table: DeltaFolder, cursor: int, version: int, table_id: str) -> int:
    """Return the last version after the cursor that gave the table another id."""
    commits = table.commits(cursor, version)
    return max((c.version for c in commits if c.metadata and c.metadata.id != table_id), default=version)
