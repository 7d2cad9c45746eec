"""The one event that makes journal and tables agree again, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.time.spans import NEG_INF, POS_INF, Span

if TYPE_CHECKING:
    from materializer.journal.events import SourceIdentity
    from materializer.journal.fold import AggregateState


@dataclass(frozen=True, slots=True)
class Repaired:
    """Both tables are as told from here on, and carry number *n*.

    Args:
        n: The number; every writer of an earlier plan is fenced by it.
        data_version: Id of the partials' state; a new one when the partials had to be made anew.
        tables: Delta table ids of ``partials`` and ``output``.
        reason: What was wrong, in words.
        is_everything_dirty: Whether nothing is known of what the tables hold; else they are what the log says.
        threshold: With everything dirty: end of the newest bucket that either table may hold rows of, None without any.
        cursor: With everything dirty: source version from which changes count, None to leave it.
        source: Path, table id and name of the source, when it is another table from here on.
    """

    n: int
    data_version: str
    tables: Mapping[str, str]
    reason: str
    is_everything_dirty: bool
    threshold: int | None = None
    cursor: int | None = None
    source: Mapping[str, str] | None = None


def repaired(state: AggregateState, event: Repaired, source: SourceIdentity | None) -> AggregateState:
    """Return *state* after a repair.

    What the tables hold stays below the threshold, so that a refresh looks there even where the source has no rows; what
    they keep no longer does not come back.

    Args:
        state: The aggregate; no plan of it is open.
        event: What was repaired.
        source: What it reads from here on, None for what it read before.
    """
    if state.plan is not None:
        msg = f"{state.name} is repaired while refresh {state.plan.n} is open"
        raise ValueError(msg)
    state = replace(
        state,
        data_version=event.data_version,
        tables=event.tables,
        source=source or state.source,
        last_n=max(state.last_n, event.n),
        written_n=event.n,
        delivered=state.delivered if state.tables["output"] == event.tables["output"] else None,
    )
    if not event.is_everything_dirty:
        return state
    threshold = state.threshold if event.threshold is None else max(state.threshold, event.threshold)
    return replace(
        state,
        cursor=state.cursor if event.cursor is None else event.cursor,
        threshold=threshold,
        log=_everything(threshold, state.discarded),
        extent_end=NEG_INF,
        null_times=None,
        changes=(),
        engine={},
        engine_next={},
    )


def _everything(threshold: int, discarded: int) -> InvalidationLog:
    """Return a log in which all is dirty; what our tables keep no longer is to be discarded, whatever is there."""
    entries = []
    if discarded != NEG_INF:
        entries.append(Entry(Span(NEG_INF, discarded), None, Cause.RETIRED))
    if discarded < threshold:
        entries.append(Entry(Span(discarded, threshold), None, Cause.REPAIRED))
    return InvalidationLog((*entries, Entry(Span(max(discarded, threshold), POS_INF))))
