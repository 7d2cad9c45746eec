"""The sample of a source: the newest rows, which the setting ``source.sample`` says are all that a definition reads.

The first instant is fixed when the definition is applied and is a condition of its WHERE, so that everything that is computed is a
function of the source and the definition, as always. Rows before it are outside, as rows are that WHERE leaves out.
"""

from __future__ import annotations

from msgspec.structs import replace

from materializer.core.aggregates.parts import group
from materializer.core.compiled.bucket_sql import spans_sql
from materializer.core.spec.spec import AggregateSpec, SourceSample, TimeType
from materializer.core.spec.table_names import quoted
from materializer.core.time.instants import render, shown_as
from materializer.core.time.spans import POS_INF, Span, SpanSet


def sampled(spec: AggregateSpec, sample: SourceSample, column: str, time_type: TimeType) -> AggregateSpec:
    """Return a definition that reads no row before the sample.

    Args:
        spec: A definition that reads all rows.
        sample: The sample.
        column: Its time column, as the source spells it.
        time_type: Type of that column.
    """
    condition = _condition(column, sample, time_type)
    where = condition if spec.where is None else f"{group(spec.where)} AND {condition}"
    return replace(spec, where=where, sample=sample)


def typed_where(spec: AggregateSpec) -> str | None:
    """Return the WHERE of a definition as it was typed, without the condition of its sample."""
    condition = condition_of(spec)
    if condition is None or spec.where is None:
        return spec.where
    rest = spec.where.removesuffix(condition).removesuffix(" AND ")
    return rest.removeprefix("(").removesuffix(")").removesuffix("\n") or None


def condition_of(spec: AggregateSpec) -> str | None:
    """Return the condition of a sample, which WHERE has besides what was typed; None without one."""
    if spec.sample is None or spec.time_type is None:
        return None
    return _condition(spec.time_column, spec.sample, spec.time_type)


def text_of(spec: AggregateSpec) -> str:
    """Return which rows a definition reads, for people; "" for all."""
    if spec.sample is None or spec.time_type is None:
        return ""
    start = render(spec.sample.start, shown_as(spec.time_type, spec.resolution))
    return f"only rows since {start} are read (source.sample = '{spec.sample.length}')"


def _condition(column: str, sample: SourceSample, time_type: TimeType) -> str:
    return spans_sql(quoted(column), SpanSet.of(Span(sample.start, POS_INF)), time_type)
