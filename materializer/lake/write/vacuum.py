"""Remove files of a table's folder that no version needs any more, and shorten the table's log.

A file is removed under three conditions. The newest version does not contain it. No commit within the retention removed it,
so that every version which was current then stays readable. It is older than the retention and than the newest commit, so
that it does not belong to a write in progress, whatever the clocks of the writers. Versions that are no longer in the log do
not count; a file in doubt is not removed. Unlike the library's vacuum, this one commits nothing: it makes no new version.

New files lie in folders of their own (:mod:`materializer.lake.write.new_files`). The folder of a plan that died is removed at
once and whole: the plan has ended, so its commit is fenced and no version will ever need the folder.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake.exceptions import DeltaError
from msgspec import Struct

from materializer.errors import LogGapError
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.log import commit_file, latest_version, read_commit
from materializer.lake.places import FileEntry
from materializer.lake.table import open_table
from materializer.lake.write.new_files import LOG, OF_PLAN, OTHERS

_LOG_FILE: Final = re.compile(r"\.?(\d{20})\.(?:json|crc|checkpoint\b).*")
_CHECKSUM: Final = re.compile(r"(.*/)\.([^/]+)\.crc")
_FORMER: Final = "_maintain-"
"""What the folders for new files were called whose files were moved before the commit."""
_CHECKPOINT: Final = re.compile(r"\d{20}\.checkpoint\b.*\.parquet")


class Leftover(Struct, frozen=True):
    """A file, or a whole folder of unfinished work, that is not needed: its name in the table's folder and its size."""

    name: str
    bytes: int
    is_folder: bool = False


class LogState(Struct, frozen=True):
    """The state of a table's log.

    Args:
        version: Newest version.
        since_checkpoint: Number of commits after the newest checkpoint; all commits if there is none.
        expired: Number of log files older than the retention that precede a checkpoint which is also older: without these
            files every later version stays readable.
    """

    version: int
    since_checkpoint: int
    expired: int


class _LogFile(NamedTuple):
    """The log file of one version; *is_checkpoint* is true only for a checkpoint in one file."""

    version: int
    name: str
    time: float
    is_checkpoint: bool


def leftovers(path: str, *, before: float, since: int | None = None) -> list[Leftover]:
    """Return what can be removed from a table's folder.

    Args:
        path: A table of ours that has no other writer during the call.
        before: Versions that were current at this time or later stay readable; in seconds since the epoch.
        since: If given, this version and later ones stay readable, too.
    """
    unneeded = list(_unfinished(path))
    needed = _needed(path, before, since)
    if needed is None:
        return unneeded
    with translated(path, "reading"):
        # a file newer than the newest commit may belong to a commit in progress, even if this machine's clock runs ahead
        before = min(before, places.entry(commit_file(path, latest_version(path))).modified)
        for name, files in _listed(path).items():
            is_dead = name.startswith(OF_PLAN) and any(f.name.startswith(f"{name}/{LOG}/") for f in files)
            if is_dead and needed.isdisjoint(f.name for f in files):
                unneeded.append(Leftover(name, sum(f.bytes for f in files), is_folder=True))
                continue
            there = {f.name for f in files}
            unneeded += [
                Leftover(f.name, f.bytes)
                for f in files
                if f.name not in needed and f.modified < before and _checked_by(f.name) not in there
            ]
    return sorted(unneeded, key=lambda f: f.name)


def _listed(path: str) -> dict[str, list[FileEntry]]:
    """Return the files of a table, by the folder of new files in which they lie; "" for the table's own."""
    listed: dict[str, list[FileEntry]] = {"": []}
    for file in places.files(path):
        folder, _, name = file.name.partition("/")
        if not name:
            listed[""] += [] if file.name.startswith(("_", ".")) else [file]
        elif folder.startswith((OF_PLAN, OTHERS)):
            listed.setdefault(folder, []).append(file)
    return listed


def _checked_by(name: str) -> str:
    """Return the file whose checksum Spark wrote into a file, which goes with it; "" if the file is no checksum.

    Examples:
        >>> _checked_by("files-1/.part-0.parquet.crc"), _checked_by("files-1/part-0.parquet")
        ('files-1/part-0.parquet', '')
    """
    found = _CHECKSUM.fullmatch(name)
    return f"{found[1]}{found[2]}" if found else ""


