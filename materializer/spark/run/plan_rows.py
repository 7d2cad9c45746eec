"""The rows of a plan: which rows Spark reads for which buckets, raw, merged or stored, as frames that run later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from materializer.config import Budget
from materializer.core.aggregates.layout import SIGN
from materializer.core.compiled.bucket_sql import spans_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.compiled.rolled_up import merged_from
from materializer.core.refresh.plan import CAME, INSERTED, MAX_SPANS, WENT, Lane, Merge, Plan, Retract, RollUp
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.capture.changed_rows import with_images
from materializer.lake.keys import FROM, KEY, UPTO, Within, table_of, wanted
from materializer.lake.local_read import read_small_changes
from materializer.spark.query import compute as c
from materializer.spark.query import read_small
from materializer.spark.query.shared_changes import shared_changes

_TOO_FEW: Final = "more rows went than the stored partials count"


def parts_of(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    partials_path: str,
    plan: Plan,
    hull: Span | None,
) -> tuple[list[DataFrame], list[Observation]]:
    """Return frames whose union is all partials of the plan's buckets and of the clean buckets between them."""
    raw, keyed, merges, gone = plan.recomputed, plan.keyed, plan.merges, plan.discarded
    starts = _starts(spark, budget, definition, raw)
    groups = _groups(spark, definition, plan) if keyed else None
    parts, observations = [], []
    if raw:
        rows, seen = _raw(spark, budget, definition, source, plan, raw, starts, hull)
        observations.append(seen)
        parts.append(rows)
    for finer in plan.rollups:
        rows, seen = _rolled_up(spark, budget, definition, finer, few=plan.lane is Lane.DRIVER)
        observations.append(seen)
        parts.append(rows)
    if groups is not None:
        around, values = keyed.at_most(MAX_SPANS), _values(definition, plan)
        rows = _around(spark, budget, definition, source, plan, around, values)
        rows, inside = _of_groups(definition, rows, groups, around, values, hull)
        rows, seen = c.observed(rows, "recompute_keys")
        observations.append(seen)
        parts.append(c.build(definition, rows, inside))
    done = SpanSet.union(s for step in plan.rollups for s in step.spans) | gone
    if merges or plan.retracts or plan.replaced != plan.remade:
        spans = plan.replaced - done if starts is not None else plan.replaced - raw - done
        stored = stored_rows(spark, budget, definition, partials_path, plan, spans)
        stored = c.kept_partials(definition, stored, spans)
        stored = stored if starts is None else c.except_buckets(definition, stored, starts)
        stored = stored if groups is None else c.except_groups(definition, stored, groups)
        went: list[DataFrame] = []
        came = [stored]
        read: list[tuple[Merge | Retract, Sequence[str], list[DataFrame]]] = [(s, INSERTED, came) for s in merges]
        for step in plan.retracts:
            read += [(step, CAME, came), (step, WENT, went)]
        for i, (change, images, built) in enumerate(read):
            changed = _changed(spark, budget, definition, source, change.after, plan.source_version, images)
            rows, seen = c.observed(c.relevant_rows(definition, changed, change.spans), f"changed_{i}")
            observations.append(seen)
            inside = change.spans
            if hull is not None and not all(s.is_bounded for s in change.spans):
                inside = change.spans & SpanSet.of(hull)  # not always: merged rows may be gone from the source
            built.append(c.build(definition, rows, inside))
        if went:
            parts.append(_subtracted(definition, came, went))
        else:
            parts.append(c.merge(definition, came) if len(came) > 1 else stored)
    return parts, observations


def _subtracted(definition: Definition, parts: Sequence[DataFrame], gone: Sequence[DataFrame]) -> DataFrame:
    """Return the partials of the rows behind *parts* less those behind *gone*, which are partials of some of these rows.

    The query fails where more rows went than there were: then the stored partials are not what the change feed begins with.
    """
    signed = [(part, 1) for part in parts] + [(part, -1) for part in gone]
    union = reduce(lambda a, b: a.unionByName(b), [part.withColumn(SIGN, sf.lit(sign)) for part, sign in signed])
    layout = definition.layout
    values = [sf.expr(p.retract).alias(p.name) for p in layout.partials if p.retract is not None]
    found = union.groupBy(*definition.group_columns).agg(*values)
    count = layout.row_count
    return found.where(f"CASE WHEN {count} < 0 THEN raise_error('{_TOO_FEW}') ELSE {count} > 0 END")


def only_raw(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    plan: Plan,
    hull: Span | None,
) -> tuple[DataFrame, SpanSet] | None:
    """Return the source rows of a plan, and spans around their times; None if it needs more than raw rows."""
    raw = plan.recomputed
    if not raw or plan.merges or plan.retracts or plan.replaced != raw or len(raw) > MAX_SPANS:
        return None
    return _inside(definition, _around(spark, budget, definition, source, plan, raw), raw, None, hull)


def _around(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    plan: Plan,
    spans: SpanSet,
    within: Within | None = None,
) -> DataFrame:
    """Return at least the source rows in *spans* with the values of *within*."""
    if plan.lane is Lane.DRIVER:
        return read_small.raw_rows(spark, budget, definition, source, plan.source_version, spans, within)
    return c.read_version(spark, source, plan.source_version)


