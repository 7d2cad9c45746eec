"""Copies of a journal: one version of it, copied while other processes write, and put in the place of another journal.

A copy is a folder that can be opened like a lake's root. Its file ``backup.json`` is written last: without it the copy is not
complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct

from materializer.errors import (
    NOTHING,
    JournalError,
    NotADeltaTableError,
    SourceDamagedError,
    StorageError,
    TableNotFoundError,
    UsageError,
)
from materializer.journal.journal import Journal
from materializer.journal.store import FOLDER
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.hostile import refuse_extraordinary, refuse_outside
from materializer.lake.log import is_begun
from materializer.lake.table import open_table
from materializer.structs import as_dict

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
TABLES: Final = ("journal", "history")
"""In the order in which they are copied. A fold writes to the history first, so a copy in this order lacks no row."""
ATTEMPTS: Final = 5
_PART: Final = "the copy is not complete, and no restore takes it"
_LAST: Final = "_last_checkpoint"
_VERSIONED: Final = re.compile(r"(\d{20})\..*(json|parquet)")


class Manifest(Struct, frozen=True):
    """The content of ``backup.json``.

    Args:
        made_at: When it was made, ISO text.
        lake: Root folder of the lake.
        version: Version of the journal.
        aggregates: Name of each aggregate, and the refresh number that its tables carried.
        format: Format of this file.
    """

    made_at: str
    lake: str
    version: int
    aggregates: Mapping[str, int]
    format: int = FORMAT


def copy_journal(root: str, to: str) -> View:
    """Copy the journal of a lake and its history, and return the copy, folded.

    Args:
        root: The lake's root.
        to: Folder of the copy; ``_materializer`` is created there.

    Raises:
        JournalError: If there is no journal, or if it or its copy cannot be read.
        StorageError: If the copy cannot be written.
    """
    if not is_begun(f"{root}/{FOLDER}/{TABLES[0]}"):
        raise JournalError(f"there is no journal in '{root}'", hint="name the lake with --lake", wrote=NOTHING)
    with translated(to, "copying to", wrote=NOTHING):
        places.make_folder(f"{to}/{FOLDER}")
    for name in TABLES:
        if is_begun(f"{root}/{FOLDER}/{name}"):
            _copy_table(f"{root}/{FOLDER}/{name}", f"{to}/{FOLDER}/{name}")
    return Journal(to).view()


def seal(to: str, manifest: Manifest) -> None:
    """Write the manifest, which completes a copy."""
    with translated(to, "writing to", wrote=_PART):
        places.put(f"{to}/{MANIFEST}", (json.dumps(as_dict(manifest), indent=2) + "\n").encode())


def manifest_of(folder: str) -> Manifest:
    """Return the manifest of a backup.

    Raises:
        UsageError: If the folder has no complete backup.
        JournalError: If the manifest is a link or no file.
    """
    hint = "name a folder that 'materializer backup' has written whole"
    with _of_backup(folder):
        refuse_extraordinary(places.normalised(folder), MANIFEST)
    try:
        data: dict[str, Any] = json.loads(places.read(f"{folder}/{MANIFEST}"))
        manifest = Manifest(**data)
        _refuse_values(manifest)
    except FileNotFoundError as exc:
        raise UsageError(f"'{folder}' holds no backup, or one that was interrupted", hint=hint) from exc
    except (OSError, ValueError, TypeError, RecursionError) as exc:
        raise UsageError(f"the backup in '{folder}' cannot be read: {exc}", hint=hint) from exc
    if manifest.format > FORMAT:
        raise UsageError(f"the backup in '{folder}' was made by a newer release", hint="use that release")
    return manifest


def refuse_foreign(folder: str) -> None:
    """Refuse a backup of which a file is a link or a pipe, or of which a log names files outside of its table.

    Backups are carried about, and who copies one would read or write elsewhere.

    Raises:
        JournalError: If it has one.
    """
    with _of_backup(folder):
        refuse_extraordinary(folder, FOLDER)
    for path in (f"{folder}/{FOLDER}/{name}" for name in TABLES):
        if is_begun(path):
            with _of_backup(folder):
                refuse_outside(path, _files(open_table(path)))


@contextmanager
def _of_backup(folder: str) -> Iterator[None]:
    """Give what is wrong with the tables of a backup as an error of it."""
    try:
        yield
    except SourceDamagedError as exc:
        message = f"the backup in '{folder}' is not what a backup writes: {exc.message}"
        raise JournalError(
            message, hint="take another backup, and find out who changed this one", wrote=NOTHING
        ) from exc


def _refuse_values(manifest: Manifest) -> None:
    numbers = manifest.aggregates
    if not isinstance(numbers, dict) or not all(
        type(n) is int for n in (manifest.version, manifest.format, *numbers.values())
    ):
        raise ValueError("a version, a format or the number of an aggregate is no number")
    if not all(isinstance(text, str) for text in (manifest.made_at, manifest.lake)):
        raise ValueError("its time or its lake is no text")


def _copy_table(path: str, to: str) -> None:
    for attempt in range(ATTEMPTS):
        places.delete_folder(to, ignore_errors=True)
        try:
            with translated(to, "copying to", wrote=_PART):
                _copy_version(path, to)
        except (SourceDamagedError, TableNotFoundError, NotADeltaTableError, StorageError) as exc:
            # a file that is gone was cleaned up meanwhile: copy again. A full disk is not tried again
            if isinstance(exc, StorageError) and not isinstance(exc.__cause__, FileNotFoundError):
                raise
            if attempt + 1 == ATTEMPTS or not isinstance(exc.__cause__, FileNotFoundError):
                raise JournalError(
                    f"the journal at '{path}' cannot be copied: {exc.message}", hint=exc.hint, wrote=_PART
                ) from exc
            continue
        return


def _copy_version(path: str, to: str) -> None:
    """Copy the files of the newest version, its log included, byte by byte."""
    table = open_table(path)
    version = table.version()
    files = _files(table)
    refuse_outside(path, files)
    for name in map(unquote, files):
        places.copy(f"{path}/{name}", f"{to}/{name}")
    names = sorted(places.names(f"{path}/_delta_log"))
    copied = [name for name in names if (match := _VERSIONED.fullmatch(name)) and int(match[1]) <= version]
    for name in copied:
        places.copy(f"{path}/_delta_log/{name}", f"{to}/_delta_log/{name}")
    if _LAST in names:
        content = places.read(f"{path}/_delta_log/{_LAST}")
        # it may be newer than the list of names, and then its checkpoint was not copied
        if any(name.startswith(f"{_version_of(content):020d}.checkpoint") for name in copied):
            places.put(f"{to}/_delta_log/{_LAST}", content)


def _files(table: DeltaTable) -> list[str]:
    return list(pa.RecordBatchReader.from_stream(table.get_add_actions()).read_all()["path"].to_pylist())


def _version_of(last: bytes) -> int:
    """Return the version of a checkpoint, -1 where the file does not say it; readers do without it."""
    try:
        return int(json.loads(last)["version"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return -1
