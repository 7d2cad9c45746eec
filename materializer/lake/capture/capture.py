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
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from materializer.core.refresh.invalidation import ANY_ROWS, Keys
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.errors import LogGapError, MaterializerError, SourceReplacedError, SourceRolledBackError
from materializer.lake.capture import below_frozen
from materializer.lake.capture.buckets import whole_buckets
from materializer.lake.capture.changed_groups import changed_groups, keyed
from materializer.lake.capture.context import CaptureContext
from materializer.lake.capture.feed import FeedUnreadableError, read_feed
from materializer.lake.capture.lateness import known_column
from materializer.lake.capture.result import CapturedPiece, CaptureResult, NeedsSpark, Rung, Segment, VersionCount
from materializer.lake.capture.worth import FeedSize, WhyNotRead, by_worth
from materializer.lake.extent import time_column as column_of
from materializer.lake.features import is_typed_by_others
from materializer.lake.log import Commit, Metadata
from materializer.lake.table import DeltaFolder, open_table
from materializer.lake.types import columns_of

__all__ = [
    "CaptureResult",
    "CapturedPiece",
    "FeedSize",
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
    max_bytes: int,
    floor: Callable[[int], int],
    next_edge: Callable[[int], int],
    frozen_below: int = NEG_INF,
    reads: Sequence[str] = (),
    evaluate: Callable[[Any], Any] | None = None,
    known_at: str = "",
    why_not_read: WhyNotRead | None = None,
) -> CaptureResult | NeedsSpark:
    """Return what changed in versions (*after*, *upto*].

    Args:
        path: The table.
        after: Last version whose changes are known, excluded.
        upto: Last version to read, included.
        table_id: The expected id of the table.
        time_column: The time column.
        time_type: Type of that column.
        keys: The source columns that the keys are made of; None if a row does not give its keys.
        max_rows: Maximum number of changed rows to read here; Spark reads more.
        max_bytes: Maximum size of the files that hold them.
        floor: Start of the bucket of an instant.
        next_edge: End of the bucket that starts at an edge.
        frozen_below: An edge below which raw rows may be deleted, see :mod:`materializer.lake.capture.below_frozen`.
        reads: Columns that a merge of few changed rows reads next; see :mod:`materializer.lake.capture.changed_rows`.
        evaluate: Returns the keys of rows of the key columns, or None where they are unknown; None if they are these columns.
        known_at: The column that says when a row was known; "" if its commit says it.
        why_not_read: Returns why a feed is not worth reading; None if each one is read. See :mod:`materializer.lake.capture.worth`.

    Raises:
        SourceReplacedError: If the table is another one, now or at some version of the range.
        SourceRolledBackError: If the table's newest version is below *upto* or *after*.
        SourceDamagedError: If the log has a hole.
    """
    table = path if isinstance(path, DeltaFolder) else DeltaFolder.at(path)
    _check_identity(table, after, upto, table_id)
    if upto <= after:
        return CaptureResult()
    context = _context_of(table, after, time_column, time_type, keys, floor, next_edge, frozen_below)
    known = known_column(columns_of(table.schema_json()), known_at)
    context = replace(
        context, max_rows=max_rows, max_bytes=max_bytes, reads=tuple(reads), evaluate=evaluate, known_at=known
    )
    try:
        commits = table.commits(after, upto, context.column)
    except LogGapError as exc:
        return _lost(context, after + 1, upto, exc.message)
    for commit in commits:
        if commit.metadata and commit.metadata.id != table_id:
            raise _replaced(table.path, commit.metadata.id, table_id)
    return _captured(context, commits, why_not_read)


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
    context = _context_of(table, after, time_column, time_type, None, floor, next_edge, frozen_below)
    try:
        commits = table.commits(after, to_version, context.column)
    except LogGapError as exc:
        return _lost(context, from_version, to_version, exc.message)
    for commit in commits:
        context.learn(commit)
    return _by_files(context, [c for c in commits if c.version >= from_version], reason)


def _context_of(
    table: DeltaFolder,
    after: int,
    name: str,
    time_type: TimeType,
    keys: tuple[str, ...] | None,
    floor: Callable[[int], int],
    next_edge: Callable[[int], int],
    frozen_below: int,
) -> CaptureContext:
    opened = table.opened()
    column = column_of(opened, name, time_type)
    known = None if not keys or is_typed_by_others(opened, keys) else keys
    return CaptureContext(table, after, column, known, floor, next_edge, frozen=frozen_below)


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