def _raw(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    plan: Plan,
    raw: SpanSet,
    starts: DataFrame | None,
    hull: Span | None,
) -> tuple[DataFrame, Observation]:
    around = raw if starts is None else raw.at_most(MAX_SPANS)
    rows = _around(spark, budget, definition, source, plan, around)
    rows, inside = _inside(definition, rows, around, starts, hull)
    observed, seen = c.observed(rows, "recompute")
    return c.build(definition, observed, inside, unobserved=rows), seen


def _rolled_up(
    spark: SparkSession, budget: Budget, definition: Definition, step: RollUp, *, few: bool
) -> tuple[DataFrame, Observation]:
    """Return the partials that are merged from those of a finer aggregate, and the count of these."""
    over = merged_from(definition, step.keys)
    around = step.spans.at_most(MAX_SPANS)
    rows = read_small.rows_inside(
        spark,
        budget,
        step.path,
        step.version,
        dict(over.spec.read_types),
        around,
        few=few,
        time_type=definition.time_type,
    )
    observed, seen = c.observed(c.relevant_rows(over, rows, around), "roll_up")
    built = c.build(over, observed, around)
    if around != step.spans:
        built = built.where(spans_sql(SLICE, step.spans, definition.time_type))
    return built, seen


def _inside(
    definition: Definition, rows: DataFrame, around: SpanSet, starts: DataFrame | None, hull: Span | None
) -> tuple[DataFrame, SpanSet]:
    """Return the source rows that count, and spans around their times."""
    inside = around & SpanSet.of(hull) if hull else around
    rows = c.relevant_rows(definition, rows, around)
    return (rows if starts is None else c.only_buckets(definition, rows, starts, inside)), inside


def _groups(spark: SparkSession, definition: Definition, plan: Plan) -> DataFrame:
    """Return the groups that are computed of buckets of which not all are."""
    rows = table_of(plan.groups, definition.key_types)
    types = {FROM: "bigint", UPTO: "bigint"} | {f"{KEY}{i}": kind for i, kind in enumerate(definition.key_types)}
    return c.frame_of(spark, rows, types)


def _values(definition: Definition, plan: Plan) -> Within:
    return wanted(definition, [key for _, key in plan.groups])


def _of_groups(
    definition: Definition,
    rows: DataFrame,
    groups: DataFrame,
    around: SpanSet,
    values: Within,
    hull: Span | None,
) -> tuple[DataFrame, SpanSet]:
    """Return the source rows of the groups that are computed, and spans around their times."""
    rows, inside = _inside(definition, rows, around, None, hull)
    return c.only_groups(definition, c.with_values(definition, rows, values), groups), inside


def source_rows(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    plan: Plan,
    *,
    hull: Span | None,
) -> DataFrame:
    """Return the source rows that *plan* aggregates: all rows of recomputed spans, only inserted rows of merged spans.

    The plan must not subtract: a changed row may have changed again.

    Shape:
        The columns of the source.
    """
    raw = plan.recomputed
    starts = _starts(spark, budget, definition, raw)
    around = raw if starts is None else raw.at_most(MAX_SPANS)
    # a quality suite may also check columns that no measure reads
    every = c.read_version(spark, source, plan.source_version)
    rows, _ = _inside(definition, every, around, starts, hull)
    parts = [rows] if raw else []
    if plan.keyed:
        groups, keyed = _groups(spark, definition, plan), plan.keyed.at_most(MAX_SPANS)
        parts.append(_of_groups(definition, every, groups, keyed, _values(definition, plan), hull)[0])
    for step in plan.merges:
        inserted = c.read_images(spark, source, step.after, plan.source_version, INSERTED)
        parts.append(c.relevant_rows(definition, inserted, step.spans))
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts or [rows.limit(0)])


def _starts(spark: SparkSession, budget: Budget, definition: Definition, spans: SpanSet) -> DataFrame | None:
    """Return the bucket starts of *spans* if the spans, but not the starts, are too many; else None, and spans around them are used."""
    grid, starts, most = definition.grid, [], budget.listed
    if len(spans) <= MAX_SPANS or sum(grid.count(s) if s.is_bounded else most for s in spans) >= most:
        return None
    for span in spans:
        at = span.start
        while at < span.end:
            starts.append((at,))
            at = grid.next(at)
    return spark.createDataFrame(starts, f"`{c.AT}` bigint")


def _changed(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    after: int,
    upto: int,
    images: Sequence[str],
) -> DataFrame:
    """Return some images of the rows changed in (after, upto]."""
    types = dict(definition.spec.read_types)
    few = None
    if not source.name:  # a name is read by Spark, after the catalog was asked for it
        most = {"max_rows": budget.changed, "max_bytes": budget.bytes}
        few = read_small_changes(source.path, after, upto, list(types), **most)
    if few is None:
        return c.of_images(shared_changes(spark, source, after, upto), images)
    return c.frame_of(spark, with_images(few, images).select(list(types)), types)


def stored_rows(
    spark: SparkSession, budget: Budget, definition: Definition, path: str, plan: Plan, spans: SpanSet
) -> DataFrame:
    """Return the stored partials of some spans, as they were when the plan was made."""
    few = plan.lane is Lane.DRIVER
    return read_small.kept_rows(spark, budget, definition, path, plan.partials.version, spans, few=few)
