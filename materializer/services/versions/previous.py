"""Rollback: which previous versions an aggregate has, which of them can be published again, and what is dirty in them then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry
from materializer.core.time.spans import Span
from materializer.errors import NothingBuiltError
from materializer.journal.state import AggregateState, Version
from materializer.journal.version_fields import fields_of, version_of
from materializer.services.definitions.refusals import refuse_frozen


def previous(state: AggregateState, back: int) -> Mapping[str, Any]:
    """Return a previous version; 1 is the newest.

    Raises:
        NothingBuiltError: If there are fewer previous versions.
    """
    if back > len(state.previous):
        count = len(state.previous)
        msg = (
            f"{count or 'no'} previous version{'s' * (count > 1)} of '{state.name}' {'are' if count > 1 else 'is'} kept"
        )
        hint = "apply the definition that you want; 'versions.keep' says how many are kept"
        raise NothingBuiltError(msg, hint=hint)
    return state.previous[back - 1]


def lacks_partials(state: AggregateState) -> bool:
    """Whether only the output may have some of the frozen history, because a repair created the partials anew."""
    return any(e.cause is Cause.REPAIRED for e in state.uncomputable)


def refuse_outlived(state: AggregateState, before: Version) -> None:
    """Refuse a rollback to a version that is frozen less far, or whose partials may lack frozen history."""
    restored = replace(state, **fields_of(before))
    if restored.frozen < state.frozen or lacks_partials(restored):
        refuse_frozen(state, "the version before")


def thawed(state: AggregateState, before: Version) -> Version:
    """Return a version after history was thawed since: the span that only its own boundary froze becomes dirty."""
    restored = replace(state, **fields_of(before))
    if restored.frozen <= state.frozen:
        return before
    start = max(state.frozen, restored.discarded)
    dirt = (
        [Entry(Span(start, restored.frozen), None, Cause.INVALIDATED, gone=ANY_ROWS)] if start < restored.frozen else []
    )
    return version_of(
        replace(restored, frozen=state.frozen, expired_rows=state.expired_rows, log=restored.log.add(dirt))
    )
