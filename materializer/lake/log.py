"""The transaction log of a Delta table, read directly: one file of JSON lines for each version.

Only what later decisions need is read: the author of a commit, its added and removed files, and their time ranges.
A missing version file is a :class:`~materializer.errors.LogGapError` if all older ones are missing too (the log was
cleaned up), and a :class:`~materializer.errors.SourceDamagedError` if older ones still exist (a hole).

Source: the Delta protocol, sections *Delta Log Entries* and *Actions*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import Span
from materializer.errors import NOTHING, LogGapError, SourceDamagedError, StorageError
from materializer.lake import hostile, places
from materializer.lake.failures import first_line, hint_of, missing, translated
from materializer.lake.hostile import is_outside, refuse_irregular, refuse_outside
from materializer.lake.statistics import TimeColumn, bounds

__all__ = [
    "ChangeFile",
    "Commit",
    "DataFile",
    "LogGapError",
    "Metadata",
    "Protocol",
    "commit_file",
    "commits",
    "has_change",
    "json_line",
    "latest_version",
    "lines_of",
    "placed",
    "read_commit",
]

_NAME: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\..*parquet")


_MOST_TEXTS: Final = 500
"""Commits of one table of a store that stay in memory."""
_texts: Final[dict[str, dict[int, str]]] = {}


class DataFile(Struct, frozen=True):
    """One ``add`` or ``remove`` action.

    Args:
        path: The path as the log has it (relative and URL-encoded).
        bytes: Size of the file; 0 if a remove does not give it.
        rows: Number of live rows; None if unknown.
        nulls: Number of rows whose time is null; None if unknown.
        span: Time range of the rows, end excluded; None if unknown or if the file holds no times.
        is_known: Whether *span* is reliable; a known file without a span holds no times.
        data_change: Whether the commit changed rows; False if it only moved rows between files.
        has_deletion_vector: Whether some of the file's rows are marked as deleted.
        partition: Partition values.
        stats: The text of the statistics; None if there are none.
    """

    path: str
    bytes: int
    rows: int | None
    nulls: int | None
    span: Span | None
    is_known: bool
    data_change: bool
    has_deletion_vector: bool
    partition: Mapping[str, str | None] = field(default_factory=dict)
    stats: str | None = None


class ChangeFile(Struct, frozen=True):
    """One ``cdc`` action: a file that holds the rows a commit changed."""

    path: str
    bytes: int


class Metadata(Struct, frozen=True):
    """A ``metaData`` action.

    Args:
        id: Table id.
        schema_json: Spark's JSON of the schema.
        partition_columns: Physical names of partition columns, in order.
        configuration: Table properties.
    """

    id: str
    schema_json: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]

    @property
    def has_change_feed(self) -> bool:
        """Whether commits record a change data feed."""
        return self.configuration.get("delta.enableChangeDataFeed", "").lower() == "true"


class Protocol(Struct, frozen=True):
    """A ``protocol`` action: versions and the names of all reader and writer features."""

    reader: int
    writer: int
    features: frozenset[str]


class Commit(Struct, frozen=True):
    """One version of a table.

    Args:
        version: The version number.
        timestamp: Time of the commit in milliseconds since the epoch; the in-commit timestamp if there is one.
        operation: The operation as the writer named it.
        user_metadata: ``commitInfo.userMetadata``.
        metadata: The new metadata, if this commit changed it.
        protocol: The new protocol, if this commit changed it.
        adds: Added files.
        removes: Removed files.
        change_files: Files of the change data feed.
        transactions: Transaction identifiers in the commit, with their numbers.
        updated: The number of rows that an UPDATE counted, if its writer says so.
        digest: Digest of its actions as they are written.
    """

    version: int
    timestamp: int
    operation: str
    user_metadata: str | None
    metadata: Metadata | None
    protocol: Protocol | None
    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    change_files: tuple[ChangeFile, ...]
    transactions: Mapping[str, int]
    updated: int | None = None
    digest: str = ""

    @property
    def is_data_change(self) -> bool:
        """Whether the commit changed rows."""
        return bool(self.change_files) or any(f.data_change for f in (*self.adds, *self.removes))


def commits(
    path: str, after: int, upto: int, *, column: str | None = None, time_type: TimeType | None = None
) -> list[Commit]:
    """Return the commits of versions (*after*, *upto*], in order.

    Args:
        path: Folder of the table.
        after: The version before the first commit to return.
        upto: The last version to return.
        column: Column whose time ranges are read, by its name in the statistics.
        time_type: Type of the column; without it no time ranges are read.

    Raises:
        LogGapError: If one of the commits was cleaned out of the log.
        SourceDamagedError: If a commit is missing although older ones exist, or if it cannot be parsed.
    """
    time_column = TimeColumn(column, time_type, column) if column and time_type else None
    return [read_commit(path, version, time_column) for version in range(after + 1, upto + 1)]


def read_commit(path: str, version: int, column: TimeColumn | None = None) -> Commit:
    """Return the commit of *version*, with spans of *column*; raises as :func:`commits`."""
    lines = list(lines_of(path, version))
    found = _commit(path, version, [json_line(path, version, line) for line in lines], column)
    return replace(found, digest=digest_of(lines))


def digest_of(lines: Iterable[str]) -> str:
    """Return a digest of the actions of a commit, which tells it from another one under the same number."""
    from hashlib import sha256  # noqa: PLC0415 (a source without a new version is not read)

    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def placed(commit: Commit, column: TimeColumn) -> Commit:
    """Return a commit with the spans of another column, from the statistics that the commit has already."""
    adds, removes = (tuple(_placed(f, column) for f in files) for files in (commit.adds, commit.removes))
    return replace(commit, adds=adds, removes=removes)


def has_change(path: str, after: int, upto: int) -> bool:
    """Return whether rows or columns changed in versions (*after*, *upto*]; an unreadable version counts as a change.

    Maintenance and fences do not change them, nor do compaction and vacuum by other writers.
    """
    try:
        run = (read_commit(path, version) for version in range(after + 1, upto + 1))
        return any(c.is_data_change or c.metadata is not None or c.protocol is not None for c in run)
    except (LogGapError, SourceDamagedError):
        return True


def feed_reaches_back(path: str) -> bool:
    """Return whether the change feed was on from the table's first version, and the commit of that version is readable."""
    try:
        metadata = read_commit(path, 0).metadata
    except (LogGapError, SourceDamagedError):
        return False
    return metadata is not None and metadata.has_change_feed


