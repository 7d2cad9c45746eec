"""The options of a refresh: one value that the command line, the façade and policies pass on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from materializer.core.time.grid import Grid
from materializer.core.time.instants import Instant, parse_window
from materializer.core.time.spans import POS_INF
from materializer.errors import UsageError
from materializer.services.activity import ActivityKind


class RefreshOptions(Struct, frozen=True):
    """What a caller asks of a refresh.

    Args:
        start: First instant of the refresh window, or None for an open start.
        end: First instant after the window, or None for the end of the newest bucket.
        force: Whether clean buckets are computed again too.
        strict: Whether a plan that is not incremental is refused.
        as_of: Clock instant that closes the windows of an engine, or None.
        max_runs: Number of runs after which the refresh stops, or None for as many as it takes; the rest stays dirty.
        run_rows: Source rows that one run reads at most, about.
        run_buckets: Buckets that one run takes at most; overrides *run_rows*.
        is_newest_first: Whether runs are done from the newest bucket to the oldest.
        publish_anyway: Why rows that fail the gate are published all the same, or "".
        accept_fewer_rows: Whether history may be recomputed from fewer raw rows than it was made from.
        executor: What computes it, instead of what the configuration says; "" for that.
        strategy: The one strategy that is wanted where it is allowed, instead of the cheapest; "" for that.
        plan_note: What the plan of every run says besides, such as the policy that asked for it; plain JSON values.
        activity: What it is for listeners.

    Raises:
        UsageError: If *max_runs* or *run_buckets* is less than 1, or there is no such strategy.
    """

    start: int | None = None
    end: int | None = None
    force: bool = False
    strict: bool = False
    as_of: int | None = None
    max_runs: int | None = None
    run_rows: int = 4_000_000
    run_buckets: int | None = None
    is_newest_first: bool = True
    publish_anyway: str = ""
    accept_fewer_rows: bool = False
    executor: str = ""
    strategy: str = ""
    plan_note: Mapping[str, Any] = field(default_factory=dict)
    activity: ActivityKind = ActivityKind.REFRESH

    def __post_init__(self) -> None:
        if self.run_buckets is not None and self.run_buckets < 1:
            hint = "leave it out to size runs by rows"
            raise UsageError(f"a run takes at least 1 bucket, got {self.run_buckets}", hint=hint)
        if self.strategy:
            from materializer.core.refresh.strategies import STRATEGIES  # noqa: PLC0415 - few ask for one

            if self.strategy not in STRATEGIES:
                raise UsageError(
                    f"there is no strategy '{self.strategy}'", hint=f"the strategies are {', '.join(STRATEGIES)}"
                )
        if self.max_runs is not None and self.max_runs < 1:
            hint = "leave it out for as many as it takes"
            raise UsageError(f"at least 1 run is done, got max_runs = {self.max_runs}", hint=hint)


def window_of(grid: Grid, start: Instant, end: Instant) -> tuple[int | None, int | None]:
    """Return the ends of a refresh window as instants of the time column; None for an open end.

    Raises:
        RefreshWindowError: If an instant cannot be read, or the window is reversed.
    """
    window = parse_window(start, end, grid.time_type, grid.resolution)
    return None if start is None else window.start, None if window.end == POS_INF else window.end


def clock_of(grid: Grid, as_of: Instant) -> int | None:
    """Return the clock of a refresh as an instant of the time column; None for the wall clock.

    Raises:
        RefreshWindowError: If it cannot be read.
    """
    return None if as_of is None else parse_window(as_of, None, grid.time_type, grid.resolution).start
