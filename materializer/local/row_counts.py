"""Where a computation in this process counts fewer rows than what is stored, as :mod:`materializer.spark.run.row_counts`."""

# ruff: noqa: PLC0415 - most refreshes count nothing

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.refresh.plan import Plan
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import SpanSet
from materializer.lake.computed import Computed, Fewer

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.local.reading import LocalReader


def fewer_rows(
    read: Callable[..., pa.Table],
    definition: Definition,
    path: str,
    plan: Plan,
    computed: Computed,
    gone: Mapping[int, SpanSet],
) -> Fewer | None:
    """Return where buckets have fewer raw rows than their stored partials; see :meth:`LocalExecutor.fewer_rows`."""
    from materializer.lake.span_rows import rows_of_spans

    count, time_type = str(definition.layout.row_count), definition.time_type
    guarded = SpanSet.union(span for spans in gone.values() for span in spans)
    stored = read(path, plan.partials.version, [SLICE, count], guarded, SLICE, time_type)
    now = counts(computed.partials, count, time_type)
    short = {}
    for rows, spans in gone.items():
        inside = rows_of_spans(stored, spans, SLICE, time_type)
        for at, was in counts(inside, count, time_type).items():
            if (missing := was - rows - now.get(at, 0)) > 0:
                short[at] = was, missing
    if not short:
        return None
    first, last = min(short), max(short)
    missing = sum(rows for _, rows in short.values())
    return Fewer(len(short), missing, first, last, short[first][0], now.get(first, 0))


def fewer_counted(
    reader: LocalReader, definition: Definition, path: str, plan: Plan, computed: Computed, gone: int
) -> Fewer | None:
    """Return where an engine's results count fewer rows than the stored ones; see :meth:`LocalExecutor.fewer_counted`."""
    time_type, columns = definition.time_type, [SLICE, "n"]
    if computed.only is not None:
        stored = reader.read_results(definition, path, plan.partials.version, columns, computed.only)
    else:
        spans = plan.replaced - plan.discarded
        stored = reader.read(path, plan.partials.version, columns, spans, SLICE, time_type)
    was_at, now_at = (counts(rows, "n", time_type) for rows in (stored, computed.partials))
    was = now = short = 0
    missing: list[tuple[int, int, int, int, int]] = []
    for at in sorted({*was_at, *now_at}):
        was, now = was + was_at.get(at, 0), now + now_at.get(at, 0)
        short += now_at.get(at, 0) < was_at.get(at, 0)
        if was - now > gone:
            missing.append((was - now, -at, short, was, now))
    if not missing:
        return None
    most, before, slices, was, now = max(missing)
    return Fewer(slices, most - gone, -missing[0][1], -before, was, now)


def counts(partials: pa.Table, count: str, time_type: TimeType) -> dict[int, int]:
    """Return how many source rows some partials were made from, by the start of their bucket."""
    import pyarrow as pa

    from materializer.lake.extent import instants_of

    by = pa.table({"at": instants_of(partials[SLICE], time_type), "rows": partials[count]})
    found = by.group_by("at").aggregate([("rows", "sum")])
    return dict(zip(found["at"].to_pylist(), found["rows_sum"].to_pylist(), strict=True))
