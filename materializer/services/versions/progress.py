"""Progress of the next version of an aggregate, and its previous versions, for reports; needs no JVM."""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.compiled.difference_lines import differences
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.instants import Shown
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.journal.state import AggregateState, spec_of
from materializer.lake.extent import files
from materializer.services import processes
from materializer.services.aggregate import Aggregate
from materializer.services.definitions.coverage import lack_of, required_start


class NextVersion(Struct, frozen=True):
    """The progress of a build.

    Args:
        state: ``building``, ``ready`` (it covers the published version) or ``switching``.
        built: Share of the needed source rows that were computed, from 0 to 1.
        rows: About how many source rows are still needed.
        missing: The spans that are still needed.
        time_type: Type of its time column.
        grid: Its buckets, as text.
        cursor: Source version up to which changes are captured.
        behind: Whether the published version has captured a newer one.
        open_refresh: Number of its open run.
        holder: The process that builds it now, as text.
        differences: Lines of text: ``-`` is published, ``+`` will be.
    """

    state: str
    built: float
    rows: int
    missing: SpanSet
    time_type: Shown
    grid: str
    cursor: int
    behind: bool
    open_refresh: int | None
    holder: str
    differences: tuple[str, ...]


class PreviousVersion(Struct, frozen=True):
    """A previous version.

    Args:
        cursor: Source version that its clean buckets reflect.
        differences: Lines of text: ``-`` is published, ``+`` would be again.
    """

    cursor: int
    differences: tuple[str, ...]


def next_version(state: AggregateState, build: AggregateState | None, root: str) -> NextVersion | None:
    """Return the progress of *build*, the next version of *state*; None without a build."""
    if build is None:
        return None
    aggregate = Aggregate.of(build, root)
    spec, grid = aggregate.definition.spec, aggregate.definition.grid
    lack = lack_of(state, build, grid)
    extent = files(build.source.path, build.cursor, spec.time_column, aggregate.definition.time_type)
    start = required_start(state, aggregate.definition.time_type, spec.resolution, grid)
    needed = extent.rows_in(SpanSet.of(replace(EVERYTHING, start=start)))
    rows = extent.rows_in(lack.spans)
    return NextVersion(
        "switching" if build.is_closed else "building" if lack or build.plan else "ready",
        1.0 if not lack.spans else max(0.0, 1 - rows / needed) if needed else 0.0,
        rows,
        lack.spans,
        aggregate.definition.grid.shown,
        grid.describe(),
        build.cursor,
        lack.behind is not None,
        build.plan.n if build.plan else None,
        holder_of(build),
        differences(AggregateSpec.from_json(state.spec), spec),
    )


def previous_versions(state: AggregateState) -> tuple[PreviousVersion, ...]:
    """Return the versions that can be rolled back to, newest first."""
    if not state.previous:
        return ()
    now = spec_of(state)
    return tuple(
        PreviousVersion(v["cursor"], differences(now, AggregateSpec.from_json(v["spec"]))) for v in state.previous
    )


def holder_of(state: AggregateState) -> str:
    """Return the process that works on an aggregate or a build, as text; "" without one."""
    if state.lease is None:
        return ""
    dead = processes.is_dead(state.lease, time.time())
    return f"process {state.lease.pid} on {state.lease.host}" + (" (dead)" if dead else "")
