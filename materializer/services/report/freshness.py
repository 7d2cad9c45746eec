"""Staleness of an aggregate, and whether it keeps the promise ``refresh.max_staleness`` of its definition.

Staleness is the age of the oldest change that the output does not show: of the start of the first dirty bucket below the newest
row, or of the first source version that is not captured. What an aggregate of the lake that it reads does not show, it does not show
either. History that was never materialised does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain as chain_of

from msgspec import Struct

from materializer.core.policy.policies import back, has_clock, micros_of
from materializer.core.refresh.invalidation import Cause
from materializer.core.spec.spec import Width
from materializer.core.time.grid import Grid
from materializer.core.time.instants import MILLISECOND, SECOND
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.lake.log import LogGapError, read_commit
from materializer.services.aggregate import timed
from materializer.services.report.chain import Seen


class Freshness(Struct, frozen=True):
    """The staleness of an aggregate, compared with its promise.

    Args:
        promise: The largest staleness that is promised.
        staleness: Its staleness in seconds, or in the unit of integer time; None when it is not known.
        is_kept: Whether the promise is kept; None when that is not known.
    """

    promise: Width
    staleness: float | int | None
    is_kept: bool | None


def freshness_of(promise: Width, chain: Sequence[Seen], *, now: int | None) -> Freshness:
    """Return the staleness of an aggregate, compared with its promise.

    Args:
        promise: The largest staleness that is promised.
        chain: The aggregate, and what it reads as far as these are aggregates of the lake.
        now: Microseconds since the epoch, an integer for integer time, or None when it is not known.
    """
    state = chain[0].state
    shown, grid = _shown_below(state), timed(state).grid
    if shown == NEG_INF:
        return Freshness(promise, None, False)
    if now is None:
        return Freshness(promise, None, None)
    above = [seen for seen in chain[1:] if has_clock(grid) and has_clock(timed(seen.state).grid)]
    changes = [_not_shown(state, grid, chain[0].changed, shown)]
    changes += [_not_shown(s.state, timed(s.state).grid, s.changed, _shown_below(s.state)) for s in above]
    since = min(chain_of(*changes), default=now)
    is_kept = since >= micros_of(back(now, promise, grid), grid)
    is_known = all(s.changed == s.state.cursor or (s.changed is not None and has_clock(grid)) for s in chain)
    stale = max(0, now - since)
    return Freshness(
        promise,
        None if since == NEG_INF else stale / SECOND if has_clock(grid) else stale,
        is_kept if is_known or not is_kept else None,
    )


def _shown_below(state: AggregateState) -> int:
    """Return the end of the published buckets. The threshold may be later: it moves before a refresh publishes, also if it fails."""
    done = (e for e in state.ended if e.outcome == "done")
    ends = (min((s.start for s in SpanSet.from_json(e.verdict.get("held", []))), default=e.window.end) for e in done)
    return min(max(ends, default=NEG_INF), state.threshold)


def _not_shown(state: AggregateState, grid: Grid, newest: int | None, shown: int) -> Iterator[int]:
    """Yield, on the time axis of *now*, since when there is something that the output does not show."""
    top = max(state.extent_end, state.threshold)
    computed = state.plan.taken if state.plan else ()
    for entry in (*state.computable.cut(SpanSet.of(Span(NEG_INF, top))).taken, *computed):
        since = max(entry.span.start, shown) if entry.cause is Cause.NEW else entry.span.start
        if since < entry.span.end:
            yield since if since == NEG_INF else micros_of(since, grid)
    if newest is not None and newest > state.cursor and has_clock(grid):
        try:
            yield read_commit(state.source.path, state.cursor + 1).timestamp * MILLISECOND
        except LogGapError:
            yield NEG_INF
        except MaterializerError:
            return
