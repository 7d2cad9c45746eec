"""The change feed of an output: what each refresh changed in it, row by row, and why.

The reason follows from the dirt that a refresh took. A row that goes away was deleted. Where nothing had been materialised
a row is new; where the source's versions only inserted rows, it is late; everything else is a correction, also where
nobody could tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import Span, SpanSet

PROPERTY: Final = "output.change_feed"
CHANGE: Final = "_change"
REASON: Final = "_reason"
META: Final = (
    (CHANGE, "string"),
    (REASON, "string"),
    ("_refresh", "bigint"),
    ("_source_version", "bigint"),
    ("_published_at", "timestamp"),
)
"""Columns of the feed besides those of the output, which never begin with an underscore."""
NOTE: Final = "feed"
"""What a commit of the output says of its reasons, in its note."""


class Change(StrEnum):
    """What became of a row; the words of Delta's own change data feed."""

    INSERT = "insert"
    PREIMAGE = "update_preimage"
    POSTIMAGE = "update_postimage"
    DELETE = "delete"


class Reason(StrEnum):
    """Why a row changed."""

    NEW = "new"
    """Nothing had been materialised where it is."""
    LATE = "late"
    """Rows arrived for a bucket that was published, and none was changed or deleted."""
    CORRECTION = "correction"
    """Rows were changed or deleted, or the bucket was computed again because somebody asked for it."""
    DELETE = "delete"
    """No rows are left that would make it."""
    DEFINITION = "definition"
    """Another version of the definition was published."""


def is_on(spec: AggregateSpec) -> bool:
    """Whether a definition asks for the feed."""
    return spec.property_map.get(PROPERTY, "false").lower() == "true"


def reason_of(entry: Entry) -> Reason:
    """Return why rows of an entry's buckets are what they are after it was refreshed.

    Examples:
        >>> reason_of(Entry(Span(0, 1), 7, Cause.CHANGE, is_insert_only=True))
        <Reason.LATE: 'late'>
    """
    if entry.cause is Cause.NEW:
        return Reason.NEW
    is_late = entry.is_insert_only and entry.cause in (Cause.CHANGE, Cause.FILES)
    return Reason.LATE if is_late else Reason.CORRECTION


def reasons_as_json(taken: Iterable[Entry], *, reaches_beyond: bool) -> dict[str, Any]:
    """Return where which reason holds, as a commit's note says it.

    Args:
        taken: The dirt that a refresh took.
        reaches_beyond: Whether results outside the dirt change with it, as those of engines do.

    Examples:
        >>> reasons_as_json([Entry(Span(0, 5)), Entry(Span(5, 9), 7, Cause.CHANGE)], reaches_beyond=False)
        {'new': [[0, 5]], 'late': [], 'else': 'correction'}
    """
    found: dict[Reason, list[Span]] = {reason: [] for reason in Reason}
    for entry in taken:
        found[reason_of(entry)].append(entry.span)
    beyond = Reason.LATE if reaches_beyond and not found[Reason.CORRECTION] else Reason.CORRECTION
    said: dict[str, Any] = {r.value: SpanSet.union(found[r]).as_json() for r in (Reason.NEW, Reason.LATE)}
    return said | {"else": beyond.value}


def reasons_from_json(data: Mapping[str, Any]) -> tuple[SpanSet, SpanSet, Reason]:
    """Return where rows are new, where they are late, and the reason elsewhere."""
    new, late = (SpanSet.from_json(data[reason.value]) for reason in (Reason.NEW, Reason.LATE))
    return new, late, Reason(data["else"])
