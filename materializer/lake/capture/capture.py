"""Find what changed in a table between two versions, without a JVM and never less than what changed.

Each run of versions uses the best rung that is provably complete:

1. *feed*: the rows of the change data feed; each row gives its bucket, and its key if the key is a plain column;
2. *files*: the statistics of the added and removed files;
3. *lost*: everything is dirty, with the reason.

The library reads the feed correctly only if files have no deletion vectors, columns are not renamed in the files, and the
feed was on all the time. Otherwise Spark has to read it (:class:`NeedsSpark`), or the caller uses :func:`capture_by_files`.
The rows of the feed are counted against the log, version by version. If the counts differ, the run falls to a lower rung.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from materializer.core.refresh.invalidation import ANY_ROWS
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.errors import LogGapError, MaterializerError, SourceReplacedError, SourceRolledBackError
from materializer.lake.capture import below_frozen
from materializer.lake.capture.buckets import whole_buckets
from materializer.lake.capture.context import Look
from materializer.lake.capture.feed import FeedUnreadableError, read_feed
from materializer.lake.capture.result import CapturedPiece, CaptureResult, NeedsSpark, Rung, Segment, VersionCount
from materializer.lake.extent import time_column as column_of
from materializer.lake.log import Commit, Metadata, read_commit
from materializer.lake.table import DeltaFolder, open_table
from materializer.lake.types import columns_of

__all__ = [
    "CaptureResult",
    "CapturedPiece",
    "NeedsSpark",
    "Rung",
    "Segment",
    "VersionCount",
    "capture_by_files",
    "capture_without_spark",
]


def capture_without_spark(
    path: str | DeltaFolder,
    *,
    after: int,
    upto: int,
    table_id: str,
    time_column: str,
    time_type: TimeType,
    keys: tuple[str, ...] | None,
    max_rows: int,
    floor: Callable[[int], int],
    next_edge: Callable[[int], int],
    frozen_below: int = NEG_INF,
    reads: Sequence[str] = (),
) -> CaptureResult | NeedsSpark:
    """Return what changed in versions (*after*, *upto*].

    Args:
        path: The table.
        after: Last version whose changes are known, excluded.
        upto: Last version to read, included.
        table_id: The expected id of the table.
        time_column: The time column.
        time_type: Type of that column.
        keys: Key columns, if every key is a plain column; None if a row does not give its keys.
        max_rows: Maximum number of changed rows to read here; Spark reads more.
        floor: Start of the bucket of an instant.
        next_edge: End of the bucket that starts at an edge.
        frozen_below: An edge below which raw rows may be deleted, see :mod:`materializer.lake.capture.below_frozen`.
        reads: Columns that a merge of few changed rows reads next; see :mod:`materializer.lake.capture.changed_rows`.

    Raises:
        SourceReplacedError: If the table is another one, now or at some version of the range.
        SourceRolledBackError: If the table's newest version is below *upto* or *after*.
        SourceDamagedError: If the log has a hole.
    """
    table = path if isinstance(path, DeltaFolder) else DeltaFolder.at(path)
    _check_identity(table, after, upto, table_id)
    if upto <= after:
        return CaptureResult()
    look = _look(table, after, time_column, time_type, keys, max_rows, floor, next_edge, frozen_below)
    look = replace(look, reads=tuple(reads))
    try:
        commits = [read_commit(table.path, version, look.column) for version in range(after + 1, upto + 1)]
    except LogGapError as exc:
        return _lost(look, after + 1, upto, exc.message)
    for commit in commits:
        if commit.metadata and commit.metadata.id != table_id:
            raise _replaced(table.path, commit.metadata.id, table_id)
    return _captured(look, commits)


def capture_by_files(
    path: str | DeltaFolder,
    *,
    after: int,
    from_version: int,
    to_version: int,
    time_column: str,
    time_type: TimeType,
    floor: Callable[[int], int],
    next_edge: Callable[[int], int],
    reason: str,
    frozen_below: int = NEG_INF,
) -> CaptureResult:
    """Return what changed in versions *from_version* to *to_version*, both included, from the statistics of files.

    This is for a segment whose feed Spark could not read. *after* is the version before the whole range, as for
    :func:`capture_without_spark`; *reason* says why the feed is not used.
    """
    table = path if isinstance(path, DeltaFolder) else DeltaFolder.at(path)
    look = _look(table, after, time_column, time_type, None, 0, floor, next_edge, frozen_below)
    try:
        commits = [read_commit(table.path, version, look.column) for version in range(after + 1, to_version + 1)]
    except LogGapError as exc:
        return _lost(look, from_version, to_version, exc.message)
    for commit in commits:
        look.learn(commit)
    return _by_files(look, [c for c in commits if c.version >= from_version], reason)


def _look(
    table: DeltaFolder,
    after: int,
    name: str,
    time_type: TimeType,
    keys: tuple[str, ...] | None,
    max_rows: int,
    floor: Callable[[int], int],
    next_edge: Callable[[int], int],
    frozen_below: int,
) -> Look:
    column = column_of(table.opened(), name, time_type)
    return Look(table, after, column, keys or None, max_rows, floor, next_edge, frozen=frozen_below)


def _check_identity(table: DeltaFolder, after: int, upto: int, table_id: str) -> None:
    head = table.head()
    if head.table_id != table_id:
        raise _replaced(table.path, head.table_id, table_id)
    if head.version < max(after, upto):
        raise SourceRolledBackError(
            f"the table at '{table.path}' is at version {head.version}, but version {max(after, upto)} was seen before",
            hint="if it was replaced by an older copy, build the aggregates that read it again",
            found=head.version,
            expected=max(after, upto),
        )


def _replaced(path: str, found: str, expected: str) -> SourceReplacedError:
    return SourceReplacedError(
        f"the table at '{path}' was dropped and recreated: its id is {found}, expected {expected}",
        hint="build the aggregates that read it again",
        found=found,
        expected=expected,
    )


def _captured(look: Look, commits: list[Commit]) -> CaptureResult | NeedsSpark:
    result = CaptureResult(schemas=tuple((c.version, c.metadata.schema_json) for c in commits if c.metadata))
    segments: list[Segment] = []
    blocked = _blocked(look, commits)
    for whole, refusal in _runs(look, commits):
        for run, is_retention in _parts(look, whole):
            if is_retention:
                result += below_frozen.retention(look, run)
                continue
            found = _of_run(look, run, refusal, blocked) if any(c.is_data_change for c in run) else CaptureResult()
            if isinstance(found, Segment):
                segments.append(found)
            else:
                result += found
            for commit in run:
                look.learn(commit)
    return NeedsSpark(tuple(segments), result) if segments else result


def _parts(look: Look, run: list[Commit]) -> Iterable[tuple[list[Commit], bool]]:
    """Yield neighbouring commits of a run, and whether they only removed whole files below the frozen boundary."""
    if look.frozen == NEG_INF:
        yield run, False
        return
    scout = look.ahead()
    told = []
    for commit in run:
        told.append((below_frozen.is_retention(scout, commit), commit))
        scout.learn(commit)
    for is_retention, part in itertools.groupby(told, key=lambda t: t[0]):
        yield [commit for _, commit in part], is_retention


def _of_run(look: Look, run: list[Commit], refusal: str | None, blocked: str | None) -> CaptureResult | Segment:
    if refusal is not None:
        return _by_files(look, run, refusal)
    if blocked is not None:
        return Segment(run[0].version, run[-1].version, blocked)
    try:
        return read_feed(look, run)
    except FeedUnreadableError as exc:
        return _by_files(look, run, str(exc))


def _runs(look: Look, commits: list[Commit]) -> Iterable[tuple[list[Commit], str | None]]:
    """Yield neighbouring commits on the same rung, with the reason why this rung is not the feed (None if it is)."""
    metadata = _metadata_before(look, commits)
    run: list[Commit] = []
    reason: str | None = None
    for commit in commits:
        before, metadata = metadata, commit.metadata or metadata
        refusal = _refusal(look, before, metadata)
        if run and refusal != reason:
            yield run, reason
            run = []
        run.append(commit)
        reason = refusal
    if run:
        yield run, reason


def _refusal(look: Look, before: Metadata | None, after: Metadata | None) -> str | None:
    """Return why a commit between two states of the metadata must not be read from the feed; None if it may."""
    if before is None or after is None:
        return "it is not known whether the change feed was on"
    if not before.has_change_feed or not after.has_change_feed:
        return "the change feed was off"
    wanted = {look.column.name, *(look.keys or ())}
    if wanted - dict(columns_of(before.schema_json)).keys() or _types(before, wanted) != _types(after, wanted):
        return "a column that places a row changed"
    return None


def _types(metadata: Metadata, names: set[str]) -> list[tuple[str, str]]:
    return sorted((n, t) for n, t in columns_of(metadata.schema_json) if n in names)


def _metadata_before(look: Look, commits: list[Commit]) -> Metadata | None:
    """Return the metadata at the version before the run: the newest metadata, unless a commit since then replaced it."""
    newest = look.table.opened()
    later = commits
    if newest.version() > commits[-1].version:
        try:
            later = [
                *commits,
                *(read_commit(look.table.path, v) for v in range(commits[-1].version + 1, newest.version() + 1)),
            ]
        except LogGapError:
            return None
    if any(c.metadata for c in later):
        try:
            newest = open_table(look.table.path, look.after)
        except MaterializerError:
            return None
    found = newest.metadata()
    return Metadata(str(found.id), newest.schema().to_json(), tuple(found.partition_columns), dict(found.configuration))


def _blocked(look: Look, commits: list[Commit]) -> str | None:
    """Return why the library must not read this feed; None if it may."""
    features = look.table.features()
    names = features.names.union(*(c.protocol.features for c in commits if c.protocol))
    modes = [c.metadata.configuration.get("delta.columnMapping.mode") or "none" for c in commits if c.metadata]
    marks = any(f.has_deletion_vector for c in commits for f in (*c.adds, *c.removes))
    found = replace(
        features,
        names=names,
        has_deletion_vectors=marks or "deletionVectors" in names,
        has_column_mapping=features.has_column_mapping or any(m != "none" for m in modes),
    )
    return found.obstacle


def _by_files(look: Look, run: list[Commit], reason: str) -> CaptureResult:
    first, last = run[0].version, run[-1].version
    spans: list[Span] = []
    counts: list[VersionCount] = []
    old = CaptureResult()
    for commit in run:
        came = [f for f in commit.adds if f.data_change]
        went = [look.original(f) for f in commit.removes if f.data_change]
        for found in (*came, *went):
            if found is None or not found.is_known:
                why = f"{reason}, and a file of version {commit.version} says nothing about its times"
                return _lost(look, first, last, why, gone=_gone(look, run))
            if found.span is not None:
                spans.append(found.span)
        if came or went:
            inserted, deleted = sum(f.rows or 0 for f in came), sum(f.rows or 0 for f in went if f)
            nulls = sum(f.nulls or 0 for f in (*came, *went) if f)
            counts.append(VersionCount(commit.version, Rung.FILES, inserted, 0, 0, deleted, nulls))
        old += below_frozen.of_files(look, commit, came, [f for f in went if f])
        look.learn(commit)
    times = whole_buckets(SpanSet.union(spans) - below_frozen.below(look), look.floor, look.next_edge)
    total = sum(c.inserted + c.deleted for c in counts)
    is_insert_only = not any(f.data_change for c in run for f in c.removes)
    pieces = (CapturedPiece(times, Rung.FILES, is_insert_only, total, None, first, last),) if times else ()
    return CaptureResult(pieces, tuple(counts), (f"versions {first} to {last} by file statistics: {reason}",)) + old


def _gone(look: Look, run: list[Commit]) -> int:
    """Return how many rows the removed files held; a file without a row count may have held any number."""
    went = [look.original(f) for commit in run for f in commit.removes if f.data_change]
    return min(ANY_ROWS, sum(ANY_ROWS if f is None or f.rows is None else f.rows for f in went))


def _lost(look: Look, first: int, last: int, reason: str, *, gone: int = 0) -> CaptureResult:
    """Return that everything may have changed; at most *gone* rows were deleted."""
    old = below_frozen.below(look)
    piece = CapturedPiece(SpanSet.of(EVERYTHING) - old, Rung.LOST, False, gone, None, first, last)
    conflict = CapturedPiece(old, Rung.LOST, False, 0, None, first, last, is_frozen=True)
    reasons = (f"versions {first} to {last} unknown, everything is refreshed: {reason}",)
    pieces = (piece, conflict) if old else (piece,)
    return CaptureResult(pieces, (VersionCount(last, Rung.LOST),), reasons)
