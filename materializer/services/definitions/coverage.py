"""Whether the next version of an aggregate may take the place of what is published: readers must lose nothing by it.

Everything that is clean in the old version and has rows must be clean in the new one, at a source version that is not
older. What is dirty in both is stale before and after.
"""

from __future__ import annotations

from msgspec import Struct, field

from materializer.core.spec.spec import AggregateSpec, Resolution, TimeType
from materializer.core.time.grid import Grid
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.journal.state import AggregateState
from materializer.lake.extent import files
from materializer.lake.table import DeltaFolder


class Lack(Struct, frozen=True):
    """What the next version lacks of what is published.

    Args:
        spans: What it has still to build.
        behind: (source version that it reflects, the one that is published), when that is newer; else None.
    """

    spans: SpanSet = field(default_factory=SpanSet)
    behind: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        """Whether anything is lacking."""
        return bool(self.spans) or self.behind is not None


def lack_of(old: AggregateState, new: AggregateState, grid: Grid) -> Lack:
    """Return what the build *new*, whose grid is *grid*, lacks to take the place of *old*."""
    spec = AggregateSpec.from_json(new.spec)
    end = _end(new, spec, grid)
    clean = _clean(old)
    if not clean or end == NEG_INF:
        return Lack(SpanSet(), _behind(old, new) if clean else None)
    if not _is_same_time(old, grid.time_type, spec.resolution):
        clean = SpanSet.of(Span(NEG_INF, POS_INF))
    return Lack(clean & _dirty(new) & SpanSet.of(Span(NEG_INF, end)), _behind(old, new))


def required_start(old: AggregateState, time_type: TimeType, resolution: Resolution, grid: Grid) -> int:
    """Return where a build of another version has to begin so that it covers *old*; ``NEG_INF`` for all of time."""
    clean = _clean(old)
    hull = clean.hull
    if hull is None or hull.start == NEG_INF or not _is_same_time(old, time_type, resolution):
        return NEG_INF
    return grid.floor(hull.start)


def _clean(state: AggregateState) -> SpanSet:
    """Return what is materialised and true at the cursor."""
    return SpanSet() if state.threshold == NEG_INF else SpanSet.of(Span(NEG_INF, state.threshold)) - _dirty(state)


def _dirty(state: AggregateState) -> SpanSet:
    planned = SpanSet.union(e.span for e in state.plan.taken) if state.plan else SpanSet()
    return state.log.spans | planned


def _is_same_time(old: AggregateState, time_type: TimeType, resolution: Resolution) -> bool:
    was = AggregateSpec.from_json(old.spec)
    return (was.time_type, was.resolution) == (time_type, resolution)


def _behind(old: AggregateState, new: AggregateState) -> tuple[int, int] | None:
    if new.source != old.source or new.cursor >= old.cursor:
        return None
    is_rolled_back = DeltaFolder.at(new.source.path).head().version < old.cursor
    return None if is_rolled_back else (new.cursor, old.cursor)


def _end(new: AggregateState, spec: AggregateSpec, grid: Grid) -> int:
    """Return the end of the bucket of the newest row at the build's cursor; it may never have looked."""
    if new.extent_end != NEG_INF:
        return new.extent_end
    found = files(new.source.path, new.cursor, spec.time_column, grid.time_type)
    if found.unknown.files:
        return POS_INF
    return NEG_INF if found.hull is None else grid.cover(found.hull).end
