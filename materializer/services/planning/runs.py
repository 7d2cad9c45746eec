"""From what was asked to what this run does: the window, its whole buckets, and where a large one is cut into runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.config import Config
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.refresh.plan import Plan
from materializer.core.time.grid import Grid
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.windows import whole_buckets
from materializer.errors import RefreshWindowError
from materializer.journal.state import AggregateState
from materializer.services.planning.options import RefreshOptions
from materializer.services.protocol.decision import Run

LEAST_ROWS: Final = 500
"""Rows of a run that is not made smaller when it does not fit into memory."""


class Request(Struct, frozen=True):
    """What is left to do of a refresh.

    Args:
        options: What the caller asked for.
        inside: What earlier runs of the same request have left, or None for the first run.
        may_merge: Whether stored partials may be merged; False after the change feed turned out to be unreadable.
        may_fetch: Whether the driver may fetch and commit the result; False after a result was larger than expected.
    """

    options: RefreshOptions = field(default_factory=RefreshOptions)
    inside: Span | None = None
    may_merge: bool = True
    may_fetch: bool = True

    def executor(self, config: Config) -> str:
        """Return what is asked to compute it: ``local``, ``spark`` or ``auto``."""
        return self.options.executor or config.executor

    def fewer_rows(self, plan: Plan) -> Request | None:
        """Return the request in runs of half as many rows as a plan that did not fit into memory; None if they would be too few.

        What is merged or rolled up is not cut: computing it takes little memory for each bucket.
        """
        rows = min(self.options.run_rows, plan.estimate.likely_rows) // 2
        if rows < LEAST_ROWS or self.options.run_buckets or not plan.recomputed:
            return None
        return replace(self, options=replace(self.options, run_rows=rows))


def whole_window(request: Request, state: AggregateState, grid: Grid) -> Span | None:
    """Return the whole buckets of the refresh window, or None when an open end leaves nothing to do.

    An open end reaches to the end of the newest bucket, or to the threshold when that is later: rows may have been
    deleted there.

    Raises:
        RefreshWindowError: If the window is reversed.
        RefreshWindowTooSmallError: If it holds no whole bucket.
    """
    if request.inside is not None:
        return request.inside
    end = max(state.extent_end, state.threshold) if request.options.end is None else request.options.end
    start = NEG_INF if request.options.start is None else request.options.start
    if request.options.end is None and end <= start:
        return None
    if end <= start:
        shown = f"[{render(start, grid.shown)}, {render(end, grid.shown)})"
        raise RefreshWindowError(f"refresh window {shown} ends before it starts", hint="swap --start and --end")
    if request.options.end is None:
        return grid.within(Span(start, end))
    return whole_buckets(Span(start, end), grid)


def forced(window: Span) -> Entry:
    """Return the log entry that makes every bucket of *window* dirty."""
    return Entry(window, None, Cause.FORCED)


def first_run(
    options: RefreshOptions,
    window: Span,
    dirty: InvalidationLog,
    grid: Grid,
    *,
    present: SpanSet,
    rows_in: Callable[[SpanSet], float],
) -> Run:
    """Return the next run inside *window*, cut where there is data and never by walking the grid.

    Args:
        options: What was asked.
        window: Whole buckets, what is left of the request.
        dirty: The log inside the window.
        grid: The aggregate's grid.
        present: Where the source or our tables may have rows, in whole buckets.
        rows_in: Source rows in some spans, about (spread evenly over each file).
    """
    data = dirty.spans & present & SpanSet.of(window)
    hull = data.hull
    if hull is None or not hull.is_bounded:
        return Run(window, None)
    if options.run_buckets:
        edge = _edge_by_buckets(options, data, grid)
        runs = max(2, -(-sum(grid.count(s) for s in data) // options.run_buckets))
    else:
        total = rows_in(data)
        runs = max(1, math.ceil(total / options.run_rows))
        if runs == 1:
            return Run(window, None)
        edge = _edge_by_rows(options, data, hull, grid, total / runs, rows_in)
    if options.is_newest_first:
        if edge <= hull.start or edge <= window.start:
            return Run(window, None)
        return Run(Span(edge, window.end), Span(window.start, edge), runs)
    if edge >= hull.end or edge >= window.end:
        return Run(window, None)
    return Run(Span(window.start, edge), Span(edge, window.end), runs)


def _edge_by_buckets(options: RefreshOptions, data: SpanSet, grid: Grid) -> int:
    """Return the edge that cuts off ``run_buckets`` buckets that may hold data."""
    wanted = options.run_buckets or 1
    if options.is_newest_first:
        for span in reversed(data.spans):
            edge = span.end
            while edge > span.start:
                edge = max(grid.floor(edge - 1), span.start)
                wanted -= 1
                if wanted == 0:
                    return edge
        return NEG_INF
    for span in data.spans:
        edge = span.start
        while edge < span.end:
            edge = min(grid.next(grid.floor(edge)), span.end)
            wanted -= 1
            if wanted == 0:
                return edge
    return POS_INF


def _edge_by_rows(
    options: RefreshOptions, data: SpanSet, hull: Span, grid: Grid, rows: float, rows_in: Callable[[SpanSet], float]
) -> int:
    """Return an edge that cuts off about *rows* rows, at least one bucket."""
    low, high = hull.start, hull.end
    while high - low > 1:
        middle = (low + high) // 2
        part = Span(middle, hull.end) if options.is_newest_first else Span(hull.start, middle)
        fits = rows_in(data & SpanSet.of(part)) <= rows
        if fits == options.is_newest_first:
            high = middle
        else:
            low = middle
    edge = grid.floor(high if options.is_newest_first else low)
    if options.is_newest_first:
        return edge if edge < hull.end else grid.floor(hull.end - 1)
    return edge if edge > hull.start else grid.next(grid.floor(hull.start))


def following(request: Request, run: Run) -> Request | None:
    """Return the request for what *run* leaves, or None when nothing is left."""
    if run.rest is None:
        return None
    return replace(request, options=replace(request.options, force=False), inside=run.rest)