def latest_version(path: str) -> int:
    """Return the newest version.

    Raises:
        TableNotFoundError: If there is nothing at *path*.
        NotADeltaTableError: If there is no Delta log at *path*.
    """
    versions = _versions(path)
    if not versions:
        raise missing(path)
    return versions[-1]


def is_attempt(path: str) -> bool:
    """Return whether *path* holds only a log without a commit: the rest of a table whose creation failed on a full disk."""
    return places.is_folder(path) and set(places.names(path)) <= {"_delta_log"} and not _versions(path)


def is_begun(path: str) -> bool:
    """Return whether *path* holds a table or the rest of one; a failed creation (:func:`is_attempt`) is neither."""
    return bool(_versions(path)) or (places.is_folder(f"{path}/_delta_log") and not is_attempt(path))


def commit_file(path: str, version: int) -> str:
    """Return the name of the file that holds *version*."""
    return f"{path}/_delta_log/{version:020d}.json"


def tail(path: str, version: int) -> list[places.Identity]:
    """Return the identities of the commit files from *version* on, up to the newest; none if *version* has no file.

    For a version that is the newest this costs two ``stat`` calls, or one listing of a store.
    """
    names = (f"{number:020d}.json" for number in count(version))
    if places.is_local(path):
        return places.run_of(f"{path}/_delta_log", names)
    with translated(path, "reading the log of"):
        return places.run_of(f"{path}/_delta_log", names)


