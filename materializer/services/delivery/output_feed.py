"""The change feed of an output: a third table that says, refresh by refresh, which rows changed and why.

```
            output   … ──▶ data 7 ──▶ maintain ──▶ fence 8 ──▶ data 9        what readers see
                             │                                   │
                             ▼ rows of 7 minus rows before       ▼
            changes  … ──▶ changes 7 ─────────────────────▶ changes 9        follows, one commit a refresh
```

It is written after the output and derived from it: what a commit of the output took out and put in, row by row, and the
reasons that its note tells. So the protocol has no more steps, and it does not matter where a process dies: the commit of
refresh n is in the feed when the feed carries number n, and until then it can be derived again, to the same rows. What
follows holds the aggregate's lease, the number lets each commit in once, and maintenance follows before it removes a file.

Where the commits since the last one that was followed do not tell (the feed was off, the output was put back from an old
copy or made anew, files are gone), the feed is brought up to date in one step instead: by the difference between the rows
that it leads to and those that are published. Either way it leads to the output, always.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from materializer.core.refresh.output_feed import META, NOTE, Reason, is_on, reasons_from_json
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import SpanSet
from materializer.errors import LeaseHeldError, LogGapError, SourceDamagedError, UsageError, WriteFencedError
from materializer.journal.state import AggregateState
from materializer.lake import output_diff as in_driver
from materializer.lake.log import Commit, DataFile, read_commit
from materializer.lake.rows import row_count
from materializer.lake.table import DeltaFolder, open_table
from materializer.lake.write.commit import append_rows, create_table, fence, replace_all, shaped
from materializer.services.aggregate import Aggregate
from materializer.services.commit.commit_info import place_of
from materializer.spark.query.bucket_sql import slices_sql

if TYPE_CHECKING:
    from materializer.services.commit.lake import Lake

TABLE: Final = "changes"
DATA: Final = ("data", "switch")
"""Kinds of commits of an output that change its rows."""
DRIVER_BYTES: Final = 256 << 20
"""Files of one commit that are larger than this are compared by Spark."""


def path_of(aggregate: Aggregate) -> str:
    """Return where the feed lies.

    Raises:
        UsageError: If there is none.
    """
    if not DeltaFolder.at(aggregate.paths[TABLE]).exists():
        raise UsageError(
            f"'{aggregate.name}' has no change feed: the definition does not ask for it, or nothing was published since",
            hint="apply it with 'output.change_feed' = 'true', then refresh",
        )
    return aggregate.paths[TABLE]


def follow(lake: Lake, state: AggregateState) -> None:
    """Bring the feed of an aggregate up to its output; does nothing where it is, or where none is asked for.

    Another process that works on the aggregate now follows when it is done.

    Raises:
        StorageError: If the disk is full or permission is refused; what is published stays, the next refresh follows.
    """
    if not _is_wanted(state) or not _behind(lake.aggregate(state)):
        return
    with suppress(LeaseHeldError), lake.lease(state.name) as lease:
        held = lease.state
        follow_held(lake, held)


def is_behind(aggregate: Aggregate) -> bool:
    """Whether the output has changes that the feed does not have yet; writes nothing."""
    return bool(_behind(aggregate))


def follow_held(lake: Lake, state: AggregateState) -> None:
    """Do the same for an aggregate whose lease the caller holds; raises likewise."""
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


@dataclass(frozen=True, slots=True)
class _Behind:
    """What the feed lacks.

    Args:
        n: The number that the output carries.
        commits: Commits of the output whose changes it lacks, with their notes, oldest first.
        is_broken: Whether these do not tell all.
    """

    n: int
    commits: tuple[tuple[Commit, Mapping[str, Any]], ...] = ()
    is_broken: bool = False

    def __bool__(self) -> bool:
        return bool(self.commits) or self.is_broken


def _is_wanted(state: AggregateState) -> bool:
    return not state.builds and is_on(AggregateSpec.from_json(state.spec))


def _behind(aggregate: Aggregate) -> _Behind:
    """Return what the feed lacks, by the logs of both tables."""
    output = DeltaFolder.at(aggregate.paths["output"])
    n, known = output.transaction_version(aggregate.app_ids["output"]) or 0, _known(aggregate)
    if n <= known:
        return _Behind(n)
    found: list[tuple[Commit, Mapping[str, Any]]] = []
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
            found.append((commit, note))
            continue
        is_followed = note["n"] == known and note.get("plan") == _followed(aggregate, note.get("plan"))
        if is_followed:
            return _Behind(n, tuple(reversed(found)))
        return _Behind(n, is_broken=True)  # what was followed is not there any more
    return _Behind(n, tuple(reversed(found))) if known == 0 else _Behind(n, is_broken=True)


def _known(aggregate: Aggregate) -> int:
    """Return the number of the last refresh that the feed followed, 0 before the first."""
    folder = DeltaFolder.at(aggregate.paths[TABLE])
    if not folder.exists():
        return 0
    known = folder.transaction_version(aggregate.app_ids[TABLE])
    return -1 if known is None else known


def _followed(aggregate: Aggregate, otherwise: str | None) -> str | None:
    """Return the plan whose commit was followed last: numbers come again after a restore, plans do not."""
    path = aggregate.paths[TABLE]
    for version in range(DeltaFolder.at(path).head().version, -1, -1):
        try:
            note = _note(read_commit(path, version))
        except (LogGapError, SourceDamagedError):
            return otherwise
        if note.get("kind") == TABLE:
            return note["plan"] or otherwise  # after a step that caught up, nobody knows
    return otherwise


def _note(commit: Commit) -> Mapping[str, Any]:
    try:
        note = json.loads(commit.user_metadata or "")
        return {**note, "n": int(note["n"] or 0)}
    except (ValueError, KeyError, TypeError):
        return {}


@dataclass(frozen=True, slots=True)
class _Told:
    """What is said of changed rows.

    Args:
        n: The refresh.
        source_version: The source version that it reflects.
        at_ms: When it was published.
        note: For the commit.
    """

    n: int
    source_version: int | None
    at_ms: int
    note: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Feed:
    """The feed of an aggregate whose lease is held.

    Args:
        lake: Holds it.
        bound: The aggregate.
        state: It, as the journal knows it.
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
        """Append what one commit of the output changed."""
        version, n, source = commit.version, note["n"], note.get("source_version")
        told = _Told(n, source, commit.timestamp, {k: note.get(k) for k in ("plan", "n", "source_version")})
        new = in_driver.shape_of(self.output, version)
        old = new if commit.metadata is None else in_driver.shape_of(self.output, version - 1)
        both = in_driver.united(old, new)
        if both is None:
            self._begin_again(version, told, Reason.DEFINITION)
            return
        removes, adds = ([f for f in files if f.data_change] for files in (commit.removes, commit.adds))
        said = note.get(NOTE, {})
        place = said.get("place") or place_of(self.aggregate)
        place = place if all(name in old.names and name in new.names for name in place) else []
        if self._is_small(sum(f.rows or 0 for f in adds), (*removes, *adds)):
            rows = in_driver.changed(
                shaped(in_driver.rows_of(self.output, removes, old), both),
                shaped(in_driver.rows_of(self.output, adds, new), both),
                place,
            )
            if note["kind"] == "switch":
                rows = in_driver.alike(rows, Reason.DEFINITION)
            else:
                rows = in_driver.reasoned(rows, _slice_column(said), reasons_from_json(said))
            self._append(rows, told)
            return
        from materializer.spark.run import output_diff as in_spark  # noqa: PLC0415 (loads Spark)

        engine, types = self.lake.engine(), dict(in_driver.spark_columns(both))
        before = in_spark.rows_of(engine, self.output, max(version - 1, 0), removes)
        after = in_spark.rows_of(engine, self.output, version, adds)
        frame = in_spark.changed(in_spark.fitted(before, types), in_spark.fitted(after, types), place)
        if note["kind"] == "switch":
            frame = in_spark.alike(frame, Reason.DEFINITION)
        else:
            is_new, is_late, beyond = reasons_from_json(said)
            column = _slice_column(said)
            frame = in_spark.reasoned(frame, _where(column, is_new), _where(column, is_late), beyond)
        self._append_by_spark(frame, both, told)

    def catch_up(self, n: int) -> None:
        """Append what leads from the rows of the feed to those that are published, whatever happened between."""
        version = DeltaFolder.at(self.output).head().version
        done = [e.report.source_version for e in self.state.ended if e.outcome in ("done", "switched")]
        at_ms = int(time.time() * 1000)
        with suppress(LogGapError, SourceDamagedError):
            at_ms = read_commit(self.output, version).timestamp
        source = done[-1] if done else self.state.cursor
        told = _Told(n, source, at_ms, {"plan": "", "n": n, "source_version": source})
        new = in_driver.shape_of(self.output, version)
        feed = DeltaFolder.at(self.path)
        at = feed.head().version if feed.exists() else None
        own = [name for name, _ in META]
        had = new if at is None else in_driver.shape_of(self.path, at)
        old = pa.schema([f for f in had if f.name not in own])
        both = in_driver.united(old, new)
        if both is None:
            self._begin_again(version, told, None)
            return
        place = [name for name in place_of(self.aggregate) if name in old.names]
        count = (row_count(self.output) or 0) + (0 if at is None else row_count(self.path) or 0)
        if self._is_small(count, ()):
            empty = both.empty_table()
            was = empty if at is None else shaped(in_driver.replayed(in_driver.all_rows(self.path, at)), both)
            now = shaped(in_driver.all_rows(self.output, version), both)
            self._append(in_driver.alike(in_driver.changed(was, now, place), None), told)
            return
        from materializer.spark.run import output_diff as in_spark  # noqa: PLC0415 (loads Spark)

        engine, types = self.lake.engine(), dict(in_driver.spark_columns(both))
        after = in_spark.fitted(in_spark.rows_of(engine, self.output, version, None), types)
        before = after.limit(0)
        if at is not None:
            before = in_spark.fitted(in_spark.replayed(in_spark.rows_of(engine, self.path, at, None)), types)
        self._append_by_spark(in_spark.alike(in_spark.changed(before, after, place), None), both, told)

    def _is_small(self, rows: int, files: Iterable[DataFile]) -> bool:
        return rows <= self.lake.config.driver_lane_rows and sum(f.bytes for f in files) <= DRIVER_BYTES

    def _append(self, rows: pa.Table, told: _Told) -> None:
        column = self.aggregate.slice_column("output").name
        if column in rows.column_names:
            rows = rows.sort_by(column)
        rows = in_driver.published(rows, told.n, told.source_version, told.at_ms)
        self._open(pa.schema([f for f in rows.schema if f.name not in dict(META)]))
        rows = shaped(rows, in_driver.shape_of(self.path, open_table(self.path).version()))
        self.lake.on_checkpoint("changes")
        with suppress(WriteFencedError):  # it was followed already
            append_rows(self.path, rows, self.aggregate.app_ids[TABLE], told.n, _kind(told))
        self.lake.on_checkpoint("wrote_changes")

    def _append_by_spark(self, frame: Any, shape: pa.Schema, told: _Told) -> None:
        from materializer.spark.query import write as spark_commit  # noqa: PLC0415 (loads Spark)
        from materializer.spark.run import output_diff as in_spark  # noqa: PLC0415 (likewise)

        self._open(shape)
        has = in_driver.shape_of(self.path, open_table(self.path).version())
        frame = in_spark.published(frame, told.n, told.source_version, told.at_ms)
        frame = in_spark.fitted(frame, dict(in_driver.spark_columns(has))).persist()
        app_id = self.aggregate.app_ids[TABLE]
        try:
            count = frame.count()
            self.lake.on_checkpoint("changes")
            if count:
                spark_commit.append(frame, self.path, app_id=app_id, n=told.n, note=_kind(told))
            else:
                fence(self.path, app_id, told.n, _kind(told))
            self.lake.on_checkpoint("wrote_changes")
        finally:
            frame.unpersist()

    def _open(self, shape: pa.Schema) -> None:
        """Make the table, or give it the columns that it lacks."""
        columns = in_driver.spark_columns(shape)
        if not DeltaFolder.at(self.path).exists():
            name = f"{self.aggregate.name}_changes"
            create_table(self.path, [*columns, *META], name=name, description=f"what changed in {self.aggregate.name}")
            return
        lacking = in_driver.columns_to_add(self.path, shape)
        if lacking:
            in_driver.add_columns(self.path, [(n, kind) for n, kind in columns if n in lacking])

    def _begin_again(self, version: int, told: _Told, reason: Reason | None) -> None:
        """Give the feed other columns, because one has another type now: it begins with everything that is published."""
        has, files = in_driver.files_of(self.output, version)
        columns = in_driver.spark_columns(has)

        def batches(shape: pa.Schema) -> Iterator[pa.RecordBatch]:
            for file in files:  # the library cannot read a table while it writes one
                rows = in_driver.rows_of(self.output, [file], has)
                rows = in_driver.alike(in_driver.changed(rows.slice(0, 0), rows, None), reason)
                rows = in_driver.published(rows, told.n, told.source_version, told.at_ms)
                yield from shaped(rows, shape).to_batches()

        self.lake.on_checkpoint("changes")
        with suppress(WriteFencedError):
            replace_all(self.path, [*columns, *META], batches, self.aggregate.app_ids[TABLE], told.n, _kind(told))
        self.lake.on_checkpoint("wrote_changes")


def _kind(told: _Told) -> dict[str, Any]:
    return {**told.note, "kind": TABLE}


def _slice_column(said: Mapping[str, Any]) -> SliceColumn:
    return SliceColumn(said["column"], said["is_end"], TimeType(said["time_type"]))


def _where(column: SliceColumn, spans: SpanSet) -> str:
    """Return Spark SQL that holds for the rows of *spans*; "" for none."""
    return slices_sql(column, spans) if spans else ""