def _captured(
    context: CaptureContext, commits: list[Commit], why_not_read: WhyNotRead | None
) -> CaptureResult | NeedsSpark:
    result = CaptureResult(schemas=tuple((c.version, c.metadata.schema_json) for c in commits if c.metadata))
    segments: list[Segment] = []
    blocked = _blocked(context, commits)
    for whole, refusal in _runs(context, commits):
        for run, is_retention in _parts(context, whole):
            if is_retention:
                result += below_frozen.retention(context, run)
                continue
            for part, why in _rungs(context, run, refusal, why_not_read):
                captured = _of_run(context, part, why, blocked)
                if isinstance(captured, Segment):
                    segments.append(captured)
                else:
                    result += captured
                for commit in part:
                    context.learn(commit)
    return NeedsSpark(tuple(segments), result) if segments else result


def _parts(context: CaptureContext, run: list[Commit]) -> Iterable[tuple[list[Commit], bool]]:
    """Yield neighbouring commits of a run, and whether they only removed whole files below the frozen boundary."""
    if context.frozen == NEG_INF:
        yield run, False
        return
    ahead = context.ahead()
    flagged = []
    for commit in run:
        flagged.append((below_frozen.is_retention(ahead, commit), commit))
        ahead.learn(commit)
    for is_retention, part in itertools.groupby(flagged, key=lambda t: t[0]):
        yield [commit for _, commit in part], is_retention


def _rungs(
    context: CaptureContext, run: list[Commit], refusal: str | None, why_not_read: WhyNotRead | None
) -> Iterable[tuple[list[Commit], str | None]]:
    """Yield the parts of a run, and why they are not read from the feed; None if they are."""
    if refusal is not None or why_not_read is None or not any(c.is_data_change for c in run):
        yield run, refusal
        return
    for part, reason in by_worth(context, run, why_not_read):
        yield part, reason or None


def _of_run(
    context: CaptureContext, run: list[Commit], refusal: str | None, blocked: str | None
) -> CaptureResult | Segment:
    if not any(c.is_data_change for c in run):
        return CaptureResult()
    if refusal is not None:
        return _by_files(context, run, refusal)
    if blocked is not None:
        return Segment(run[0].version, run[-1].version, blocked)
    try:
        return read_feed(context, run)
    except FeedUnreadableError as exc:
        return _by_files(context, run, str(exc))


def _runs(context: CaptureContext, commits: list[Commit]) -> Iterable[tuple[list[Commit], str | None]]:
    """Yield neighbouring commits on the same rung, with the reason why this rung is not the feed (None if it is)."""
    metadata = _metadata_before(context, commits)
    stays = _refusal(context, metadata, metadata)
    run: list[Commit] = []
    reason: str | None = None
    for commit in commits:
        refusal = stays
        if commit.metadata is not None:
            before, metadata = metadata, commit.metadata
            refusal, stays = _refusal(context, before, metadata), _refusal(context, metadata, metadata)
        if run and refusal != reason:
            yield run, reason
            run = []
        run.append(commit)
        reason = refusal
    if run:
        yield run, reason


def _refusal(context: CaptureContext, before: Metadata | None, after: Metadata | None) -> str | None:
    """Return why a commit between two states of the metadata must not be read from the feed; None if it may."""
    if before is None or after is None:
        return "it is not known whether the change feed was on"
    if not before.has_change_feed or not after.has_change_feed:
        return "the change feed was off"
    wanted = {context.column.name, *(context.keys or ())}
    if wanted - dict(columns_of(before.schema_json)).keys() or _types(before, wanted) != _types(after, wanted):
        return "a column that places a row changed"
    return None


def _types(metadata: Metadata, names: set[str]) -> list[tuple[str, str]]:
    return sorted((n, t) for n, t in columns_of(metadata.schema_json) if n in names)


def _metadata_before(context: CaptureContext, commits: list[Commit]) -> Metadata | None:
    """Return the metadata at the version before the run: the newest metadata, unless a commit since then replaced it."""
    newest = context.table.opened()
    later = commits
    if newest.version() > commits[-1].version:
        try:
            later = [*commits, *context.table.commits(commits[-1].version, newest.version())]
        except LogGapError:
            return None
    if any(c.metadata for c in later):
        try:
            newest = open_table(context.table.path, context.after)
        except MaterializerError:
            return None
    metadata = newest.metadata()
    return Metadata(
        str(metadata.id), newest.schema().to_json(), tuple(metadata.partition_columns), dict(metadata.configuration)
    )


