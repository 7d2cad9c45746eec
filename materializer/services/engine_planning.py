"""Planning a refresh of an engine: which results of which keys a change touches, and which slices that replaces.

The changed keys come from the change feed, the neighbourhood of each change from the kept result rows, and the pure
planner of the engine says which results can differ. Where that cannot be told finely, everything is computed anew, and the
plan says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from materializer.core.engines.ranges import Kept, Range
from materializer.core.engines.registry import planner
from materializer.core.invalidation import Entry
from materializer.core.plan import Estimate, Recompute, Rejected, Settle
from materializer.core.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import ChangeFeedGapError
from materializer.journal.fold import AggregateState
from materializer.services.definitions import Bound
from materializer.services.planning import Request

if TYPE_CHECKING:
    from materializer.spark.engine import Engine
    from materializer.spark.engines.questions import ChangedKeys
    from materializer.spark.engines.run import Part, Work

MAX_PARTS: Final = 100_000
"""More ranges than this are computed by computing everything."""
NEAR: Final = 2
"""Slices before the first change in which a planner looks first."""
MAX_RAW_SPANS: Final = 64

Neighbours = dict[tuple[Any, ...], list[tuple[Kept, dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What planning a run of an engine came to.

    Args:
        work: What is computed.
        steps: The plan's steps.
        memory: What the journal keeps of the engine once the run is done: origin, clock, watermark.
        rows: Raw rows that are read, about.
    """

    work: Work
    steps: tuple[Recompute | Settle, ...]
    memory: Mapping[str, Any]
    rows: int


