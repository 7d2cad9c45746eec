"""What planning comes to: events, a plan with the work of an engine, and the note for the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from materializer.core.refresh.plan import Plan
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import Captured, Event
from materializer.journal.state import AggregateState

if TYPE_CHECKING:
    from materializer.core.engines.work import Work


class Run(Struct, frozen=True):
    """One run of a request.

    Args:
        window: Contiguous buckets that this run refreshes.
        rest: What is left of the request's window, or None when this is the last run.
        runs: How many runs are to be done about, this one included.
    """

    window: Span
    rest: Span | None
    runs: int = 1


class RunNote(Struct, frozen=True):
    """What planning tells the caller: the run, what remains, and why there is nothing to do.

    Args:
        run: The run that was planned; None when nothing is dirty.
        window: The whole refresh window; None when an open end leaves nothing.
        dirty: Dirty spans inside the window before this run.
        source_version: The version that was looked at.
        captured: Whether new source versions were captured.
        state: The aggregate after what was captured, before the plan.
    """

    run: Run | None
    window: Span | None
    dirty: SpanSet
    source_version: int
    captured: Captured | None
    state: AggregateState


class Decision(Struct, frozen=True):
    """What planning came to.

    Args:
        events: Events to append in one commit.
        plan: The plan that is open afterwards; None when there is nothing to do.
        work: What an engine computes by the plan; None for a continuous aggregate.
        note: The note for the caller; None without one.
    """

    events: tuple[Event, ...]
    plan: Plan | None = None
    work: Work | None = None
    note: RunNote | None = None
