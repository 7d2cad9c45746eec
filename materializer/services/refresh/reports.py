"""What a refresh says of itself: each run, and the whole request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.services.maintenance.maintain import MaintainReport
from materializer.services.observe.source_deletes import OtherReader


@dataclass(frozen=True, slots=True)
class RunDone:
    """One run of a request.

    Args:
        plan: What was decided.
        report: What it did.
        window: Its buckets.
        runs_left: How many runs are left about, 0 for the last.
        verdict: What its gate found, as JSON; empty without one.
    """

    plan: Plan
    report: RunReport
    window: Span
    runs_left: int = 0
    verdict: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh or backfill did.

    Args:
        name: The aggregate.
        outcome: ``refreshed``, ``up-to-date``, or ``empty-window`` when the window holds no whole bucket and something is
            dirty elsewhere.
        window: The whole buckets of the refresh window; None when an open end left nothing.
        source_version: Version of the source that the result reflects.
        runs: What was done, in order.
        recovered: Refreshes of dead processes that were ended first: (number, ``finished`` or ``aborted``).
        left: What is dirty after it, outside the window.
        null_times: Source rows left out because their time is null, when known.
        seconds: Wall time of everything.
        maintained: What was maintained afterwards, where the definition asks for it.
        warnings: What went wrong afterwards; the refresh itself is done.
        frozen: Below it nothing is computed from raw rows; ``NEG_INF`` when nothing is frozen.
        stuck: What is dirty below *frozen* and stays so.
        delete: Statement by which the owner of the source may delete the rows below *frozen*; "" where the bound did not
            move in this refresh, or the rows are not the owner's to delete.
        readers: Who else reads them and is not frozen there.
    """

    name: str
    outcome: str
    window: Span | None
    source_version: int
    runs: tuple[RunDone, ...] = ()
    recovered: tuple[tuple[int, str], ...] = ()
    left: SpanSet = field(default_factory=SpanSet)
    null_times: int | None = None
    seconds: float = 0.0
    maintained: tuple[MaintainReport, ...] = ()
    warnings: tuple[str, ...] = ()
    frozen: int = NEG_INF
    stuck: SpanSet = field(default_factory=SpanSet)
    delete: str = ""
    readers: tuple[OtherReader, ...] = ()


def outcome_of(runs: Sequence[RunDone], window: Span | None, left: SpanSet) -> str:
    """Return what a refresh says of itself; that nothing was left to do only where something was looked at, or all is done."""
    return "refreshed" if runs else "up-to-date" if window is not None or not left else "empty-window"