class EnginePlanner:
    """Plans runs of one engine's aggregate.

    Args:
        bound: The aggregate.
        engine: Starts Spark on first use.
        request: What was asked.
    """

    def __init__(self, bound: Bound, engine: Callable[[], Engine], request: Request) -> None:
        self._bound = bound
        self._definition = bound.definition
        self._engine = engine
        self._request = request

    def as_of(self, state: AggregateState) -> int | None:
        """Return the clock that closes windows: it never goes back."""
        known = [t for t in (state.engine.get("as_of"), self._request.as_of) if t is not None]
        return max(known, default=None)

    def has_clock_moved(self, state: AggregateState) -> bool:
        """Whether the request's clock may close windows that no row closes."""
        return bool(state.engine) and self.as_of(state) != state.engine.get("as_of")

    def run(
        self,
        state: AggregateState,
        window: Span,
        taken: Sequence[Entry],
        partials_version: int,
        estimate: Callable[[SpanSet], Estimate],
    ) -> EngineRun:
        """Return what a run over *window* computes.

        Args:
            state: The aggregate, everything captured.
            window: Slices that are refreshed.
            taken: The log inside the window.
            partials_version: Version of the kept results.
            estimate: Cost of reading the raw rows of some spans.
        """
        from materializer.spark.engines.run import Work  # noqa: PLC0415 (pulls in Spark)

        spans = SpanSet.union(e.span for e in taken)
        why_not = self._why_not_fine(state, taken)
        changed = None
        if not why_not:
            changed, why_not = self._changed(state, taken, partials_version)
        memory = self._memory(state, changed)
        at = self._bounds(memory)
        if changed is not None and (why_not := self._why_bounds_touch_all(state, memory)):
            changed = None
        if changed is not None:
            parts = self._parts(state, changed, memory, partials_version)
            if len(parts) <= MAX_PARTS:
                return self._fine(state, window, spans, parts, changed, Work(at, tuple(parts)), memory, estimate)
            why_not = f"{len(parts):,} ranges of keys are touched"
        whole = self._whole(window)
        cost = estimate(SpanSet.of(EVERYTHING))
        rejected = (Rejected("recompute of what changed", why_not),)
        is_first = state.threshold == NEG_INF
        reason = "nothing was materialised yet" if is_first else why_not
        step = Recompute(SpanSet.of(whole), reason, cost, rejected, is_rebuild=True)
        return EngineRun(Work(at), (step,), memory, cost.rows)

    def _whole(self, window: Span) -> Span:
        """Return the slices that a computation of everything replaces; an open end reaches beyond the newest row."""
        return Span(window.start, POS_INF) if self._request.end is None and self._request.inside is None else window

    def _why_not_fine(self, state: AggregateState, taken: Sequence[Entry]) -> str:
        if state.threshold == NEG_INF or not state.engine:
            return "nothing was materialised yet"
        if not self._request.may_merge:
            return "the change feed could not be read a moment ago"
        unknown = [e.span for e in taken if e.after is None and e.span.start < state.threshold]
        if any(s.start == NEG_INF for s in unknown):
            return "everything is dirty"
        if unknown and self._lasts:
            return "what changed is not known row by row"
        return ""

    def _why_bounds_touch_all(self, state: AggregateState, memory: Mapping[str, Any]) -> str:
        """Return why a bound that moved touches results that no changed key and no open window tells of, or ""."""
        before, now = state.engine.get("global_max"), memory.get("global_max")
        if before is not None and (now is None or now < before):
            return "the newest row of all keys is gone, and windows that it closed open again"
        has_moved = before != now or state.engine.get("as_of") != memory.get("as_of")
        if has_moved and getattr(self._params(), "reopens", False):
            return "a newer row of any key moves what was closed by force"
        if self._lasts and state.engine.get("as_of") is None and memory.get("as_of") is not None:
            return "the first clock opens windows again that were closed without one"
        if has_moved and getattr(self._params(), "fills", ()):
            return "windows without rows are filled for every key as time goes on"
        return ""

    @property
    def _lasts(self) -> bool:
        return bool(getattr(self._params(), "end", None))

    def _changed(self, state: AggregateState, taken: Sequence[Entry], version: int) -> tuple[ChangedKeys | None, str]:
        """Return which keys changed where: by the change feed, all rows above the threshold, all keys of other dirt."""
        from materializer.spark.engines.questions import ChangedKeys, together  # noqa: PLC0415 (pulls in Spark)

        engine, source, too_many = self._engine(), self._bound.source, "more keys changed than are told apart"
        found: list[ChangedKeys] = []
        known = [e for e in taken if e.after is not None]
        if known:
            after = min(e.after for e in known if e.after is not None)
            spans = SpanSet.union(e.span for e in known)
            try:
                by_feed = engine.changed_keys(self._definition, source, after, state.cursor, spans)
            except ChangeFeedGapError as exc:
                return None, exc.message
            if by_feed is None:
                return None, too_many
            found.append(by_feed)
        anew = SpanSet.union(e.span for e in taken if e.after is None)
        below = anew & SpanSet.of(Span(NEG_INF, state.threshold))
        if anew:
            rows = engine.rows_as_changes(self._definition, source, state.cursor, anew)
            if rows is None:
                return None, too_many
            found.append(rows)
        if below:
            keys = engine.keys_over(self._definition, self._bound.paths["partials"], version, below)
            if keys is None:
                return None, too_many
            everyone = {k: [(s.start, s.end - 1) for s in below] for k in {*keys, *found[-1].spans}}
            found.append(ChangedKeys(everyone, None, is_insert_only=False, rows=0))
        return together(*found), ""

    # -- what closes windows ---------------------------------------------------------------------------------------------

    def _memory(self, state: AggregateState, changed: ChangedKeys | None) -> dict[str, Any]:
        engine, old = self._engine(), state.engine
        params = self._params()
        origin = old.get("origin")
        if origin is None and hasattr(params, "origin"):
            origin = engine.first_time(self._definition, self._bound.source, state.cursor)
        newest = None
        if getattr(params, "needs_global_max", False):
            counts_arrival = self._definition.spec.lateness != "recompute"
            is_simple = changed is not None and changed.is_insert_only and not counts_arrival
            if changed is not None and is_simple and old.get("global_max") is not None:
                newest = max(old["global_max"], changed.newest if changed.newest is not None else old["global_max"])
            else:
                newest = engine.newest_counted(self._definition, self._bound.source, state.cursor)
        return {"origin": origin, "as_of": self.as_of(state), "global_max": newest}

    @staticmethod
    def _bounds(memory: Mapping[str, Any]) -> Any:
        from materializer.spark.engines.query import Bounds  # noqa: PLC0415 (pulls in Spark)

        return Bounds(memory.get("origin"), memory.get("as_of"), memory.get("global_max"))

    def _params(self) -> Any:
        return self._definition.engine.params if self._definition.engine else None

    # -- what a change touches -------------------------------------------------------------------------------------------

    def _parts(
        self, state: AggregateState, changed: ChangedKeys, memory: Mapping[str, Any], version: int
    ) -> list[Part]:
        has_bound_moved = any(memory[name] != state.engine.get(name) for name in ("as_of", "global_max"))
        keys = list(changed.spans)
        near = self._near(changed) if changed.is_insert_only else None
        kept = self._kept(version, keys, near) if keys else {}
        if has_bound_moved:
            kept |= {k: rows for k, rows in self._kept(version, None, SpanSet()).items() if k not in changed.spans}
        found: dict[tuple[Any, ...], list[Range]] = {}
        unclear = []
        for key in {*keys, *kept}:
            ranges = self._ranges(key, changed, kept, is_complete=near is None and key in changed.spans)
            if ranges is None:
                unclear.append(key)
            else:
                found[key] = ranges
        if unclear:
            older = self._kept(version, unclear, None)
            kept |= {key: older.get(key, []) for key in unclear}
            for key in unclear:
                found[key] = self._ranges(key, changed, kept, is_complete=True) or []
        return [part for key, ranges in found.items() for part in self._parts_of(key, ranges, kept.get(key, []))]

    def _near(self, changed: ChangedKeys) -> SpanSet:
        first = min(lo for spans in changed.spans.values() for lo, _ in spans) if changed.spans else 0
        grid = self._definition.grid
        edge = grid.floor(first)
        for _ in range(NEAR):
            edge = grid.floor(edge - 1)
        return SpanSet.of(Span(edge, POS_INF))

    def _kept(self, version: int, keys: Sequence[tuple[Any, ...]] | None, since: SpanSet | None) -> Neighbours:
        path = self._bound.paths["partials"]
        return self._engine().kept_rows(self._definition, path, version, keys, since=since, carried=self._carried())

    def _carried(self) -> list[str]:
        return [n for n, _ in self._definition.partial_columns if n.startswith("x_")]

    def _ranges(
        self, key: tuple[Any, ...], changed: ChangedKeys, kept: Neighbours, *, is_complete: bool
    ) -> list[Range] | None:
        rows = [row for row, _ in kept.get(key, [])]
        spans = changed.spans.get(key, [])
        return planner(self._definition.spec.engine).ranges(self._params(), spans, rows, is_complete=is_complete)

    def _parts_of(
        self, key: tuple[Any, ...], ranges: Sequence[Range], kept: Sequence[tuple[Kept, dict[str, Any]]]
    ) -> list[Part]:
        from materializer.spark.engines.run import Part  # noqa: PLC0415 (pulls in Spark)

        outside = [row for row, _ in kept if not any(r.start <= row.w_start < r.end for r in ranges)]
        newest = max((row.last_t for row in outside if row.last_t is not None), default=None)
        return [
            Part(key, r.start, r.end, r.raw_start, r.raw_end, newest, _carry(r, kept, self._carried())) for r in ranges
        ]

    def _fine(
        self,
        state: AggregateState,
        window: Span,
        spans: SpanSet,
        parts: Sequence[Part],
        changed: ChangedKeys,
        work: Work,
        memory: Mapping[str, Any],
        estimate: Callable[[SpanSet], Estimate],
    ) -> EngineRun:
        from materializer.spark.engines.run import raw_spans  # noqa: PLC0415 (pulls in Spark)

        if not parts:
            settled = (Settle(spans),) if spans else ()
            return EngineRun(work, settled, memory, 0)
        left = state.log.cut(SpanSet.of(window)).left
        stale = SpanSet.union(e.span for e in left.entries)
        if self._request.end is None and self._request.inside is None:
            stale = stale - SpanSet.of(Span(window.end, POS_INF)) if window.end < POS_INF else stale
        replaced = self._slices(parts) - stale
        cost = estimate(raw_spans(parts, MAX_RAW_SPANS, last_long=self._lasts))
        keys = len({p.key for p in parts})
        what = f"{changed.rows:,} changed row{'s' if changed.rows != 1 else ''}"
        reason = f"{what}; results of {keys:,} key{'s' if keys != 1 else ''} touched"
        others = SpanSet.of(window) & (spans - replaced)
        steps: tuple[Recompute | Settle, ...] = (Recompute(replaced, reason, cost, changed_rows=changed.rows),)
        return EngineRun(work, (*steps, *((Settle(others),) if others else ())), memory, cost.rows)

    def _slices(self, parts: Sequence[Part]) -> SpanSet:
        grid = self._definition.grid
        return SpanSet.union(
            grid.cover(Span(max(p.start, NEG_INF), min(p.end, POS_INF))) for p in parts if p.start < p.end
        )


def _carry(
    r: Range, kept: Sequence[tuple[Kept, dict[str, Any]]], columns: Sequence[str]
) -> tuple[tuple[str, Any], ...]:
    """Return the columns of the last kept row before a range, nulls where there is none."""
    before = [values for row, values in kept if row.w_start < r.start]
    return tuple((name, before[-1][name] if before else None) for name in columns)
