"""From what was asked to what this run does: the window, its whole buckets, and where a large one is cut into runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.time.grid import Grid
from materializer.core.time.instants import parse_window, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.core.time.windows import whole_buckets
from materializer.errors import RefreshWindowError, UsageError
from materializer.journal.state import AggregateState
from materializer.services.protocol.decision import Run


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks of a refresh.

    Args:
        start: First instant of the refresh window, or None for an open start.
        end: First instant after it, or None: the end of the newest bucket.
        is_forced: Whether clean buckets are computed again too.
        is_strict: Whether a plan that is not incremental is refused.
        run_rows: Source rows that one run reads at most, about.
        run_buckets: Buckets that one run takes at most; overrides *run_rows*.
        is_newest_first: In which order runs are done.
        inside: What earlier runs of the same request have left, or None for the first run.
        may_merge: Whether kept partials may be merged; False after the change feed turned out to be unreadable.
        as_of: Clock instant that closes the windows of an engine, or None.
        publish_anyway: Why what fails its gate is published all the same, or "".
        accepts_fewer_rows: Whether history may be recomputed from fewer raw rows than it was made from.
        may_fetch: Whether the driver may fetch and commit the result; False after one was larger than expected.
        options: What the plan of every run says besides, such as the policy that asked for it; plain JSON values.
    """

    start: int | None = None
    end: int | None = None
    is_forced: bool = False
    is_strict: bool = False
    run_rows: int = 4_000_000
    run_buckets: int | None = None
    is_newest_first: bool = True
    inside: Span | None = None
    may_merge: bool = True
    may_fetch: bool = True
    as_of: int | None = None
    publish_anyway: str = ""
    accepts_fewer_rows: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def request_of(
    grid: Grid,
    start: str | int | None = None,
    end: str | int | None = None,
    *,
    as_of: str | int | None = None,
    buckets_per_run: int | None = None,
    order: str = "newest",
    **more: Any,
) -> Request:
    """Return a request from what users write.

    Args:
        grid: The aggregate's grid.
        start: First instant, ISO text or an integer, or None for an open start.
        end: First instant after the window, or None for the end of the newest bucket.
        as_of: Clock instant that closes windows of an engine.
        buckets_per_run: Buckets that one run takes; None sizes runs by source rows.
        order: ``newest`` or ``oldest``.
        more: Other fields of the request.

    Raises:
        RefreshWindowError: If an instant cannot be read, or the window is reversed.
        UsageError: If *buckets_per_run* is less than 1.
    """
    window = parse_window(start, end, grid.time_type, grid.resolution)
    clock = None if as_of is None else parse_window(as_of, None, grid.time_type, grid.resolution).start
    if buckets_per_run is not None and buckets_per_run < 1:
        hint = "leave it out to size runs by rows"
        raise UsageError(f"a run takes at least 1 bucket, got {buckets_per_run}", hint=hint)
    return Request(
        None if start is None else window.start,
        None if window.end == POS_INF else window.end,
        run_buckets=buckets_per_run,
        is_newest_first=order == "newest",
        as_of=clock,
        **more,
    )


def refuse_no_runs(max_runs: int | None) -> None:
    """Raise UsageError when a request may do no run at all: what it says then would be said of nothing."""
    if max_runs is not None and max_runs < 1:
        raise UsageError(
            f"at least 1 run is done, got max_runs = {max_runs}", hint="leave it out for as many as it takes"
        )


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
    end = max(state.extent_end, state.threshold) if request.end is None else request.end
    start = NEG_INF if request.start is None else request.start
    if request.end is None and end <= start:
        return None
    if end <= start:
        shown = f"[{render(start, grid.time_type)}, {render(end, grid.time_type)})"
        raise RefreshWindowError(f"refresh window {shown} ends before it starts", hint="swap --start and --end")
    if request.end is None:
        return grid.within(Span(start, end))
    return whole_buckets(Span(start, end), grid)


def forced(window: Span) -> Entry:
    """Return the log entry that makes every bucket of *window* dirty."""
    return Entry(window, None, Cause.FORCED)


def first_run(
    request: Request,
    window: Span,
    dirty: InvalidationLog,
    grid: Grid,
    *,
    present: SpanSet,
    rows_in: Callable[[SpanSet], float],
) -> Run:
    """Return the next run inside *window*, cut where there is data and never by walking the grid.

    Args:
        request: What was asked.
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
    if request.run_buckets:
        edge = _edge_by_buckets(request, data, grid)
        runs = max(2, -(-sum(grid.count(s) for s in data) // request.run_buckets))
    else:
        total = rows_in(data)
        runs = max(1, math.ceil(total / request.run_rows))
        if runs == 1:
            return Run(window, None)
        edge = _edge_by_rows(request, data, hull, grid, total / runs, rows_in)
    if request.is_newest_first:
        if edge <= hull.start or edge <= window.start:
            return Run(window, None)
        return Run(Span(edge, window.end), Span(window.start, edge), runs)
    if edge >= hull.end or edge >= window.end:
        return Run(window, None)
    return Run(Span(window.start, edge), Span(edge, window.end), runs)


def _edge_by_buckets(request: Request, data: SpanSet, grid: Grid) -> int:
    """Return the edge that cuts off ``run_buckets`` buckets that may hold data."""
    wanted = request.run_buckets or 1
    if request.is_newest_first:
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
    request: Request, data: SpanSet, hull: Span, grid: Grid, rows: float, rows_in: Callable[[SpanSet], float]
) -> int:
    """Return an edge that cuts off about *rows* rows, at least one bucket."""
    low, high = hull.start, hull.end
    while high - low > 1:
        middle = (low + high) // 2
        part = Span(middle, hull.end) if request.is_newest_first else Span(hull.start, middle)
        fits = rows_in(data & SpanSet.of(part)) <= rows
        if fits == request.is_newest_first:
            high = middle
        else:
            low = middle
    edge = grid.floor(high if request.is_newest_first else low)
    if request.is_newest_first:
        return edge if edge < hull.end else grid.floor(hull.end - 1)
    return edge if edge > hull.start else grid.next(grid.floor(hull.start))


def following(request: Request, run: Run) -> Request | None:
    """Return the request for what *run* leaves, or None when nothing is left."""
    return None if run.rest is None else replace(request, inside=run.rest, is_forced=False)
