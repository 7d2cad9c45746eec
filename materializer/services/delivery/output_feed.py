"""The change feed of an output: a third table that lists, refresh by refresh, which rows changed and why.

```
            output   … ──▶ data 7 ──▶ maintain ──▶ fence 8 ──▶ data 9        what readers see
                             │                                   │
                             ▼ rows of 7 minus rows before       ▼
            changes  … ──▶ changes 7 ─────────────────────▶ changes 9        follows, one commit a refresh
```

The feed is derived from the output after each commit: from the rows that the commit removed and added, and from the reasons
in its commit info. So the protocol needs no further step, and a process may die anywhere: the changes of refresh n are in
the feed when the feed carries number n, and until then the same rows can be derived again. Deriving happens under the
lease of the aggregate, the number admits each commit once, and maintenance derives before it removes a file.

If the commits since the last followed one are not enough (the feed was off, the output was restored from an old copy or
created anew, files are gone), the feed is brought up to date in one step: by the difference between the rows that replaying
the feed gives and the published rows. In both cases, replaying the feed gives the published rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from msgspec import Struct

from materializer.core.compiled.bucket_sql import slices_sql
from materializer.core.refresh.output_feed import META, NOTE, Reason, is_on, reasons_from_json
from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import SpanSet
from materializer.errors import LeaseHeldError, LogGapError, SourceDamagedError, UsageError, WriteFencedError
from materializer.journal.state import AggregateState, spec_of
from materializer.lake import output_diff as in_driver
from materializer.lake.log import Commit, read_commit
from materializer.lake.rows import row_count, size_of
from materializer.lake.table import DeltaFolder, open_table
from materializer.lake.write.commit import append_rows, create_table, fence, replace_all, shaped
from materializer.lake.write.replace import append_files
from materializer.services.aggregate import Aggregate
from materializer.services.commit.commit_info import place_of

if TYPE_CHECKING:
    from materializer.services.commit.lake import Lake

TABLE: Final = "changes"
DATA: Final = ("data", "switch")
"""Kinds of commits of an output that change its rows."""


def path_of(aggregate: Aggregate) -> str:
    """Return the path of the feed.

    Raises:
        UsageError: If there is no feed.
    """
    if not DeltaFolder.at(aggregate.paths[TABLE]).exists():
        raise UsageError(
            f"'{aggregate.name}' has no change feed: the definition does not ask for it, or nothing was published since",
            hint="apply it with 'output.change_feed' = 'true', then refresh",
        )
    return aggregate.paths[TABLE]


def follow(lake: Lake, state: AggregateState) -> None:
    """Bring the feed of an aggregate up to its output; do nothing if it is up to date or not wanted.

    If another process has the lease, that process brings the feed up to date when it is done.

    Raises:
        StorageError: If the disk is full or permission is refused; published rows stay, and the next refresh tries again.
    """
    if not _is_wanted(state) or not _behind(lake.aggregate(state)):
        return
    with suppress(LeaseHeldError), lake.lease(state.name) as lease:
        follow_leased(lake, lease.state)


def is_behind(aggregate: Aggregate) -> bool:
    """Whether the feed lacks changes of the output; writes nothing."""
    return bool(_behind(aggregate))


def follow_leased(lake: Lake, state: AggregateState) -> None:
    """Bring the feed of an aggregate up to its output, under the lease of the caller; raises as :func:`follow`."""
    if not _is_wanted(state):
        return
    aggregate = lake.aggregate(state)
    behind = _behind(aggregate)
    if not behind:
        return
    feed = _Feed(lake, aggregate, state)
    try:
        for commit, note in behind.commits:
            feed.follow(commit, note)
    except (LogGapError, SourceDamagedError):
        feed.catch_up(behind.n)
        return
    if behind.is_broken:
        feed.catch_up(behind.n)


class _Behind(Struct, frozen=True):
    """The changes of the output that the feed lacks.

    Args:
        n: The refresh number that the output carries.
        commits: Commits of the output whose changes the feed lacks, with their commit info, oldest first.
        is_broken: Whether more changes are lacking than these commits have.
    """

    n: int
    commits: tuple[tuple[Commit, Mapping[str, Any]], ...] = ()
    is_broken: bool = False

    def __bool__(self) -> bool:
        return bool(self.commits) or self.is_broken


def _is_wanted(state: AggregateState) -> bool:
    return not state.builds and is_on(spec_of(state))


def _behind(aggregate: Aggregate) -> _Behind:
    """Return what the feed lacks, from the logs of both tables."""
    output = DeltaFolder.at(aggregate.paths["output"])
    n, known = output.transaction_version(aggregate.app_ids["output"]) or 0, _known(aggregate)
    if n <= known:
        return _Behind(n)
    missing: list[tuple[Commit, Mapping[str, Any]]] = []
    for version in range(output.head().version, -1, -1):
        try:
            commit = read_commit(aggregate.paths["output"], version)
        except (LogGapError, SourceDamagedError):
            return _Behind(n, is_broken=True)
        note = _note(commit)
        if note.get("kind") not in DATA:
            continue
        if note["n"] > known:
            if note["kind"] == "data" and NOTE not in note:  # the feed was off
                return _Behind(n, is_broken=True)
            missing.append((commit, note))
            continue
        is_followed = note["n"] == known and note.get("plan") == _followed(aggregate, note.get("plan"))
        if is_followed:
            return _Behind(n, tuple(reversed(missing)))
        return _Behind(n, is_broken=True)  # the followed commit is not in the log any more
    return _Behind(n, tuple(reversed(missing))) if known == 0 else _Behind(n, is_broken=True)


def _known(aggregate: Aggregate) -> int:
    """Return the number of the last refresh in the feed, 0 before the first."""
    folder = DeltaFolder.at(aggregate.paths[TABLE])
    if not folder.exists():
        return 0
    known = folder.transaction_version(aggregate.app_ids[TABLE])
    return -1 if known is None else known


def _followed(aggregate: Aggregate, otherwise: str | None) -> str | None:
    """Return the plan of the last commit that was followed: after a restore numbers are used again, plans are not."""
    path = aggregate.paths[TABLE]
    for version in range(DeltaFolder.at(path).head().version, -1, -1):
        try:
            note = _note(read_commit(path, version))
        except (LogGapError, SourceDamagedError):
            return otherwise
        if note.get("kind") == TABLE:
            return note["plan"] or otherwise  # a step that caught up followed no single plan
    return otherwise


def _note(commit: Commit) -> Mapping[str, Any]:
    try:
        note = json.loads(commit.user_metadata or "")
        return {**note, "n": int(note["n"] or 0)}
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        return {}


class _Origin(Struct, frozen=True):
    """Where changed rows come from; each row of the feed says so.

    Args:
        n: Number of the refresh.
        source_version: The source version that it reflects.
        at_ms: When it was published, milliseconds since the epoch.
        note: Commit info for the feed.
    """

    n: int
    source_version: int | None
    at_ms: int
    note: Mapping[str, Any]


class _Feed(Struct, frozen=True):
    """The feed of a leased aggregate.

    Args:
        lake: The lake.
        aggregate: The aggregate.
        state: Its state in the journal.
    """

    lake: Lake
    aggregate: Aggregate
    state: AggregateState

    @property
    def path(self) -> str:
        return self.aggregate.paths[TABLE]

    @property
    def output(self) -> str:
        return self.aggregate.paths["output"]

    def follow(self, commit: Commit, note: Mapping[str, Any]) -> None:
        """Append the rows that one commit of the output changed."""
        version, n, source = commit.version, note["n"], note.get("source_version")
        origin = _Origin(n, source, commit.timestamp, {k: note.get(k) for k in ("plan", "n", "source_version")})
        new = in_driver.shape_of(self.output, version)
        old = new if commit.metadata is None else in_driver.shape_of(self.output, version - 1)
        both = in_driver.united(old, new)
        if both is None:
            self._begin_again(version, origin, Reason.DEFINITION)
            return
        removes, adds = ([f for f in files if f.data_change] for files in (commit.removes, commit.adds))
        reasons = note.get(NOTE, {})
        place = reasons.get("place") or place_of(self.aggregate)
        place = place if all(name in old.names and name in new.names for name in place) else []
        rows = max(sum(f.rows or 0 for f in files) for files in (removes, adds))
        if self.lake.config.driver_holds(rows, sum(f.bytes for f in (*removes, *adds))):
            found = in_driver.changed(
                shaped(in_driver.rows_of(self.output, removes, old), both),
                shaped(in_driver.rows_of(self.output, adds, new), both),
                place,
            )
            if note["kind"] == "switch":
                found = in_driver.alike(found, Reason.DEFINITION)
            else:
                found = in_driver.reasoned(found, _slice_column(reasons), reasons_from_json(reasons))
            self._append(found, origin)
            return
        from materializer.spark.run import output_diff as in_spark  # noqa: PLC0415 (loads Spark)

        spark, types = self.lake.engine(), dict(in_driver.spark_columns(both))
        before = in_spark.rows_of(spark, self.output, max(version - 1, 0), removes)
        after = in_spark.rows_of(spark, self.output, version, adds)
        frame = in_spark.changed(in_spark.fitted(before, types), in_spark.fitted(after, types), place)
        if note["kind"] == "switch":
            frame = in_spark.alike(frame, Reason.DEFINITION)
        else:
            is_new, is_late, beyond = reasons_from_json(reasons)
            column = _slice_column(reasons)
            frame = in_spark.reasoned(frame, _where(column, is_new), _where(column, is_late), beyond)
        self._append_by_spark(frame, both, origin)

    def catch_up(self, n: int) -> None:
        """Append the difference between the rows that replaying the feed gives and the published rows."""
        version = DeltaFolder.at(self.output).head().version
        done = [e.report.source_version for e in self.state.ended if e.outcome in ("done", "switched")]
        at_ms = int(time.time() * 1000)
        with suppress(LogGapError, SourceDamagedError):
            at_ms = read_commit(self.output, version).timestamp
        source = done[-1] if done else self.state.cursor
        origin = _Origin(n, source, at_ms, {"plan": "", "n": n, "source_version": source})
        new = in_driver.shape_of(self.output, version)
        feed = DeltaFolder.at(self.path)
        feed_version = feed.head().version if feed.exists() else None
        own = [name for name, _ in META]
        had = new if feed_version is None else in_driver.shape_of(self.path, feed_version)
        old = pa.schema([f for f in had if f.name not in own])
        both = in_driver.united(old, new)
        if both is None:
            self._begin_again(version, origin, None)
            return
        place = [name for name in place_of(self.aggregate) if name in old.names]
        count = (row_count(self.output) or 0) + (0 if feed_version is None else row_count(self.path) or 0)
        size = size_of(self.output) + (0 if feed_version is None else size_of(self.path))
        if self.lake.config.driver_holds(count, size):
            empty = both.empty_table()
            was = (
                empty
                if feed_version is None
                else shaped(in_driver.replayed(in_driver.all_rows(self.path, feed_version)), both)
            )
            now = shaped(in_driver.all_rows(self.output, version), both)
            self._append(in_driver.alike(in_driver.changed(was, now, place), None), origin)
            return
        from materializer.spark.run import output_diff as in_spark  # noqa: PLC0415 (loads Spark)

        spark, types = self.lake.engine(), dict(in_driver.spark_columns(both))
        after = in_spark.fitted(in_spark.rows_of(spark, self.output, version, None), types)
        before = after.limit(0)
        if feed_version is not None:
            before = in_spark.fitted(in_spark.replayed(in_spark.rows_of(spark, self.path, feed_version, None)), types)
        self._append_by_spark(in_spark.alike(in_spark.changed(before, after, place), None), both, origin)

    def _append(self, rows: pa.Table, origin: _Origin) -> None:
        column = self.aggregate.slice_column("output").name
        if column in rows.column_names:
            rows = rows.sort_by(column)
        rows = in_driver.published(rows, origin.n, origin.source_version, origin.at_ms)
        self._open(pa.schema([f for f in rows.schema if f.name not in dict(META)]))
        rows = shaped(rows, in_driver.shape_of(self.path, open_table(self.path).version()))
        self.lake.on_checkpoint("changes")
        with suppress(WriteFencedError):  # another process appended them already
            append_rows(self.path, rows, self.aggregate.app_ids[TABLE], origin.n, _kind(origin))
        self.lake.on_checkpoint("wrote_changes")

    def _append_by_spark(self, frame: Any, shape: pa.Schema, origin: _Origin) -> None:
        from materializer.spark.run import output_diff as in_spark  # noqa: PLC0415 (loads Spark)

        self._open(shape)
        has = in_driver.shape_of(self.path, open_table(self.path).version())
        frame = in_spark.published(frame, origin.n, origin.source_version, origin.at_ms)
        frame = in_spark.fitted(frame, dict(in_driver.spark_columns(has))).persist()
        app_id = self.aggregate.app_ids[TABLE]
        try:
            count = frame.count()
            self.lake.on_checkpoint("changes")
            if count:
                spark = self.lake.engine()
                with suppress(WriteFencedError):  # another process appended them already
                    append_files(
                        self.path,
                        lambda folder: spark.append(frame, folder),
                        app_id,
                        origin.n,
                        _kind(origin),
                        rows=count,
                    )
            else:
                fence(self.path, app_id, origin.n, _kind(origin))
            self.lake.on_checkpoint("wrote_changes")
        finally:
            frame.unpersist()

    def _open(self, shape: pa.Schema) -> None:
        """Create the table, or add the columns that it lacks."""
        columns = in_driver.spark_columns(shape)
        if not DeltaFolder.at(self.path).exists():
            name = f"{self.aggregate.name}_changes"
            create_table(self.path, [*columns, *META], name=name, description=f"what changed in {self.aggregate.name}")
            return
        lacking = in_driver.columns_to_add(self.path, shape)
        if lacking:
            in_driver.add_columns(self.path, [(n, kind) for n, kind in columns if n in lacking])

    def _begin_again(self, version: int, origin: _Origin, reason: Reason | None) -> None:
        """Replace the feed by all published rows, because a column has another type now."""
        has, files = in_driver.files_of(self.output, version)
        columns = in_driver.spark_columns(has)

        def batches(shape: pa.Schema) -> Iterator[pa.RecordBatch]:
            for file in files:  # file by file, because the library cannot read a table while it writes one
                rows = in_driver.rows_of(self.output, [file], has)
                rows = in_driver.alike(in_driver.changed(rows.slice(0, 0), rows, None), reason)
                rows = in_driver.published(rows, origin.n, origin.source_version, origin.at_ms)
                yield from shaped(rows, shape).to_batches()

        self.lake.on_checkpoint("changes")
        with suppress(WriteFencedError):
            replace_all(self.path, [*columns, *META], batches, self.aggregate.app_ids[TABLE], origin.n, _kind(origin))
        self.lake.on_checkpoint("wrote_changes")


def _kind(origin: _Origin) -> dict[str, Any]:
    return {**origin.note, "kind": TABLE}


def _slice_column(reasons: Mapping[str, Any]) -> SliceColumn:
    return SliceColumn(reasons["column"], reasons["is_end"], TimeType(reasons["time_type"]))


def _where(column: SliceColumn, spans: SpanSet) -> str:
    """Return Spark SQL that holds for the rows of *spans*; "" for none."""
    return slices_sql(column, spans) if spans else ""
