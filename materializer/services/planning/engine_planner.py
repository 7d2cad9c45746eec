"""Planning a refresh of an engine: which results of which keys a change touches, and which slices that replaces.

The changed keys come from the change feed, the neighbourhood of each change from the stored result rows, and the pure
planner of the engine says which results can differ. Where the planner cannot limit that, everything is computed anew, and the
plan says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from materializer.core.engines.base import WindowEngine
from materializer.core.engines.cardinality import Life
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.ranges import Range, StoredOfKey, StoredResult
from materializer.core.engines.work import ChangedKeys, Key, Part, Work, parts_of, raw_spans, together
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Estimate, Plan, Recompute, Rejected, Settle
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import ChangeFeedGapError
from materializer.journal.state import AggregateState
from materializer.services.aggregate import Aggregate
from materializer.services.planning.added_rows import added_after
from materializer.services.planning.engine_rows import EngineRows
from materializer.services.planning.engine_run import EngineRun
from materializer.services.planning.everything import ANYWHERE, Everything, looked_at
from materializer.services.planning.runs import Request
from materializer.services.planning.window_limit import WindowLimit

if TYPE_CHECKING:
    from materializer.lake.engine_rows import Near, StoredResults
    from materializer.lake.extent import Extent

TOO_MANY: Final = "more kept results than the driver holds"
NEAR: Final = 2
"""Slices before the first change in which a planner looks first."""
WIDER: Final = (32,)
"""Slices in which it looks for the keys that this leaves unclear, before it looks at all their results."""
MAX_RAW_SPANS: Final = 64
FAR: Final = 4
"""After so many times that results reach dirt outside a run, all dirt is taken along."""


class EnginePlanner:
    """Plans runs of one engine's aggregate.

    Args:
        rows: Reads rows of the aggregate's source, and its stored results.
        request: What was asked.
        limit: Counts the windows of a run before they are made.
        stored: Returns the files of a version of the stored results.
        most_parts: Maximum number of ranges; more are computed by computing everything.
    """

    def __init__(
        self,
        rows: EngineRows,
        request: Request,
        limit: WindowLimit,
        stored: Callable[[int], Extent],
        most_parts: int,
    ) -> None:
        self._everything = Everything(rows, request, stored)
        self._rows = rows
        self._limit = limit
        self._most_parts = most_parts
        self._definition = rows.aggregate.definition
        self._windows = _windows(rows.aggregate)
        self._request = request

    def as_of(self, state: AggregateState) -> int | None:
        """Return the clock that closes windows: it never goes back."""
        known = [t for t in (state.engine.get("as_of"), self._request.options.as_of) if t is not None]
        return max(known, default=None)

    def has_clock_moved(self, state: AggregateState) -> bool:
        """Whether the request's clock may close windows that no row closes."""
        return bool(state.engine) and self.as_of(state) != state.engine.get("as_of")

    def run(
        self,
        state: AggregateState,
        window: Span,
        taken: tuple[Entry, ...],
        partials_version: int,
        estimate: Callable[[SpanSet], Estimate],
        dirt: Callable[[SpanSet], tuple[Entry, ...]],
        changed_in: SpanSet = ANYWHERE,
        reached_before: int = 0,
    ) -> EngineRun:
        """Return what a run over *window* computes.

        Dirt below the threshold outside the window is taken along where results of the run reach it: that dirt tells nothing of
        the changes that the run takes. So is what a canary found to differ, wherever it is: everything is computed then.

        Args:
            state: The aggregate, everything captured.
            window: Slices that are refreshed.
            taken: The log inside the window.
            partials_version: Version of the stored results.
            estimate: Cost of reading the raw rows of some spans.
            dirt: The log inside some spans.
            changed_in: Where something may have changed; what is only computed again by force gives no reason to doubt frozen history.
            reached_before: How often results reached dirt outside the run, which was taken along.
        """
        above = SpanSet.of(Span(state.frozen, POS_INF))
        differed = SpanSet.union(e.span for e in state.log.entries if e.cause is Cause.DIFFERED) & above
        spans = SpanSet.union(e.span for e in taken)
        if differed - spans and (more := dirt(spans | differed)) != taken:
            return self.run(state, window, more, partials_version, estimate, dirt, changed_in)
        changed, why_not = None, self._why_not_fine(state, taken)
        after, why_not_merged = added_after(self._rows, self._request, state, taken)
        why = partial(self._everything.why, state, taken, partials_version, estimate)
        cheaper = "" if why_not else why(merges=after is not None)
        if not why_not and not cheaper:
            changed, why_not = self._changed(state, taken, partials_version)
        if changed is not None:
            if after is not None and not changed.is_insert_only:
                after, why_not_merged = None, "rows were changed or deleted"
            cheaper = why(changed, merges=after is not None)
            changed = None if cheaper else changed
        at = self._bounds(state, changed)
        parts = None
        conflicts = SpanSet()
        lives: Mapping[Key, Life] = {}
        if changed is not None and not (why_not := self._why_all(state, at)):
            parts, conflicts, why_not, lives = self._parts(state, changed, at, partials_version, changed_in)
            if parts is not None:
                results = sum(life.results for life in lives.values())
                cheaper = why(changed, results, merges=after is not None)
                parts = None if cheaper else parts
        if changed is not None and parts is not None:
            touched = SpanSet.union(self._definition.grid.cover(Span(p.start, p.end)) for p in parts)
            stale = SpanSet.union(e.span for e in state.log.cut(self._whole(window)).left.entries) - spans
            reached = touched & stale & SpanSet.of(Span(NEG_INF, state.threshold))
            if reached and reached_before >= FAR:
                reached = stale  # each slice that is taken along may reach the one before it
            if reached and (more := dirt(spans | reached)) != taken:
                return self.run(
                    state, window, more, partials_version, estimate, dirt, changed_in, reached_before=reached_before + 1
                )
            # above the threshold everything is still to be materialised
            work = Work(at, tuple(parts), state.frozen, added_after=after)
            windows = self._limit.of_parts(work, lives, changed.rows, state.cursor, partials_version)
            steps = self._fine(spans, touched - stale, changed, work, estimate, windows, why_not_merged)
            made = changed.rows * self._windows.share if windows is None else windows
            return EngineRun(work, steps, taken, conflicts, lives, made)
        whole = self._whole(window)
        if differed or cheaper:  # results anywhere may have been built on what differs, or lie around what changed
            whole |= SpanSet.of(Span(NEG_INF, state.threshold))
        reason = cheaper or why_not
        rejected = (Rejected("recompute of what changed", reason),)
        work, cost = Work(at, since=state.frozen), estimate(above)
        windows = self._limit.of_everything(work, cost.rows, state.cursor, partials_version)
        step = Recompute(whole & above, reason, cost, rejected, is_rebuild=not cheaper, windows=windows)
        return EngineRun(work, (step,), taken, self._all_conflicts(state, taken, partials_version, changed_in))

    def again(self, state: AggregateState, plan: Plan, spans: SpanSet) -> Work:
        """Return all that has results in some slices, to be computed beside an open plan that leaves nothing dirty.

        It is what a refresh would compute that took these slices too, without having known them.

        Args:
            state: The aggregate; the plan is open.
            plan: The plan.
            spans: The slices.
        """
        at, version = ClosingClock.of(state.engine_next), plan.partials.version
        dirt = (*plan.taken, *(Entry(span, None, Cause.FORCED) for span in spans))
        if self._why_not_fine(state, dirt) or self._why_all(state, at):
            return Work(at, since=state.frozen)
        changed, _ = self._changed(state, dirt, version)
        parts = None if changed is None else self._parts(state, changed, at, version, SpanSet())[0]
        if parts is None:
            return Work(at, since=state.frozen)
        # another part of the same key may hold the row that closes what lies in these slices
        keys = {p.key for p in parts if SpanSet.of(Span(p.start, p.end)) & spans}
        return Work(at, tuple(p for p in parts if p.key in keys), state.frozen)

    def _whole(self, window: Span) -> SpanSet:
        """Return the slices that a computation of everything replaces; an open end reaches beyond the newest row."""
        is_open = self._request.options.end is None and self._request.inside is None
        return SpanSet.of(Span(window.start, POS_INF) if is_open else window)

    def _why_not_fine(self, state: AggregateState, taken: Sequence[Entry]) -> str:
        if state.threshold == NEG_INF or not state.engine:
            return "nothing was materialised yet"
        if self._windows.end and NEG_INF < state.threshold <= state.frozen:
            return "nothing above the frozen bound was materialised yet"
        if not self._request.may_merge:
            return "the change feed could not be read a moment ago"
        if any(e.cause is Cause.DIFFERED for e in taken):
            return "a canary found kept results to differ: what lies around a change is not told by them"
        if any(e.cause is Cause.SOURCE for e in taken):
            return state.mark.reason
        unknown = [e.span for e in taken if e.after is None and e.span.start < state.threshold]
        if any(s.start == NEG_INF for s in unknown):
            return "everything is dirty"
        if unknown and self._windows.end:
            return "what changed is not known row by row"
        return ""

    def _why_all(self, state: AggregateState, at: ClosingClock) -> str:
        """Return why a bound that moved touches results that no changed key and no open window tells of, or ""."""
        before = ClosingClock.of(state.engine)
        if before.global_max is not None and (at.global_max is None or at.global_max < before.global_max):
            return "the newest row of all keys is gone, and windows that it closed open again"
        if self._windows.reopens_on_first_clock and before.as_of is None and at.as_of is not None:
            return "the first clock opens windows again that were closed without one"
        return self._windows.touches_all if before != at else ""

    def _changed(self, state: AggregateState, taken: Sequence[Entry], version: int) -> tuple[ChangedKeys | None, str]:
        """Return which keys changed where: by the change feed, all rows above the threshold, all keys of other dirt."""
        too_many = "more keys changed than are told apart"
        found: list[ChangedKeys] = []
        known = [e for e in taken if e.after is not None]
        if known:
            after = min(e.after for e in known if e.after is not None)
            spans, last = self._where(state.frozen, SpanSet.union(e.span for e in known))
            try:
                by_feed = self._rows.changed_keys(after, state.cursor, spans, last=last)
            except ChangeFeedGapError as exc:
                return None, exc.message
            if by_feed is None:
                return None, too_many
            found.append(by_feed)
        anew = SpanSet.union(e.span for e in taken if e.after is None)
        below = anew & SpanSet.of(Span(NEG_INF, state.threshold))
        if anew:
            rows = self._rows.rows_as_changes(state.cursor, anew)
            if rows is None:
                return None, too_many
            found.append(rows)
        if below:
            keys = self._rows.keys_over(version, below)
            if keys is None:
                return None, too_many
            everyone = {*keys, *found[-1].spans}
            places = below.at_most(max(self._rows.budget.changed // max(len(everyone), 1), 1))
            of_each = [(s.start, s.end - 1) for s in places]
            found.append(ChangedKeys(dict.fromkeys(everyone, of_each), None, is_insert_only=False, rows=0))
        return together(*found), ""

    def _where(self, bound: int, spans: SpanSet) -> tuple[SpanSet, int]:
        """Return where changed rows lie, and until when they last at least; what reaches the frozen bound begins anywhere below."""
        if bound == NEG_INF:
            return spans, NEG_INF

        last = self._windows.lasts_from(bound)
        return (spans, NEG_INF) if last is None else (spans | SpanSet.of(Span(NEG_INF, bound)), last)

    # -- what closes windows ---------------------------------------------------------------------------------------------

    def _bounds(self, state: AggregateState, changed: ChangedKeys | None) -> ClosingClock:
        before = ClosingClock.of(state.engine)
        origin, newest = before.origin, None
        if origin is None and self._windows.needs_first:
            origin = self._rows.first_time(state.cursor)
        if self._windows.needs_global_max:
            is_told = changed is not None and changed.is_insert_only and self._definition.spec.lateness == "recompute"
            if changed is not None and is_told and before.global_max is not None:
                newest = max(before.global_max, before.global_max if changed.newest is None else changed.newest)
            else:
                newest = self._rows.newest_time(state.cursor)
        return ClosingClock(origin, self.as_of(state), newest)

    # -- what a change touches -------------------------------------------------------------------------------------------

    def _parts(
        self, state: AggregateState, changed: ChangedKeys, at: ClosingClock, version: int, changed_in: SpanSet
    ) -> tuple[list[Part] | None, SpanSet, str, Mapping[Key, Life]]:
        """Return what is computed anew (None, with the reason, where that is too much to tell), what would be if it might, and
        from when to when the keys have rows or results.
        """
        keys = list(changed.spans)
        near = self._near(changed, NEAR) if changed.is_insert_only else None
        only = looked_at(self._windows, changed) if state.frozen == NEG_INF else None
        stored = self._kept(version, keys, near, state.frozen, only) if keys else {}
        others: StoredResults | None = {}
        if at != ClosingClock.of(state.engine):
            others = self._kept(version, None, SpanSet())
        if stored is None or others is None:
            return None, SpanSet(), TOO_MANY, {}
        stored |= {key: rows for key, rows in others.items() if key not in changed.spans}
        found = {
            k: self._ranges(k, changed, stored, is_complete=near is None and k in changed.spans)
            for k in {*keys, *stored}
        }
        for wider in (*WIDER, None):
            unclear = [key for key, ranges in found.items() if ranges is None]
            if not unclear:
                break
            since = None if wider is None else self._near(changed, wider)
            older = self._kept(version, unclear, since, state.frozen, only)
            if older is None:
                return None, SpanSet(), TOO_MANY, {}
            stored |= {key: older.get(key, StoredOfKey()) for key in unclear}
            found |= {key: self._ranges(key, changed, stored, is_complete=wider is None) for key in unclear}
        conflicts = SpanSet()
        if state.frozen != NEG_INF:
            conflicts = self._conflicts(state.frozen, changed, stored, changed_in)
            found = {
                key: self._above(state.frozen, ranges or [], stored.get(key, StoredOfKey()).rows)
                for key, ranges in found.items()
            }
        if (count := sum(len(ranges or ()) for ranges in found.values())) > self._most_parts:
            return None, SpanSet(), f"{count:,} ranges of keys are touched", {}
        parts, lives, carried = [], {}, self._carried()
        for key, ranges in found.items():
            if ranges:
                of_key = stored.get(key, StoredOfKey())
                parts += parts_of(key, ranges, of_key, carried)
                around = SpanSet.union(self._definition.grid.cover(Span(r.start, r.end)) for r in ranges)
                lives[key] = Life.of(changed.spans.get(key, []), of_key, around.spans)
        return parts, conflicts, "", lives

    def _above(self, bound: int, ranges: Sequence[Range], stored: Sequence[StoredResult]) -> list[Range]:
        from materializer.core.engines import freezing  # noqa: PLC0415 (only engines with frozen history)

        return freezing.above(self._windows, ranges, bound, stored)

    def _conflicts(self, bound: int, changed: ChangedKeys, stored: StoredResults, changed_in: SpanSet) -> SpanSet:
        """Return the slices below the frozen bound in which results of changed keys would change."""
        params, may_go = self._windows, not changed.is_insert_only
        starts = [
            params.begins_below(span.start, bound, rows, may_go=may_go)
            for key, spans in changed.spans.items()
            for rows in [stored.get(key, StoredOfKey()).rows]
            for span in _known(spans, bound, changed_in)
        ]
        first = min((s for s in starts if s is not None), default=bound)
        return SpanSet.of(self._definition.grid.cover(Span(first, bound))) if first < bound else SpanSet()

    def _all_conflicts(
        self, state: AggregateState, taken: Sequence[Entry], version: int, changed_in: SpanSet
    ) -> SpanSet:
        """Return the same where it is not known which keys changed: as if each did at the first dirty instant."""
        dirty = SpanSet.union(e.span for e in taken) & changed_in & SpanSet.of(Span(state.frozen, POS_INF))
        if state.frozen == NEG_INF or not dirty:
            return SpanSet()
        across = self._rows.stored_across(version, state.frozen)
        first = dirty.spans[0].start
        changed = ChangedKeys({(): [(first, first)]}, None, is_insert_only=False, rows=0)
        return self._conflicts(state.frozen, changed, {(): StoredOfKey(across)}, changed_in)

    def _near(self, changed: ChangedKeys, slices: int) -> SpanSet:
        """Return where stored results are looked at: from so many slices before the first change on."""
        first = min(lo for spans in changed.spans.values() for lo, _ in spans) if changed.spans else 0
        grid = self._definition.grid
        edge = grid.floor(first)
        for _ in range(slices):
            edge = grid.floor(edge - 1)
        return SpanSet.of(Span(edge, POS_INF))

    def _kept(
        self,
        version: int,
        keys: Sequence[Key] | None,
        since: SpanSet | None,
        frozen: int = NEG_INF,
        near: Near | None = None,
    ) -> StoredResults | None:
        found = self._rows.stored_rows(version, keys, since, self._carried(), near)
        if found is None or since is None or frozen == NEG_INF:
            return found
        # one that was frozen while it was open lies anywhere, and says nothing of what lies between
        kept = {
            key: [at for at, row in enumerate(of_key.rows) if row.is_final or row.w_start >= frozen]
            for key, of_key in found.items()
        }
        return {
            key: StoredOfKey([found[key].rows[i] for i in at], [found[key].carried[i] for i in at])
            for key, at in kept.items()
        }

    def _carried(self) -> list[str]:
        from materializer.core.engines.compile import carried_columns  # noqa: PLC0415 (only engines)

        return carried_columns(self._definition)

    def _ranges(
        self, key: Key, changed: ChangedKeys, stored: StoredResults, *, is_complete: bool
    ) -> list[Range] | None:
        rows = stored.get(key, StoredOfKey()).rows
        return self._windows.ranges(changed.spans.get(key, []), rows, is_complete=is_complete)

    def _fine(
        self,
        spans: SpanSet,
        replaced: SpanSet,
        changed: ChangedKeys,
        work: Work,
        estimate: Callable[[SpanSet], Estimate],
        windows: int | None,
        why_not_merged: str,
    ) -> tuple[Recompute | Settle, ...]:
        steps: list[Recompute | Settle] = []
        if replaced:
            parts = work.parts or ()
            keys = _counted(len({p.key for p in parts}), "key")
            if work.added_after is None:
                cost = estimate(raw_spans(parts, MAX_RAW_SPANS, last_long=self._windows.end is not None))
                reason = f"{_counted(changed.rows, 'changed row')}; results of {keys} touched"
            else:
                cost = Estimate(changed.rows, likely_rows=changed.rows)
                reason = f"{_counted(changed.rows, 'added row')} merged into the stored results of {keys}"
            rows = estimate(SpanSet.of(Span(work.since, POS_INF))).rows
            more = f"{rows:,}" if rows > cost.rows else "as many"
            against = [Rejected("recompute of everything", f"would read {more} raw rows, and write all results again")]
            if why_not_merged:
                against.insert(0, Rejected("merge of added rows", why_not_merged))
            steps.append(Recompute(replaced, reason, cost, tuple(against), changed_rows=changed.rows, windows=windows))
        if others := spans - replaced:
            steps.append(Settle(others))
        return tuple(steps)


def _known(spans: Sequence[tuple[int, int]], bound: int, changed_in: SpanSet) -> SpanSet:
    """Return the part of changed times in which something may have changed; what lasts beyond the bound changed where it began, too."""
    found = SpanSet.union(Span(lo, min(hi + 1, POS_INF)) for lo, hi in spans) & changed_in
    if SpanSet.of(Span(bound, bound + 1)) & changed_in:
        found |= SpanSet.union(Span(lo, bound) for lo, _ in spans if lo < bound)
    return found


def _windows(aggregate: Aggregate) -> WindowEngine:
    if aggregate.definition.engine is None:
        msg = f"{aggregate.name} is not computed by an engine"
        raise ValueError(msg)
    windows: WindowEngine = aggregate.definition.engine.params
    return windows


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
