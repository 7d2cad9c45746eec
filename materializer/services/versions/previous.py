"""Going back: which previous versions there are, which of them can be had again, and what is dirty in them then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry
from materializer.core.time.spans import Span
from materializer.errors import NothingBuiltError
from materializer.journal.state import AggregateState, Version
from materializer.journal.version_fields import fields_of, version_of
from materializer.services.definitions.refusals import refuse_frozen


def previous(state: AggregateState, back: int) -> Mapping[str, Any]:
    """Return a version that was published before; 1 is the newest.

    Raises:
        NothingBuiltError: If it is not kept.
    """
    if back > len(state.previous):
        kept = len(state.previous)
        msg = f"{kept or 'no'} previous version{'s' * (kept > 1)} of '{state.name}' {'are' if kept > 1 else 'is'} kept"
        hint = "apply the definition that you want; 'versions.keep' says how many are kept"
        raise NothingBuiltError(msg, hint=hint)
    return state.previous[back - 1]


def lacks_partials(state: AggregateState) -> bool:
    """Whether only the output may hold some of the frozen history, since a repair made the partials anew."""
    return any(e.cause is Cause.REPAIRED for e in state.uncomputable)


def refuse_outlived(state: AggregateState, before: Version) -> None:
    """Refuse to go back to a version whose history is not frozen as far, or of which only the output had it."""
    kept = replace(state, **fields_of(before))
    if kept.frozen < state.frozen or lacks_partials(kept):
        refuse_frozen(state, "the version before")


def thawed(state: AggregateState, before: Version) -> Version:
    """Return a version as it is when history was thawed since: what its own bound had frozen is dirty."""
    kept = replace(state, **fields_of(before))
    if kept.frozen <= state.frozen:
        return before
    start = max(state.frozen, kept.discarded)
    dirt = [Entry(Span(start, kept.frozen), None, Cause.INVALIDATED, gone=ANY_ROWS)] if start < kept.frozen else []
    return version_of(replace(kept, frozen=state.frozen, expired_rows=state.expired_rows, log=kept.log.add(dirt)))
