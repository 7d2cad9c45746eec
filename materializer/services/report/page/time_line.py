"""The time line of an aggregate: in which state each stretch of time is, where bounds stand, and what policies cover.

```
        retired   frozen            fresh                dirty   fresh        never materialised
  ──────┴─────────┴─────────────────┴────────────────────┴───────┴────────────┴──────────────────▶ time
                                     [ policy: the window it would refresh now ]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from materializer.core.refresh.invalidation import Cause
from materializer.core.refresh.strategies import reason_of
from materializer.core.time.grid import FixedGrid, Grid
from materializer.core.time.instants import Shown
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.lake.extent import files
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.observe import stored_extent
from materializer.services.observe.dirty import dirty_below_newest
from materializer.services.report.page.values import instant
from materializer.services.report.status import Status

MOST_EDGES: Final = 20_000
"""Edges of calendar buckets that a page gets; without them its buckets are not drawn one by one."""
MOST_SPANS: Final = 5_000
"""Spans of one state that a page gets; more of them are joined with what lies between."""
_WORDS: Final = {
    "fresh": "published, and equal to the source at the version that was captured",
    "new": "has rows that were never materialised",
    "withheld": "the gate withholds it: what was computed does not meet its expectations",
    "retired": "older than output.retention: not stored in the output",
    "frozen": "below the frozen boundary: published, and its raw rows may be gone",
    "coming": "rows changed in versions of the source that are not captured yet",
    "running": "a refresh computes it, or died and is finished by the next command",
}


def time_line(state: AggregateState, aggregate: Aggregate, status: Status, coming: SpanSet) -> dict[str, Any]:
    """Return the time line of an aggregate.

    Args:
        state: The aggregate.
        aggregate: Its compiled handle.
        status: What ``status`` says of it.
        coming: What versions of the source that are not captured yet make dirty, as far as it was looked for.

    Shape:
        ``grid`` (text), ``integer`` (whether time is a plain number), ``extent`` (two instants, or None while there is nothing),
        ``spans`` (``kind``, ``start``, ``end``, ``why``), ``bounds`` (``name``, ``at``), ``policies``, ``edges`` (instants) or
        ``width`` and ``phase`` of equal buckets.
    """
    grid, kind = aggregate.definition.grid, aggregate.definition.time_type
    extent = _extent(state, aggregate)
    found: dict[str, Any] = {
        "grid": status.grid,
        "integer": kind.is_integer,
        "extent": None if extent is None else [instant(extent.start, kind), instant(extent.end, kind)],
        "spans": [],
        "bounds": list(_bounds(state, status, kind)),
        "policies": list(_policies(status, kind)),
    }
    if extent is None:
        return found
    return found | {"spans": list(_states(state, status, extent, coming)), **_edges(grid, extent, kind)}


def _extent(state: AggregateState, aggregate: Aggregate) -> Span | None:
    """Return the time that the source or the output have rows of, in whole buckets; None while nothing is known."""
    grid, definition = aggregate.definition.grid, aggregate.definition
    hulls: list[Span] = []
    with suppress(MaterializerError):
        stored = stored_extent.published(aggregate, DeltaFolder.at(aggregate.paths["output"]).head().version).hull
        hulls += [stored] if stored is not None else []
    with suppress(MaterializerError):
        head = DeltaFolder.at(state.source.path).head()
        raw = files(state.source.path, head.version, definition.spec.time_column, definition.time_type).hull
        hulls += [raw] if raw is not None else []
    ends = [e.end for e in hulls if e.end != POS_INF] + [e for e in (state.extent_end, state.threshold) if e != NEG_INF]
    starts = [e.start for e in hulls if e.start != NEG_INF]
    if not ends:
        return None
    last = max(ends)
    first = min([*starts, last - 1])
    with suppress(MaterializerError, ValueError):
        return grid.cover(Span(first, last))
    return Span(first, last)


def _states(state: AggregateState, status: Status, extent: Span, coming: SpanSet) -> Iterator[dict[str, Any]]:
    """Yield what lies in the extent, each instant in the state that matters most."""
    whole, kind = SpanSet.of(extent), status.time_type
    left = whole
    conflicts: dict[str, SpanSet] = {}
    for at, why in status.stuck:
        conflicts[why] = conflicts.get(why, SpanSet()) | SpanSet.of(at)
    parts: dict[tuple[str, str], list[Span]] = {}
    dirty = dirty_below_newest(state)
    for entry in state.computable.entries:
        name = "new" if entry.cause is Cause.NEW else "dirty"
        why = _WORDS["new"] if entry.cause is Cause.NEW else _why(entry.cause, entry.keys, entry.after)
        parts.setdefault((name, why), []).extend(SpanSet.of(entry.span) & dirty)
    causes = {cause: SpanSet.union(spans) for cause, spans in parts.items()}
    running = SpanSet.union(e.span for e in state.plan.taken) if state.plan else SpanSet()
    below = SpanSet.of(Span(NEG_INF, state.retired)) if state.retired != NEG_INF else SpanSet()
    frozen = SpanSet.of(Span(NEG_INF, state.frozen)) if state.frozen != NEG_INF else SpanSet()
    above = SpanSet.of(Span(state.threshold, POS_INF)) if state.threshold < POS_INF else SpanSet()
    layers: list[tuple[str, str, SpanSet]] = [
        *(("conflict", why, spans) for why, spans in conflicts.items()),
        ("retired", _WORDS["retired"], below),
        ("withheld", _WORDS["withheld"], status.held),
        ("running", _WORDS["running"], running),
        *((name, why, spans) for (name, why), spans in causes.items()),
        ("coming", _WORDS["coming"], coming),
        ("frozen", _WORDS["frozen"], frozen),
        ("new", _WORDS["new"], above),
        ("fresh", _WORDS["fresh"], whole),
    ]
    for name, why, spans in layers:
        here = left & spans
        left = left - here
        for each in here.at_most(MOST_SPANS):
            yield {"kind": name, "why": why, "start": instant(each.start, kind), "end": instant(each.end, kind)}


def _why(cause: Cause, keys: Any, after: int | None) -> str:
    since = "" if after is None else f" since version {after}"
    of = "" if keys is None else f" of {len(keys)} key" + "s"[: len(keys) != 1]
    return f"{reason_of(cause)}{since}{of}"


def _bounds(state: AggregateState, status: Status, kind: Shown) -> Iterator[dict[str, Any]]:
    """Yield the edges that are drawn as lines."""
    named = {
        "threshold": (state.threshold, "below it everything was materialised once; changes there are logged"),
        "frozen": (state.frozen, "below it nothing is computed from raw rows again"),
        "retired": (state.retired, "below it the output stores nothing"),
        "newest": (
            state.extent_end,
            f"end of the bucket of the newest row at the cursor, source version {status.cursor}",
        ),
    }
    for name, (at, why) in named.items():
        if at not in {NEG_INF, POS_INF}:
            yield {"name": name, "at": instant(at, kind), "why": why}


def _policies(status: Status, kind: Shown) -> Iterator[dict[str, Any]]:
    for each in status.policies:
        window = each.window
        yield {
            "name": each.policy.name,
            "schedule": each.policy.schedule,
            "due": each.is_due,
            "window": None if window is None else [instant(window.start, kind), instant(window.end, kind)],
        }


def _edges(grid: Grid, extent: Span, kind: Shown) -> dict[str, Any]:
    """Return where buckets begin: a width and a phase where all are equally long, else each edge if there are not too many."""
    if isinstance(grid, FixedGrid):
        return {"width": instant(grid.width, kind), "phase": instant(grid.phase, kind)}
    edges: list[float | int | None] = []
    at = grid.edge_at(extent.start)
    while at <= extent.end and len(edges) < MOST_EDGES:
        edges.append(instant(at, kind))
        at = grid.edge_from(at + 1)
    return {"edges": edges} if at > extent.end else {}
