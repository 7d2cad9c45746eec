"""The buckets that a change feed touches, counted by Spark when the feed is too large for the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from materializer.budget import Budget
from materializer.core.compiled.bucket_sql import bucket_start_sql, instant_of_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.refresh.invalidation import MAX_KEYS, Keys
from materializer.core.refresh.lateness import KNOWN_AT, Lateness
from materializer.core.spec.spec import TimeType
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import EVERYTHING, NEG_INF, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.capture.buckets import distinct_keys
from materializer.lake.capture.lateness import histogram, is_news, known_column
from materializer.lake.keys import why_not_recorded
from materializer.spark.query import compute as c
from materializer.spark.query.shared_changes import shared_changes
from materializer.spark.runtime.failures import feed_gaps

KNOWN: Final = "known"
KEYS: Final = "keys"
MAX_LISTED: Final = 1_000
"""Most buckets whose changed keys are asked for."""
VERSION: Final = "in version"
KINDS: Final = ("insert", "update_preimage", "update_postimage", "delete")


class Changes(Struct, frozen=True):
    """What a range of the change feed touches.

    Args:
        starts: Starts of the touched buckets; None if there are too many to list.
        is_insert_only: Whether every change was an insert.
        counts: Number of changed rows by kind of change.
        null_times: Changed rows whose time is null.
        lateness: Upper bounds of how late the inserted rows were, each measured from the start of the row's bucket.
        late: Starts of buckets below the frozen boundary with a version that only inserted rows.
        conflicts: Starts of buckets below it with a version whose changes were neither inserts only nor deletes only.
        expired: Number of rows below it that were deleted by versions that did nothing else in their bucket.
        keys: The changed keys of the buckets in which they are few, by the start of the bucket.
    """

    starts: tuple[int, ...] | None
    is_insert_only: bool
    counts: Mapping[str, int]
    null_times: int
    lateness: Lateness = field(default_factory=Lateness)
    late: tuple[int, ...] = ()
    conflicts: tuple[int, ...] = ()
    expired: int = 0
    keys: Mapping[int, Keys] = field(default_factory=dict)


def changes(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    after: int,
    upto: int,
    *,
    frozen: int = NEG_INF,
) -> Changes:
    """Return which buckets the change feed of (after, upto] touches, read by Spark.

    Args:
        spark: Session that reads.
        budget: What the driver holds; if there are more touched buckets than it lists, all buckets count as touched.
        definition: The definition, with its grid.
        source: The table.
        after: The version that is known already.
        upto: The last version.
        frozen: The frozen boundary; changes below it are counted version by version.

    Raises:
        ChangeFeedGapError: If Spark refuses the range, or a file of it does not exist.
    """
    column = quoted(definition.spec.time_column)
    with feed_gaps(source.path, after, upto):
        frame = shared_changes(spark, source, after, upto)
        start = bucket_start_sql(definition.grid, column, SpanSet.of(EVERYTHING))
        kinds = [sf.count_if(sf.expr(f"_change_type = '{kind}'")).alias(kind) for kind in KINDS]
        slice_ = sf.expr(instant_of_sql(start, definition.time_type)).alias(SLICE)
        column_of_known = known_column(frame.dtypes, definition.spec.property_map.get(KNOWN_AT, ""))
        known = _known(column_of_known)
        is_recorded = all(definition.key_sources) and not why_not_recorded(definition)
        recorded = (
            definition.spec.keys if is_recorded else ()
        )  # an expression might fail here, where it would not be computed
        keys = [sf.expr(key.sql).alias(f"k{i}") for i, key in enumerate(recorded)]
        distinct = (sf.approx_count_distinct(sf.struct(*keys)) if keys else sf.max(sf.lit(0))).alias(KEYS)
        if frozen == NEG_INF:
            grouped = frame.groupBy(slice_).agg(*kinds, known, distinct)
        else:
            grouped = _by_version(frame, slice_, [*kinds, known, distinct], frozen)
        fetched = c.few(grouped, budget.listed)
        if fetched is None:
            return Changes(None, False, {}, 0)
        rows = fetched.to_pylist()
        few = [r[SLICE] for r in rows if r[SLICE] is not None and r[SLICE] >= frozen and r[KEYS] <= 2 * MAX_KEYS]
        found = _keys(frame.select(slice_, *keys), few, budget.listed) if keys and few else {}
    counts = {kind: sum(r[kind] for r in rows) for kind in KINDS}
    waited = [(r[KNOWN], r[SLICE], r["insert"]) for r in rows if None not in (r[SLICE], r[KNOWN])]
    expired, late, conflicts, rows = _below(rows, frozen)
    nulls = sum(r[kind] for r in rows if r[SLICE] is None for kind in KINDS)
    is_timed = waited and not definition.time_type.is_integer
    return Changes(
        tuple(int(r[SLICE]) for r in rows if r[SLICE] is not None),
        all(r[kind] == 0 for r in rows for kind in KINDS[1:]),
        counts,
        nulls,
        _lateness(waited, is_by_commit=column_of_known is None) if is_timed else Lateness(),
        late,
        conflicts,
        expired,
        found,
    )


def _known(column: tuple[str, TimeType] | None) -> Column:
    """Return the latest time at which an inserted row was known: of its commit, or what a column says."""
    at = "_commit_timestamp" if column is None else f"CAST({quoted(column[0])} AS TIMESTAMP)"
    return sf.expr(f"max(CASE WHEN _change_type = 'insert' THEN unix_micros({at}) END)").alias(KNOWN)


def _lateness(waited: Sequence[tuple[int, int, int]], *, is_by_commit: bool) -> Lateness:
    """Return upper bounds of how late rows were: of (when they were known, start of their bucket, how many)."""
    known, starts, rows = (np.array(column, dtype=np.int64) for column in zip(*waited, strict=True))
    late = (known - starts).astype(np.float64)
    if is_by_commit:
        news = is_news(late, np.unique(known, return_inverse=True)[1])
        late, rows = late[news], rows[news]
    return histogram(late, rows)


def _keys(changed: DataFrame, starts: Sequence[int], most: int) -> Mapping[int, Keys]:
    """Return the changed keys of some buckets, of those in which they are few and recorded exactly."""
    if len(starts) > MAX_LISTED:
        return {}
    pairs = c.few(changed.where(sf.col(SLICE).isin([*starts])).distinct(), most)
    if pairs is None:
        return {}
    index = {start: i for i, start in enumerate(starts)}
    bucket_of = np.array([index[at] for at in pairs[SLICE].to_pylist()], dtype=np.int64)
    found = distinct_keys(pairs.drop_columns([SLICE]), bucket_of, len(starts))
    return {start: keys for start, keys in zip(starts, found, strict=True) if keys is not None}


def _by_version(frame: DataFrame, start: Column, counts: Sequence[Column], frozen: int) -> DataFrame:
    """Return changes by bucket and, below the frozen boundary, by version; all plain deletes below it make one row.

    Shape:
        ``slice`` (null also in the row of plain deletes), ``VERSION`` (null above the boundary), the counts.
    """
    version = sf.when(sf.col(SLICE) < frozen, sf.col("_commit_version"))
    found = frame.withColumn(SLICE, start).withColumn(VERSION, version).groupBy(SLICE, VERSION).agg(*counts)
    others = " + ".join(quoted(kind) for kind in KINDS[:-1])
    stored = sf.expr(f"CASE WHEN {quoted(VERSION)} IS NULL OR {others} > 0 THEN {SLICE} END").alias(SLICE)
    told = sf.expr(f"CASE WHEN {others} > 0 THEN {quoted(VERSION)} WHEN {quoted(VERSION)} >= 0 THEN -1L END").alias(
        VERSION
    )
    sums = [sf.sum(kind).alias(kind) for kind in KINDS]
    return found.groupBy(stored, told).agg(*sums, sf.max(KNOWN).alias(KNOWN), sf.max(KEYS).alias(KEYS))


def _below(
    rows: list[dict[str, Any]], frozen: int
) -> tuple[int, tuple[int, ...], tuple[int, ...], list[dict[str, Any]]]:
    """Return the rows deleted below the frozen boundary, starts of late and of conflicting buckets, and the rows above it."""
    if frozen == NEG_INF:
        return 0, (), (), rows
    old = [r for r in rows if r[VERSION] is not None]
    late = {int(r[SLICE]) for r in old if r[VERSION] >= 0 and not any(r[kind] for kind in KINDS[1:])}
    others = {int(r[SLICE]) for r in old if r[VERSION] >= 0 and any(r[kind] for kind in KINDS[1:])}
    expired = sum(r["delete"] for r in old if r[VERSION] < 0)
    return expired, tuple(sorted(late)), tuple(sorted(others)), [r for r in rows if r[VERSION] is None]
