"""Which part of its source a definition reads where the setting ``source.sample`` asks for the newest part only."""

from __future__ import annotations

import time
from collections.abc import Iterable

from materializer.core.compiled.resolve import resolve
from materializer.core.compiled.sample import sampled
from materializer.core.policy.policies import has_clock
from materializer.core.policy.retention import clock_edge, edge, latest_instant
from materializer.core.spec.spec import AggregateSpec, SourceSample
from materializer.core.time.grid import Grid, build, slices
from materializer.core.time.spans import NEG_INF, Span
from materializer.core.time.widths import parse_width
from materializer.errors import DefinitionError, Problem
from materializer.journal.state import AggregateState
from materializer.lake.extent import files
from materializer.lake.table import DeltaFolder
from materializer.services.definitions.batch import Awaited

CODE = "definition.sample"


def newest_part(
    spec: AggregateSpec, length: str, folder: DeltaFolder | Awaited, earlier: Iterable[AggregateState | None]
) -> AggregateSpec:
    """Return a definition that reads the newest part of its source only; all of it while that has no rows.

    The part begins with a whole bucket, *length* before the end of the newest one, and stays where it was when the same length was
    asked for before: a definition that is applied again is the same.

    Args:
        spec: A definition over raw rows.
        length: How long the part is.
        folder: Its source.
        earlier: The aggregate that has its name, and the next version of that, where they are.

    Raises:
        DefinitionError: If it does not fit its source, the statistics of the source do not tell its newest time, or the time has no
            such lengths.
    """
    if isinstance(folder, Awaited):
        return spec
    resolved = resolve(spec, folder.schema())
    resolved = _with_slices(resolved) if resolved.is_engine else resolved
    if resolved.time_type is None:
        msg = f"the definition of {spec.name} was not resolved"
        raise ValueError(msg)
    was = (AggregateSpec.from_json(state.spec).sample for state in earlier if state is not None)
    sample = next((s for s in was if s is not None and s.length == length), None)
    if sample is None:
        grid = slices(build(resolved.grid, resolved.time_type, resolved.resolution))
        sample = _sample(resolved, length, folder, grid)
    return spec if sample is None else sampled(spec, sample, resolved.time_column, resolved.time_type)


def _with_slices(spec: AggregateSpec) -> AggregateSpec:
    from materializer.core.engines.compile import with_slices  # noqa: PLC0415 (only engines)

    return with_slices(spec)


def _sample(spec: AggregateSpec, length: str, folder: DeltaFolder, grid: Grid) -> SourceSample | None:
    width = parse_width(length)
    if (width.ticks is None) != has_clock(grid):
        unit = "a length of time" if has_clock(grid) else "a number in its own unit"
        message = f"{spec.name}: source.sample is '{length}', and the time column `{spec.time_column}` has {grid.time_type} values"
        raise DefinitionError([Problem(CODE, message, f"set source.sample to {unit}", about=spec.source)])
    path = folder.path
    extent = files(path, folder.head().version, spec.time_column, grid.time_type)
    if extent.unknown.files:
        message = f"{spec.name}: the statistics of {path} do not tell its newest `{spec.time_column}`, from which source.sample counts"
        hint = "write the files with statistics of this column, or add a WHERE to the definition and leave source.sample out"
        raise DefinitionError([Problem(CODE, message, hint, about=spec.source)])
    newest = extent.newest_before(clock_edge(latest_instant(time.time_ns() // 1000, grid), grid))
    if newest is None:
        return None
    start = edge(width, grid.cover(Span(newest, newest + 1)).end, grid)
    return None if start == NEG_INF else SourceSample(length, start)
