"""The rows of a plan: which rows Spark reads for which buckets, raw, merged or stored, as frames that run later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from msgspec import Struct
from pyspark.sql import DataFrame, Observation, SparkSession

from materializer.budget import Budget
from materializer.core.compiled.bucket_sql import spans_sql
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.compiled.queries import group_columns
from materializer.core.compiled.rolled_up import merged_from
from materializer.core.refresh.plan import CAME, FEW_SPANS, INSERTED, WENT, Lane, Merge, Plan, Retract, RollUp
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.lake.capture.changed_rows import with_images
from materializer.lake.extent import files
from materializer.lake.keys import Within, table_of, wanted
from materializer.lake.local_read import read_small_changes
from materializer.lake.span_rows import rows_of_spans
from materializer.spark.query import buckets, read_small
from materializer.spark.query import compute as c
from materializer.spark.query.shared_changes import shared_changes


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
    groups = _Groups.of(spark, budget, definition, plan) if keyed else None
    parts, observations = [], []
    if raw:
        rows, inside = _inside(spark, budget, definition, source, plan, raw, hull)
        observed, seen = c.observed(rows, "recompute")
        observations.append(seen)
        parts.append(c.build(definition, observed, inside, unobserved=rows))
    for finer in plan.rollups:
        rows, seen = _rolled_up(spark, budget, definition, finer, few=plan.lane is Lane.DRIVER)
        observations.append(seen)
        parts.append(rows)
    if groups is not None:
        rows, inside = _of_groups(spark, budget, definition, source, plan, groups, hull)
        rows, seen = c.observed(rows, "recompute_keys")
        observations.append(seen)
        parts.append(c.build(definition, rows, inside))
    if merges or plan.retracts or plan.replaced != plan.remade:
        spans = plan.replaced - plan.remade - gone
        stored = _stored(spark, budget, definition, partials_path, plan, spans)
        if groups is not None:
            placed = groups.parts.joined(stored, c.slice_of(definition), "left")
            stored = c.except_groups(definition, placed, groups.frame)
        went: list[DataFrame] = []
        came = [stored]
        read: list[tuple[Merge | Retract, Sequence[str], list[DataFrame]]] = [(s, INSERTED, came) for s in merges]
        for step in plan.retracts:
            read += [(step, CAME, came), (step, WENT, went)]
        for i, (change, images, built) in enumerate(read):
            inside = change.spans.at_most(FEW_SPANS)
            if hull is not None and not all(s.is_bounded for s in change.spans):
                inside &= SpanSet.of(hull)  # not always: merged rows may be gone from the source
            changed = _changed(spark, budget, definition, source, change, plan.source_version, images, inside)
            rows, seen = c.observed(changed, f"changed_{i}")
            observations.append(seen)
            built.append(c.build(definition, rows, inside))
        parts.append(c.merge(definition, came, went) if len(came) + len(went) > 1 else stored)
    return parts, observations


def copied_rows(definition: Definition, partials_path: str, plan: Plan) -> int:
    """Return about how many stored partials of clean buckets between those of a plan are copied."""
    between = plan.replaced - plan.spans
    if not between:
        return 0
    return files(partials_path, plan.partials.version, SLICE, definition.time_type).rows_in(between)


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
    if not raw or plan.merges or plan.retracts or plan.replaced != raw:
        return None
    return _inside(spark, budget, definition, source, plan, raw, hull)


def _inside(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    plan: Plan,
    spans: SpanSet,
    hull: Span | None,
    *,
    whole_rows: bool = False,
) -> tuple[DataFrame, SpanSet]:
    """Return the source rows that count in some buckets, and spans around their times; see :func:`_around`."""
    rows, spans, around = _around(spark, budget, definition, source, plan, spans, whole_rows=whole_rows)
    inside = _in_hull(around, hull)
    start = c.bucket_of(definition, inside)
    return buckets.only(spark, budget, definition.grid, rows, start, spans, around), inside


def _in_hull(spans: SpanSet, hull: Span | None) -> SpanSet:
    """Return few spans around the times of rows in *spans*."""
    few = spans.at_most(FEW_SPANS)
    return few & SpanSet.of(hull) if hull else few


def _around(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    plan: Plan,
    spans: SpanSet,
    within: Within | None = None,
    *,
    whole_rows: bool = False,
) -> tuple[DataFrame, SpanSet, SpanSet]:
    """Return the source rows that count around some buckets, the buckets that have rows, and the spans of the rows.

    Args:
        spark: The session.
        budget: What the driver holds.
        definition: The definition to compute.
        source: The source.
        plan: The plan.
        spans: The buckets.
        within: Rows with other values are not wanted.
        whole_rows: Whether the rows have all columns of the source, also those that the definition does not read.
    """
    version, is_driver = plan.source_version, plan.lane is Lane.DRIVER and not whole_rows
    if is_driver:
        picked = read_small.picked_raw(spark, budget, definition, source, version, spans, within)
        if picked is not None:
            return c.relevant_rows(definition, picked, SpanSet.of(EVERYTHING)), spans, spans
    extent = None
    if not isinstance(source, c.ComputedSource):
        extent = files(source.path, version, definition.spec.time_column, definition.time_type)
        spans = definition.grid.cover_set(extent.present(spans)) & spans
    around = buckets.named_spans(spans, extent)
    if is_driver:
        rows = read_small.opened_raw(spark, definition, source, version, around, within)
    else:
        rows = c.read_version(spark, source, version)
    rows = c.relevant_rows(definition, rows, around)
    return (c.with_values(definition, rows, within) if within else rows), spans, around


def _rolled_up(
    spark: SparkSession, budget: Budget, definition: Definition, step: RollUp, *, few: bool
) -> tuple[DataFrame, Observation]:
    """Return the partials that are merged from those of a finer aggregate, and the count of these."""
    over = merged_from(definition, step.keys)
    types = dict(over.spec.read_types)
    rows, spans, around = _slices(spark, budget, definition, step.path, step.version, types, step.spans, few=few)
    inside = around.at_most(FEW_SPANS)
    rows = c.relevant_rows(over, rows, SpanSet.of(EVERYTHING))
    rows = buckets.only(spark, budget, over.grid, rows, c.bucket_of(over, inside), spans, around)
    observed, seen = c.observed(rows, "roll_up")
    return c.build(over, observed, inside), seen


class _Groups(Struct, frozen=True):
    """The groups that are computed of buckets of which not all are.

    Args:
        frame: The groups, by the start of their part and their key.
        parts: The parts of time with groups.
        values: The values of their keys, by the source columns that hold them.
    """

    frame: DataFrame
    parts: buckets.SpanParts
    values: Within

    @classmethod
    def of(cls, spark: SparkSession, budget: Budget, definition: Definition, plan: Plan) -> _Groups:
        """Return the groups of a plan."""
        groups = plan.groups
        types = dict(group_columns(definition.key_types))
        return cls(
            c.frame_of(spark, table_of(groups, definition.key_types), types),
            buckets.SpanParts.of(spark, budget, definition.grid, [span for span, _ in plan.keys_of_parts]),
            wanted(definition, [key for _, key in groups]),
        )


def _of_groups(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    plan: Plan,
    groups: _Groups,
    hull: Span | None,
    *,
    whole_rows: bool = False,
) -> tuple[DataFrame, SpanSet]:
    """Return the source rows of the groups that are computed, and spans around their times; see :func:`_around`."""
    rows, _, around = _around(spark, budget, definition, source, plan, plan.keyed, groups.values, whole_rows=whole_rows)
    inside = _in_hull(around, hull)
    placed = groups.parts.joined(rows, c.bucket_of(definition, inside), "inner")
    return c.only_groups(definition, placed, groups.frame), inside


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
    # a quality suite may also check columns that no measure reads
    rows, _ = _inside(spark, budget, definition, source, plan, plan.recomputed, hull, whole_rows=True)
    parts = [rows] if plan.recomputed else []
    if plan.keyed:
        groups = _Groups.of(spark, budget, definition, plan)
        parts.append(_of_groups(spark, budget, definition, source, plan, groups, hull, whole_rows=True)[0])
    for step in plan.merges:
        inserted = c.read_images(spark, source, step.after, plan.source_version, INSERTED)
        parts.append(_in_spans(spark, budget, definition, inserted, step.spans, step.spans.at_most(FEW_SPANS)))
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts or [rows.limit(0)])


def _in_spans(
    spark: SparkSession, budget: Budget, definition: Definition, rows: DataFrame, spans: SpanSet, inside: SpanSet
) -> DataFrame:
    """Return the rows that count in some buckets; *inside* are spans around their times."""
    around = spans.at_most(FEW_SPANS)
    rows = c.relevant_rows(definition, rows, around)
    return buckets.only(spark, budget, definition.grid, rows, c.bucket_of(definition, inside), spans, around)


def _changed(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    source: SourceIdentity,
    change: Merge | Retract,
    upto: int,
    images: Sequence[str],
    inside: SpanSet,
) -> DataFrame:
    """Return some images of the changed rows that count in the buckets of a step; *inside* are spans around their times."""
    types = dict(definition.spec.read_types)
    few = None
    if not source.name:  # a name is read by Spark, after the catalog was asked for it
        of_feed = source.path, change.after, upto, list(types)
        few = read_small_changes(*of_feed, max_rows=budget.changed, max_bytes=budget.bytes)
    if few is None:
        changed = c.of_images(shared_changes(spark, source, change.after, upto), images)
        return _in_spans(spark, budget, definition, changed, change.spans, inside)
    few = rows_of_spans(with_images(few, images), change.spans, definition.spec.time_column, definition.time_type)
    return c.relevant_rows(definition, c.frame_of(spark, few.select(list(types)), types), SpanSet.of(EVERYTHING))


def _stored(
    spark: SparkSession, budget: Budget, definition: Definition, path: str, plan: Plan, spans: SpanSet
) -> DataFrame:
    """Return the stored partials of some buckets, as they were when the plan was made."""
    types, version, few = dict(definition.partial_columns), plan.partials.version, plan.lane is Lane.DRIVER
    rows, spans, around = _slices(spark, budget, definition, path, version, types, spans, few=few)
    rows = buckets.only(spark, budget, definition.grid, rows, c.slice_of(definition), spans, around)
    return rows.select(*definition.group_columns, *[p.name for p in definition.layout.partials])


def _slices(
    spark: SparkSession,
    budget: Budget,
    definition: Definition,
    path: str,
    version: int,
    types: Mapping[str, str],
    spans: SpanSet,
    *,
    few: bool,
) -> tuple[DataFrame, SpanSet, SpanSet]:
    """Return the rows around some buckets of a table of partials, the buckets that have rows, and the spans of the rows."""
    time_type = definition.time_type
    picked = read_small.picked_slices(spark, budget, path, version, types, spans, time_type) if few else None
    if picked is not None:
        return picked, spans, spans
    extent = files(path, version, SLICE, time_type)
    spans = definition.grid.cover_set(extent.present(spans)) & spans
    around = buckets.named_spans(spans, extent)
    rows = read_small.opened_slices(spark, path, version, types, around, time_type)
    return rows.where(spans_sql(SLICE, around, time_type)), spans, around


def stored_rows(
    spark: SparkSession, budget: Budget, definition: Definition, path: str, plan: Plan, spans: SpanSet
) -> DataFrame:
    """Return at least the stored partials of some spans, as they were when the plan was made."""
    few = plan.lane is Lane.DRIVER
    return read_small.kept_rows(spark, budget, definition, path, plan.partials.version, spans, few=few)
