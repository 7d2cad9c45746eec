"""What a commit of the output records besides its plan, so that the change feed can be derived from it."""

from __future__ import annotations

from typing import Any

from materializer.core.refresh.output_feed import NOTE, is_on, reasons_as_json
from materializer.core.refresh.plan import MAX_SPANS, Plan
from materializer.core.time.spans import SpanSet
from materializer.lake.capture.changed_groups import note_of_changes
from materializer.services.aggregate import Aggregate


def note_of(aggregate: Aggregate, plan: Plan) -> dict[str, Any]:
    """Return the part of the commit info that the change feed needs; empty without a feed."""
    definition = aggregate.definition
    if not is_on(definition.spec):
        return {}
    column = aggregate.slice_column("output")
    by = {
        "column": column.name,
        "is_end": column.holds_end,
        "time_type": column.type.value,
        "place": place_of(aggregate),
    }
    return {NOTE: reasons_as_json(plan.taken, reaches_beyond=definition.engine is not None) | by}


def changed_in(aggregate: Aggregate, plan: Plan, which: str, spans: SpanSet) -> dict[str, Any]:
    """Return the part of the commit info by which a reader of a table knows the buckets and keys that a refresh changed.

    The files that it replaced also hold rows of clean buckets, and of keys that did not change; one scan of a window computes
    clean buckets again, which changes nothing. Of an engine nothing is said, nor of a table by ends or last instants.
    """
    column, keys = aggregate.slice_column(which), aggregate.order(which)[1:]
    if (
        aggregate.definition.engine is not None
        or column.name == aggregate.definition.spec.bucket_time
        or column.holds_end
    ):
        return {}
    changed = SpanSet.union(entry.span for entry in plan.taken) & spans
    return note_of_changes(column.name, changed, most=MAX_SPANS, columns=keys, taken=plan.taken)


def times_of(aggregate: Aggregate) -> list[str]:
    """Return the columns of the output that hold times of the bucket or window of a row."""
    keys = {key.name for key in aggregate.definition.spec.keys}
    return [
        name for name in dict.fromkeys((*aggregate.definition.spec.edges, *place_of(aggregate))) if name not in keys
    ]


def place_of(aggregate: Aggregate) -> list[str]:
    """Return the columns that identify a row of the output: bucket or window, and keys."""
    spec = aggregate.definition.spec
    if aggregate.definition.engine is None:
        measures = {m.name for m in spec.measures}
        return [name for name in spec.columns if name not in measures]
    from materializer.core.engines.compile import label_name  # noqa: PLC0415 (only engines)

    place = [*(k.name for k in spec.keys), label_name(spec), "window_start", "window_end"]
    columns = {name for name, _ in aggregate.definition.output_columns}
    return [name for name in dict.fromkeys(place) if name in columns]
