"""What the rows that an engine's results count say of raw rows that are missing.

A row that comes lets no result of another row begin later: it opens windows, fills them, or joins sessions into one that began
before. So the rows counted by all results that begin before an instant never get fewer, whatever comes and wherever; where they
do, rows went.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from materializer.core.engines import (
    daily_time_series,
    event_time_window,
    interval_windows,
    reactive_state,
    session_window,
    time_series,
)
from materializer.core.spec import AggregateSpec


class Counted(NamedTuple):
    """Rows counted by the results that begin in one slice: those that are kept, and those computed anew."""

    at: int
    was: int
    now: int


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Results that count too few rows.

    Args:
        first: Slice from which on too few rows are counted.
        last: Slice at which most are missing.
        slices: Slices up to there with fewer rows than before.
        was: Rows counted up to there before.
        now: Rows counted up to there now.
        rows: Rows that are missing, more than may be.
    """

    first: int
    last: int
    slices: int
    was: int
    now: int
    rows: int


def why_not(spec: AggregateSpec, params: Any) -> str:
    """Return why rows that are missing cannot be told by the results of an engine, or "" where they can.

    Args:
        spec: The definition.
        params: The engine's ``Params``.
    """
    if spec.lateness != "recompute":
        return f"under lateness '{spec.lateness}' the order in which rows came says which of them count"
    match params:
        case time_series.Params() if params.has_grid_by_key:
            return "an older row moves the windows of its key"
        case time_series.Params(use_system_time=True) | session_window.Params(use_system_time=True):
            return "its windows lie in ingestion time"
        case session_window.Params(reopens=True):
            return "a row of another key may close a session"
        case interval_windows.Params(kind=interval_windows.COUNT):
            return "an older event moves all windows after it"
        case _:
            return ""


def most_counts(params: Any) -> int | None:
    """Return in how many results a row is counted at most; None where other rows move when it goes.

    Args:
        params: The engine's ``Params``.
    """
    match params:
        case reactive_state.Params() | daily_time_series.Params():
            return 1
        case time_series.Params():
            return -(-params.length // params.step)
        case event_time_window.Params():
            return -(-params.interval_duration // params.creation_period)
        case _:
            return None


def shortfall(slices: Iterable[Counted], allowed: int) -> Shortfall | None:
    """Return where results count fewer rows than before, None when nowhere.

    Args:
        slices: What the results of each slice count, each slice once, in any order.
        allowed: Counts that may be missing: of rows that were seen to go.

    Examples:
        >>> shortfall([Counted(0, 3, 5), Counted(10, 4, 2)], 0) is None
        True
        >>> shortfall([Counted(0, 3, 0), Counted(10, 4, 4), Counted(20, 0, 9)], 0)
        Shortfall(first=0, last=0, slices=1, was=3, now=0, rows=3)
    """
    was = now = slices_short = 0
    first: int | None = None
    worst: Shortfall | None = None
    for found in sorted(slices):
        was, now = was + found.was, now + found.now
        slices_short += found.now < found.was
        rows = was - now - allowed
        if rows <= 0:
            continue
        first = found.at if first is None else first
        if worst is None or rows > worst.rows:
            worst = Shortfall(first, found.at, slices_short, was, now, rows)
    return worst