def _blocked(context: CaptureContext, commits: list[Commit]) -> str | None:
    """Return why the library must not read this feed; None if it may."""
    features = context.table.features()
    names = features.names.union(*(c.protocol.features for c in commits if c.protocol))
    modes = [c.metadata.configuration.get("delta.columnMapping.mode") or "none" for c in commits if c.metadata]
    has_marks = any(f.has_deletion_vector for c in commits for f in (*c.adds, *c.removes))
    combined = replace(
        features,
        names=names,
        has_deletion_vectors=has_marks or "deletionVectors" in names,
        has_column_mapping=features.has_column_mapping or any(m != "none" for m in modes),
    )
    return combined.obstacle


def _by_files(context: CaptureContext, run: list[Commit], reason: str) -> CaptureResult:
    first, last = run[0].version, run[-1].version
    spans: list[Span] = []
    by_keys: dict[Keys, list[Span]] = defaultdict(list)
    counts: list[VersionCount] = []
    frozen: list[CaptureResult] = []
    for commit in run:
        times: list[Span] = []
        added = [f for f in commit.adds if f.data_change]
        removed = [context.original(f) for f in commit.removes if f.data_change]
        for file in (*added, *removed):
            if file is None or not file.is_known:
                why = f"{reason}, and a file of version {commit.version} says nothing about its times"
                return _lost(context, first, last, why, gone=_gone(context, run))
            if file.span is not None:
                times.append(file.span)
        changed = changed_groups(commit, context.column.name)
        touched = SpanSet.union(times)
        if changed is not None:
            touched &= changed.spans
            for at, keys in keyed(context, changed):
                by_keys[keys] += touched & at
                touched -= at
        spans += touched
        if added or removed:
            inserted, deleted = sum(f.rows or 0 for f in added), sum(f.rows or 0 for f in removed if f)
            nulls = sum(f.nulls or 0 for f in (*added, *removed) if f)
            counts.append(VersionCount(commit.version, Rung.FILES, inserted, 0, 0, deleted, nulls))
        frozen.append(below_frozen.of_files(context, commit, added, [f for f in removed if f]))
        context.learn(commit)
    frozen_spans = below_frozen.below(context)
    found: list[tuple[Keys | None, list[Span]]] = [(None, spans), *by_keys.items()]
    unions = ((SpanSet.union(at) - frozen_spans, keys) for keys, at in found)
    dirty = [(whole_buckets(at, context.floor, context.next_edge), keys) for at, keys in unions]
    total = sum(c.inserted + c.deleted for c in counts)
    is_insert_only = not any(f.data_change for c in run for f in c.removes)
    pieces = [CapturedPiece(at, Rung.FILES, is_insert_only, total, keys, first, last) for at, keys in dirty if at]
    reasons = (f"versions {first} to {last} by file statistics: {reason}",)
    return CaptureResult.union([CaptureResult(tuple(pieces), tuple(counts), reasons), *frozen])


def _gone(context: CaptureContext, run: list[Commit]) -> int:
    """Return how many rows the removed files contained; a file without a row count may have contained any number."""
    removed = [context.original(f) for commit in run for f in commit.removes if f.data_change]
    return min(ANY_ROWS, sum(ANY_ROWS if f is None or f.rows is None else f.rows for f in removed))


def _lost(context: CaptureContext, first: int, last: int, reason: str, *, gone: int = 0) -> CaptureResult:
    """Return that everything may have changed; at most *gone* rows were deleted."""
    frozen = below_frozen.below(context)
    piece = CapturedPiece(SpanSet.of(EVERYTHING) - frozen, Rung.LOST, False, gone, None, first, last)
    conflict = CapturedPiece(frozen, Rung.LOST, False, 0, None, first, last, is_frozen=True)
    reasons = (f"versions {first} to {last} unknown, everything is refreshed: {reason}",)
    pieces = (piece, conflict) if frozen else (piece,)
    return CaptureResult(pieces, (VersionCount(last, Rung.LOST),), reasons)
