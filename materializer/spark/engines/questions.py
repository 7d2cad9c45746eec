"""Read what planning an engine's refresh needs: which keys changed where, their stored results, and how far time has come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from materializer.budget import Budget
from materializer.core.compiled.bucket_sql import spans_sql
from materializer.core.compiled.definition import Definition, key_column
from materializer.core.engines.engine_query import END, TIME, engine_of
from materializer.core.engines.queries.daily_time_series import day_from_sql
from materializer.core.engines.ranges import StoredResult
from materializer.core.engines.work import ChangedKeys, Key, frozen, joined
from materializer.core.refresh.plan import MAX_SPANS
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake import engine_rows
from materializer.lake.engine_rows import Near, StoredResults, by_keys, stored_columns
from materializer.spark.engines.run import prepared
from materializer.spark.query import compute as c
from materializer.spark.query.shared_changes import shared_changes

_LAST: Final = f"greatest({TIME}, coalesce({END} - 1, {2**62}L))"
"""SQL of the last instant of an event with a duration."""


def changed_keys(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    after: int,
    upto: int,
    spans: SpanSet,
    *,
    last: int = NEG_INF,
) -> ChangedKeys | None:
    """Return the changed keys of the rows in *spans*, from the change feed of (after, upto]; None when there are too many.

    Args:
        spark: A session.
        budget: What the driver holds.
        definition: The definition, with its keys and filter.
        source: The source.
        after: The version that is known already.
        upto: The last version.
        spans: Only changed rows in these spans count.
        last: Only events that last at least until this instant count.
    """
    frame = shared_changes(spark, source, after, upto)
    rows = prepared(definition, frame, spans)
    if last != NEG_INF:
        rows = rows.where(lasts_sql(last))
    return _by_key_and_slice(budget, definition, rows, "_change_type != 'insert'")


def lasts_sql(last: int) -> str:
    """Return SQL that tells whether an event lasts at least until an instant; an open event does."""
    return f"({_LAST} >= {_clamped(last)}L)"


def rows_as_changes(
    spark: SparkSession, budget: Budget, definition: Definition, source: SourceIdentity, version: int, spans: SpanSet
) -> ChangedKeys | None:
    """Return the rows in *spans* at a version as if all of them had just been inserted; None when there are too many."""
    rows = prepared(definition, c.read_version(spark, source, version), spans)
    return _by_key_and_slice(budget, definition, rows, "false")


def _by_key_and_slice(budget: Budget, definition: Definition, rows: DataFrame, other: str) -> ChangedKeys | None:
    """Return which keys changed in which slices; None when there are too many pairs.

    Args:
        budget: What the driver holds.
        definition: The definition, with its keys and slices.
        rows: Prepared changed rows.
        other: Predicate of the rows that were not inserted.
    """
    keys = [key_column(k.name) for k in definition.spec.keys]
    ticks = engine_of(definition).slice_ticks
    last = _LAST if END in rows.columns else TIME
    grouped = rows.groupBy(*keys, sf.expr(f"{TIME} - pmod({TIME}, {ticks}L)").alias("part")).agg(
        sf.min(TIME).alias("lo"),
        sf.expr(f"max({last})").alias("hi"),
        sf.max(TIME).alias("newest"),
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(sf.expr(other)).alias("others"),
    )
    fetched = c.few(grouped, budget.changed)
    if fetched is None:
        return None
    found = fetched.to_pylist()
    by_key: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for row in found:
        by_key[frozen([row[k] for k in keys])].append((row["lo"], POS_INF if row["hi"] >= 2**62 else row["hi"]))
    return ChangedKeys(
        {key: joined(pieces) for key, pieces in by_key.items()},
        max((row["newest"] for row in found), default=None),
        not any(row["others"] for row in found),
        sum(row["rows"] for row in found),
    )


def keys_over(
    spark: SparkSession, budget: Budget, definition: Definition, path: str, version: int, spans: SpanSet
) -> list[Key] | None:
    """Return the keys that have stored results in *spans*, or in gaps between many spans; None when there are too many."""
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    bounds = [(_clamped(s.start), _clamped(s.end)) for s in spans.at_most(MAX_SPANS)]
    over = " OR ".join(f"(w_start < {end}L AND w_end >= {start}L)" for start, end in bounds) or "false"
    names = [key_column(k.name) for k in definition.spec.keys]
    if not names:
        return [()] * frame.where(over).limit(1).count()
    found = c.few(frame.where(over).select(*names).distinct(), budget.changed)
    return None if found is None else [frozen([row[n] for n in names]) for row in found.to_pylist()]


def kept_rows(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    path: str,
    version: int,
    keys: Sequence[Key] | None,
    *,
    since: SpanSet | None,
    carried: Sequence[str] = (),
    near: Near | None = None,
) -> StoredResults | None:
    """Return the stored result rows of some keys, in order of time, with the columns that running state carries on.

    The result is None when there are more rows than the driver holds.

    Args:
        spark: A session.
        budget: What the driver holds.
        definition: The definition.
        path: The partials table of the definition.
        version: The version of the partials table.
        keys: The keys; None for all.
        since: Only rows in these slices, and rows that are not final; None for all rows.
        carried: Additional columns to return.
        near: Where the results of each key are looked at; None for everywhere.
    """
    columns = stored_columns(definition, carried)
    frame = _kept_frame(spark, definition, path, version, keys, since).select(*map(quoted, columns))
    rows = c.few(frame, budget.stored)
    return None if rows is None else by_keys(definition, rows, keys, carried, near)


def kept_across(spark: SparkSession, path: str, version: int, bound: int) -> list[StoredResult]:
    """Return one result that covers all stored results which begin before *bound* and end after it; none if there are none."""
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    across = frame.where(f"w_start < {bound}L AND w_end > {bound}L").agg(
        sf.min("w_start").alias("start"), sf.max("w_end").alias("end")
    )
    found = across.collect()[0]
    return [] if found["start"] is None else [StoredResult(found["start"], found["end"], None, None, True, 0)]


def unsettled(
    spark: SparkSession, definition: Definition, path: str, version: int, inside: Span, dirty: int
) -> int | None:
    """Return the start of the first result in a span that may still change, or still appear; None if there is none.

    The driver was asked first: here are more results than it holds.

    Args:
        spark: A session.
        definition: The definition.
        path: The partials table of the definition.
        version: The version of the partials table.
        inside: The span from the present frozen boundary to the proposed one; only results that begin in it count.
        dirty: The first dirty instant at or after the end of *inside*. A result that reaches it may change, like an open one.
    """
    found = _progress(spark, definition, path, version, inside, dirty)
    return found.unsettled(engine_of(definition).params, inside)


def _progress(
    spark: SparkSession, definition: Definition, path: str, version: int, inside: Span, dirty: int
) -> engine_rows.Progress:
    params = engine_of(definition).params
    calendar = params.calendar if params.fills_by_day else None
    names = [key_column(k.name) for k in definition.spec.keys]
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    if not params.fills_on:
        frame = frame.where(spans_sql("slice", SpanSet.of(inside), definition.time_type))
    within = f"w_start >= {_clamped(inside.start)}L AND w_start < {_clamped(inside.end)}L"
    changing = f"{within} AND (NOT is_final OR w_end >= {_clamped(dirty)}L)"
    latest = frame.groupBy(*map(quoted, names)).agg(
        sf.expr(f"min(w_start) FILTER (WHERE {changing})").alias("t"),
        sf.expr("max(w_start) FILTER (WHERE is_final)").alias("last"),
    )
    row = latest.agg(sf.min("t").alias("t"), sf.min("last").alias("last")).collect()[0]
    days: list[tuple[int, int]] = []
    if calendar is not None:
        day = sf.expr(day_from_sql(calendar, "w_start")).alias("_day")
        by_day = frame.where(within).groupBy(*map(quoted, names), day)
        counted = by_day.agg(sf.min("w_start").alias("first"), sf.count(sf.lit(1)).alias("count"))
        # of trading days with the same first window, the one with the fewest windows decides
        days = [
            (r["first"], r["least"]) for r in counted.groupBy("first").agg(sf.min("count").alias("least")).collect()
        ]
    return engine_rows.Progress(_number(row["t"]), _number(row["last"]), days)


def _clamped(instant: int) -> int:
    """Return the instant as a 64-bit number; infinite instants become numbers beyond every real instant."""
    return max(-(2**62), min(2**62, instant))


def _kept_frame(
    spark: SparkSession,
    definition: Definition,
    path: str,
    version: int,
    keys: Sequence[Key] | None,
    since: SpanSet | None,
) -> DataFrame:
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    if since is not None:
        frame = frame.where(f"NOT is_final OR {spans_sql('slice', since, definition.time_type)}")
    names = [key_column(k.name) for k in definition.spec.keys]
    if keys is not None and names:
        frame = frame.join(sf.broadcast(key_frame(spark, definition, keys)), _on(names), "left_semi")
    return frame


def key_frame(spark: SparkSession, definition: Definition, keys: Sequence[Key]) -> DataFrame:
    """Return keys as a frame with the columns ``r_<i>``."""
    types = dict(definition.partial_columns)
    fields = [f"r_{i} {types[key_column(k.name)]}" for i, k in enumerate(definition.spec.keys)]
    return spark.createDataFrame(list(keys), ", ".join(fields))


def _on(names: Sequence[str]) -> Any:
    same = sf.expr("true")
    for i, name in enumerate(names):
        same = same & sf.col(quoted(name)).eqNullSafe(sf.col(f"r_{i}"))
    return same


def newest_time(spark: SparkSession, definition: Definition, source: SourceIdentity, version: int) -> int | None:
    """Return the largest event time of the rows that count at a version; None without rows."""
    rows = prepared(definition, c.read_version(spark, source, version))
    return _number(rows.agg(sf.max(TIME).alias("t")).collect()[0]["t"])


def first_time(
    spark: SparkSession, definition: Definition, source: SourceIdentity, version: int, *, from_feed: bool
) -> int | None:
    """Return the event time of the first row that was ever accepted; None without rows.

    Args:
        spark: A session.
        definition: The definition, with its filter.
        source: The source.
        version: The last version that counts.
        from_feed: Whether the change feed reaches back to the table's first version, so that the order of arrival is known;
            otherwise the row with the smallest time counts as the first.
    """
    if not from_feed:
        rows = prepared(definition, c.read_version(spark, source, version))
        return _number(rows.agg(sf.min(TIME).alias("t")).collect()[0]["t"])
    rows = prepared(definition, c.read_changes(spark, source, -1, version).where("_change_type = 'insert'"))
    sequence = definition.spec.sequence
    order = ["_commit_version", *([quoted(sequence)] if sequence else []), TIME]
    found = rows.orderBy(*order).select(TIME).limit(1).collect()
    return _number(found[0][TIME]) if found else None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