def json_line(path: str, version: int, line: str) -> dict[str, Any]:
    """Return one action; raises SourceDamagedError if the line is not a JSON object."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise _unreadable(path, version, first_line(exc)) from exc
    if not isinstance(data, dict):
        raise _unreadable(path, version, "a line is not an object")
    return data


def lines_of(path: str, version: int) -> Iterator[str]:
    """Return the lines of a commit, an action each; raises as :func:`commits`."""
    try:
        return iter([line for line in _text(path, version).split("\n") if line.strip()])
    except FileNotFoundError:
        raise _gap(path, version) from None
    except UnicodeDecodeError as exc:
        raise _unreadable(path, version, first_line(exc)) from exc
    except OSError as exc:
        hint = hint_of(
            path, "check that the folder is mounted and readable, then run the same command again", exc.strerror
        )
        raise StorageError(
            f"reading version {version} of '{path}' failed: {exc.strerror}", hint=hint, wrote=NOTHING
        ) from exc


def _text(path: str, version: int) -> str:
    """Return the content of a commit file, which never changes; that of a store stays in memory."""
    if places.is_local(path):
        file = commit_file(path, version)
        refuse_irregular(path, [file])
        return _content(file).decode()
    known = _texts.setdefault(path, {})
    if version not in known:
        if len(known) >= _MOST_TEXTS:
            known.clear()
        known[version] = _content(commit_file(path, version)).decode()
    return known[version]


def _content(file: str) -> bytes:
    content = hostile.content_of(file)
    return places.read(file) if content is None else content


def forget(path: str) -> None:
    """Forget the commits of a table, which may be another one from now on."""
    _texts.pop(path, None)
    hostile.forget(path)


def _unreadable(path: str, version: int, reason: str) -> SourceDamagedError:
    hint = "restore this file from a backup"
    return SourceDamagedError(
        f"version {version} of the table at '{path}' cannot be read: {reason}", hint=hint, version=version
    )


def _gap(path: str, version: int) -> Exception:
    versions = _versions(path)
    if not versions:
        return missing(path)
    oldest = next((v for v in versions if v > version), None)
    if oldest is not None and versions[0] < version:
        return SourceDamagedError(
            f"the log of the table at '{path}' has a hole: version {version} is missing, {versions[0]} and {oldest} are there",
            hint="restore the missing file from a backup",
            version=version,
        )
    return LogGapError(
        f"version {version} of the table at '{path}' is no longer in its log (found {versions[0]} to {versions[-1]})",
        hint="what it changed cannot be told; everything is refreshed again",
        version=version,
        oldest=versions[0],
    )


def _versions(path: str) -> list[int]:
    """Return all versions that have a commit file; if there are none, the versions of checkpoints."""
    try:
        names = places.names(f"{path}/_delta_log")
    except OSError as exc:
        hint = hint_of(
            path, "check that the folder is mounted and readable, then run the same command again", exc.strerror
        )
        raise StorageError(f"reading the log of '{path}' failed: {exc.strerror}", hint=hint, wrote=NOTHING) from exc
    versions = sorted(int(m[1]) for m in map(_NAME.fullmatch, names) if m)
    return versions or sorted({int(m[1]) for m in map(_CHECKPOINT.fullmatch, names) if m})


def _commit(path: str, version: int, actions: list[dict[str, Any]], column: TimeColumn | None) -> Commit:
    info: dict[str, Any] = {}
    metadata, protocol = None, None
    adds, removes, changes = [], [], []
    transactions = {}
    updated: int | None = None
    try:
        for action in actions:
            for name, body in action.items():
                match name:
                    case "add":
                        adds.append(_file(body, column))
                    case "remove":
                        removes.append(_file(body, column))
                    case "cdc":
                        refuse_outside(path, [body["path"]])
                        changes.append(ChangeFile(body["path"], body.get("size") or 0))
                    case "commitInfo":
                        info = body
                        metrics = body.get("operationMetrics") or {}
                        updated = int(metrics["num_updated_rows"]) if "num_updated_rows" in metrics else None
                    case "metaData":
                        metadata = _metadata(body)
                    case "protocol":
                        protocol = _protocol(body)
                    case "txn":
                        transactions[body["appId"]] = int(body["version"])
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as exc:
        raise _unreadable(path, version, f"unexpected form of an action ({first_line(exc)})") from exc
    return Commit(
        version,
        info.get("inCommitTimestamp") or info.get("timestamp") or 0,
        info.get("operation") or "",
        info.get("userMetadata"),
        metadata,
        protocol,
        tuple(adds),
        tuple(removes),
        tuple(changes),
        transactions,
        updated,
    )


def _file(body: dict[str, Any], column: TimeColumn | None) -> DataFile:
    if is_outside(body["path"]):
        msg = f"it names a file outside of the table: {body['path'][:200]!r}"
        raise ValueError(msg)
    partition = body.get("partitionValues") or {}
    vector = body.get("deletionVector")
    stats = body.get("stats")
    if type(size := body.get("size") or 0) is not int or size < 0:
        msg = f"the size of a file is {str(size)[:50]!r}"
        raise ValueError(msg)
    file_range = bounds(json.loads(stats) if stats else {}, partition, column)
    rows = file_range.rows if file_range.rows is None or vector is None else file_range.rows - vector["cardinality"]
    return DataFile(
        body["path"],
        size,
        rows,
        file_range.nulls,
        file_range.span,
        file_range.is_known,
        body["dataChange"],
        vector is not None,
        partition,
        stats,
    )


def _placed(file: DataFile, column: TimeColumn) -> DataFile:
    found = bounds(json.loads(file.stats) if file.stats else {}, file.partition, column)
    return replace(file, nulls=found.nulls, span=found.span, is_known=found.is_known)


def _metadata(body: dict[str, Any]) -> Metadata:
    return Metadata(
        body["id"], body["schemaString"], tuple(body.get("partitionColumns") or ()), body.get("configuration") or {}
    )


def _protocol(body: dict[str, Any]) -> Protocol:
    features = frozenset(body.get("readerFeatures") or ()) | frozenset(body.get("writerFeatures") or ())
    return Protocol(body["minReaderVersion"], body["minWriterVersion"], features)
