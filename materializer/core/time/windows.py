"""The whole buckets of a window, and spans as text for people."""

from __future__ import annotations

from materializer.core.time.grid import Grid
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import RefreshWindowTooSmallError


def whole_buckets(window: Span, grid: Grid) -> Span:
    """Return the whole buckets inside *window*.

    Raises:
        RefreshWindowTooSmallError: If the window holds no whole bucket.
    """
    found = grid.within(window)
    if found is None:
        cover = grid.cover(window)
        raise RefreshWindowTooSmallError(
            f"window [{_text(grid, window.start)}, {_text(grid, window.end)}) holds no whole {grid.describe()} bucket",
            hint=f"widen it to [{_text(grid, cover.start)}, {_text(grid, cover.end)})",
        )
    return found


def spans_text(grid: Grid, spans: SpanSet, *, most: int = 3) -> str:
    """Return the first few of *spans* as text for people."""
    shown = [f"[{_text(grid, s.start)}, {_text(grid, s.end)})" for s in spans.spans[:most]]
    return ", ".join(shown) + (f" and {len(spans) - most} more" if len(spans) > most else "")


def _text(grid: Grid, instant: int) -> str:
    if instant in (NEG_INF, POS_INF):
        return "the beginning" if instant == NEG_INF else "open"
    return render(instant, grid.shown)
