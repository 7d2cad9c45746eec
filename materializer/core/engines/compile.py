"""Compiles the definition of an engine: what its query and its tables need.

The partials table stores result rows of an engine whole, with ``w_start`` and ``w_end`` as instants. The output is a
projection of the shown rows. So recovery, which finalises committed partials, works the same way for all engines.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from msgspec.structs import replace

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.layout import Layout, PartialColumn
from materializer.core.aggregates.order import row_order
from materializer.core.compiled.definition import SLICE, Definition, EngineDefinition, key_column
from materializer.core.engines.base import WindowEngine
from materializer.core.engines.reactive_state import ARGUMENT
from materializer.core.engines.registry import engine_class, read_params
from materializer.core.spec.spec import AggregateSpec, GridSpec, Resolution, TimeType, Width
from materializer.core.time.instants import DAY, HOUR
from materializer.core.time.widths import parse_width
from materializer.errors import DefinitionError, Problem

BARE_TICKS: Final = 3_600_000
"""Default slice of an integer time column whose ticks are bare numbers."""
_SECONDS: Final = {Resolution.S: 1, Resolution.MS: 1_000, Resolution.US: 1_000_000, Resolution.NS: 1_000_000_000}


def with_slices(spec: AggregateSpec) -> AggregateSpec:
    """Return the resolved definition of an engine with its slices as the grid.

    Raises:
        DefinitionError: If ``slice`` cannot be read.
    """
    if spec.time_type is None:
        msg = f"'{spec.name}' is not resolved against its source"
        raise ValueError(msg)
    given = dict(spec.params).get("slice")
    try:
        width = _width(given, spec.time_type, spec.resolution)
    except ValueError as exc:
        raise DefinitionError(
            [Problem("definition.width", f"{spec.name}: 'slice': {exc}", "write '1 hour'", about="slice")]
        ) from exc
    return replace(spec, grid=GridSpec(width, None, 0))


def _width(given: Any, time_type: TimeType, resolution: Resolution) -> Width:
    is_bare = time_type.is_integer and resolution is Resolution.NONE
    if given is None:
        if is_bare:
            return Width(ticks=BARE_TICKS)
        return Width(days=30) if time_type is TimeType.DATE else Width(micros=HOUR)
    width = parse_width(str(given))
    if width.months or (width.ticks is None) == is_bare or not (width.ticks or width.days or width.micros):
        msg = f"must be {'a whole number of ticks' if is_bare else 'a fixed length of time'}, got '{given}'"
        raise ValueError(msg)
    return width


def slice_ticks(spec: AggregateSpec) -> int:
    """Return the length of a slice in instants."""
    width = spec.grid.width
    if width.ticks is not None:
        return width.ticks
    micros = width.days * DAY + width.micros
    if spec.time_type is not None and spec.time_type.is_integer:
        return micros * _SECONDS[spec.resolution] // 1_000_000
    return micros


def check_params(spec: AggregateSpec) -> WindowEngine:
    """Return the engine of a definition.

    Raises:
        DefinitionError: With all problems of the parameters.
    """
    params, troubles = read_params(spec)
    if troubles or params is None:
        given = dict(spec.params)
        raise DefinitionError(
            [
                Problem(t.code, f"{spec.name}: {t.message}", t.hint, about=t.about if t.about in given else "")
                for t in troubles
            ]
        )
    return params


def compile_engine(spec: AggregateSpec, stored: Container[str] | None = None) -> EngineDefinition:
    """Return what the engine's query needs from a resolved definition.

    Args:
        spec: The definition.
        stored: Names of the columns of its partials table, None before they are known.

    Raises:
        DefinitionError: With all problems of its parameters.
    """
    params = check_params(spec)
    order = tuple(c for c in row_order(spec).columns if c != spec.time_column)
    return EngineDefinition(
        params,
        decompose(spec),
        order,
        slice_ticks(spec),
        not_frozen=params.why_not_freezable(spec.lateness, stored),
    )


def result_layout(spec: AggregateSpec, columns: Sequence[tuple[str, str]], measures: Layout) -> Layout:
    """Return the layout of result rows: every column is stored as it is, and the output projects the shown rows.

    Args:
        spec: The definition.
        columns: (name, Spark type) of the partials table; empty before they are known.
        measures: The layout of the measures alone.
    """
    groups = {SLICE, *(key_column(k.name) for k in spec.keys)}
    stored = tuple(PartialColumn(name, "", None) for name, _ in columns if name not in groups)
    return Layout(
        partials=stored,
        finals=tuple(finals(spec)),
        having="is_shown",
        reference=(),
        having_reference=None,
        not_mergeable=(f"the engine {spec.engine} computes windows from their rows",),
        tolerances=tuple(_tolerances(spec, measures)),
    )


def _tolerances(spec: AggregateSpec, measures: Layout) -> list[tuple[str, str]]:
    known = dict(measures.tolerances)
    return [(name, known.get(name, "float")) for name in measure_names(spec)]


def measure_names(spec: AggregateSpec) -> tuple[str, ...]:
    """Return the names of the measures in order; for ``reactive_state`` they are parameters."""
    rows = dict(spec.params).get("metrics")
    return tuple(name for name, _ in rows) if rows else tuple(m.name for m in spec.measures)


def carried_columns(definition: Definition) -> list[str]:
    """Return the stored columns of a result row that carry state from all earlier rows to the next result."""
    return [n for n, _ in definition.partial_columns if n.startswith("x_") and not n.startswith(ARGUMENT)]


def finals(spec: AggregateSpec) -> list[tuple[str, str]]:
    """Return (output name, Spark SQL over a result row) of each output column except slice and keys."""
    kind = spec.time_type or TimeType.TIMESTAMP
    times = [(label_name(spec), "label"), ("window_start", "w_start"), ("window_end", "w_end")]
    values = [(name, f"`v_{name}`") for name in measure_names(spec)]
    stored = [("is_final", "is_final"), ("revision", "revision")]
    return [*((n, _value(c, kind)) for n, c in times), *values, *engine_class(spec.engine).EXTRA_OUTPUTS, *stored]


def label_name(spec: AggregateSpec) -> str:
    """Return the name of the output column that labels a window by time."""
    return str(dict(spec.params).get("label") or "time")


def output_columns(spec: AggregateSpec) -> tuple[str, ...]:
    """Return the names of all output columns, in order."""
    keys = [k.name for k in spec.keys]
    rest = [name for name, _ in finals(spec) if name != label_name(spec)]
    return (SLICE, label_name(spec), *keys, *rest)


def _value(instant: str, kind: TimeType) -> str:
    """Return an instant as a value of the time column's type in Spark SQL; null for an infinite instant."""
    known = f"CASE WHEN abs({instant}) < {2**62}L THEN {instant} END"
    match kind:
        case TimeType.DATE:
            return f"date_from_unix_date(CAST(floor(({known}) / {DAY}) AS INT))"
        case TimeType.TIMESTAMP:
            return f"timestamp_micros({known})"
        case TimeType.TIMESTAMP_NTZ:
            return f"CAST(timestamp_micros({known}) AS TIMESTAMP_NTZ)"
        case _:
            return known