def remove(path: str, files: Iterable[Leftover]) -> None:
    """Remove leftovers of a table; a leftover that does not exist any more is not an error.

    Raises:
        StorageError: If permission to remove one is refused.
    """
    with translated(path, "removing files of", wrote="some files that nobody needs are gone, the table is whole"):
        for file in files:
            if file.is_folder:
                places.delete_folder(f"{path}/{file.name}", ignore_errors=True)
                continue
            folder, _, name = file.name.rpartition("/")
            for each in (name, f".{name}.crc"):  # Spark keeps a checksum beside what it writes to a folder
                with contextlib.suppress(FileNotFoundError):
                    places.delete(f"{path}/{folder}/{each}")
            if folder:
                places.delete_if_empty(f"{path}/{folder}")


def log_state(path: str, *, seconds: float, since: int | None = None) -> LogState:
    """Return the state of a table's log.

    Args:
        path: The table.
        seconds: The retention of the log: older files may expire.
        since: If given, this version and later ones stay readable.
    """
    version, files = latest_version(path), _log_files(path)
    newest = max((f.version for f in files if f.is_checkpoint), default=-1)
    return LogState(version, version - newest, len(_expired(files, seconds, since)))


def shorten_log(path: str, *, seconds: float, since: int | None = None) -> bool:
    """Write a checkpoint, and remove expired files before an older one; return whether this succeeded.

    The arguments are those of :func:`log_state`. The oldest files are removed first, so that a crash leaves no hole.
    """
    opened = open_table(path)
    try:
        opened.create_checkpoint()
        for file in _expired(_log_files(path), seconds, since):
            places.delete(f"{path}/_delta_log/{file.name}")
    except (DeltaError, OSError):
        return False  # a shorter log only makes opening faster
    return True


def _expired(files: Iterable[_LogFile], seconds: float, since: int | None) -> list[_LogFile]:
    """Return the expired files of the log, oldest first: old files before the last checkpoint that is old itself."""
    old = sorted(f for f in files if f.time < time.time() - seconds)
    base = max((f.version for f in old if f.is_checkpoint and (since is None or f.version <= since)), default=-1)
    return [f for f in old if f.version < base]


def _log_files(path: str) -> list[_LogFile]:
    with translated(path, "reading"):
        entries = places.entries(f"{path}/_delta_log")
    matches = [(match, entry) for entry in entries if (match := _LOG_FILE.fullmatch(entry.name))]
    return [
        _LogFile(int(match[1]), entry.name, entry.modified, bool(_CHECKPOINT.fullmatch(entry.name)))
        for match, entry in matches
    ]


def _unfinished(path: str) -> Iterator[Leftover]:
    """Yield the folders that a crashed maintenance of an earlier version left; the caller has the lease, so none is running."""
    with translated(path, "reading"):
        for entry in places.entries(path):
            if entry.name.startswith(_FORMER) and entry.is_folder:
                size = sum(file.bytes for file in places.files(f"{path}/{entry.name}"))
                yield Leftover(entry.name, size, is_folder=True)


def _needed(path: str, before: float, since: int | None) -> set[str] | None:
    """Return the files of all versions that must stay readable; None if the log does not have all these versions.

    If the log was cleaned up within the retention, a version before its first commit is unreadable and needs no files. But the
    result is None if an older checkpoint exists, or if *since* lies before the first commit.
    """
    opened = open_table(path)
    with translated(path, "reading"):
        actions = pa.RecordBatchReader.from_stream(opened.get_add_actions()).read_all()
    needed = {unquote(name) for name in actions["path"].to_pylist()}
    for version in range(opened.version(), -1, -1):
        try:
            commit = read_commit(path, version)
        except LogGapError:
            is_complete = (since is None or since > version) and all(
                f.version >= version for f in _log_files(path) if f.is_checkpoint
            )
            return needed if is_complete else None
        # the version before this commit was current until this commit
        if commit.timestamp < before * 1000 and (since is None or version <= since):
            return needed
        needed |= {unquote(f.path) for f in commit.removes}
    return needed


def retention_of(properties: dict[str, str], name: str, default_hours: float) -> float:
    """Return a retention of a table's properties in hours.

    Examples:
        >>> retention_of({"delta.logRetentionDuration": "interval 30 days"}, "delta.logRetentionDuration", 0)
        720.0
    """
    return hours(properties.get(name)) or default_hours


def hours(text: str | None) -> float | None:
    """Return the hours of an interval such as ``interval 7 days`` or ``1 week 2 hours``; None if there is no interval.

    Examples:
        >>> hours("interval 1 week 12 hours"), hours(None), hours("interval 90 minutes")
        (180.0, None, 1.5)
    """
    parts = re.findall(r"(\d+)\s*(second|minute|hour|day|week)", text or "", re.IGNORECASE)
    return sum(int(n) * _HOURS[what.lower()] for n, what in parts) if parts else None


_HOURS: Final = {"second": 1 / 3600, "minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0}
