"""Detects lost source rows from the row counts that are stored with an engine's results.

A new row never makes a result of another row begin later: it opens windows, fills them, or joins sessions into one that
begins earlier. So the total row count of all results that begin before an instant never falls, whatever rows arrive. If it
falls, source rows were lost.
"""

from __future__ import annotations

from typing import Any

from materializer.core.engines import (
    daily_time_series,
    event_time_window,
    interval_windows,
    reactive_state,
    session_window,
    time_series,
)
from materializer.core.spec.spec import AggregateSpec


def why_not(spec: AggregateSpec, params: Any) -> str:
    """Return why the results of an engine cannot show that source rows are missing, or "" when they can.

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
    """Return in how many results one row is counted at most; None where the loss of a row changes the windows of other rows.

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
